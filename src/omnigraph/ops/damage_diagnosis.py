"""The last net: an error that nobody expected leads to one look at the files that were read, which may be to blame.

A damaged file that is too large to be verified at every read, or of which nothing is recorded, may decode to something
that fails much later. If one of the files that were open does not hold what it should, that is told, with the original
error as its cause; else the original error is a bug, and goes on as it is.
"""

from collections.abc import Iterator

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

MAX_TABLES = 32
"""Versions of tables that are looked at, those that were used last."""
MAX_BYTES = 4 * 1024**3
"""Data that is read of all of them: 0.3 s of a core where it is in the page cache."""


def blame_damage(session: Session, error: BaseException) -> None:
    """Raise the damage that an unexpected error comes from, if a file that was read is damaged; else return.

    Raises:
        PinUnreadableError: A file of a table is.
        DamagedError: A file of the branch's manifest is.
    """
    try:
        found = next(_find_damage(session), None)
    except Exception as failure:  # noqa: BLE001 - the original error is the one to tell
        log.info("it is not known whether %s is to blame on damage: %s", type(error).__name__, failure)
        return
    if found is not None:
        raise found from error


def _find_damage(session: Session) -> Iterator[OmnigraphError]:
    fresh = open_fresh_session(session)
    fault = inspect_manifest(fresh.store, session.log.branch, session.log.path).fault
    if fault is not None:
        yield DamagedError(fault.place, fault.reason)
    left = MAX_BYTES
    for path, version in session.handles.list_open()[-MAX_TABLES:]:
        expected = session.store.verifier.get_expected(path, version)
        if expected is not None:
            fresh.store.verifier.expect(path, version, expected.checksum, expected.rows)
        table = LanceTable(fresh.handles, path, version)
        try:
            with translate_damage(path):
                found = next(_find_table_damage(fresh, table, left), None)
                left -= sum(one.nbytes for one in table.list_fragments())
        except DamagedError as damage:
            found = (damage.place, damage.reason)
        if found is not None:
            place, reason = found
            yield session.handles.explain(PinUnreadableError(path, version, f"{place}: {reason}"))


def _find_table_damage(session: Session, table: LanceTable, left: int) -> Iterator[tuple[str, str]]:
    """Yield the files of a version that are damaged, what is cheap to find first."""
    mismatch = session.store.verifier.find_version_mismatch(table.path, table.version)
    if mismatch is not None:
        yield mismatch.key, mismatch.reason
        return
    for fault in find_table_faults(table, list_table(session.store, table.path)):
        yield fault.place, fault.reason
    if sum(one.nbytes for one in table.list_fragments()) <= left:
        for one in find_row_mismatches(table, table.list_fragments(), None):
            yield one.key, one.reason
        for one in find_index_mismatches(table, None):
            yield one.key, one.reason
        for fault in find_column_faults(table, {}):
            yield fault.place, fault.reason
        for index in list_stored_indexes(table):
            load_index(table, index.name)
