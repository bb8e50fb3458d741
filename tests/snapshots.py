"""Texts of everything that users and other programs see, as it stands today.

A change of such a text is a reviewed diff of a file in tests/contracts/snapshots, never an accident. After a change
that is meant, `make snapshots` writes the files again.
"""

from collections.abc import Iterable
from difflib import unified_diff
from itertools import islice
from pathlib import Path

DIRECTORY = Path(__file__).parent / "contracts" / "snapshots"
UPDATE = "--snapshot-update"
HOW = f"if the change is meant, run `make snapshots` (pytest tests/contracts/test_snapshots.py {UPDATE}) and review it"
# A renamed word changes hundreds of lines; the first ones show what happened.
MAX_DIFF_LINES = 80


class SnapshotDiffersError(AssertionError):
    """A text is not the one that was stored."""


class SnapshotStore:
    """The stored texts of a directory, by name."""

    def __init__(self, directory: Path = DIRECTORY, *, is_update: bool = False) -> None:
        self._directory = directory
        self._is_update = is_update

    def check(self, name: str, text: str) -> None:
        """Check that a text is the stored one; with `is_update`, store it instead.

        Raises:
            SnapshotDiffersError: It differs, or none is stored. The message has the difference and says how to renew.
        """
        path = self._directory / name
        text = f"{text.rstrip()}\n"
        if self._is_update:
            path.write_text(text, encoding="utf-8")
            return
        stored = path.read_text(encoding="utf-8") if path.exists() else ""
        if stored != text:
            lines = unified_diff(stored.splitlines(), text.splitlines(), f"stored {name}", f"{name} now", lineterm="")
            shown = "\n".join(islice(lines, MAX_DIFF_LINES))
            raise SnapshotDiffersError(f"{name} has changed; {HOW}\n{shown}")

    def names(self) -> set[str]:
        """Return the names of all stored texts."""
        return {path.name for path in self._directory.iterdir()}


def join_entries(entries: Iterable[tuple[str, str]]) -> str:
    """Return texts below headings, as one text."""
    return "\n".join(f"=== {title}\n{text.rstrip()}\n" for title, text in entries)
