"""Create, open and copy graphs with the settings of this process's environment.

These functions are the public API, as `omnigraph.create_graph`, `omnigraph.open_graph` and so on. They are not in the
module of `Graph`, because the engine never reads the environment: a caller that needs other settings, such as a test,
passes a `Runtime`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.config.environment import build_runtime
from omnigraph.graph import Graph, lazy_ops
from omnigraph.graph.arguments import build_schema_source, check_uri
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.open import build_session
from omnigraph.options import Maintenance
from omnigraph.runtime import Runtime

if TYPE_CHECKING:
    from omnigraph.ops.backup import BackupResult
    from omnigraph.ops.backup_repository import Backup
    from omnigraph.ops.backup_restore import RestoreResult
    from omnigraph.ops.check import CheckProgress, CheckResult
    from omnigraph.ops.clone import CloneResult
    from omnigraph.ops.clone_tables import CloneProgress
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.verify import VerifyResult


def create_graph(
    uri: str | os.PathLike[str], schema: str | Source, *, actor: str = "anonymous", runtime: Runtime | None = None
) -> Graph:
    """Create a new, empty graph: as a whole, or not at all.

    Args:
        uri: A path, `file://…` or `s3://bucket/prefix`. Only the remains of an interrupted init may be there.
        schema: The text of the schema; a `Source` gives it the name that messages show.
        actor: The author of the first commit.
        runtime: Settings, clock and the like; by default those of this process's environment.

    Raises:
        SourceError: The schema has errors.
        PlaceTakenError: There is a graph or something else already.
        BadArgumentError: No graph can be stored at such an address.
    """
    settings = runtime or build_runtime(os.environ)
    return Graph.create(check_uri(uri), build_schema_source(schema), actor=actor, runtime=settings)


def open_graph(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    keep_derived: bool | None = None,
    maintenance: Maintenance | str | None = None,
    maintenance_seconds: float | None = None,
    runtime: Runtime | None = None,
) -> Graph:
    """Open an existing graph.

    Opening for writing first recovers from operations that died. Opening read-only never writes below the root.

    Args:
        uri: A path, `file://…` or `s3://bucket/prefix`.
        read_only: Reject every write.
        keep_derived: Whether reads may store expensive derived data (adjacency, word lists) beside the tables, for the
            next process. It is not part of the graph's data, and a failure to store it is harmless. None: the value of
            `OMNIGRAPH_DERIVED_CACHE`, by default yes. A graph opened read-only stores nothing and rejects `True`.
        maintenance: `auto`: small writes keep the number of small files bounded, in a background thread; `off`: only
            `optimize` compacts. None: the value of `OMNIGRAPH_MAINTENANCE`, by default `auto`.
        maintenance_seconds: For a process that ends soon: the time that `close` may spend on it, instead of a thread.
        runtime: Settings, clock and the like; by default those of this process's environment.

    Raises:
        NotAGraphError: There is no graph.
        CorruptError: It was written in another format; the message shows how to convert it.
        BadArgumentError: No graph can be stored at such an address.
    """
    settings = runtime or build_runtime(os.environ)
    if maintenance is not None:
        choice = parse_choice("maintenance", Maintenance, maintenance)
        settings = replace(settings, options=replace(settings.options, maintenance=choice))
    if maintenance_seconds is not None:
        settings = replace(settings, options=replace(settings.options, maintenance_seconds=maintenance_seconds))
    return Graph.open(check_uri(uri), is_read_only=read_only, runtime=settings, keep_derived=keep_derived)


def clone_graph(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    branches: Sequence[str] | None = None,
    progress: "Callable[[CloneProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "CloneResult":
    """Copy a graph with its branches and history to another location, while others may write to it.

    The clone appears as a whole, or not at all. Commits keep their ids, and everything that can be read in the source
    can be read in the clone. The source is not written to. Repeat the call to resume a clone that was interrupted.

    Args:
        source: The graph: a path, `file://…` or `s3://bucket/prefix`.
        target: The location of the clone; it must be empty.
        branches: Copy only main, these branches and those that they were forked from; None: all.
        progress: Called now and then with the progress, from several threads, one at a time.
        runtime: The runtime for both graphs; by default that of this process's environment.

    Raises:
        NotAGraphError: There is no graph at the source.
        BranchMissingError: It has no such branch.
        PlaceTakenError: The target is not empty, or another process is writing a clone there.
        BadArgumentError: One location is inside the other.
    """
    graph = Graph.open(check_uri(source, "source"), is_read_only=True, runtime=runtime or build_runtime(os.environ))
    return graph.clone(target, branches=branches, progress=progress)


def back_up_graph(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    keep: int | None = None,
    progress: "Callable[[CloneProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "BackupResult":
    """Add a backup of a graph to a repository of backups elsewhere, with what is new since the one before it.

    A backup has all branches and their history, and exists completely or not at all; others may write meanwhile. If
    nothing has changed since the newest backup, none is added. The graph is not written to.

    Args:
        source: The graph: a path, `file://…` or `s3://bucket/prefix`.
        target: The location of the repository, which is created if it is empty.
        keep: Afterwards, remove all but this number of the newest backups.
        progress: Called now and then with the progress, from several threads, one at a time.
        runtime: The runtime for both places; by default that of this process's environment.

    Raises:
        NotAGraphError: There is no graph at the source.
        BadArgumentError: One location is inside the other, or `keep` is less than 1.
        PlaceTakenError: The target holds anything else, or another backup is being written there.
        CorruptError: The record of another backup there is damaged.
    """
    graph = Graph.open(check_uri(source, "source"), is_read_only=True, runtime=runtime or build_runtime(os.environ))
    return graph.backup(target, keep=keep, progress=progress)


def list_backups(source: str | os.PathLike[str], *, runtime: Runtime | None = None) -> "list[Backup]":
    """Return the backups of a repository, newest first.

    Raises:
        CorruptError: The record of one is damaged.
    """
    return lazy_ops.backup_restore.list_backups(check_uri(source, "source"), runtime or build_runtime(os.environ))


def restore_graph(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    backup: str | None = None,
    progress: "Callable[[CloneProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "RestoreResult":
    """Restore a backup to an empty location, which becomes a graph at the very end.

    Commits keep their ids. Repeat the call to resume a restore that was interrupted.

    Args:
        source: The repository of backups.
        target: The location of the graph; it must be empty.
        backup: The id of a backup; None: the newest.
        progress: Called now and then with the progress, from several threads, one at a time.
        runtime: The runtime for both places; by default that of this process's environment.

    Raises:
        NotAGraphError: There is no such backup, or none at all.
        CorruptError: A file of it is missing or does not match its checksum.
        PlaceTakenError: The target is not empty, or another process is writing there.
        BadArgumentError: One location is inside the other.
    """
    call = lazy_ops.backup_restore.RestoreCall(
        source=check_uri(source, "source"), target=check_uri(target, "target"), backup=backup, progress=progress
    )
    return lazy_ops.backup_restore.restore(call, runtime or build_runtime(os.environ))


def check_graph(  # noqa: PLR0913 - as the method
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    quick: bool = False,
    deep: bool = False,
    record: bool = False,
    actor: str = "anonymous",
    message: str | None = None,
    progress: "Callable[[CheckProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "CheckResult":
    """Check a graph as `Graph.check` does, even one that is too damaged to be opened.

    Without `record`, nothing is written.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadArgumentError: No graph can be stored at such an address.
    """
    graph = Graph(build_session(check_uri(uri), runtime or build_runtime(os.environ)))
    return graph.check(
        branch=branch, quick=quick, deep=deep, record=record, actor=actor, message=message, progress=progress
    )


def verify_graph(
    uri: str | os.PathLike[str],
    *,
    branch: str = "main",
    digest: str | None = None,
    progress: "Callable[[CheckProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "VerifyResult":
    """Verify a graph as `Graph.verify` does, even one that is too damaged to be opened. Nothing is written.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadArgumentError: No graph can be stored at such an address.
    """
    graph = Graph(build_session(check_uri(uri), runtime or build_runtime(os.environ)))
    return graph.verify(branch=branch, digest=digest, progress=progress)


def repair_graph(  # noqa: PLR0913 - the choices of a repair, all by name but the URI
    uri: str | os.PathLike[str],
    *,
    confirm: bool = False,
    force: bool = False,
    deep: bool = False,
    branch: str | None = None,
    source: str | os.PathLike[str] | None = None,
    actor: str = "anonymous",
    message: str | None = None,
    runtime: Runtime | None = None,
) -> "RepairResult":
    """Repair a graph as `Graph.repair` does, even one whose manifest is too damaged to be opened.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadArgumentError: No graph can be stored at such an address.
    """
    graph = Graph(build_session(check_uri(uri), runtime or build_runtime(os.environ)))
    return graph.repair(
        confirm=confirm, force=force, deep=deep, branch=branch, source=source, actor=actor, message=message
    )


def load_runtime(storage: Mapping[str, str] | None = None) -> Runtime:
    """Return the runtime of this process's environment, with other options for the object store if given."""
    runtime = build_runtime(os.environ)
    return runtime if storage is None else replace(runtime, options=replace(runtime.options, storage=dict(storage)))
