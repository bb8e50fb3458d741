"""Where the refused records of one batch of a stream go, when the batch may be tried more than once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnigraph.engine.bulk.rejected_records import REASONS, REJECTED, QuarantineError, settle_published

_KEY_FILE = ".batch"


@dataclass(frozen=True, slots=True)
class BatchQuarantine:
    """A directory for the batch that is known by a key."""

    directory: Path
    key: str

    def clear_previous_attempt(self) -> None:
        """What a try left here that was refused as a whole goes: this try has all of it again.

        Records of anything else stay, and the load says so.
        """
        with self._translate_errors():
            mark = self.directory / _KEY_FILE
            if mark.is_file() and mark.read_text(encoding="utf-8") == self.key:
                for name in (REJECTED, REASONS, _KEY_FILE):
                    (self.directory / name).unlink(missing_ok=True)

    def mark_refused(self) -> None:
        """The batch was refused as a whole, and its bad records are here to be looked at."""
        with self._translate_errors():
            (self.directory / _KEY_FILE).write_text(self.key, encoding="utf-8")

    def finish(self) -> None:
        """The batch was loaded, by a driver that may have died before its records had their names."""
        settle_published(self.directory)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise QuarantineError(str(self.directory), error.strerror or str(error)) from error
