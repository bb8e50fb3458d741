"""Blocks run set at a time: solved once for the distinct values they read, and joined back, nulls included."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine import block_steps, executor
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import execute
from omnigraph.engine.operators.block_join import Seeds, build_seeds, join_matches, unite_matches
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.output.block_values import fold_block
from omnigraph.engine.physical_plan import (
    SEED,
    BindValue,
    Check,
    Compact,
    LeftJoin,
    PhysicalPlan,
    SemiJoin,
    Step,
    UnionJoin,
    iter_steps,
)
from omnigraph.engine.planning import outer_reads
from omnigraph.engine.planning.explain import build_plan_json, format_plan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.scalar_eval import OverflowLog
from solving import LARGE, Solver, random_records, seeded

USERS = 3_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("blocks") / "g", random_records(7, USERS, 9_000))


def planned(solver: Solver, text: str) -> PhysicalPlan:
    return plan_read(solver.query(f"query q() {{ {text} }}"), solver.reading())


def answered(
    solver: Solver, text: str, *, chunk_rows: int = LARGE, memory_bytes: int | None = None
) -> list[dict[str, Any]]:
    query = solver.query(f"query q() {{ {text} }}")
    reading = solver.reading(budget=Budget(SystemClock(), memory_bytes=memory_bytes))
    found = execute(query, plan_read(query, reading), reading, chunk_rows=chunk_rows)
    rows: list[dict[str, Any]] = found.fetch(0, found.size).to_pylist()
    return rows


def steps_of(plan: PhysicalPlan, kind: type[Step]) -> list[Step]:
    return [step for step in iter_steps(plan.steps) if isinstance(step, kind)]


# --- no step runs once per row ---------------------------------------------------------------------

FORMS = {
    "exists": "match { $p: User exists { $p knows $q $q.age > 1 } } return { $p.name }",
    "exists in or": "match { $p: User exists { $p knows $q $q.age > 1 } or $p.age = 2 } return { $p.name }",
    "count": "match { $p: User } return { $p.name, count { $p knows $q $q.age > 1 } as n }",
    "collect": "match { $p: User } return { $p.name, collect { $p knows $q return $q.name limit 2 } as n }",
    "optional": "match { $p: User optional { $p lives $c $c.size > 1 } } return { $p.name, $c.name }",
    "optional in optional": (
        "match { $p: User optional { $p lives $c optional { $c near $d } } } return { $p.name, $c.name, $d.name }"
    ),
    "either": "match { $p: User either { $p knows $q } or { $p likes $q } } return { $p.name, $q.name }",
    "nested": (
        "match { $p: User }"
        " return { $p.name, sum { $p knows $q exists { $q lives $c } return count { $q likes $r } } as n }"
    ),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_step_runs_once_however_many_rows_there_are(
    many: Solver, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[int] = Counter()
    run = executor._Executor._apply

    def counted(self: Any, step: Step, *args: Any, **kwargs: Any) -> Bindings:
        calls[step.number] += 1
        return run(self, step, *args, **kwargs)

    monkeypatch.setattr(executor._Executor, "_apply", counted)

    rows = answered(many, text)

    assert len(rows) > 500
    assert calls
    assert max(calls.values()) == 1


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("chunk_rows", [64, 1_000])
def test_the_size_of_chunks_changes_no_answer(many: Solver, text: str, chunk_rows: int) -> None:
    def shown(rows: list[dict[str, Any]]) -> Counter[str]:
        return Counter(map(repr, rows))

    assert shown(answered(many, text, chunk_rows=chunk_rows)) == shown(answered(many, text))


def test_a_block_that_reads_nothing_is_solved_once_for_all_chunks(
    many: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = []

    def fold(step: BindValue, matches: Bindings, size: int, context: ExecutionContext, log: OverflowLog) -> pa.Array:
        folded.append(1)
        return fold_block(step, matches, size, context, log)

    monkeypatch.setattr(block_steps, "fold_block", fold)

    rows = answered(
        many, "match { $p: User $p knows $q } return { $p.name, max { $u: User return $u.age } as m }", chunk_rows=500
    )

    assert {row["m"] for row in rows} == {3}
    assert folded == [1]


# By text, the most combinations of outer values that its block is solved for: ages are null or one of a few.
VALUE_READS = {
    "match { $p: User } return { $p.name, avg { $q: User $q.age > $p.age return $q.age } as n }": 10,
    "match { $p: User exists { $q: User $q.age = $p.age $q knows $r $r.age > 1 } } return { $p.name }": 10,
    "match { $p: User not { $q: User $q.age > $p.age } } return { $p.name }": 10,
    "match { $p: User optional { $c: Place $c.size = $p.age } }"
    " return { $p.name, count($c) as n, min($c.name) as m }": 10,
    "match { $p: User either { $c: Place $c.size = $p.age } or { $c: Place $c.size > $p.age } }"
    " return { $p.name, count($c) as n, max($c.name) as m }": 10,
    "match { $p: User } return { $p.name,"
    " count { $c: Place count { $d: Place $d.size = $p.age $d.name = $c.name } > 0 } as n }": 4_000,
    "match { each $x in [1, 2, 1, 2] $p: User } return { $p.name, $x, count { $q: User $q.age = $x } as n }": 3,
    'match { $p: User optional { $c: Place $c.size = $p.age $c.name < "p2" } }'
    " return { $p.name, $c.name, count { $d: Place $d.size = $c.size } as n }": 10,
    "match { $p: User $p knows $q $p.age > 1 } return {"
    " $p.name, $q.name, count { $r: User $r.age = $p.age $r.city = $q.city } as n }": 100,
}


@pytest.mark.parametrize("text", VALUE_READS)
def test_a_block_that_reads_values_is_solved_once_for_each_of_them(
    many: Solver, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(bindings: Bindings, shared: Iterable[str]) -> Seeds:
        seeds = build_seeds(bindings, shared)
        sizes.append(seeds.size)
        return seeds

    monkeypatch.setattr(block_steps, "build_seeds", counted)
    rows = answered(many, text)
    most = max(sizes)
    monkeypatch.setattr(outer_reads, "_is_grouped", lambda _: False)

    assert answered(many, text) == rows
    assert most <= VALUE_READS[text] < max(sizes)


def test_explain_names_the_values_that_a_block_is_solved_for(many: Solver) -> None:
    plan = planned(many, "match { $p: User } return { $p.name, count { $q: User $q.age = $p.age } as n }")

    assert "for each $p.age bind" in format_plan(plan)


def test_a_block_that_needs_the_row_is_solved_for_each_row(many: Solver) -> None:
    kept = [
        "match { $p: User exists { $q: User $q.age = $p.age $p knows $q } } return { $p.name }",
        "match { $p: User exists { $q: User $q.age = $p.age $q != $p } } return { $p.name }",
        "match { $p: User } return { $p.name, collect { $q: User $q.age = $p.age return [$p, $q] limit 1 } as n }",
        "match { $p: User exists { $q: User $q.age = $p.age not { $q knows $p } } } return { $p.name }",
    ]

    for text in kept:
        (step,) = [step for step in iter_steps(planned(many, text).steps) if isinstance(step, SemiJoin | BindValue)][:1]
        assert isinstance(step, SemiJoin | BindValue)
        assert not step.outer_values, text


# --- plans -----------------------------------------------------------------------------------------


def test_an_exists_of_one_variable_hangs_on_it_as_a_counted_subtree(many: Solver) -> None:
    plan = planned(many, "match { $p: User exists { $p knows $q $q.age > 1 } } return { $p.name }")

    (test,) = steps_of(plan, SemiJoin)
    assert isinstance(test, SemiJoin)
    assert not test.is_anti
    assert [type(step) for step in test.steps] == [Check, Compact]


def test_a_count_lists_no_match(many: Solver) -> None:
    plan = planned(many, "match { $p: User } return { $p.name, count { $p knows $q $q.age > 1 } as n }")

    (value,) = steps_of(plan, BindValue)
    assert isinstance(value, BindValue)
    assert value.has_multiplicity
    assert [type(step) for step in value.steps] == [Check, Compact]


def test_optional_blocks_come_last_and_their_predicates_after_them(many: Solver) -> None:
    plan = planned(
        many,
        "match { $c.size = 1 $p: User optional { $p lives $c } $p knows $q $p likes $q } return { $p.name, $q.name }",
    )

    names = [type(step).__name__ for step in plan.steps]
    assert names[-2:] == ["LeftJoin", "Filter"]


def test_a_value_that_only_the_output_reads_comes_last(many: Solver) -> None:
    plan = planned(
        many, "match { $p: User optional { $p lives $c } } return { $p.name, $c.name, count { $p knows $q } as n }"
    )

    assert [type(step).__name__ for step in plan.steps[1:]] == ["LeftJoin", "BindValue"]


def test_an_optional_block_keeps_only_what_is_read(many: Solver) -> None:
    plan = planned(many, "match { $p: User optional { $p knows $q $q lives $c } } return { $p.name, $c.name }")

    (join,) = steps_of(plan, LeftJoin)
    assert isinstance(join, LeftJoin)
    assert join.binds == ("c",)


def test_alternatives_without_inputs_come_first(many: Solver) -> None:
    plan = planned(
        many,
        'match { $q: User $p knows $q either { $p: User { name: "u1" } } or { $p: User { name: "u2" } } }'
        " return { $q.name }",
    )

    assert isinstance(plan.steps[0], UnionJoin)
    assert len(steps_of(plan, UnionJoin)) == 1


# --- null positions --------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["", " desc"])
def test_a_large_sort_places_null_rows_like_null_values(many: Solver, direction: str) -> None:
    # So many rows that ranks of whole columns decide, by name and by id.
    text = "match { $p: User optional { $p lives $c $c.size > 1 } } return { $p.name as p, $c.name as c }"

    rows = answered(many, f"{text} order {{ $c.name{direction}, $p.name }}")
    by_id = answered(many, f"{text} order {{ $c.@id{direction}, $p.@id }}")

    plain = sorted(answered(many, text), key=lambda row: row["p"])
    plain.sort(key=lambda row: (row["c"] is not None, row["c"] or ""), reverse=bool(direction))
    assert any(row["c"] is None for row in rows)
    assert rows == plain
    assert by_id == plain


def test_null_rows_are_one_group_of_nodes_and_of_values(many: Solver) -> None:
    text = "match { $p: User optional { $p lives $c $c.size > 1 } } return"

    whole = answered(many, f"{text} {{ $c, count(*) as n }}")
    names = answered(many, f"{text} {{ $c.name, count(*) as n }}")

    assert Counter(None if row["c"] is None else row["c"]["name"] for row in whole).most_common(1)[0][1] == 1
    assert {None if row["c"] is None else row["c"]["name"]: row["n"] for row in whole} == {
        row["c.name"]: row["n"] for row in names
    }


def test_aggregates_of_an_optional_variable_skip_null_rows(many: Solver) -> None:
    (row,) = answered(
        many,
        "match { $p: User optional { $p knows $q $q.age > 1 } } return {"
        " count($q) as n, count(distinct $q) as d, sum($q.age) as s, min($q.age) as a, max($q.name) as z,"
        " count(*) as all }",
    )
    (inner,) = answered(
        many,
        "match { $p knows $q $q.age > 1 } return {"
        " count(*) as n, count(distinct $q) as d, sum($q.age) as s, min($q.age) as a, max($q.name) as z }",
    )

    assert row["all"] > row["n"]
    assert {name: row[name] for name in inner} == inner


def test_missing_positions_are_compacted_as_values() -> None:
    rows = Bindings({"a": np.array([-1, 2, -1, 2, 0]), "b": np.array([5, -1, 5, -1, 1])}, 5)

    counted = compact(rows, ("a", "b"), has_multiplicity=True)
    single = compact(rows, ("a",), has_multiplicity=False)

    assert counted.multiplicity is not None
    assert {
        (int(a), int(b)): int(n)
        for a, b, n in zip(counted.columns["a"], counted.columns["b"], counted.multiplicity, strict=True)
    } == {(-1, 5): 2, (2, -1): 2, (0, 1): 1}
    assert sorted(single.columns["a"].tolist()) == [-1, 0, 2]


def test_seeds_tell_missing_positions_from_others() -> None:
    rows = Bindings({"a": np.array([3, -1, 3, -1, 0])}, 5)

    seeds = build_seeds(rows, ["a"])

    assert seeds.row_numbers is not None
    assert seeds.bindings.columns["a"][seeds.row_numbers].tolist() == [3, -1, 3, -1, 0]
    assert seeds.size == 3


# --- joining back ----------------------------------------------------------------------------------


def test_a_left_join_keeps_multiplicities_and_rows_without_a_match() -> None:
    budget = Budget(SystemClock())
    rows = Bindings({"a": np.array([7, 8, 7])}, 3, np.array([1, 2, 3]))
    seeds = build_seeds(rows, ["a"])
    matches = Bindings({SEED: np.array([0, 0]), "q": np.array([5, 6])}, 2, np.array([10, 20]))

    joined = join_matches(rows, seeds, matches, ("q",), budget, is_outer=True)

    assert joined.columns["a"].tolist() == [7, 7, 8, 7, 7]
    assert joined.columns["q"].tolist() == [5, 6, -1, 5, 6]
    assert joined.multiplicity is not None
    assert joined.multiplicity.tolist() == [10, 20, 2, 30, 60]


def test_equal_matches_of_alternatives_are_one() -> None:
    budget = Budget(SystemClock())
    first = Bindings({SEED: np.array([0, 1]), "q": np.array([5, 6])}, 2)
    second = Bindings({SEED: np.array([0, 1]), "q": np.array([5, 7])}, 2)

    united = unite_matches([first, second], ("q",), budget)

    assert sorted(zip(united.columns[SEED].tolist(), united.columns["q"].tolist(), strict=True)) == [
        (0, 5),
        (1, 6),
        (1, 7),
    ]


def test_a_block_obeys_the_memory_budget(many: Solver) -> None:
    text = "match { $p: User $r: User optional { $p knows $q $r knows $q } } return { $p.name, $q.name, $r.name }"

    with pytest.raises(og.QueryMemoryError):
        answered(many, text, memory_bytes=2_000_000)


def test_what_a_block_claimed_is_given_back(many: Solver) -> None:
    budget = Budget(SystemClock(), memory_bytes=200_000_000)
    query = many.query(f"query q() {{ {FORMS['optional']} }}")
    reading = many.reading(budget=budget)

    found = execute(query, plan_read(query, reading), reading)

    assert budget._claimed <= found.size * 8 * 4


def test_a_plan_of_blocks_is_explained(many: Solver) -> None:
    plan = planned(
        many,
        "match { $p: User exists { $p knows $q } either { $p likes $r } or { $r likes $p } optional { $r lives $c } }"
        " return { $p.name, $c.name, count { $p knows $q } as n }",
    )

    text = format_plan(plan)
    assert "keep $p with a match of" in text
    assert "for each $p distinct $r of either" in text
    assert "for each $r $c or null of" in text
    assert "for each $p bind $#1 to count of" in text
    assert '"unionjoin"' in str(build_plan_json(plan)).replace("'", '"')
