"""Short ways to load records in tests, and to look at what is left behind."""

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.ops.load import GraphSource, LoadCall, LoadError, LoadInput, LoadMode, LoadResult, load

Record = Mapping[str, Any]


def node(type_: str, id: str | None = None, /, **data: object) -> Record:
    """A node's record."""
    return {"type": type_, **({} if id is None else {"id": id}), "data": data}


def edge(type_: str, source: str, target: str, id: str | None = None, /, **data: object) -> Record:
    """An edge's record."""
    return {"edge": type_, "from": source, "to": target, **({} if id is None else {"id": id}), "data": data}


def person(name: str, **data: object) -> Record:
    """A person of the schema in `mutating`."""
    return node("Person", name=name, **data)


def text_of(records: Iterable[Record | str]) -> bytes:
    """Graph JSONL; a text is a line as it is."""
    return b"".join((one if isinstance(one, str) else json.dumps(one)).encode() + b"\n" for one in records)


def source(*records: Record | str, name: str = "in.jsonl") -> GraphSource:
    """An input of these records, read once."""
    return GraphSource(data=io.BytesIO(text_of(records)), name=name)


def loaded(
    graph: og.Graph, mode: LoadMode | str, *records: Record | str, inputs: LoadInput | None = None, **options: Any
) -> LoadResult:
    """Load records."""
    given = inputs or LoadInput(graph=(source(*records),))
    return load(graph._session, LoadCall(input=given, mode=LoadMode(mode), **{"actor": "test", **options}))


def refused(graph: og.Graph, mode: LoadMode | str, *records: Record | str, **options: Any) -> list[str]:
    """The problems of a load that is refused, each as a line."""
    try:
        result = loaded(graph, mode, *records, **options)
    except LoadError as error:
        return [str(problem) for problem in error.problems]
    raise AssertionError(f"it was loaded: {result}")


def files_below(graph: og.Graph) -> set[str]:
    """Every file of a graph."""
    root = Path(graph.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
