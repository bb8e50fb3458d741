"""Tables with a past, for the tests of reads: several fragments, holes, moved rows; and what they should hold."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.view import View
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.storage.index_staging import stage_index
from query.predicates import random_rows
from worlds import FAST, runtime

SCHEMA = """
node P {
  age: I32?
  rank: I32
  score: F32?
  name: String?
  code: String
  color: enum(red, green)?
  ok: Bool?
  tags: [String]?
  born: Date?
  seen: DateTime?
  place: Vector(3)?
}
edge E: P -> P { weight: I64? }
"""
NODES, EDGES = "node:P", "edge:E"
IDS = ("a", "b", "é", "日本", "long id with 'quotes' and \"more\"", "e", "f", "g", "h", "i", "j", "k")

Model = dict[str, dict[str, Any]]


def new_session(root: Path | str, options: Options = FAST) -> Session:
    """A graph with no rows."""
    return create(str(root), Source(SCHEMA, "rows.pg"), actor="test", runtime=runtime(options))


def view_of(session: Session) -> View:
    """The newest snapshot."""
    snapshot = session.resolve_snapshot()
    return View(session.load_catalog(snapshot), session.open_tables(snapshot))


def rows_of(session: Session, name: str = "P", cache: GraphCache | None = None) -> TableReader:
    """The rows of a type in the newest snapshot."""
    view = view_of(session)
    return (cache or session.reads).get_reader(view, view.get_type(name))


def budget() -> Budget:
    """One without limits."""
    return Budget(SystemClock())


def live_rows(random: Random, ids: Sequence[str]) -> Model:
    """A random row for each id."""
    made = random_rows(random.randrange(2**32), len(ids), ("p",))
    return {
        row_id: {
            **{name: list(value) if isinstance(value, tuple) else value for (_, name), value in row.items()},
            "born": None,
            "seen": None,
            "place": random.choice([None, [1.0, 2.0, random.choice([0.5, 3.0])]]),
        }
        for row_id, row in zip(ids, made, strict=True)
    }


def table_of(session: Session, rows: Model, name: str = "P") -> pa.Table:
    """Rows in the columns of a type's table."""
    view = view_of(session)
    return pa.Table.from_pylist(
        [{"id": row_id, **row} for row_id, row in rows.items()], build_arrow_schema(view.get_type(name))
    )


def write(session: Session, key: str, **what: Any) -> None:
    """One commit of one table: `append`, `upsert`, `delete` or `overwrite`."""
    write_tables(session, [TableWrite(table_key=key, **what)], operation="w", actor="test")


def random_history(session: Session, seed: int, steps: int) -> Model:
    """Commits that append, replace and delete nodes; what is there then."""
    random = Random(seed)
    model: Model = {}
    for _ in range(steps):
        absent = [row_id for row_id in IDS if row_id not in model]
        kind = random.choice(["append", "append", "upsert", "delete"])
        if kind == "append" and absent:
            new = live_rows(random, random.sample(absent, random.randint(1, min(4, len(absent)))))
            write(session, NODES, append=table_of(session, new))
            model.update(new)
        elif kind == "upsert" and model:
            changed = live_rows(random, random.sample(sorted(model), random.randint(1, min(3, len(model)))))
            write(session, NODES, upsert=table_of(session, changed))
            model.update(changed)
        elif kind == "delete" and model:
            gone = random.sample(sorted(model), random.randint(1, min(3, len(model))))
            write(session, NODES, delete=gone)
            for row_id in gone:
                del model[row_id]
    return model


def add_index(session: Session, column: str, kind: str = "BTREE", fragments: list[int] | None = None) -> None:
    """Publish an index `<column>_index` of the nodes, over these fragments or all."""
    table = view_of(session).tables.open_table(NODES)
    staged = stage_index(table, column, kind, f"{column}_index", fragments=fragments)
    move = Move(table_key=NODES, staged=staged)
    publish(session.log, session.handles, CommitPlan(base=session.head(), operation="x", actor="test", moves=(move,)))
