"""Authentication by JWTs: signed by the keys of an issuer, for this audience, not expired."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.clock import Clock
from omnigraph.config.jwt_issuers import JwtIssuer
from omnigraph.lru_cache import LruCache
from omnigraph.ops.commit_signature import ActorRefusedError, CommitTextTooLongError, check_actor
from omnigraph.policy import Actor, AttributeValue, parse_attribute
from omnigraph.server.jwt_keys import IssuerKeys, KeySet

if TYPE_CHECKING:
    from jwt import PyJWK
    from jwt.types import Options

# A longer token is rejected before it is parsed.
MAX_JWT_LENGTH = 16_384
# Clocks of issuers and servers differ.
_LEEWAY_SECONDS = 30.0
# Verified tokens are remembered by their hash, because a signature costs more than the rest of a small request.
_KEPT_TOKENS = 4_096
_MAX_GROUPS = 1_000


class JwtRejectedError(Exception):
    """A JWT is not accepted; the text says why, for the log."""


@dataclass(frozen=True, slots=True)
class _Verified:
    """What a token proves, from when and until when, and the keys that were valid when its signature was verified."""

    actor: Actor
    begins: float
    expires: float
    issuer: str
    keys: KeySet


class JwtTokens:
    """The issuers of JWTs that a server accepts. Thread-safe.

    A token is accepted until its `exp`, or until its issuer no longer lists the key that signed it.
    """

    def __init__(self, issuers: Sequence[JwtIssuer], clock: Clock) -> None:
        self._clock = clock
        self._issuers = {issuer.issuer: (issuer, IssuerKeys(issuer, clock)) for issuer in issuers}
        self._kept: LruCache[bytes, _Verified] = LruCache(_KEPT_TOKENS)

    def start(self) -> None:
        """Load the keys of all issuers, and keep them up to date.

        Raises:
            OmnigraphError: The keys of a file can't be used.
        """
        for _, keys in self._issuers.values():
            keys.start()

    def check(self) -> None:
        """Load the keys of all issuers once.

        Raises:
            OmnigraphError: They can't be used.
        """
        for _, keys in self._issuers.values():
            keys.load()

    def stop(self) -> None:
        """End the threads that fetch keys."""
        for _, keys in self._issuers.values():
            keys.stop()

    def authenticate(self, token: str) -> Actor:
        """Return the actor of a token, whose name is its issuer and its subject.

        Raises:
            JwtRejectedError: The token is not accepted.
        """
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        verified = self._kept.get(digest)
        if verified is None or verified.keys is not self._issuers[verified.issuer][1].get_current():
            verified = self._verify(token)
            self._kept.put(digest, verified)
        now = self._clock.now().timestamp()
        if now >= verified.expires + _LEEWAY_SECONDS:
            raise JwtRejectedError(f"expired JWT of {verified.actor.name}")
        if now < verified.begins - _LEEWAY_SECONDS:
            raise JwtRejectedError(f"JWT of {verified.actor.name} that is not valid yet")
        return verified.actor

    def _verify(self, token: str) -> _Verified:
        import jwt  # noqa: PLC0415 - few servers have JWTs
        from jwt.exceptions import InvalidAudienceError, PyJWTError  # noqa: PLC0415 - as above

        # The deadlines are checked with our clock, at every use.
        options: Options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={**options, "verify_signature": False}).get("iss")
            issuer, keys = self._issuers.get(claimed if isinstance(claimed, str) else "", (None, None))
            if issuer is None or keys is None:
                raise JwtRejectedError("JWT of an unknown issuer")
            known = keys.get_current()
            key = _find_key(header, issuer, known)
            if key is None:
                keys.request_refresh()
                raise JwtRejectedError(f"JWT signed by an unknown key of {issuer.issuer}")
            claims = jwt.decode(
                token,
                key,
                algorithms=issuer.algorithms,
                audience=issuer.audience,
                issuer=issuer.issuer,
                options={**options, "require": ["exp", "sub"]},
            )
        except InvalidAudienceError:
            raise JwtRejectedError("JWT for another audience") from None
        except (PyJWTError, RecursionError) as error:  # JSON that is nested deeply
            raise JwtRejectedError(f"invalid JWT ({type(error).__name__})") from None
        return _read_claims(claims, issuer, known)


def is_jwt(token: str) -> bool:
    """Return whether a token has the form of a JWT; our own tokens have no dots."""
    return token.startswith("ey") and token.count(".") == 2


def _find_key(header: Mapping[str, object], issuer: JwtIssuer, known: KeySet) -> "PyJWK | None":
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise JwtRejectedError("JWT with an algorithm that is not accepted")
    return known.find(key_id if isinstance(key_id, str) else None, algorithm)


def _read_claims(claims: Mapping[str, object], issuer: JwtIssuer, known: KeySet) -> _Verified:
    subject = claims["sub"]
    name = f"{issuer.issuer}#{subject}"
    try:
        check_actor(name)
    except (ActorRefusedError, CommitTextTooLongError):
        subject = None
    if not subject:
        raise JwtRejectedError("JWT whose subject can't be an actor")
    groups = claims.get(issuer.groups_claim, []) if issuer.groups_claim is not None else []
    # A claim that is not understood must not give fewer groups: a policy may forbid something to a group.
    if not isinstance(groups, list) or len(groups) > _MAX_GROUPS or not all(isinstance(one, str) for one in groups):
        raise JwtRejectedError(f"JWT of {name} whose `{issuer.groups_claim}` is not a list of at most 1,000 texts")
    return _Verified(
        actor=Actor(name=name, groups=frozenset(groups), attributes=_read_attributes(claims, issuer, name)),
        begins=_read_time(claims, "nbf", 0.0),
        expires=_read_time(claims, "exp", 0.0),
        issuer=issuer.issuer,
        keys=known,
    )


def _read_attributes(
    claims: Mapping[str, object], issuer: JwtIssuer, name: str
) -> tuple[tuple[str, AttributeValue], ...]:
    """Return the claims that are attributes; one that a token does not have is absent."""
    attributes: list[tuple[str, AttributeValue]] = []
    for claim in sorted(issuer.attribute_claims):
        if claim in claims:
            value = parse_attribute(claims[claim])
            # One that is not understood must not be absent: a policy may forbid something to those who have it.
            if value is None:
                raise JwtRejectedError(f"JWT of {name} whose `{claim}` can't be an attribute")
            attributes.append((claim, value))
    return tuple(attributes)


def _read_time(claims: Mapping[str, object], claim: str, default: float) -> float:
    value = claims.get(claim, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise JwtRejectedError(f"JWT whose `{claim}` is not a time")
    return float(value)
