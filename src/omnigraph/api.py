"""The Python door: make, open and copy graphs with the settings of this process's environment.

`omnigraph.create_graph`, `omnigraph.open_graph` and `omnigraph.clone_graph` are these. They are here and not beside
`Graph`, because the engine never reads the environment: whoever needs other settings, such as a test, hands in a
`Runtime`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.config.environment import build_runtime
from omnigraph.graph import Graph
from omnigraph.graph.arguments import build_schema_source, check_uri
from omnigraph.lang.source import Source
from omnigraph.ops.open import build_session
from omnigraph.runtime import Runtime

if TYPE_CHECKING:
    from omnigraph.ops.check import CheckProgress, CheckResult
    from omnigraph.ops.clone import CloneResult
    from omnigraph.ops.clone_tables import CloneProgress
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.verify import VerifyResult


def create_graph(
    uri: str | os.PathLike[str], schema: str | Source, *, actor: str = "anonymous", runtime: Runtime | None = None
) -> Graph:
    """Make a new, empty graph: there whole, or not at all.

    Args:
        uri: A path, `file://…` or `s3://bucket/prefix`. Nothing but the remains of an init that died may be there.
        schema: The text of the schema; a `Source` gives it the name that messages show.
        actor: Who the first commit is by.
        runtime: Settings, clock and the like; without it those of this process's environment.

    Raises:
        SourceError: The schema has mistakes.
        PlaceTakenError: A graph or something else is there already.
        BadUriError: No graph can be stored at such an address.
    """
    settings = runtime or build_runtime(os.environ)
    return Graph.create(check_uri(uri), build_schema_source(schema), actor=actor, runtime=settings)


def open_graph(
    uri: str | os.PathLike[str],
    *,
    read_only: bool = False,
    keep_derived: bool | None = None,
    runtime: Runtime | None = None,
) -> Graph:
    """Open a graph that exists.

    Opened for writing, the remains of operations that died are cleared up first; read-only, nothing is ever written
    below its root.

    Args:
        uri: A path, `file://…` or `s3://bucket/prefix`.
        read_only: Refuse every write.
        keep_derived: Whether reads may keep what they derived at some expense (adjacency, words) beside the tables, for
            the next process. It is no part of what the graph says, and nothing goes wrong where it can't be written.
            None: as `OMNIGRAPH_DERIVED_CACHE` says, which is yes unless set. A graph that is opened read-only keeps
            nothing, and refuses `True`.
        runtime: Settings, clock and the like; without it those of this process's environment.

    Raises:
        NotAGraphError: There is no graph.
        FormatRefusedError: It was written in another format; the message says the way over.
        BadUriError: No graph can be stored at such an address.
    """
    settings = runtime or build_runtime(os.environ)
    return Graph.open(check_uri(uri), is_read_only=read_only, runtime=settings, keep_derived=keep_derived)


def clone_graph(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    branches: Sequence[str] | None = None,
    progress: "Callable[[CloneProgress], None] | None" = None,
    runtime: Runtime | None = None,
) -> "CloneResult":
    """Copy a graph with its branches and its past to another place, while others may write to it.

    The clone is there whole, or not at all. Commits keep their ids, and everything that can be read in the source can
    be read in the clone. The source is not written to. A clone that died is gone on with by the same call.

    Args:
        source: The graph: a path, `file://…` or `s3://bucket/prefix`.
        target: Where the clone is to be; nothing may be there.
        branches: Beside main only these, and those that they were taken from; None: all.
        progress: Is told now and then how far it is, from several threads, one at a time.
        runtime: Settings, clock and the like, for both; without it those of this process's environment.

    Raises:
        NotAGraphError: There is no graph at the source.
        BranchMissingError: It has no such branch.
        PlaceTakenError: Something is at the target already.
        CloneBusyError: Somebody else is making a clone there.
        NestedPlacesError: One of the places is inside of the other.
    """
    graph = Graph.open(check_uri(source, "source"), is_read_only=True, runtime=runtime or build_runtime(os.environ))
    return graph.clone(target, branches=branches, progress=progress)


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
    """As `Graph.check`, also of a graph that is too damaged to be opened; without `record` nothing of it is written.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadUriError: No graph can be stored at such an address.
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
    """As `Graph.verify`, also of a graph that is too damaged to be opened; nothing of it is written.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadUriError: No graph can be stored at such an address.
    """
    graph = Graph(build_session(check_uri(uri), runtime or build_runtime(os.environ)))
    return graph.verify(branch=branch, digest=digest, progress=progress)


def repair_graph(  # noqa: PLR0913 - the choices of a repair, all by name but the place
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
    """As `Graph.repair`, also of a graph whose manifest is too damaged to be opened.

    Raises:
        NotAGraphError: There is nothing that ever was a graph.
        BadUriError: No graph can be stored at such an address.
    """
    graph = Graph(build_session(check_uri(uri), runtime or build_runtime(os.environ)))
    return graph.repair(
        confirm=confirm, force=force, deep=deep, branch=branch, source=source, actor=actor, message=message
    )


def load_runtime(storage: Mapping[str, str] | None = None) -> Runtime:
    """What this process's environment says, with other settings of the object store where they are given."""
    runtime = build_runtime(os.environ)
    return runtime if storage is None else replace(runtime, options=replace(runtime.options, storage=dict(storage)))
