"""A stream ends when its token is revoked or its policy changes while it runs."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.ops import export_stream
from omnigraph.server.http.app import build_app
from serving import POLICIES, TOKENS, Served, serving, write_tokens


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    # A chunk for each line, so that a small export has several.
    monkeypatch.setattr(export_stream, "iter_chunks", lambda lines: (bytes(line) for line in lines))
    server = serving(tmp_path)
    yield server
    server.service.close()


def export(served: Served, act: Callable[[], None]) -> list[bytes | None]:
    """Return the chunks of an export, and None for its end; `act` is called after the first chunk."""
    sent: list[bytes | None] = []

    async def receive() -> dict[str, Any]:
        if not sent and not asked:
            asked.append(True)
            return {"type": "http.request", "body": b"{}", "more_body": False}
        await asyncio.Event().wait()
        return {}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] != "http.response.body":
            return
        sent.append(message["body"] if message["more_body"] else None)
        if len(sent) == 1:
            act()

    asked: list[bool] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphs/people/export",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKENS['writer']}".encode())],
    }
    asyncio.run(build_app(served.service)(scope, receive, send))  # type: ignore[arg-type]  # dictionaries are messages
    return sent


def test_an_export_ends_with_its_last_row(served: Served) -> None:
    assert len(export(served, lambda: None)) == 4


def test_an_export_of_a_revoked_token_has_no_end(served: Served) -> None:
    chunks = export(served, lambda: write_tokens(served.home, ("reader", "admin")))

    assert len(chunks) == 1
    assert None not in chunks


def test_an_export_that_a_policy_forbids_has_no_end(served: Served) -> None:
    def forbid() -> None:
        policies = served.home / "policies" / "all.cedar"
        policies.write_text(POLICIES.replace('Action::"export", ', ""), encoding="utf-8")
        # The directory is looked at once a second.
        served.service.registry.graphs["people"].policies._checked_at -= 10  # type: ignore[union-attr]  # it has policies

    chunks = export(served, forbid)

    assert len(chunks) == 1
    assert None not in chunks
