"""Diagnose unexpected errors: check whether a damaged file that was read is the cause.

A damaged file that is too large to be verified at every read, or that has no recorded checksum, may decode to values
that fail much later. If one of the open files does not match its checksum, the damage is raised with the original error
as its cause; otherwise the original error is a bug, and is raised unchanged.
"""

from collections.abc import Iterator

from omnigraph.commit.gc_errors import SnapshotCollectedError
from omnigraph.commit.manifest_check import inspect_manifest
from omnigraph.errors import OmnigraphError
from omnigraph.ops.check import open_fresh_session
from omnigraph.ops.check_files import find_table_faults
from omnigraph.ops.session import Session
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.integrity_check import find_column_faults, list_table, load_index, translate_damage
from omnigraph.storage.lance_table import LanceTable, find_index_mismatches, find_row_mismatches
from omnigraph.storage.table_cache import PinUnreadableError
from omnigraph.telemetry import log

# The most recently used table versions are checked, up to this number.
MAX_TABLES = 32
# Limit for the data read from all of them: 0.3 s of a core if it is in the page cache.
MAX_BYTES = 4 * 1024**3


def blame_damage(session: Session, error: BaseException) -> None:
    """Raise the damage that caused an unexpected error, or return if no file that was read is damaged.

    Raises:
        PinUnreadableError: A file of a table is damaged.
        DamagedError: A file of the branch's manifest is damaged.
    """
    try:
        damage = next(_find_damage(session), None)
    except Exception as failure:  # noqa: BLE001 - the caller raises the original error
        log.info("could not check whether damaged files caused %s: %s", type(error).__name__, failure)
        return
    if damage is not None:
        raise damage from error


def _find_damage(session: Session) -> Iterator[OmnigraphError]:
    # A fresh session reads from storage: the caches of this one may hold what was read before the damage.
    fresh = open_fresh_session(session)
    fault = inspect_manifest(fresh.store, session.log.branch, session.log.path).fault
    if fault is not None:
        yield DamagedError(fault.place, fault.reason)
    remaining_bytes = MAX_BYTES
    for path, version in session.handles.list_open()[-MAX_TABLES:]:
        expected = session.store.verifier.get_expected(path, version)
        if expected is not None:
            fresh.store.verifier.expect(path, version, expected.checksum, expected.rows)
        table = LanceTable(fresh.handles, path, version)
        try:
            with translate_damage(path):
                file_fault = next(_find_table_damage(fresh, table, remaining_bytes), None)
                remaining_bytes -= sum(fragment.nbytes for fragment in table.list_fragments())
        except DamagedError as damage:
            file_fault = (damage.place, damage.reason)
        if file_fault is not None:
            place, reason = file_fault
            explained = session.handles.explain(PinUnreadableError(path, version, f"{place}: {reason}"))
            # The others were removed on purpose: they belonged to a write that was prepared or lost, or were collected.
            if explained.is_needed and not isinstance(explained, SnapshotCollectedError):
                yield explained


def _find_table_damage(session: Session, table: LanceTable, max_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield path and reason of each damaged file of a version, the cheap checks first."""
    mismatch = session.store.verifier.find_version_mismatch(table.path, table.version)
    if mismatch is not None:
        yield mismatch.key, mismatch.reason
        return
    for fault in find_table_faults(table, list_table(session.store, table.path)):
        yield fault.place, fault.reason
    fragments = table.list_fragments()
    if sum(fragment.nbytes for fragment in fragments) <= max_bytes:
        for mismatch in find_row_mismatches(table, fragments, None):
            yield mismatch.key, mismatch.reason
        for mismatch in find_index_mismatches(table, None):
            yield mismatch.key, mismatch.reason
        for fault in find_column_faults(table, {}):
            yield fault.place, fault.reason
        for index in list_stored_indexes(table):
            load_index(table, index.name)
