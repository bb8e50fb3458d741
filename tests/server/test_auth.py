"""Tokens: kept as hashes, compared all, read again when their file changes."""

import hmac
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from omnigraph.clock import SystemClock
from omnigraph.config.tokens import TokenRecord, format_token_entry, generate_token, hash_token, read_tokens
from omnigraph.policy import Access, Action, Actor
from omnigraph.server.auth import ReadOnlyPolicy, Tokens
from serving import TOKENS, serving, write_tokens

CLOCK = SystemClock()


def bearer(role: str) -> str:
    return f"Bearer {TOKENS[role]}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_tokens(tmp_path, ("reader", "writer"))
    return tmp_path


def test_a_token_tells_who_asks_and_their_groups(home: Path) -> None:
    tokens = Tokens(home / "tokens.toml", (), CLOCK)

    assert tokens.authenticate(bearer("writer")) == Actor(name="writer", groups=frozenset({"writers"}))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKENS['reader']}",
        TOKENS["reader"],
        f"Bearer {TOKENS['reader']}x",
        f"Bearer {TOKENS['reader'][:-1]}",
        f"Bearer {hash_token(TOKENS['reader']).hex()}",
        f"Bearer {'x' * 10_000}",
    ],
)
def test_anything_else_is_nobody(header: str | None, home: Path) -> None:
    assert Tokens(home / "tokens.toml", (), CLOCK).authenticate(header) is None


def test_every_record_is_compared_whichever_is_right(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(home / "tokens.toml", (), CLOCK)
    compared: list[bytes] = []

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", counting)
    for header in (bearer("reader"), bearer("writer"), bearer("revoked"), None):
        tokens.authenticate(header)

    assert len(compared) == 4 * 2


def test_a_token_that_is_taken_out_of_the_file_is_refused_from_the_next_request_on(home: Path) -> None:
    tokens = Tokens(home / "tokens.toml", (), CLOCK)
    before = tokens.authenticate(bearer("reader"))

    write_tokens(home, ("writer",))

    assert before is not None
    assert tokens.authenticate(bearer("reader")) is None
    assert tokens.authenticate(bearer("writer")) is not None


def test_two_tokens_of_an_actor_are_valid_at_once(home: Path) -> None:
    path = home / "tokens.toml"
    fresh = generate_token()
    tokens = Tokens(path, (), CLOCK)

    path.write_text(path.read_text("utf-8") + format_token_entry(fresh, "reader"), encoding="utf-8")

    assert [tokens.authenticate(one) is not None for one in (bearer("reader"), f"Bearer {fresh}")] == [True, True]


@pytest.mark.parametrize("text", ["[[token]", "[[token]]\nactor = 'x'\n", None])
def test_a_file_that_is_broken_for_a_while_locks_nobody_out(
    text: str | None, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = home / "tokens.toml"
    tokens = Tokens(path, (), CLOCK)

    with caplog.at_level(logging.ERROR, "omnigraph"):
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
        still = tokens.authenticate(bearer("reader"))
    write_tokens(home, ("writer",))

    assert still is not None
    assert "the last valid tokens stay in use" in caplog.text
    assert tokens.authenticate(bearer("reader")) is None


def test_a_token_ends_when_it_says() -> None:
    now = CLOCK.now()
    token = generate_token()
    record = TokenRecord(actor=Actor(name="a"), digest=hash_token(token), expires=now - timedelta(seconds=1))
    later = TokenRecord(actor=Actor(name="b"), digest=hash_token(token), expires=now + timedelta(hours=1))

    assert Tokens(None, [record], CLOCK).authenticate(f"Bearer {token}") is None
    assert Tokens(None, [later], CLOCK).authenticate(f"Bearer {token}") == Actor(name="b")


def test_a_record_does_not_show_its_hash() -> None:
    record = TokenRecord(actor=Actor(name="a"), digest=hash_token("secret"))

    assert "digest" not in repr(record)


def test_an_entry_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    token, ends = generate_token(), CLOCK.now().replace(microsecond=0)
    path.write_text(format_token_entry(token, "ada", ("a", "b"), ends), encoding="utf-8")
    path.chmod(0o600)

    found = read_tokens(path)

    assert found == (
        TokenRecord(actor=Actor(name="ada", groups=frozenset({"a", "b"})), digest=hash_token(token), expires=ends),
    )
    assert token not in path.read_text("utf-8")


def test_without_a_policy_tokens_only_read() -> None:
    policy = ReadOnlyPolicy()

    allowed = {one for one in Action if policy.decide(Access(actor=Actor(name="a"), action=one)).is_allowed}

    assert allowed == {Action.READ, Action.EXPORT, Action.INVOKE_QUERY, Action.GRAPH_LIST}


def test_a_server_without_policies_lets_nobody_write(tmp_path: Path) -> None:
    served = serving(tmp_path, has_policies=False)
    body = {"query": 'query a() { insert Person { name: "X" } }'}

    status = {
        path: served.client.post(f"/graphs/people/{path}", json=body, headers=served.as_role("admin")).status_code
        for path in ("mutate", "query")
    }
    stored = served.client.post(
        "/graphs/people/queries/rename_age", json={"params": {"n": "Ada", "a": 1}}, headers=served.as_role("admin")
    )

    assert status == {"mutate": 403, "query": 400}
    assert stored.status_code == 404
    served.service.close()
