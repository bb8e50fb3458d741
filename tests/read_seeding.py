"""Plain records into a graph, along different histories that all end the same: rows in pieces, with holes, rewritten.

Indexes can be there for nothing, for the earlier rows, or for all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import EnumOf, Scalar, ValueType
from omnigraph.storage.index_staging import stage_index
from read_worlds import TypeSpec, World, pair_id
from reference_reader import PlainGraph, Record
from upkeep_calls import eager
from worlds import FAST, runtime

JUNK = "~"
"""What the ids of rows that are deleted again start with."""


class Past(Enum):
    """How a table came to hold its rows."""

    ONE_WRITE = "one write"
    PIECES = "pieces"
    """Three appends: three fragments."""
    HOLES = "holes"
    """Other rows were between these, and are deleted."""
    GONE = "gone"
    """The first write of each table held other rows alone, and these are deleted: its fragment is gone."""
    REWRITTEN = "rewritten"
    """Every second row had other values once."""


class Indexes(Enum):
    """What is indexed."""

    NONE = "none"
    PARTIAL = "partial"
    """The rows of the first write."""
    COMPLETE = "complete"


@dataclass(frozen=True)
class Arm:
    """One way to bring a graph into being."""

    past: Past = Past.ONE_WRITE
    indexes: Indexes = Indexes.NONE
    is_optimized: bool = False
    """Whether it is optimised after every commit, with an index declared on everything that can have one."""


def grown(
    root: Path | str,
    world: World,
    arm: Arm = Arm(),  # noqa: B008 - frozen
    options: Options = FAST,
) -> Iterator[tuple[Session, PlainGraph]]:
    """A new graph and what it holds, after each of its commits; in the end it holds exactly the world's records."""
    schema = world.indexed_schema if arm.is_optimized else world.schema
    session = new_graph(root, schema, eager(options) if arm.is_optimized else options)
    held: dict[tuple[str, str], Record] = {}
    stages = _stages(world, arm.past)
    for stage in stages:
        stage.apply(session)
        stage.note(held)
        is_first, is_last = stage is stages[0], stage is stages[-1]
        if (arm.indexes is Indexes.PARTIAL and is_first) or (arm.indexes is Indexes.COMPLETE and is_last):
            index_all(session)
        if arm.is_optimized:
            done = optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True)))
            assert not done.has_failed, done
        yield session, _plain(world, held)


def seed(root: Path | str, world: World, arm: Arm = Arm(), options: Options = FAST) -> Session:  # noqa: B008 - frozen
    """A new graph that holds exactly the world's records."""
    return list(grown(root, world, arm, options))[-1][0]


def _plain(world: World, held: Mapping[tuple[str, str], Record]) -> PlainGraph:
    found: dict[str, list[Record]] = {name: [] for name in world.types}
    for (name, _), record in held.items():
        found[name].append(record)
    return PlainGraph(
        {name: found[name] for name, spec in world.types.items() if not spec.is_edge},
        {name: found[name] for name, spec in world.types.items() if spec.is_edge},
    )


def new_graph(root: Path | str, schema: str, options: Options = FAST) -> Session:
    """An empty graph."""
    return create(str(root), Source(schema, "world.pg"), actor="test", runtime=runtime(options))


# --- histories -----------------------------------------------------------------------------------

Named: TypeAlias = tuple[str, Record]
"""A record with the name of its type."""


@dataclass(frozen=True)
class Stage:
    """One commit: rows to append, to replace, and to delete."""

    action: Literal["append", "upsert", "delete"]
    records: Sequence[Named]

    def apply(self, session: Session) -> None:
        """Commit it."""
        match self.action:
            case "append":
                append(session, self.records)
            case "upsert":
                upsert(session, self.records)
            case "delete":
                delete(session, self.records)

    def note(self, held: dict[tuple[str, str], Record]) -> None:
        """Do the same to what is held."""
        for name, record in self.records:
            if self.action == "delete":
                del held[name, record["@id"]]
            else:
                held[name, record["@id"]] = record


def _stages(world: World, past: Past) -> list[Stage]:
    """Commits that end with the world's records; no edge is ever without its nodes."""
    records = [(spec.name, record) for spec, record in world.records()]
    nodes = [pair for pair in records if not world.types[pair[0]].is_edge]
    edges = [pair for pair in records if world.types[pair[0]].is_edge]
    match past:
        case Past.ONE_WRITE:
            return [Stage("append", records)]
        case Past.PIECES:
            return [
                Stage("append", nodes[::2]),
                Stage("append", nodes[1::2] + edges[::2]),
                Stage("append", edges[1::2]),
            ]
        case Past.HOLES:
            junk = _junk(world)
            mixed = [*_mixed(nodes, junk, world, is_edge=False), *_mixed(edges, junk, world, is_edge=True)]
            half = len(mixed) // 2
            return [Stage("append", mixed[:half]), Stage("append", mixed[half:]), Stage("delete", junk)]
        case Past.GONE:
            junk = _junk(world)
            first = [pair for pair in junk if not world.types[pair[0]].is_edge]
            others = [pair for pair in junk if world.types[pair[0]].is_edge]
            return [
                Stage("append", first),
                Stage("append", nodes + others),
                Stage("append", edges),
                Stage("delete", junk),
            ]
        case Past.REWRITTEN:
            before = {id(record): _other(world.types[name], record, records) for name, record in records}
            old = [(name, before[id(record)] if at % 2 else record) for at, (name, record) in enumerate(records)]
            return [Stage("append", old), Stage("upsert", records[1::2])]


def _mixed(records: Sequence[Named], junk: Sequence[Named], world: World, *, is_edge: bool) -> list[Named]:
    """Records and those to be deleted, in turns."""
    other = [pair for pair in junk if world.types[pair[0]].is_edge is is_edge]
    longest = max(len(records), len(other))
    return [pair for at in range(longest) for pair in (*other[at : at + 1], *records[at : at + 1])]


def _junk(world: World) -> list[Named]:
    """For each record another of its type, with an id of its own; edges leave from such nodes where there are any."""
    found: dict[tuple[str, str], Record] = {}
    for number, (spec, record) in enumerate(world.records()):
        made = {**record, "@id": f"{JUNK}{number}"}
        if spec.key == "z":
            made |= {"@id": str(1_000 + number), "z": 1_000 + number}
        elif spec.key == "k":
            made["k"] = made["@id"]
        elif spec.key == "pair":
            made |= {"@id": pair_id(str(1_000 + number), record["s"]), "n": 1_000 + number}
        if spec.is_edge:
            sources = [id_ for name, id_ in found if name == spec.source]
            if number % 2 or spec.key == "ends":
                made["@src"] = sources[number % len(sources)]
            if spec.key == "ends":
                made["@id"] = pair_id(made["@src"], made["@dst"])
        found[spec.name, made["@id"]] = made
    return [(name, record) for (name, _), record in found.items()]


def _other(spec: TypeSpec, record: Record, records: Iterable[Named]) -> Record:
    """The same row with the properties, and the ends, of the last one of its type."""
    last = [other for name, other in records if name == spec.name][-1]
    kept = {name: record[name] for name in ("@id", *spec.key_properties)}
    if spec.key == "ends":
        kept |= {"@src": record["@src"], "@dst": record["@dst"]}
    return {**last, **kept}


# --- rows ------------------------------------------------------------------------------------------


def append(session: Session, records: Sequence[Named]) -> None:
    """Add rows, in one commit."""
    rows = named_rows(session, records)
    _commit(session, {key: TableWrite(table_key=key, append=table) for key, table in rows.items()})


def upsert(session: Session, records: Sequence[Named]) -> None:
    """Replace rows by id, in one commit."""
    rows = named_rows(session, records)
    _commit(session, {key: TableWrite(table_key=key, upsert=table) for key, table in rows.items()})


def delete(session: Session, records: Sequence[Named]) -> None:
    """Delete rows by id, in one commit."""
    ids: dict[str, list[str]] = {}
    for name, record in records:
        ids.setdefault(_type_of(session, name).table_key, []).append(record["@id"])
    _commit(session, {key: TableWrite(table_key=key, delete=some) for key, some in ids.items()})


def _commit(session: Session, writes: Mapping[str, TableWrite]) -> None:
    if writes:
        write_tables(session, list(writes.values()), operation="seed", actor="test")


def named_rows(session: Session, records: Sequence[Named]) -> dict[str, pa.Table]:
    """Records as rows of their tables, by the tables' keys."""
    by_type: dict[str, list[Record]] = {}
    for name, record in records:
        by_type.setdefault(name, []).append({column.removeprefix("@"): value for column, value in record.items()})
    types = {name: _type_of(session, name) for name in by_type}
    return {
        type_.table_key: pa.Table.from_pylist(by_type[name], schema=build_arrow_schema(type_))
        for name, type_ in types.items()
    }


def _type_of(session: Session, name: str) -> AnyType:
    found = session.load_catalog(session.resolve_snapshot()).find_type(name)
    assert found is not None, name
    return found


# --- indexes ---------------------------------------------------------------------------------------


def index_all(session: Session) -> None:
    """Index every column that can be: its id and ends, scalars, and full text beside."""
    catalog = session.load_catalog(session.resolve_snapshot())
    types: list[AnyType] = [*catalog.nodes.values(), *catalog.edges.values()]
    for type_ in types:
        columns = ["id", *(["src", "dst"] if isinstance(type_, EdgeType) else [])]
        columns += [p.name for p in type_.properties if _has_btree(p.type)]
        for column in columns:
            build_index(session, type_, column, "BTREE")
        for p in type_.properties:
            if p.type is Scalar.STRING:
                build_index(session, type_, p.name, "INVERTED")


def build_index(session: Session, type_: AnyType, column: str, kind: str) -> None:
    """Build one index over all fragments that are there now, and publish it."""
    table = session.open_tables(session.resolve_snapshot()).open_table(type_.table_key)
    if table.count() == 0:
        return
    staged = stage_index(table, column, kind, f"{column}_{kind.lower()}")
    plan = CommitPlan(
        base=session.head(), operation="reindex", actor="test", moves=(Move(table_key=type_.table_key, staged=staged),)
    )
    publish(session.log, session.handles, plan)


def _has_btree(type_: ValueType) -> bool:
    return isinstance(type_, EnumOf) or (isinstance(type_, Scalar) and type_ is not Scalar.BLOB)
