"""Purge dropped data: remove it from the files of a branch's new state, instead of only hiding it."""

from collections.abc import Callable, Collection, Sequence

from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.commit_plan import Move
from omnigraph.commit.gc_horizon import CommitCollectedError
from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.commit.publisher import lay_out
from omnigraph.commit.purges import Purge
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.engine.migrating.type_changes import CatalogChange
from omnigraph.engine.search.index_codec import build_text_prefix
from omnigraph.engine.tables.key_pages import build_page_key
from omnigraph.ops.session import Session
from omnigraph.storage.column_purge import purge_dropped_columns
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import DERIVED, format_detached_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.staging import StagedWrite
from omnigraph.telemetry import log as telemetry_log


def find_purges(snapshot: Snapshot, change: CatalogChange) -> tuple[Purge, ...]:
    """Return the tables and properties that a change drops, under their names before the change."""
    dropped: list[tuple[str, str | None]] = [(type_.table_key, None) for type_ in change.dropped]
    dropped += [(item.old.table_key, p.name) for item in change.lasting for p in item.iter_dropped()]
    return tuple(Purge(table_key=key, path=snapshot.pins[key].path, property=name) for key, name in dropped)


def purge_columns(session: Session, staged: StagedWrite, on_files: Callable[[Sequence[str]], None]) -> StagedWrite:
    """Rewrite a staged column change without the data of dropped columns; `on_files` gets every new file."""
    detached = lay_out(session.handles, staged)
    on_files([f"{detached.path}/{format_detached_name(detached.preview)}"])
    session.runtime.faults.reach("schema.purged")
    purged = purge_dropped_columns(LanceTable(session.handles, detached.path, detached.preview), detached, on_files)
    # Blobs that only the version before the rewrite has were staged by this write, so no reader can need them.
    for file in set(detached.blobs) - set(purged.blobs):
        session.store.objects.delete(file)
    return purged


def forget(session: Session, before: Snapshot, purges: Sequence[Purge], moves: Sequence[Move]) -> None:
    """Remove, after the commit, derived files with purged data, and the detached versions made for staging.

    Indexes and files of earlier versions are left to cleanup, which finds them unreferenced.
    """
    staged_writes = [move.staged for move in moves if move.staged.preview]
    keys = [f"{staged.path}/{format_detached_name(staged.preview)}" for staged in staged_writes]
    prefixes: list[str] = []
    for purge in purges:
        table = LanceTable(session.handles, purge.path, before.pins[purge.table_key].version)
        names = table.schema.names if purge.property is None else [purge.property]
        keys.append(build_page_key(purge.path))
        prefixes += [build_text_prefix(table.path, table.find_field_number(name)) for name in names]
    try:
        if prefixes:
            stored = [info.key for info in session.store.objects.list_under(DERIVED)]
            keys += [key for key in stored if key.startswith(tuple(prefixes))]
        for key in keys:
            session.store.objects.delete(key)
    except StoreUnavailableError as error:
        telemetry_log.warning("cached files of purged data could not be removed: %s", error)


def find_holders(session: Session, paths: Collection[str]) -> tuple[str, ...]:
    """Return the other branches that have a table at one of these paths."""
    if not paths:
        return ()
    main = session.branches.main.head().snapshot
    holders = []
    for name in (MAIN, *main.manifest.live_branches):
        try:
            pins = main.pins if name == MAIN else session.branches.get_log(name).head().snapshot.pins
        # Deleted since main's manifest was read.
        except (BranchGoneError, BranchMissingError):
            continue
        if name != session.log.branch and any(pin.path in paths for pin in pins.values()):
            holders.append(name)
    return tuple(sorted(holders))


def describe_tag_losses(session: Session, purges: Sequence[Purge]) -> tuple[str, ...]:
    """Return a note for each tagged state of the branch that a purge takes data from; call it before the commit."""
    paths = {purge.path for purge in purges}
    notes = []
    for tag in session.branches.tags.list_records() if paths else ():
        # A state in another branch's journal is not affected.
        if tag.path != session.log.path:
            continue
        try:
            state = session.resolve_snapshot(commit_id=tag.commit_id).manifest
        # The tag names no readable commit; `check` reports that.
        except (CommitMissingError, CommitCollectedError):
            continue
        names = [
            f"`{key.partition(':')[2]}`"
            for key, pin in state.pins.items()
            if pin.path in paths and pin.path not in state.lost
        ]
        if names:
            notes.append(f"the tag `{tag.name}` loses {' and '.join(names)}: its rows can no longer be read there")
    return tuple(notes)
