"""Rows that break the schema, put there by a tool that knows no schema: `check` finds each, and counts them."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.checking.duplicate_hashes import DuplicateHashes
from omnigraph.engine.checking.edge_integrity import check_ends
from omnigraph.engine.view import View
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.storage.index_staging import build_segment, stage_segments
from worlds import runtime

SCHEMA = """
node P {
  name: String @key
  age: I64?
  mood: enum(good, bad)?
  mail: String?
  size: F64?
  spot: Vector(2)?
  @unique(mail)
  @range(age, 0..200)
  @check(mail, "@")
}
node Q { a: String  b: Date  @key(a, b) }
edge Knows: P -> P
edge Works: P -> Q @card(0..1)
edge Owns: P -> Q @card(1..2)
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph of two people that keeps all rules."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    records: list[dict[str, Any]] = [{"type": "P", "data": {"name": one, "mail": f"{one}@x"}} for one in ("a", "b")]
    records += [{"type": "Q", "data": {"a": "x", "b": "2026-01-01"}}]
    records += [{"edge": "Owns", "from": one, "to": '["x","2026-01-01"]'} for one in ("a", "b")]
    graph.load(records, mode="append")
    return open_session(graph.uri, is_read_only=False, runtime=runtime())


def planted(session: Session, key: str, *rows: dict[str, Any]) -> None:
    """Append rows without asking anybody."""
    snapshot = session.resolve_snapshot()
    type_ = session.load_catalog(snapshot).find_type(key.partition(":")[2])
    assert type_ is not None
    schema = build_arrow_schema(type_)
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    write_tables(session, [TableWrite(table_key=key, append=table)], operation="plant", actor="test")


def found(session: Session, *, deep: bool = False) -> list[Finding]:
    return list(og.check_graph(session.uri, deep=deep, runtime=runtime()).findings)


def person(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, **more}


OWNED = {"id": "o-c", "src": "c", "dst": '["x","2026-01-01"]'}
"""What a third person needs to keep `@card(1..2)`."""


def test_rows_that_keep_all_rules_give_no_finding(session: Session) -> None:
    assert found(session, deep=True) == []


def test_an_id_that_is_there_twice_is_found(session: Session) -> None:
    planted(session, "node:P", person("a", mail="other@x"))

    (finding,) = found(session)

    assert (finding.code, finding.count, finding.thing) == ("id_repeated", 1, "node:P")
    assert finding.message == "P 'a' is there twice"


def test_an_id_that_is_not_that_of_its_key_is_found(session: Session) -> None:
    planted(session, "node:Q", {"id": "wrong", "a": "y", "b": date(2026, 2, 3)})

    (finding,) = found(session)

    assert finding.code == "id_not_of_key"
    assert finding.message == """Q 'wrong' has the key of '["y","2026-02-03"]'"""


def test_edges_without_nodes_are_found_at_both_ends(session: Session) -> None:
    planted(session, "edge:Knows", {"id": "k1", "src": "a", "dst": "zed"}, {"id": "k2", "src": "zoe", "dst": "zed"})

    (finding,) = found(session)

    assert (finding.code, finding.count) == ("end_missing", 3)
    assert "Knows.from: no P 'zoe' (the edge 'k2')" in finding.message


def test_values_that_are_held_twice_are_found(session: Session) -> None:
    planted(session, "node:P", person("c", mail="a@x"))
    planted(session, "edge:Owns", OWNED)

    (finding,) = found(session)

    assert finding.code == "unique_broken"
    assert finding.message == "@unique violation on P.mail: 'a@x' is held by 'a' and 'c'"


def test_a_null_is_held_by_nobody(session: Session) -> None:
    planted(session, "node:P", person("c"), person("d"))
    planted(session, "edge:Owns", OWNED, {**OWNED, "id": "o-d", "src": "d"})

    assert found(session) == []


def test_too_many_and_too_few_edges_are_found(session: Session) -> None:
    target = '["x","2026-01-01"]'
    planted(session, "node:P", person("c"))
    planted(session, "edge:Works", *({"id": f"w{n}", "src": "a", "dst": target} for n in range(2)))

    findings = found(session)

    assert [(one.code, one.message) for one in findings] == [
        ("card_broken", "@card violation on Owns: 'c' has 0 edges (min 1)"),
        ("card_broken", "@card violation on Works: 'a' has 2 edges (max 1)"),
    ]


@pytest.mark.parametrize(
    "values, message",
    [
        ({"age": 201}, "@range violation on P.age: 201 > max 200"),
        ({"mood": "odd"}, "invalid enum value 'odd' for P.mood (expected: good, bad)"),
        ({"mail": "nowhere"}, "@check violation on P.mail: 'nowhere' does not match \"@\""),
    ],
)
def test_values_that_break_a_rule_are_found(values: dict[str, Any], message: str, session: Session) -> None:
    planted(session, "node:P", person("c", **values))
    planted(session, "edge:Owns", OWNED)

    (finding,) = found(session)

    assert (finding.code, finding.message, finding.count) == ("value_broken", message, 1)


def test_a_deep_check_finds_numbers_that_are_none(session: Session) -> None:
    planted(session, "node:P", person("c", size=float("nan"), spot=[1.0, float("inf")]))
    planted(session, "edge:Owns", OWNED)

    shallow, deep = found(session), found(session, deep=True)

    assert shallow == []
    assert [(one.code, one.count) for one in deep] == [("value_broken", 2)]


def test_many_offenders_are_one_finding_with_a_few_examples(session: Session) -> None:
    planted(session, "edge:Knows", *({"id": f"k{n}", "src": "a", "dst": f"no{n}"} for n in range(40)))

    (finding,) = found(session)

    assert finding.count == 40
    assert finding.message.endswith(" and 35 more")


def test_an_index_that_does_not_find_what_is_there_is_found_and_dropped(session: Session) -> None:
    planted(session, "node:P", person("c"), person("d"))
    planted(session, "edge:Owns", OWNED, {**OWNED, "id": "o-d", "src": "d"})
    table = session.open_tables(session.resolve_snapshot()).open_table("node:P")
    first, second = (one.number for one in table.list_fragments())
    segment = json.loads(build_segment(table, "id", "BTREE", "id_btree", [first]))
    lying = json.dumps({**segment, "fragment_ids": [first, second]})
    move = Move(table_key="node:P", staged=stage_segments(table, [lying], []))
    publish(session.log, session.handles, CommitPlan(base=session.head(), operation="x", actor="t", moves=(move,)))

    (before,) = found(session)
    repaired = og.repair_graph(session.uri, confirm=True, runtime=runtime())

    assert before.code == "index_disagrees"
    assert "misses 2" in before.message
    assert [one.plan.dropped_indexes for one in repaired.tables] == [("id_btree",)]
    assert found(session) == []


def test_ends_are_found_in_blocks_of_any_size(session: Session) -> None:
    planted(session, "node:P", *(person(f"n{n}") for n in range(300)))
    planted(session, "edge:Knows", *({"id": f"k{n}", "src": f"n{n}", "dst": f"n{2 * n}"} for n in range(300)))
    snapshot = session.resolve_snapshot()
    view = View(session.load_catalog(snapshot), session.open_tables(snapshot))
    edge = view.catalog.edges["Knows"]

    found_in = [check_ends(view, edge, block=block) for block in (1, 10, 1_000)]

    assert found_in[0] == found_in[1] == found_in[2]
    assert found_in[0][0].count == 150


@pytest.mark.parametrize("held", [1, 7, 1_000_000])
def test_hashes_that_come_twice_are_found_in_memory_and_on_disk(held: int) -> None:
    random = np.random.default_rng(7)
    hashes = random.integers(0, 2**64, 500, dtype=np.uint64)
    twice = np.sort(hashes[:20])

    with DuplicateHashes(held) as repeated:
        for part in np.array_split(np.concatenate([hashes, twice]), 13):
            repeated.add(part)
        shared = repeated.find_duplicates()

    assert shared.tolist() == twice.tolist()


def test_what_was_put_on_disk_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    class Watched(TempDirectory):
        def __init__(self, prefix: str) -> None:
            super().__init__(prefix)
            made.append(self.directory)

    monkeypatch.setattr("omnigraph.engine.checking.duplicate_hashes.TempDirectory", Watched)

    with DuplicateHashes(2) as repeated:
        repeated.add(np.arange(10, dtype=np.uint64))
        assert made[0].exists()

    assert not made[0].exists()
