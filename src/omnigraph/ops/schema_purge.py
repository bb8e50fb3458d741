"""Dropping for good: what it takes that nothing of the dropped data is left in the new state of a branch."""

from collections.abc import Callable, Collection, Sequence

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.commit_plan import Move
from omnigraph.commit.gc_horizon import CommitCollectedError
from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.commit.publisher import lay_out
from omnigraph.commit.purges import Purge
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.engine.migrating.type_changes import CatalogChange
from omnigraph.engine.search.column_index import build_index_key
from omnigraph.ops.session import Session
from omnigraph.storage.column_purge import purge_dropped_columns
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import format_detached_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.telemetry import log as telemetry_log


def find_purges(snapshot: Snapshot, change: CatalogChange) -> tuple[Purge, ...]:
    """What a change drops, under the names that it has before."""
    gone: list[tuple[str, str | None]] = [(type_.table_key, None) for type_ in change.dropped]
    gone += [(one.old.table_key, p.name) for one in change.lasting for p in one.iter_dropped()]
    return tuple(Purge(table_key=key, path=snapshot.pins[key].path, property=name) for key, name in gone)


def purge_columns(session: Session, staged: StagedWrite, note: Callable[[Sequence[str]], None]) -> StagedWrite:
    """A change of columns whose files have nothing of those that are dropped; `note` hears of every file."""
    shown = lay_out(session.handles, staged)
    note([f"{shown.path}/{format_detached_name(shown.preview)}"])
    session.runtime.faults.reach("schema.purged")
    made = purge_dropped_columns(LanceTable(session.handles, shown.path, shown.preview), shown, note)
    for file in set(shown.blobs) - set(made.blobs):
        session.store.objects.delete(file)
    return made


def forget(session: Session, before: Snapshot, purges: Sequence[Purge], moves: Sequence[Move]) -> None:
    """After the commit: what was kept of the data elsewhere goes, and what was only needed on the way.

    Indexes and files of earlier versions are left to cleanup, which finds them unreferenced.
    """
    keys = [f"{one.staged.path}/{format_detached_name(one.staged.preview)}" for one in moves if one.staged.preview]
    for purge in purges:
        table = LanceTable(session.handles, purge.path, before.pins[purge.table_key].version)
        names = table.schema.names if purge.property is None else [purge.property]
        keys += [build_index_key(table, name) for name in names]
    try:
        for key in keys:
            session.store.objects.delete(key)
    except StoreUnavailableError as error:
        telemetry_log.warning("what was kept of dropped data was not removed: %s", error)


def find_holders(session: Session, paths: Collection[str]) -> tuple[str, ...]:
    """The other branches that have a table at one of these locations."""
    if not paths:
        return ()
    main = session.branches.main.head().snapshot
    found = []
    for name in (MAIN, *main.manifest.live_branches):
        try:
            pins = main.pins if name == MAIN else session.branches.get_log(name).head().snapshot.pins
        except (BranchGoneError, BranchMissingError):
            continue  # deleted just now
        if name != session.log.branch and any(pin.path in paths for pin in pins.values()):
            found.append(name)
    return tuple(sorted(found))


def describe_tag_losses(session: Session, purges: Sequence[Purge]) -> tuple[str, ...]:
    """What a drop takes from tagged states of the branch, a note for each tag; to be asked before it is done."""
    paths = {purge.path for purge in purges}
    notes = []
    for tag in session.branches.tags.list_records() if paths else ():
        if tag.path != session.log.path:
            continue  # another branch has that state, and keeps it
        try:
            state = session.resolve_snapshot(commit_id=tag.commit_id).manifest
        except (CommitMissingError, CommitCollectedError):
            continue  # it names nothing any more, as `check` tells
        names = [
            f"`{key.partition(':')[2]}`"
            for key, pin in state.pins.items()
            if pin.path in paths and pin.path not in state.lost
        ]
        if names:
            notes.append(f"the tag `{tag.name}` loses {' and '.join(names)}: no row of it can be read there any more")
    return tuple(notes)
