"""Runs the programs of a page in order, in one process, and compares what they print with what the page shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def check_programs(
    page: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], programs: int
) -> None:
    """Fail unless every program of `docs/how-to/<page>` prints what the next block shows, and there are that many."""
    (place / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    blocks = _BLOCK.findall((ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8"))
    assert sum(kind == "python" for kind, _ in blocks) == programs
    for (kind, text), (_, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            exec(compile(text, "page", "exec"), names)  # noqa: S102 - our own page
            assert capsys.readouterr().out == shown
