"""A clone on the model: it claims its target, takes a consistent cut, and reads every version that the cut needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.commit.clone_lock import lock_clone_target
from omnigraph.commit.consistent_cut import ConsistentCut, take_cut
from omnigraph.commit.sidecar import CloneOrigin
from omnigraph.errors import OmnigraphError
from omnigraph.ops.session import Session
from omnigraph.storage.table_cache import PinUnreadableError
from schedules.model_actors import Run, read_rows
from schedules.model_room import ModelHandles, ModelStorage


class VersionLostError(Exception):
    """A version of a table is gone that a cut needs."""


@dataclass(frozen=True, slots=True)
class Clone:
    """Clone the graph: what the clone has is read in one state."""

    places: tuple[str, ...]

    def __call__(self, run: Run, session: Session, name: str) -> None:
        """Clone it."""
        attempt = run.history.begin(name, {})
        store = session.store
        assert isinstance(store, ModelStorage)
        target = ModelStorage(run.clone, run.scheduler, session.runtime)
        try:
            head = session.branches.main.head()
            with lock_clone_target(target, CloneOrigin(uri="model", root="root"), head, lambda: None):
                attempt.reads = self._read(session)
        except OmnigraphError as error:
            run.history.end(attempt, "fail", repr(error))
        else:
            run.history.end(attempt, "ok")

    def _read(self, session: Session) -> dict[str, list[str]]:
        """Take a cut and read all versions in it; take a newer one if a cleanup has removed some, as `CutReader` does.

        Raises:
            VersionLostError: A version is missing that no cleanup can have removed.
        """
        handles = session.handles
        assert isinstance(handles, ModelHandles)
        epoch = -1
        while True:
            cut = take_cut(session.branches)
            try:
                for version in sorted(cut.present | cut.past, key=str):
                    handles.read(version.path, version.version)
                return _read_lists(session, cut, self.places)
            except PinUnreadableError as error:
                if cut.epoch == epoch:
                    raise VersionLostError from error
                epoch = cut.epoch


def _read_lists(session: Session, cut: ConsistentCut, places: Sequence[str]) -> dict[str, list[str]]:
    tables = session.open_tables(cut.main.snapshot)
    names = [place.partition("/") for place in places]
    return {f"{table}/{key}": list(read_rows(tables.open_table(table)).get(key, ())) for table, _, key in names}
