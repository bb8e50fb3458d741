"""Open a graph: check its format, and recover operations of writers that died."""

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.recovery import RecoveryReport, recover_quietly
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import log


def open_session(uri: str, *, is_read_only: bool, runtime: Runtime, keep_derived: bool | None = None) -> Session:
    """Open the graph at `uri`.

    Opened for writing, dead operations are recovered first; a failure of recovery does not prevent opening.
    `keep_derived` is whether reads may store derived data for the next process; None means unless it is read-only.

    Raises:
        BadArgumentError: `keep_derived` is set on a read-only graph.
        NotAGraphError, FormatRefusedError: There is no graph at `uri`, or its format is not supported.
    """
    if is_read_only and keep_derived:
        raise BadArgumentError("keep_derived", "True", "a graph that is opened read-only is never written to")
    store = GraphStorage(parse_uri(uri), runtime)
    session = Session(
        store=store,
        handles=TableCache(store),
        log=ManifestLog(store),
        is_read_only=is_read_only,
        keep_derived=keep_derived,
    )
    # Either way the manifest is read, so a graph that can't be read fails here and not at its first use.
    if is_read_only:
        session.log.readable_head()
    else:
        heal(session, session.head())
    return session


def build_session(uri: str, runtime: Runtime) -> Session:
    """Build a session for `uri` without reading or recovering anything, to inspect a graph that can't be opened."""
    store = GraphStorage(parse_uri(uri), runtime)
    return Session(store=store, handles=TableCache(store), log=ManifestLog(store))


def heal(session: Session, head: Head | None, *, spares_live: bool = False) -> RecoveryReport | None:
    """Run a recovery pass that never raises: if it fails, log a warning and return None.

    `head` is a state of main, if one is known, which lists branches whose deletion was not finished.
    `spares_live` as in `recover`.
    """
    try:
        if head is not None:
            session.branches.finish_deletions(head)
    except Exception as error:  # noqa: BLE001 - a failed recovery is logged and must not fail the caller
        is_bug = not isinstance(error, OmnigraphError)
        log.warning("deletions of branches of %s were not finished: %s", session.uri, error, exc_info=is_bug)
        return None
    return recover_quietly(session.store, session.branches.main, spares_live=spares_live)
