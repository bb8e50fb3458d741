"""The pure parts: lineage, verdicts, folding the past."""

import random
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from omnigraph.clock import parse_instant
from omnigraph.commit.commit_plan import CommitPlan, NewTable
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import MAX_SEALED_ROWS, _find_first_merged
from omnigraph.commit.manifest_types import SchemaRecord, TableRecord
from omnigraph.commit.merge_base import find_ancestors, find_merge_base, find_merge_bases
from omnigraph.commit.publisher import publish
from omnigraph.commit.requirements import TableUnchanged
from omnigraph.commit.sidecar import Sidecar
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.commit.verdict import Verdict, judge
from omnigraph.errors import BadArgumentError
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability, Options
from raised_codes import has_code
from worlds import FAST, new_world, reopened, rows, seeded_world

DAG = {"1": [], "2": ["1"], "3": ["2"], "4": ["2"], "5": ["3", "4"], "6": ["4", "3"], "7": ["5"], "x": []}


@pytest.mark.parametrize(
    "left, right, base",
    [("3", "4", "2"), ("3", "3", "3"), ("5", "3", "3"), ("2", "5", "2"), ("1", "7", "1"), ("7", "x", None)],
)
def test_the_merge_base_is_the_nearest_common_ancestor(left: str, right: str, base: str | None) -> None:
    assert find_merge_base(left, right, DAG.__getitem__) == base


def test_of_two_best_common_ancestors_the_later_is_first() -> None:
    """A criss-cross: both 3 and 4 are merged into both sides."""
    assert find_merge_bases("5", "6", DAG.__getitem__) == ("4", "3")
    assert find_merge_base("5", "6", DAG.__getitem__) == "4"


def test_a_merge_base_agrees_with_its_definition_on_random_histories() -> None:
    choice = random.Random(7)
    for _ in range(200):
        parents: dict[str, list[str]] = {}
        names = [f"{n:03}" for n in range(choice.randint(2, 25))]
        for n, name in enumerate(names):
            parents[name] = choice.sample(names[:n], k=min(n, choice.randint(0, 2)))
        left, right = choice.choice(names), choice.choice(names)
        common = find_ancestors(left, parents.__getitem__) & find_ancestors(right, parents.__getitem__)
        best = {c for c in common if not any(c != o and c in find_ancestors(o, parents.__getitem__) for o in common)}

        assert find_merge_bases(left, right, parents.__getitem__) == tuple(sorted(best, reverse=True))


def test_a_long_history_needs_no_recursion() -> None:
    assert find_merge_base("50000", "49999", lambda name: [str(int(name) - 1)] if name != "0" else []) == "49999"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=60)


def sidecar(state: str = "running") -> Sidecar:
    return Sidecar(
        id="o", commit_id="c", branch="main", manifest_path="__manifest", base_seq=0, operation="w", actor="a",
        started_at="", state="abandoned" if state == "abandoned" else "running",
    )  # fmt: skip


@pytest.mark.parametrize(
    "state, is_committed, age, verdict",
    [
        ("running", True, 0, Verdict.ROLLED_FORWARD),
        ("running", True, 900, Verdict.ROLLED_FORWARD),
        ("abandoned", True, 900, Verdict.ROLLED_FORWARD),
        ("running", False, 0, Verdict.IN_FLIGHT),
        ("running", False, 60, Verdict.IN_FLIGHT),
        ("running", False, 61, Verdict.ROLLED_BACK),
        ("abandoned", False, 0, Verdict.ROLLED_BACK),
        ("running", False, -30, Verdict.IN_FLIGHT),
    ],
)
def test_a_verdict_follows_from_the_facts(state: str, is_committed: bool, age: int, verdict: Verdict) -> None:
    found = judge(
        sidecar(state), is_committed=is_committed, renewed_at=NOW - timedelta(seconds=age), now=NOW, lease=LEASE
    )

    assert found is verdict


SEALING = Options(durability=Durability.OS, head_commits=4, sealed_fragments=3)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = new_world(tmp_path_factory.mktemp("long") / "g", SEALING)
    for number in range(40):
        actor = "even" if number % 2 == 0 else "odd"
        write_tables(session, [TableWrite(table_key="node:A", upsert=rows({"n": number}))], operation="w", actor=actor)
    return session


def test_every_commit_of_the_past_reads_as_it_was(long: Session) -> None:
    history = list(long.log.iter_history(long.head()))[::-1]

    for commit in history[1:]:
        past = long.resolve_snapshot(commit_id=commit.id)
        value = long.open_tables(past).open_table("node:A").scan(["v"])["v"].to_pylist()
        assert value == [commit.seq - 1]
        assert past.commit == commit
    assert len(history) == 41


def test_an_instant_reads_the_newest_commit_made_by_then(long: Session) -> None:
    commit = list_commits(long)[17]

    assert long.resolve_snapshot(at=parse_instant(commit.at)).commit.id == commit.id


def test_a_time_before_the_graph_is_not_found(long: Session) -> None:
    with pytest.raises(CommitMissingError, match="no commit as early as 2000-01-01T00:00:00Z;"):
        long.resolve_snapshot(at=datetime(2000, 1, 1, tzinfo=UTC))


def test_an_unknown_commit_is_not_found(long: Session) -> None:
    with pytest.raises(CommitMissingError, match="nothere"):
        show_commit(long, "nothere")


def test_commits_can_be_filtered_and_limited(long: Session) -> None:
    odd = list_commits(long, filters={"actor": "odd"}, limit=5)

    assert [commit.seq for commit in odd] == [40, 38, 36, 34, 32]
    assert list_commits(long, filters={"operation": "init"})[0].seq == 0
    assert list_commits(long, filters={"since": odd[-1].at, "actor": "odd"}) == odd


@pytest.mark.parametrize("filters", [{"colour": "red"}, {"since": "yesterday"}])
def test_a_filter_that_makes_no_sense_is_refused(filters: dict[str, str], long: Session) -> None:
    with pytest.raises(BadArgumentError, check=has_code("bad_filter")):
        list_commits(long, filters=filters)


def test_sealed_fragments_are_merged_and_stay_few(long: Session) -> None:
    assert long.head().table.sealed_count <= SEALING.sealed_fragments + 1


def test_sealed_fragments_stay_few_however_long_the_history_is() -> None:
    limit, sizes = 32, list[int]()
    rewritten = 0
    for _ in range(20_000):
        first = _find_first_merged(sizes, 128) if len(sizes) >= limit else len(sizes)
        rewritten += sum(sizes[first:])
        sizes = [*sizes[:first], sum(sizes[first:]) + 128]

    assert sum(sizes) == 20_000 * 128
    assert len(sizes) <= limit + sum(sizes) // MAX_SEALED_ROWS
    assert rewritten <= 4 * sum(sizes)


def test_the_past_of_a_name_that_was_dropped_and_used_again_is_that_of_the_old_table(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    columns = session.open_tables(session.resolve_snapshot()).open_table("node:A").schema
    seeded = session.resolve_snapshot()
    again = TableRecord(table_key="node:A", path="nodes/0-2", identity=77, incarnation=2)

    dropped = change_schema(session, "second", dropped_tables=("node:A",))
    created = change_schema(session, "third", new_tables=(NewTable(record=again, schema=columns),))
    write_tables(session, [TableWrite(table_key="node:A", append=rows({"z": 26}))], operation="w", actor="x")

    opened = reopened(session)
    assert opened.open_tables(opened.resolve_snapshot()).open_table("node:A").scan(["v"])["v"].to_pylist() == [26]
    assert opened.resolve_snapshot().manifest.dropped == {}
    assert opened.resolve_snapshot(commit_id=created).pin("node:A").rows == 0
    assert opened.resolve_snapshot(commit_id=created).manifest.tables["node:A"] == again
    assert "node:A" not in opened.resolve_snapshot(commit_id=dropped).pins
    past = opened.resolve_snapshot(commit_id=seeded.commit.id)
    assert past.pins == seeded.pins
    assert past.manifest.tables == seeded.manifest.tables
    assert past.manifest.schema == seeded.manifest.schema


def test_a_schema_of_the_past_is_found_after_it_was_sealed(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g", SEALING)
    seeded = session.resolve_snapshot()
    for number in range(12):
        change_schema(session, f"schema-{number}")

    opened = reopened(session, SEALING)
    past = [opened.resolve_snapshot(commit_id=commit.id).manifest.schema.id for commit in list_commits(opened)]

    assert past == [*(f"schema-{number}" for number in reversed(range(12))), *[seeded.manifest.schema.id] * 2]
    assert opened.resolve_snapshot(commit_id=seeded.commit.id).manifest.schema == seeded.manifest.schema


def test_a_write_that_was_planned_on_another_schema_is_a_conflict(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    base = session.head()
    change_schema(reopened(session), "second")

    with pytest.raises(ConflictError, match="the schema was changed"):
        write_tables(
            session, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x", base=base
        )


@pytest.mark.parametrize("touched, is_conflict", [("node:A", True), ("node:B", False)])
def test_a_schema_conflicts_with_writes_to_the_tables_that_it_touches(
    touched: str, is_conflict: bool, tmp_path: Path
) -> None:
    session = seeded_world(tmp_path / "g")
    schema = SchemaRecord(id="second", source="", catalog="", fingerprint="")
    unchanged = (TableUnchanged(table_key=touched),)
    plan = CommitPlan(base=session.head(), operation="schema", actor="x", schema=schema, requirements=unchanged)
    other = reopened(session)
    write_tables(other, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x")

    with pytest.raises(ConflictError, match="node:A") if is_conflict else nullcontext():
        publish(session.log, session.handles, plan)

    assert (session.resolve_snapshot().manifest.schema.id == "second") == (not is_conflict)
    assert session.resolve_snapshot().pin("node:A").rows == 5


def change_schema(session: Session, schema_id: str, **changes: Any) -> str:
    schema = SchemaRecord(id=schema_id, source="", catalog="", fingerprint="")
    plan = CommitPlan(base=session.head(), operation="schema", actor="x", schema=schema, **changes)
    return publish(session.log, session.handles, plan).commit.id


def test_a_plan_moves_a_table_once(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    twice = [TableWrite(table_key="node:A", append=rows({name: 1})) for name in "xy"]

    with pytest.raises(ValueError, match="once"):
        write_tables(session, twice, operation="w", actor="x")


def test_a_new_graph_has_one_commit(tmp_path: Path) -> None:
    session = new_world(tmp_path / "g", FAST)

    assert [(commit.operation, commit.seq, commit.parent) for commit in list_commits(session)] == [("init", 0, None)]


def test_a_write_without_effect_publishes_nothing(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    before = session.head().snapshot.commit.id

    done = write_tables(session, [TableWrite(table_key="node:A", delete=["nobody"])], operation="w", actor="x")

    assert done is None
    assert session.head().snapshot.commit.id == before
