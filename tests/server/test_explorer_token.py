"""A page that was opened with a one-time code gets a token for it: once, within a minute, and no trace is left."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.clock import SystemClock
from omnigraph.server.login_codes import LIFETIME_SECONDS, Grant, LoginCodes
from serving import Served, serving

GRANT = Grant("og_token", "people")


class Clock(SystemClock):
    """A clock that a test moves."""

    now_seconds = 0.0

    def monotonic(self) -> float:
        return self.now_seconds


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = serving(tmp_path)
    with made.client:
        yield made


def redeemed(served: Served, body: Any) -> tuple[int, Any]:
    answer = served.client.post("/explorer/token", json=body)
    return answer.status_code, answer.json()


def test_a_code_is_good_once(served: Served) -> None:
    code = served.service.codes.issue(GRANT)

    first, second = redeemed(served, {"code": code}), redeemed(served, {"code": code})

    assert first == (200, {"token": "og_token", "graph": "people"})
    assert (second[0], second[1]["code"]) == (401, "unauthenticated")


def test_a_code_is_good_for_a_minute() -> None:
    clock = Clock()
    codes = LoginCodes(clock)
    kept, late = codes.issue(GRANT), codes.issue(GRANT)

    clock.now_seconds = LIFETIME_SECONDS
    assert codes.redeem(kept) == GRANT
    clock.now_seconds = LIFETIME_SECONDS + 0.1
    assert codes.redeem(late) is None


@pytest.mark.parametrize(
    "body", [{"code": ""}, {"code": "x" * 100_000}, {"code": "\ud800".encode("utf-16", "surrogatepass").hex()}]
)
def test_what_is_no_code_gets_nothing(served: Served, body: Any) -> None:
    served.service.codes.issue(GRANT)

    assert redeemed(served, body)[0] == 401


def test_codes_do_not_pile_up() -> None:
    codes = LoginCodes(Clock())
    first = codes.issue(GRANT)

    last = [codes.issue(GRANT) for _ in range(100)][-1]

    assert codes.redeem(first) is None
    assert codes.redeem(last) == GRANT


def test_a_page_of_another_site_can_not_exchange_a_code(served: Served) -> None:
    code = served.service.codes.issue(GRANT)

    answer = served.client.post("/explorer/token", json={"code": code}, headers={"Origin": "https://evil.example"})

    assert answer.status_code == 403
    assert redeemed(served, {"code": code})[0] == 200


def test_a_token_is_in_no_log_and_in_no_cache(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    code = served.service.codes.issue(GRANT)
    with caplog.at_level("INFO", "omnigraph.server"):
        answer = served.client.post("/explorer/token", json={"code": code})

    said = "".join(repr(vars(record)) for record in caplog.records)
    assert "og_token" not in said
    assert code not in said
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
