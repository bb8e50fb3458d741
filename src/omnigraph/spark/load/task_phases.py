"""The phases of a Spark load: while one is open its tasks may write; behind it only what is kept is left."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.commit.publisher import ArmedWrite
from omnigraph.commit.sidecar import FencedError
from omnigraph.commit.task_journal import clear
from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.telemetry import log


@dataclass(slots=True)
class Phase:
    """A phase that is open."""

    number: int
    kept_files: dict[str, None] = field(default_factory=dict)
    kept_scratch: dict[str, None] = field(default_factory=dict)

    def keep(self, files: Sequence[str]) -> None:
        """These files, relative to the root, outlive the phase."""
        self.kept_files.update(dict.fromkeys(files))

    def keep_scratch(self, keys: Iterable[str]) -> None:
        """This scratch of its tasks is needed by later phases; whoever keeps it clears it at the end."""
        self.kept_scratch.update(dict.fromkeys(keys))


class Phases:
    """Opens and closes them, one at a time."""

    def __init__(self, store: GraphStorage, armed: ArmedWrite) -> None:
        self._store, self._lease = store, armed.lease
        self._number = 0

    @property
    def operation_id(self) -> str:
        """The operation whose phases they are."""
        return self._lease.operation_id

    @contextmanager
    def open_phase(self) -> Iterator[Phase]:
        """A phase. At its end what was kept is named by the sidecar, and everything else of it is gone.

        When it fails, all of it goes. If that fails too, recovery does it later.
        """
        faults = self._store.runtime.faults
        self._number += 1
        phase = Phase(self._number)
        self._lease.enter_phase(phase.number)
        try:
            faults.reach("phase.open")
            yield phase
            faults.reach("phase.done")
            self._lease.add_files(phase.kept_files)
            faults.reach("phase.named")
            self._close(phase.number, phase.kept_files | phase.kept_scratch)
            faults.reach("phase.cleared")
        except BaseException as failure:
            try:
                self._close(phase.number, {})
            except FencedError as fenced:  # its tasks came too late because the whole operation was cancelled
                if isinstance(failure, Exception):
                    raise fenced from failure
            except OmnigraphError as error:
                log.warning("what a phase of %s wrote was not removed yet: %s", self.operation_id, error)
            raise

    def _close(self, number: int, kept: dict[str, None]) -> None:
        self._lease.enter_phase(0)
        clear(self._store, self.operation_id, phase=number, keep=kept.keys())
