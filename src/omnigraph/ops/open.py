"""Open a graph: check its format, and clear up after writers that died."""

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.recovery import RecoveryReport, recover_quietly
from omnigraph.errors import OmnigraphError
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import log


def open_session(uri: str, *, is_read_only: bool, runtime: Runtime, keep_derived: bool | None = None) -> Session:
    """The graph at `uri`; NotAGraphError, FormatRefusedError or a corruption when there is no such thing to open.

    Opened for writing, dead operations are settled first; that this fails never keeps a graph from being opened.
    `keep_derived` says whether reads may keep what they derived for the next process; None: unless it is read-only.

    Raises:
        BadArgumentError: It is to be read only, and to keep what reads derived.
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
    if is_read_only:
        session.log.readable_head()
    else:
        heal(session, session.head())
    return session


def build_session(uri: str, runtime: Runtime) -> Session:
    """The graph at `uri`, if there is one: nothing was read or cleared up. For who looks at what can't be opened."""
    store = GraphStorage(parse_uri(uri), runtime)
    return Session(store=store, handles=TableCache(store), log=ManifestLog(store))


def heal(session: Session, head: Head | None, *, spares_live: bool = False) -> RecoveryReport | None:
    """A recovery pass that is in nobody's way: None, and a warning in the log, when it could not run.

    `head` is a state of main, if one is known, which tells of branches whose deletion was not finished.
    `spares_live` is as `recover` has it.
    """
    try:
        if head is not None:
            session.branches.finish_deletions(head)
    except Exception as error:  # noqa: BLE001 - a fault of recovery is reported, never in a user's way
        is_bug = not isinstance(error, OmnigraphError)
        log.warning("deletions of branches of %s were not finished: %s", session.uri, error, exc_info=is_bug)
        return None
    return recover_quietly(session.store, session.branches.main, spares_live=spares_live)
