"""The Python door: make and open graphs with the settings of this process's environment.

`omnigraph.create_graph` and `omnigraph.open_graph` are these two. They are here and not beside `Graph`, because the
engine never reads the environment: whoever needs other settings, such as a test, hands in a `Runtime`.
"""

import os
from collections.abc import Mapping
from dataclasses import replace

from omnigraph.config.environment import runtime_from
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.runtime import Runtime


def create_graph(uri: str, schema: str | Source, *, actor: str = "anonymous", runtime: Runtime | None = None) -> Graph:
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
    source = schema if isinstance(schema, Source) else Source(schema, "schema.pg")
    return Graph.create(uri, source, actor=actor, runtime=runtime or runtime_from(os.environ))


def open_graph(
    uri: str, *, read_only: bool = False, keep_derived: bool | None = None, runtime: Runtime | None = None
) -> Graph:
    """Open a graph that exists.

    Opened for writing, the remains of operations that died are cleared up first; read-only, nothing of the graph is
    written ever.

    Args:
        uri: A path, `file://…` or `s3://bucket/prefix`.
        read_only: Refuse every write.
        keep_derived: Whether reads may keep what they derived at some expense (adjacency, words) beside the tables, for
            the next process. It is no part of the graph, and nothing goes wrong where it can't be written. None:
            unless the graph is opened read-only.
        runtime: Settings, clock and the like; without it those of this process's environment.

    Raises:
        NotAGraphError: There is no graph.
        FormatRefusedError: It was written in another format; the message says the way over.
        BadUriError: No graph can be stored at such an address.
    """
    settings = runtime or runtime_from(os.environ)
    return Graph.open(uri, is_read_only=read_only, runtime=settings, keep_derived=keep_derived)


def runtime_here(storage: Mapping[str, str] | None = None) -> Runtime:
    """What this process's environment says, with other settings of the object store where they are given."""
    runtime = runtime_from(os.environ)
    return runtime if storage is None else replace(runtime, options=replace(runtime.options, storage=dict(storage)))
