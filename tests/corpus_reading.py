"""Runs the queries of reading cases: through every engine and traversal mode, and through the reference reader.

A case is written by hand from the rules, so it holds both of them to the same answer.
"""

import atexit
import base64
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import omnigraph as og
from corpus_format import Answer, Case
from omnigraph.errors import OmnigraphError
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.options import Traversal
from omnigraph.query.bind import bind_file
from omnigraph.query.expr import ArrayOf, EdgeRef, ExprType, NodeRef, RecordOf
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.params import check_params
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.types import ListOf, Scalar, VectorOf
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, derive_id, format_key, from_json, to_json
from read_seeding import Named, append, new_graph
from reference_reader import PlainGraph, Record, SumOverflowError, answer
from reference_search import UnknownWordError
from schema_making import accepted
from worlds import FAST, runtime

GRAPHS = Path(__file__).parent / "corpus" / "graphs"
ABOUT = "about"
"""`{"about": 0.5}` stands for a float that is as good as that."""
EXACT_IN_JSON = 2**53 - 1


@dataclass(frozen=True)
class Served:
    """A graph with its records, open once for each way to traverse it."""

    catalog: Catalog
    plain: PlainGraph
    handles: Mapping[Traversal, og.Graph]


def failure_of_answers(case: Case, schema: str) -> str | None:
    """What a case's answers are not; None if all of them are as expected."""
    served = _served(schema, _data_of(case))
    query = case.blocks["query"]
    bound = _bound(query, served.catalog)
    for expected in case.answers:
        found: dict[str, _Found | None] = {"the reference": _reference(bound, served.plain, expected)}
        found |= {mode.value: _engine(graph, query, expected) for mode, graph in served.handles.items()}
        found["local"] = _engine(served.handles[Traversal.CSR], query, expected, engine="local")
        for who, got in found.items():
            if got is not None and (problem := _difference(expected, got)):
                return f"{case.path.name}:{expected.line}: {who}: {problem}"
    return None


def failure_of_statement(case: Case, schema: str) -> str | None:
    """What a statement of Cypher answers otherwise than its case expects, in memory or by the local engine."""
    graph = _served(schema, _data_of(case)).handles[Traversal.CSR]
    for expected in case.answers:
        for engine in ("memory", "local"):
            got = _engine(graph, case.blocks["cypher"], expected, engine=engine, is_cypher=True)
            if problem := difference_of_statement(expected, got):
                return f"{case.path.name}:{expected.line}: {engine}: {problem}"
    return None


def difference_of_statement(expected: Answer, found: "_Found") -> str | None:
    """As `_difference`; properties that are null count no more in whole nodes than those that their type lacks."""
    rows = None if expected.rows is None else tuple([_without_nulls(cell) for cell in row] for row in expected.rows)
    shown = tuple([_without_nulls(cell) for cell in row] for row in found.rows)
    return _difference(replace(expected, rows=rows), replace(found, rows=shown))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_whole = "@type" in value
    names = sorted(value) if is_whole else list(value)
    return {name: _without_nulls(value[name]) for name in names if not is_whole or value[name] is not None}


def graph_of_case(case: Case, schema: str) -> str:
    """Where the graph of a case is, made first if need be."""
    return next(iter(_served(schema, _data_of(case)).handles.values())).uri


def schema_of_graph(name: str) -> str:
    """The schema of a shared graph."""
    return (GRAPHS / f"{name}.pg").read_text(encoding="utf-8")


def _data_of(case: Case) -> str:
    if case.graph is None:
        return case.blocks["data"]
    return (GRAPHS / f"{case.graph}.jsonl").read_text(encoding="utf-8")


def _bound(text: str, catalog: Catalog) -> ReadQuery:
    source = Source(text)
    (query,) = bind_file(parse_queries(source).require(source), catalog).require(source)
    assert isinstance(query, ReadQuery)
    return query


# --- graphs --------------------------------------------------------------------------------------


@cache
def _root() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="corpus-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


@cache
def _served(schema: str, data: str) -> Served:
    catalog = accepted(schema)
    records = list(plain_records(catalog, data))
    uri = _root() / f"g{len(list(_root().iterdir()))}"
    append(new_graph(uri, schema), records)
    handles = {
        mode: og.Graph.open(str(uri), is_read_only=True, runtime=runtime(replace(FAST, traversal_mode=mode)))
        for mode in (Traversal.CSR, Traversal.INDEXED)
    }
    nodes: dict[str, list[Record]] = {name: [] for name in catalog.nodes}
    edges: dict[str, list[Record]] = {name: [] for name in catalog.edges}
    for name, record in records:
        (nodes if name in nodes else edges)[name].append(record)
    return Served(catalog, PlainGraph(nodes, edges), handles)


def plain_records(catalog: Catalog, data: str) -> list[Named]:
    """The records of a graph JSONL; a value that does not fit its property fails."""
    found: list[Named] = []
    for line in data.splitlines():
        if line.strip() and not line.startswith("//"):
            given = json.loads(line)
            type_ = catalog.nodes[given["type"]] if "type" in given else catalog.find_edge(given["edge"])
            assert type_ is not None, line
            found.append((type_.name, _record(type_, given)))
    return found


def _record(type_: AnyType, given: Mapping[str, Any]) -> Record:
    data = given.get("data", {})
    assert data.keys() <= type_.by_name.keys(), f"{type_.name} has no {data.keys() - type_.by_name.keys()}"
    values: dict[str, Any] = {}
    for p in type_.properties:
        value = from_json(p.type, data[p.name], nullable=p.nullable) if p.name in data else p.default
        assert not isinstance(value, InvalidValue), f"{type_.name}.{p.name}: {value}"
        assert value is not None or p.nullable, f"{type_.name}.{p.name} is missing"
        is_bytes = p.type is Scalar.BLOB and isinstance(value, str)
        values[p.name] = base64.b64decode(str(value).removeprefix(BASE64_PREFIX)) if is_bytes else value
    ends = {"src": given["from"], "dst": given["to"]} if isinstance(type_, EdgeType) else {}
    if type_.key:
        texts = [
            ends[name] if name in ends else format_key(type_.by_name[name].type, values[name]) for name in type_.key
        ]
        values["@id"] = derive_id(texts)
    else:
        values["@id"] = given["id"]
    return {**values, **{f"@{name}": id_ for name, id_ in ends.items()}}


# --- answers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """What came out, in JSON's terms; or an error's code and message."""

    columns: tuple[str, ...] = ()
    rows: tuple[list[Any], ...] = ()
    failure: tuple[str, str] | None = None


def _engine(
    graph: og.Graph, query: str, expected: Answer, engine: str = "memory", *, is_cypher: bool = False
) -> _Found:
    run = graph.cypher if is_cypher else graph.query
    try:
        result = run(query, params=expected.given, engine=engine)
        columns = tuple(result.columns)
        rows = json.loads(json.dumps(result.to_json(), allow_nan=False))["rows"]
    except OmnigraphError as error:
        return _Found(failure=(error.code, str(error)))
    return _Found(columns, tuple([row[name] for name in columns] for row in rows))


def _reference(query: ReadQuery, plain: PlainGraph, expected: Answer) -> _Found | None:
    """The reference's answer; None where it has no opinion, about refusals and words it does not know."""
    if expected.failure is not None and expected.failure[0] != "aggregate_overflow":
        return None
    try:
        found = answer(query, plain, check_params(query.params, expected.given))
    except SumOverflowError:
        return _Found(failure=expected.failure)
    except UnknownWordError:
        return None
    types = [column.value.type for column in query.output]
    rows = [
        [value if _is_entity(type_) else _json(type_, value) for type_, value in zip(types, row, strict=True)]
        for row in found.rows
    ]
    entities = {place: column.value for place, column in enumerate(query.output) if hasattr(column.value, "fields")}
    for row in rows:
        for place, entity in entities.items():
            kinds = {prop.name: prop.type for prop in entity.fields}
            if row[place] is None:
                continue  # of an optional block without a match
            row[place] = {name: _json(kinds.get(name, Scalar.STRING), value) for name, value in row[place].items()}
    return _Found(found.columns, tuple(rows))


def _is_entity(type_: ExprType) -> bool:
    return isinstance(type_, NodeRef | EdgeRef)


def _json(type_: Any, value: Any) -> Any:
    """A value as a result's JSON has it: an integer that JSON's readers may spoil is a string."""
    if value is None:
        return None
    if isinstance(type_, RecordOf):
        return {name: _json(field, value[name]) for name, field in type_.fields}
    if isinstance(type_, ArrayOf):
        return [_json(type_.element, item) for item in value]
    if _is_entity(type_):
        return {name: _json(_guess_type(item), item) for name, item in value.items()}
    if isinstance(value, tuple | list) and isinstance(type_, ListOf | VectorOf):
        element = type_.element if isinstance(type_, ListOf) else Scalar.F32
        return [_json(element, item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_IN_JSON:
        return str(value)
    return to_json(type_, value)


def _guess_type(value: Any) -> Any:
    """A type whose values look like this: what a property of an object inside a list was declared as is not at hand."""
    match value:
        case tuple() | list():
            return ListOf(_guess_type(value[0]) if value else Scalar.STRING)
        case datetime():
            return Scalar.DATETIME
        case date():
            return Scalar.DATE
        case bool():
            return Scalar.BOOL
        case float():
            return Scalar.F64
        case _:
            return Scalar.I64 if isinstance(value, int) else Scalar.STRING


# --- comparing -------------------------------------------------------------------------------------


def _difference(expected: Answer, found: _Found) -> str | None:
    if expected.failure is not None or found.failure is not None:
        return _failure_difference(expected.failure, found)
    if expected.columns is not None and expected.columns != found.columns:
        return f"the columns are {list(found.columns)}, not {list(expected.columns)}"
    rows = list(expected.rows or ())
    if expected.is_ordered:
        is_same = len(rows) == len(found.rows) and all(map(_is_same, rows, found.rows))
    else:
        is_same = _is_permutation(rows, list(found.rows))
    if is_same:
        return None
    order = "in this order" if expected.is_ordered else "in any order"
    return f"expected {order}:\n{_shown(rows)}\nfound:\n{_shown(found.rows)}"


def _failure_difference(expected: tuple[str, str] | None, found: _Found) -> str | None:
    if expected is None:
        return f"it fails: {found.failure}"
    if found.failure is None:
        return f"it does not fail as {expected[0]}, but answers:\n{_shown(found.rows)}"
    code, message = found.failure
    if code != expected[0] or expected[1] not in message:
        return f"it fails as {code} ({message}), not as {expected[0]} ({expected[1]})"
    return None


def _is_permutation(expected: list[list[Any]], found: list[list[Any]]) -> bool:
    left = list(found)
    for row in expected:
        place = next((at for at, other in enumerate(left) if _is_same(row, other)), None)
        if place is None:
            return False
        del left[place]
    return not left


def _is_same(expected: Any, found: Any) -> bool:
    """Equal in value and in JSON's type: `2` is not `2.0`, and not `true`."""
    if isinstance(expected, dict) and expected.keys() == {ABOUT}:
        return isinstance(found, float) and math.isclose(found, expected[ABOUT], rel_tol=1e-5, abs_tol=1e-9)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return list(expected) == list(found) and all(_is_same(expected[name], found[name]) for name in expected)
    return type(expected) is type(found) and bool(expected == found)


def _shown(rows: Any) -> str:
    return "\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows) or "    no rows"
