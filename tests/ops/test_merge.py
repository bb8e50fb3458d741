"""Merging branches: what comes together, what is a conflict, and that nothing is published then."""

from pathlib import Path

import pytest

import omnigraph as og
from merging import Contents, change, contents, new_graph, row, run, scatter, try_merge
from omnigraph.ops.merge_result import MergeOutcome
from upkeep_calls import fragments, optimized
from worlds import runtime

NONE, SAME, OTHER, M, DELETE = "none", "n=5", "n=6", "m=7", "delete"
EDITS = (NONE, SAME, OTHER, M, DELETE)
ABSENT, INSERT, ANOTHER = "absent", "insert 5", "insert 6"
INSERTS = (ABSENT, INSERT, ANOTHER)
PAIRS = [*((o, t) for o in EDITS for t in EDITS), *((o, t) for o in INSERTS for t in INSERTS)]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


# --- the truth table: every pair of edits of one row, for nodes and edges ---

Cell = dict[str, int] | None


def name_of(pair: tuple[str, str]) -> str:
    return "-".join(pair).replace(" ", "_").replace("=", "_")


def edited(edit: str, before: Cell) -> Cell:
    """What one side makes of a row."""
    if edit in (DELETE, ABSENT):
        return None
    values = {"n=5": {"n": 5}, "n=6": {"n": 6}, "m=7": {"m": 7}, INSERT: {"n": 5}, ANOTHER: {"n": 6}}.get(edit, {})
    return {**(before or {"n": 0, "m": 1}), **values}


def expected(pair: tuple[str, str]) -> tuple[Cell, str | None]:
    """The merged row, and the kind of conflict; written down, not computed by the rules under test."""
    ours, theirs = pair
    if {ours, theirs} == {SAME, OTHER}:
        return None, "DivergentUpdate"
    if {ours, theirs} == {INSERT, ANOTHER}:
        return None, "DivergentInsert"
    if DELETE in pair and ({SAME, OTHER, M} & set(pair)):
        return None, "DeleteVsUpdate"
    base: Cell = {"n": 1, "m": 1} if ours in EDITS else None
    return edited(theirs, edited(ours, base)) if theirs not in (NONE, ABSENT) else edited(ours, base), None


class Table:
    """One graph in which a node and an edge go through each pair of edits."""

    def __init__(self, root: Path) -> None:
        schema = """
        node P { name: String @key  n: I32?  m: I32? }
        node End { name: String @key }
        edge Knows: End -> End { n: I32?  m: I32?  @key(src, dst) }
        """
        self.graph = og.create_graph(str(root / "g"), schema, runtime=runtime())
        names = [name_of(pair) for pair in PAIRS]
        run(self.graph, " ".join(f'insert End {{ name: "{name}" }}' for name in names))
        run(self.graph, " ".join(self._insert(name_of(p), 1) for p in PAIRS if p[0] in EDITS))
        self.graph.branches.create("dev")
        for side, branch in enumerate(("main", "dev")):
            changes, deletes = [], []
            for pair in PAIRS:
                edit, name = pair[side], name_of(pair)
                if edit in (INSERT, ANOTHER):
                    changes.append(self._insert(name, int(edit[-1])))
                elif edit in (SAME, OTHER, M):
                    prop, value = edit[0], int(edit[-1])
                    changes.append(change("P", prop, value, name=name))
                    changes.append(change("Knows", prop, value, from_=name))
                elif edit == DELETE:
                    deletes.append(f'delete P where name = "{name}" delete Knows where from = "{name}"')
            run(self.graph, " ".join(changes), branch)
            run(self.graph, " ".join(deletes), branch)
        for strategy in ("ours", "theirs"):
            self.graph.branches.create(strategy)
        self.before = contents(self.graph)
        self.refused = try_merge(self.graph, "dev")
        self.after_refusal = contents(self.graph)
        self.settled = {s: self.graph.merge("dev", into=s, strategy=s) for s in ("ours", "theirs")}
        self.merged = {s: contents(self.graph, s) for s in ("ours", "theirs")}

    @staticmethod
    def _insert(name: str, n: int) -> str:
        return (
            f'insert P {{ name: "{name}", n: {n}, m: 1 }} insert Knows {{ from: "{name}", to: "{name}", n: {n}, m: 1 }}'
        )


def cell(found: Contents, kind: str, name: str) -> Cell:
    rows = found[kind].values()
    key = "name" if kind == "P" else "src"
    return next(({"n": one["n"], "m": one["m"]} for one in rows if one[key] == name), None)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("truth"))


@pytest.mark.parametrize("kind", ["P", "Knows"])
@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
def test_the_truth_table(pair: tuple[str, str], kind: str, table: Table) -> None:
    merged, conflict = expected(pair)
    name = name_of(pair)
    table_key = "node:P" if kind == "P" else "edge:Knows"
    told = {one.kind.value for one in table.refused.conflicts if one.table == table_key and name in str(one.id)}

    assert told == ({conflict} if conflict else set())
    base: Cell = {"n": 1, "m": 1} if pair[0] in EDITS else None
    sides = {"ours": edited(pair[0], base), "theirs": edited(pair[1], base)}
    for strategy, found in table.merged.items():
        assert cell(found, kind, name) == (sides[strategy] if conflict else merged)


def test_conflicts_raise_with_the_result_that_lists_them(graph: og.Graph) -> None:
    run(graph, change("P", "n", 2, name="a"))
    run(graph, change("P", "n", 3, name="a"), "dev")
    head = graph.snapshot().commit.id

    with pytest.raises(og.MergeConflictsError) as refused:
        graph.merge("dev")

    told = "1 conflict between `dev` and `main`: nothing was merged. First: `n` of P 'a' was 1; it is 2 on `main`"
    assert str(refused.value).startswith(told)
    assert refused.value.result.conflict_counts == {"DivergentUpdate": 1}
    assert (refused.value.result.is_dry_run, refused.value.result.commit_id) == (False, None)
    assert graph.snapshot().commit.id == head


def test_what_a_branch_did_and_took_back_stays_taken_back(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "z" }', "dev")
    graph.branches.create("early", from_="dev")
    run(graph, 'delete P where name = "z"', "dev")
    run(graph, change("C", "v", 5, name="x"), "early")

    graph.merge("dev")
    graph.merge("early")

    assert "z" not in contents(graph)["P"]


def test_conflicts_that_a_strategy_does_not_settle_raise(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "c"')
    run(graph, 'insert Knows { from: "d", to: "c" }', "dev")

    with pytest.raises(og.MergeConflictsError, match="leads to P 'c', which `main` deleted"):
        graph.merge("dev", strategy="theirs")


def test_a_dry_run_returns_the_conflicts(graph: og.Graph) -> None:
    run(graph, change("P", "n", 2, name="a"))
    run(graph, change("P", "n", 3, name="a"), "dev")

    done = graph.merge("dev", dry_run=True)

    assert (done.outcome, done.is_dry_run, done.conflict_total) == (MergeOutcome.CONFLICTS, True, 1)


def test_a_merge_with_conflicts_changes_nothing(table: Table) -> None:
    assert table.refused.outcome is MergeOutcome.CONFLICTS
    assert table.refused.commit_id is None
    assert table.after_refusal == table.before
    assert table.refused.conflict_counts == {"DivergentInsert": 4, "DivergentUpdate": 4, "DeleteVsUpdate": 12}


# --- outcomes ---


def test_a_branch_without_changes_is_up_to_date(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')

    done = graph.merge("dev")

    assert (done.outcome, done.commit_id) == (MergeOutcome.ALREADY_UP_TO_DATE, None)


def test_a_target_without_changes_adopts_what_the_source_has(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "e" } insert Knows { from: "e", to: "a" }', "dev")
    pins = graph.snapshot(branch="dev").pins

    done = graph.merge("dev", actor="ada", message="reviewed")

    commit = graph.commits()[0]
    assert done.outcome is MergeOutcome.FAST_FORWARD
    assert graph.snapshot().pins == pins
    assert (commit.id, commit.operation, commit.actor, commit.message) == (done.commit_id, "merge", "ada", "reviewed")
    assert commit.merged_parent == graph.commits(branch="dev")[0].id
    assert {one.table: (one.how, one.rows_after) for one in done.tables} == {
        "node:P": ("adopted", 5),
        "edge:Knows": ("adopted", 2),
    }


def test_the_past_of_a_merged_branch_is_what_it_was(graph: og.Graph) -> None:
    states = {graph.snapshot().commit.id: contents(graph)}
    run(graph, 'insert P { name: "e" }', "dev")
    graph.merge("dev")
    states[graph.snapshot().commit.id] = contents(graph)
    run(graph, 'update P set { n: 2 } where name = "e"', "dev")
    run(graph, 'update P set { n: 2 } where name = "a"')
    graph.merge("dev")

    for commit_id, state in states.items():
        graph.branches.create(f"at-{commit_id}", snapshot=commit_id)
        assert contents(graph, f"at-{commit_id}") == state


def test_edits_of_different_properties_of_one_row_come_together(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { m: 3 } where name = "a"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert row(graph, "a") == {"name": "a", "n": 2, "m": 3, "email": None}
    assert [(one.table, one.how, one.updated) for one in done.tables] == [("node:P", "merged", 1)]


def test_a_table_that_only_one_side_changed_is_adopted_or_kept(graph: og.Graph) -> None:
    run(graph, 'update C set { v: 1 } where name = "x"')
    run(graph, 'update Knows set { w: 2 } where from = "a"', "dev")
    ours, theirs = graph.snapshot(), graph.snapshot(branch="dev")

    graph.merge("dev")

    pins = graph.snapshot().pins
    assert pins["node:C"] == ours.pins["node:C"]
    assert pins["edge:Knows"] == theirs.pins["edge:Knows"]


def test_merging_again_does_nothing(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { m: 3 } where name = "b"', "dev")
    graph.merge("dev")
    head = graph.snapshot().commit.id

    again = graph.merge("dev")

    assert again.outcome is MergeOutcome.ALREADY_UP_TO_DATE
    assert graph.snapshot().commit.id == head


def test_only_what_is_new_since_the_last_merge_is_merged(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "e", n: 1 }', "dev")
    run(graph, 'update P set { n: 9 } where name = "a"')
    graph.merge("dev")
    run(graph, 'delete P where name = "e"')
    run(graph, 'insert P { name: "f" }', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert sorted(contents(graph)["P"]) == ["a", "b", "c", "d", "f"]


def test_a_branch_that_came_back_to_where_it_was_changes_nothing(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    run(graph, 'update P set { n: 1 } where name = "a"', "dev")
    run(graph, 'update P set { n: 7 } where name = "a"')

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert row(graph, "a") == {"name": "a", "n": 7, "m": 1, "email": None}
    assert graph.merge("dev").outcome is MergeOutcome.ALREADY_UP_TO_DATE


def test_there_and_back_again_both_are_the_same(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'insert P { name: "e" } insert Knows { from: "e", to: "c" }', "dev")

    there, back = graph.merge("main", into="dev"), graph.merge("dev")

    assert (there.outcome, back.outcome) == (MergeOutcome.MERGED, MergeOutcome.FAST_FORWARD)
    assert contents(graph) == contents(graph, "dev")


def test_branches_that_merged_each_other_crosswise_can_be_merged(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { n: 3 } where name = "b"', "dev")
    graph.branches.create("main-then")
    graph.branches.create("dev-then", from_="dev")
    graph.merge("dev-then")
    graph.merge("main-then", into="dev")
    run(graph, 'update P set { m: 4 } where name = "c"')
    run(graph, 'update P set { m: 5 } where name = "d"', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    values = {name: (one["n"], one["m"]) for name, one in contents(graph)["P"].items()}
    assert values == {"a": (2, 1), "b": (3, 1), "c": (1, 4), "d": (1, 5)}


def test_a_merged_branch_that_was_deleted_is_still_known_as_a_base(graph: og.Graph) -> None:
    graph.branches.create("review")
    run(graph, 'insert P { name: "e", n: 1 }', "review")
    graph.merge("review", into="dev")
    run(graph, 'update P set { m: 2 } where name = "a"')
    graph.merge("review")
    graph.branches.delete("review")
    run(graph, 'delete P where name = "e"')

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert row(graph, "e") is None  # as seen from where the two were one last; from the fork it would have come


def test_siblings_are_merged_with_each_other(graph: og.Graph) -> None:
    graph.branches.create("other")
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    run(graph, 'update P set { m: 2 } where name = "a"', "other")

    graph.merge("other", into="dev")

    assert row(graph, "a", "dev") == {"name": "a", "n": 2, "m": 2, "email": None}
    assert row(graph, "a") == {"name": "a", "n": 1, "m": 1, "email": None}


def test_a_dry_run_tells_and_does_nothing(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { m: 3 } where name = "a"', "dev")
    head = graph.snapshot().commit.id

    told = graph.merge("dev", dry_run=True)

    assert graph.snapshot().commit.id == head
    done = graph.merge("dev")
    assert (told.commit_id, told.outcome, told.tables) == (None, done.outcome, done.tables)


def test_maintenance_is_no_change_and_stays(graph: og.Graph) -> None:
    scatter(graph)
    graph.branches.create("later")
    run(graph, 'update P set { n: 2 } where name = "a"', "later")
    scattered = fragments(graph, "P")
    optimized(graph)
    files = fragments(graph, "P")
    assert files < scattered

    done = graph.merge("later")

    assert (done.outcome, [one.how for one in done.tables]) == (MergeOutcome.MERGED, ["merged"])
    assert {name: one["n"] for name, one in contents(graph)["P"].items()} == {
        **dict.fromkeys([*"bcd", *(f"k{number}" for number in range(12))], 1),
        "a": 2,
    }
    assert fragments(graph, "P") <= files + 1


def test_blobs_come_along(graph: og.Graph) -> None:
    run(graph, 'update P set { photo: $p } where name = "a"', p="base64:b3Vycw==")
    run(graph, 'update P set { photo: $p } where name = "b"', "dev", p="base64:dGhlaXJz")
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")

    graph.merge("dev")

    photos = {name: read(graph, name) for name in "abc"}
    assert photos == {"a": b"ours", "b": b"theirs", "c": None}
    assert row(graph, "a") == {"name": "a", "n": 2, "m": 1, "email": None}


def read(graph: og.Graph, name: str) -> bytes | None:
    stream = graph.blob("P", name, "photo")
    return None if stream is None else stream.read()


@pytest.mark.parametrize("other, is_conflict", [("base64:b3Vycw==", False), ("base64:b3RoZQ==", True)])
def test_blobs_are_compared_by_their_bytes(other: str, is_conflict: bool, graph: og.Graph) -> None:
    run(graph, 'update P set { photo: $p } where name = "a"', p="base64:b3Vycw==")
    run(graph, 'update P set { photo: $p } where name = "a"', "dev", p=other)

    done = try_merge(graph, "dev")

    assert [one.property for one in done.conflicts] == (["photo"] if is_conflict else [])


def test_a_branch_is_not_merged_into_itself(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match="it is the branch to merge"):
        graph.merge("dev", into="dev")


def test_a_branch_that_is_not_there_is_named(graph: og.Graph) -> None:
    with pytest.raises(og.BranchMissingError, match="did you mean `dev`"):
        graph.merge("dve")


def test_branches_that_are_merged_back_and_forth_come_to_rest(graph: og.Graph) -> None:
    run(graph, change("P", "n", 5, name="a"), "dev")

    there, back, again = graph.merge("dev"), graph.merge("main", into="dev"), graph.merge("dev")

    assert there.outcome is MergeOutcome.FAST_FORWARD
    assert [one.outcome for one in (back, again)] == [MergeOutcome.ALREADY_UP_TO_DATE] * 2
    assert contents(graph) == contents(graph, "dev")


def test_branches_that_came_to_rest_merge_from_there(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "q" } insert P { name: "o" }', "dev")
    graph.merge("dev")
    graph.merge("main", into="dev")
    run(graph, 'delete P where name = "q"')
    run(graph, 'delete P where name = "o"', "dev")

    there, back = graph.merge("dev"), graph.merge("main", into="dev")

    assert (there.outcome, back.outcome) == (MergeOutcome.MERGED, MergeOutcome.FAST_FORWARD)
    assert contents(graph)["P"].keys() == contents(graph, "dev")["P"].keys() == {*"abcd"}


def test_what_was_done_and_taken_back_is_merged_nevertheless(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "q" }', "dev")
    graph.branches.create("third", from_="dev")
    run(graph, 'delete P where name = "q"', "dev")
    run(graph, 'insert P { name: "z" }', "third")

    first = graph.merge("dev")
    graph.merge("third")

    assert first.outcome is MergeOutcome.FAST_FORWARD
    assert contents(graph)["P"].keys() == {*"abcdz"}
