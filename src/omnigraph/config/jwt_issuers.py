"""Read from a server's settings whose JWTs it accepts."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from omnigraph.config.settings_file import SettingsSection

# Only signatures that a server can verify without being able to make them.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DEFAULT_ALGORITHMS = ("RS256", "ES256", "EdDSA")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtIssuer:
    """An issuer of JWTs, and what a token of it must say."""

    issuer: str
    """The claim `iss`, and the first part of the name of its actors."""
    audience: str
    """What the claim `aud` must contain, so that a token for another service is not accepted here."""
    keys: str
    """The public keys as a JSON Web Key Set: the path of a file, or a URL."""
    algorithms: tuple[str, ...] = DEFAULT_ALGORITHMS
    groups_claim: str | None = None
    """The claim with the groups of the actor; without it, its actors have none."""

    attribute_claims: tuple[str, ...] = ()
    """The claims that become attributes of the actor, which rules about rows may read."""

    @property
    def has_url(self) -> bool:
        """Whether the keys are fetched."""
        return self.keys.startswith(("https://", "http://"))


def read_jwt_issuers(root: SettingsSection) -> tuple[JwtIssuer, ...]:
    """Read the sections `[[jwt]]`.

    Raises:
        SettingsError: A setting is missing or invalid, or an issuer has two sections.
    """
    issuers: list[JwtIssuer] = []
    for section in root.list_sections("jwt"):
        issuer = _read_issuer(section)
        if issuer.issuer in [other.issuer for other in issuers]:
            raise section.build_error("issuer", "another section has the same issuer: an issuer has one section")
        issuers.append(issuer)
    return tuple(issuers)


def _read_issuer(section: SettingsSection) -> JwtIssuer:
    issuer, audience, keys = (_read_required(section, key) for key in ("issuer", "audience", "keys"))
    if keys.startswith(("https://", "http://")):
        _check_url(section, keys)
    else:
        keys = str(section.get_path("keys"))
    algorithms = section.get_texts("algorithms") or DEFAULT_ALGORITHMS
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise section.build_error("algorithms", f"write some of {', '.join(ALGORITHMS)}; others are not accepted")
    groups_claim = section.get_text("groups_claim")
    attribute_claims = section.get_texts("attribute_claims")
    if "name" in attribute_claims:
        raise section.build_error("attribute_claims", "`name` is the actor's own name: choose another claim")
    section.finish()
    return JwtIssuer(
        issuer=issuer,
        audience=audience,
        keys=keys,
        algorithms=algorithms,
        groups_claim=groups_claim,
        attribute_claims=attribute_claims,
    )


def _read_required(section: SettingsSection, key: str) -> str:
    value = section.get_text(key)
    if value is None:
        raise section.build_error(key, "an issuer of JWTs needs `issuer`, `audience` and `keys`")
    return value


def _check_url(section: SettingsSection, text: str) -> None:
    url = urlsplit(text)
    # Whoever can exchange the keys on their way can authenticate as anybody.
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        raise section.build_error("keys", "keys are fetched by https only: others could exchange them on the way")
    if not url.hostname or url.username or url.password:
        raise section.build_error("keys", "write a URL such as https://host/keys.json, without a name and password")
