"""The phases of a Spark load: tasks may write while a phase is open; when it ends, only files that are kept remain."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.commit.publisher import ArmedWrite
from omnigraph.commit.sidecar import FencedError
from omnigraph.commit.task_journal import NamingTimes, clear
from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.telemetry import log


@dataclass(slots=True)
class Phase:
    """An open phase, and the files that outlive it."""

    number: int
    kept_files: dict[str, None] = field(default_factory=dict)
    kept_scratch: dict[str, None] = field(default_factory=dict)

    def keep(self, files: Sequence[str]) -> None:
        """Keep files, relative to the root, when the phase ends."""
        self.kept_files.update(dict.fromkeys(files))

    def keep_scratch(self, keys: Iterable[str]) -> None:
        """Keep scratch objects for later phases; the caller clears them at the end."""
        self.kept_scratch.update(dict.fromkeys(keys))


class Phases:
    """Open and close the phases of one operation, one at a time."""

    def __init__(self, store: GraphStorage, armed: ArmedWrite) -> None:
        self._store, self._lease = store, armed.lease
        self._number = 0

    @property
    def operation_id(self) -> str:
        """The id of the operation."""
        return self._lease.operation_id

    @contextmanager
    def open_phase(self) -> Iterator[Phase]:
        """Open a phase. At its end the sidecar names the kept files, and everything else of the phase is removed.

        If the phase fails, all of its files are removed. If that fails too, recovery removes them later.
        """
        faults = self._store.runtime.faults
        self._number += 1
        phase = Phase(self._number)
        self._lease.enter_phase(phase.number)
        try:
            faults.reach("phase.open")
            yield phase
            faults.reach("phase.done")
            # Named before the phase is closed, so that at any time recovery finds every file: by its note or here.
            self._lease.add_files(phase.kept_files)
            faults.reach("phase.named")
            self._close(phase.number, phase.kept_files | phase.kept_scratch)
            faults.reach("phase.cleared")
        except BaseException as failure:
            try:
                self._close(phase.number, {})
            except FencedError as fenced:
                # Its tasks came too late, because the whole operation was cancelled.
                if isinstance(failure, Exception):
                    raise fenced from failure
            except OmnigraphError as error:
                log.warning("the files of a phase of %s were not removed yet: %s", self.operation_id, error)
            raise

    def _close(self, number: int, kept: dict[str, None]) -> None:
        # First: a task that begins from now on notices it, and all earlier tasks have a note that `clear` finds.
        self._lease.enter_phase(0)
        named: NamingTimes = {}
        clear(self._store, self.operation_id, phase=number, keep=kept.keys(), named=named)
        self._lease.learn_notes({file: time for file, time in named.items() if file in kept})
