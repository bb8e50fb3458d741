"""A stream ends when its token is revoked or its policy changes while it runs."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from asgi_calls import request
from omnigraph.ops import export_stream
from serving import POLICIES, Served, serving, write_tokens


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    # A chunk for each line, so that a small export has several.
    monkeypatch.setattr(export_stream, "iter_chunks", lambda lines: (bytes(line) for line in lines))
    server = serving(tmp_path)
    yield server
    server.service.close()


def export(served: Served, act: Callable[[], None]) -> list[bytes | None]:
    """Return the chunks of an export, and None for its end; `act` is called after the first chunk."""
    headers = served.as_role("writer")
    return asyncio.run(request(served, "POST", "/graphs/people/export", b"{}", headers=headers, act=act)).parts


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
