"""A JWT authenticates if a known issuer signed it for this server and it has not expired; nothing else does."""

import asyncio
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.api_jws import PyJWS
from jwt.utils import base64url_encode

import asgi_calls
from omnigraph.clock import SystemClock
from omnigraph.config.jwt_issuers import JwtIssuer
from omnigraph.config.server import build_server_config
from omnigraph.errors import SettingsError
from omnigraph.policy import Actor
from omnigraph.server import jwt_keys
from omnigraph.server.auth import Tokens
from omnigraph.server.branch_watchers import BranchWatchers
from omnigraph.server.jwt_keys import IssuerKeys, parse_keys
from omnigraph.server.jwt_tokens import JwtTokens
from serving import ALL, Served, serving

ISSUER, AUDIENCE = "https://login.example.org", "graphs"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class MovedClock(SystemClock):
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.instant = NOW

    def now(self) -> datetime:
        return self.instant

    def monotonic(self) -> float:
        return self.instant.timestamp()

    def pass_time(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)


def describe(key: Any, key_id: str, **more: str) -> dict[str, Any]:
    """Return the public part of a key as a JSON Web Key."""
    kinds = ((rsa.RSAPrivateKey, RSAAlgorithm), (ec.EllipticCurvePrivateKey, ECAlgorithm))
    kind: Any = next((found for of, found in kinds if isinstance(key, of)), OKPAlgorithm)
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": key_id, **more}


KEYS = {"keys": [describe(RSA_KEY, "rsa"), describe(EC_KEY, "ec"), describe(ED_KEY, "ed")]}


def sign(key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str | None = "rsa", **claims: object) -> str:
    """Return a token that is valid, but for the claims given; None leaves one out."""
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": NOW.timestamp() + 600, **claims}
    headers = {} if key_id is None else {"kid": key_id}
    given = {name: value for name, value in values.items() if value is not None}
    # Not `jwt.encode`, which makes no token whose claims have wrong types.
    return PyJWS().encode(json.dumps(given).encode(), key, algorithm, headers=headers)


def sign_with_secret(secret: bytes) -> str:
    """Return a token with a symmetric signature, for which libraries refuse public keys."""
    head = base64url_encode(b'{"alg":"HS256","kid":"rsa","typ":"JWT"}')
    content = head + b"." + sign().split(".")[1].encode()
    return (content + b"." + base64url_encode(hmac.digest(secret, content, "sha256"))).decode()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def tokens(tmp_path: Path, clock: MovedClock) -> Tokens:
    return accept_from(tmp_path, clock)


def accept_from(home: Path, clock: MovedClock, **settings: Any) -> Tokens:
    (home / "keys.json").write_text(json.dumps(KEYS), encoding="utf-8")
    jwts = JwtTokens([JwtIssuer(issuer=ISSUER, audience=AUDIENCE, keys=str(home / "keys.json"), **settings)], clock)
    jwts.start()
    return Tokens(None, (), clock, jwts)


@pytest.mark.parametrize(
    "key, algorithm, key_id",
    [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed"), (EC_KEY, "ES256", None)],
)
def test_a_token_of_the_issuer_authenticates_its_subject(
    key: Any, algorithm: str, key_id: str | None, tokens: Tokens
) -> None:
    assert tokens.authenticate(f"Bearer {sign(key, algorithm, key_id)}") == Actor(name=f"{ISSUER}#ada")


@pytest.mark.parametrize(
    "claims, reason",
    [
        ({"aud": "mail"}, "JWT for another audience"),
        ({"aud": None}, "invalid JWT (MissingRequiredClaimError)"),
        ({"iss": "https://elsewhere.example.org"}, "JWT of an unknown issuer"),
        ({"iss": None}, "JWT of an unknown issuer"),
        ({"iss": [ISSUER]}, "JWT of an unknown issuer"),
        ({"exp": None}, "invalid JWT (MissingRequiredClaimError)"),
        ({"exp": NOW.timestamp() - 60}, f"expired JWT of {ISSUER}#ada"),
        ({"exp": "soon"}, "JWT whose `exp` is not a time"),
        ({"exp": True}, "JWT whose `exp` is not a time"),
        ({"nbf": NOW.timestamp() + 60}, f"JWT of {ISSUER}#ada that is not valid yet"),
        ({"nbf": "now"}, "JWT whose `nbf` is not a time"),
        ({"sub": None}, "invalid JWT (MissingRequiredClaimError)"),
        ({"sub": ""}, "JWT whose subject can't be an actor"),
        ({"sub": "a\nb"}, "JWT whose subject can't be an actor"),
        ({"sub": "a" * 300}, "JWT whose subject can't be an actor"),
    ],
)
def test_claims_that_do_not_fit_are_rejected_and_the_log_knows_why(
    claims: dict[str, object], reason: str, tokens: Tokens
) -> None:
    header = f"Bearer {sign(**claims)}"  # type: ignore[arg-type]  # claims, no keys

    assert tokens.authenticate(header) is None
    assert tokens.explain_rejection(header) == reason


def test_signatures_that_do_not_fit_are_rejected(tokens: Tokens) -> None:
    public = RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    head, body, signature = sign().split(".")
    forged = [
        sign(OTHER_KEY),  # by another key under the same id
        sign(OTHER_KEY, key_id=None),
        sign(OTHER_KEY, key_id="other"),
        sign(EC_KEY, "ES256", "rsa"),
        sign(RSA_KEY, "PS256"),  # not among the algorithms of the settings
        sign_with_secret(public),
        sign(None, "none"),
        f"{head}.{body}.",
        f"{head}.{sign(sub='root').split('.')[1]}.{signature}",
        f"{head}.{body}.{signature[:-4]}",
        "ey.ey.ey",
        "ey" + "J" * 20_000 + ".a.b",
    ]

    assert [tokens.authenticate(f"Bearer {token}") for token in forged] == [None] * len(forged)


def test_deeply_nested_json_is_an_invalid_token(tokens: Tokens) -> None:
    nested = base64url_encode(b'{"alg":' + b"[" * 5_000).decode()

    assert tokens.authenticate(f"Bearer {nested}.{nested}.x") is None


def test_a_token_is_valid_until_it_expires_also_when_it_was_verified_before(tokens: Tokens, clock: MovedClock) -> None:
    header = f"Bearer {sign()}"
    before = tokens.authenticate(header)

    clock.pass_time(600 + 29)
    in_leeway = tokens.authenticate(header)
    clock.pass_time(2)

    assert before is not None
    assert in_leeway == before
    assert tokens.authenticate(header) is None


def test_groups_come_from_the_claim_that_the_settings_name(tmp_path: Path, clock: MovedClock) -> None:
    tokens = accept_from(tmp_path, clock, groups_claim="roles")

    actor = tokens.authenticate(f"Bearer {sign(roles=['readers', 'writers'], groups=['admins'])}")

    assert actor == Actor(name=f"{ISSUER}#ada", groups=frozenset({"readers", "writers"}))
    assert tokens.authenticate(f"Bearer {sign()}") == Actor(name=f"{ISSUER}#ada")
    for roles in ("readers", [1], ["x"] * 1_001):
        assert tokens.authenticate(f"Bearer {sign(roles=roles)}") is None


def test_a_key_that_is_taken_out_of_the_file_ends_its_tokens(tmp_path: Path, tokens: Tokens, clock: MovedClock) -> None:
    header = f"Bearer {sign()}"
    before = tokens.authenticate(header)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": KEYS["keys"][1:]}), encoding="utf-8")

    clock.pass_time(3)

    assert before is not None
    assert tokens.authenticate(header) is None
    assert tokens.authenticate(f"Bearer {sign(EC_KEY, 'ES256', 'ec')}") is not None


def test_a_file_that_breaks_leaves_the_last_keys(
    tmp_path: Path, tokens: Tokens, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keys.json").write_text('{"keys": [', encoding="utf-8")
    for _ in range(3):
        clock.pass_time(3)
        assert tokens.authenticate(f"Bearer {sign(sub=str(clock.instant))}") is not None

    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "[]",
        "{}",
        '{"keys": 1}',
        '{"keys": [1]}',
        '{"keys": []}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}),
        json.dumps({"keys": [*KEYS["keys"], json.loads(RSAAlgorithm.to_jwk(RSA_KEY))]}),
        json.dumps({"keys": [describe(RSA_KEY, "e", use="enc")]}),
        json.dumps({"keys": [describe(rsa.generate_private_key(public_exponent=65537, key_size=1024), "short")]}),  # noqa: S505 - what is refused
        json.dumps({"keys": [describe(RSA_KEY, str(number)) for number in range(101)]}),
        json.dumps({"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}),
    ],
)
def test_key_sets_that_can_not_be_used_are_refused(content: str) -> None:
    with pytest.raises(SettingsError, match=r"^keys\.json: "):
        parse_keys("keys.json", content)


@pytest.mark.parametrize(
    "line, key",
    [
        ("audience = ''", "audience"),
        ("algorithms = ['HS256']", "algorithms"),
        ("algorithms = ['none']", "algorithms"),
        ("keys = 'http://login.example.org/keys'", "keys"),
        ("keys = 'https://a:b@login.example.org/keys'", "keys"),
        ("audiences = ['a']", "audiences"),
    ],
)
def test_settings_are_strict(line: str, key: str, tmp_path: Path) -> None:
    lines = {"issuer": f"'{ISSUER}'", "audience": "'graphs'", "keys": "'keys.json'"}
    lines |= dict([line.split(" = ", 1)])
    text = "[graphs.people]\nuri = 'people.omni'\n[[jwt]]\n"
    (tmp_path / "omnigraph.toml").write_text(text + "\n".join(f"{name} = {lines[name]}" for name in lines))

    with pytest.raises(SettingsError) as raised:
        build_server_config(tmp_path / "omnigraph.toml", {})

    assert f"`jwt[0].{key}`" in str(raised.value)


def test_paths_of_keys_begin_at_the_settings_file(tmp_path: Path) -> None:
    text = f"[[jwt]]\nissuer = '{ISSUER}'\naudience = 'a'\nkeys = 'k/keys.json'\n[graphs.g]\nuri = 'g'\n"
    (tmp_path / "omnigraph.toml").write_text(text, encoding="utf-8")

    config = build_server_config(tmp_path / "omnigraph.toml", {})

    assert config.jwt_issuers == (JwtIssuer(issuer=ISSUER, audience="a", keys=str(tmp_path / "k/keys.json")),)
    assert config.has_tokens


class KeyServer:
    """A server of keys on loopback that responds as a test says."""

    def __init__(self) -> None:
        self.status, self.content, self.headers = 200, json.dumps(KEYS).encode(), {}  # type: ignore[var-annotated]
        self.requests = 0
        self.has_request = threading.Condition()

    def wait_for_requests(self, count: int) -> None:
        with self.has_request:
            assert self.has_request.wait_for(lambda: self.requests >= count, timeout=60)


@contextmanager
def serving_keys() -> Iterator[tuple[KeyServer, str]]:
    source = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with source.has_request:
                source.requests += 1
                source.has_request.notify_all()
            self.send_response(source.status)
            for name, value in source.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(source.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield source, f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_unknown_key_is_fetched_once_for_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_keys, "_MIN_FETCH_SECONDS", 0.01)
    with serving_keys() as (source, url):
        source.content = json.dumps({"keys": KEYS["keys"][1:]}).encode()
        clock = MovedClock()
        jwts = JwtTokens([JwtIssuer(issuer=ISSUER, audience=AUDIENCE, keys=url)], clock)
        jwts.start()
        tokens = Tokens(None, (), clock, jwts)
        try:
            assert tokens.authenticate(f"Bearer {sign(EC_KEY, 'ES256', 'ec')}") is not None
            source.content = json.dumps(KEYS).encode()
            assert tokens.authenticate(f"Bearer {sign()}") is None
            source.wait_for_requests(2)
            until(lambda: tokens.authenticate(f"Bearer {sign()}") is not None)
        finally:
            tokens.stop()


def test_a_server_that_fails_leaves_the_last_keys_and_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jwt_keys, "_MIN_FETCH_SECONDS", 0.01)
    monkeypatch.setattr(jwt_keys, "_FETCH_SECONDS", 0.01)
    with serving_keys() as (source, url):
        keys = IssuerKeys(JwtIssuer(issuer=ISSUER, audience=AUDIENCE, keys=url), SystemClock())
        keys.start()
        try:
            known = keys.get_current()
            source.status = 500
            source.wait_for_requests(source.requests + 4)
            assert keys.get_current() is known
        finally:
            keys.stop()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert len(known.keys) == 3


def test_a_redirect_is_not_followed_and_a_large_response_not_read() -> None:
    with serving_keys() as (source, url):
        source.status, source.headers = 302, {"Location": url}
        with pytest.raises(SettingsError, match="HTTP 302"):
            jwt_keys.fetch_text(url, SystemClock())
        source.status, source.content = 200, b"x" * (300 * 1024)
        with pytest.raises(SettingsError, match="too large"):
            jwt_keys.fetch_text(url, SystemClock())
        assert source.requests == 2


def test_a_request_with_a_jwt_acts_for_its_subject(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(KEYS), encoding="utf-8")
    issuer = JwtIssuer(issuer=ISSUER, audience=AUDIENCE, keys=str(tmp_path / "keys.json"), groups_claim="groups")
    served = serving(tmp_path, config={"jwt_issuers": (issuer,)})
    soon = datetime.now(UTC).timestamp() + 600
    writer = {"Authorization": f"Bearer {sign(exp=soon, groups=['writers'])}"}
    stranger = {"Authorization": f"Bearer {sign(exp=soon)}"}

    changed = served.client.post(
        "/graphs/people/mutate", json={"query": 'query a() { insert Person { name: "Eve" } }'}, headers=writer
    )
    commit = served.client.get("/graphs/people/commits?limit=1", headers=writer).json()["commits"][0]

    assert changed.status_code == 200
    assert commit["actor"] == f"{ISSUER}#ada"
    assert served.client.post("/graphs/people/query", json={"query": ALL}, headers=stranger).status_code == 403
    served.service.close()


STREAMS = {
    "export": ("POST", "/export", b"{}"),
    "rows": ("POST", "/query", json.dumps({"query": ALL}).encode()),
    "rows of a stored query": ("POST", "/queries/everybody", b"{}"),
    "rows of SQL": ("POST", "/sql", b'{"sql": "select name from Person"}'),
    "rows of Cypher": ("POST", "/cypher", b'{"cypher": "MATCH (p:Person) RETURN p.name"}'),
    "differences": ("GET", "/diff?before=side&after=main", b""),
    "changes of a commit": ("GET", "/commits/HEAD/changes", b""),
    "changes": ("GET", "/changes", b""),
    "changes that are waited for": ("GET", "/changes?since=FIRST&wait=60", b""),
}


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that accepts tokens of the issuer."""
    home = tmp_path_factory.mktemp("issued")
    (home / "keys.json").write_text(json.dumps(KEYS), encoding="utf-8")
    issuer = JwtIssuer(issuer=ISSUER, audience=AUDIENCE, keys=str(home / "keys.json"), groups_claim="groups")
    found = serving(home, config={"jwt_issuers": (issuer,)})
    found.graph.branches.create("side")
    found.graph.mutate('query a() { insert Person { name: "Eve" } }')
    yield found
    found.service.close()


def stream(served: Served, kind: str, seconds: float, act: Callable[[], None]) -> list[bytes | None]:
    """Return the parts of a response whose token is valid for some seconds, and None for its end."""
    method, path, body = STREAMS[kind]
    commits = [commit.id for commit in served.graph.commits()]
    url = f"/graphs/people{path}".replace("HEAD", commits[0]).replace("FIRST", commits[-1])
    token = sign(exp=datetime.now(UTC).timestamp() + seconds, groups=["writers"])
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/x-ndjson"}
    reply = asyncio.run(asgi_calls.request(served, method, url, body, headers=headers, act=act))
    assert reply.status == 200
    return reply.parts


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_ends_when_its_token_expires(
    kind: str, issued: Served, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expire() -> None:
        clock.instant = datetime.now(UTC) + timedelta(hours=1)
        monkeypatch.setattr(issued.service.tokens._jwts, "_clock", clock)  # type: ignore[union-attr]  # it has tokens

    # Without its end, which only a response has that is complete.
    assert None in stream(issued, kind, 600, lambda: None)
    assert None not in stream(issued, kind, 600, expire)


def test_a_request_that_waits_ends_when_its_token_expires(
    issued: Served, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sign(exp=datetime.now(UTC).timestamp() + 600, groups=["writers"])
    newest = issued.graph.snapshot().commit.id
    wait = BranchWatchers.wait

    async def wait_and_expire(*args: Any) -> None:
        await wait(*args)
        clock.instant = datetime.now(UTC) + timedelta(hours=1)
        monkeypatch.setattr(issued.service.tokens._jwts, "_clock", clock)  # type: ignore[union-attr]  # it has tokens

    monkeypatch.setattr(BranchWatchers, "wait", wait_and_expire)

    # Within a second of its end, and not after the minute that it would wait for.
    answer = issued.client.get(
        f"/graphs/people/changes?since={newest}&wait=60", headers={"Authorization": f"Bearer {token}"}
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def until(holds: Any) -> None:
    """Wait until something holds, without a limit of our own: the suite has one."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.01)
