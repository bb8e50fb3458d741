"""Every verb asks the policy before it does anything, whichever door it came through."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph.branches import GraphBranches
from omnigraph.graph.tags import GraphTags
from omnigraph.ops.graph_algorithms import Algorithms
from omnigraph.policy import Access, Action, Actor, Decision, DeniedError, WrongActorError
from omnigraph.row_rules import EitherHolds, IsOneOf, IsType, RowRules
from worlds import runtime

SCHEMA = "node Person { name: String @key  rank: F64? }\nedge Knows: Person -> Person\n"
READ = "query q() { match { $p: Person } return { $p.name } }"
ADD = 'query add() { insert Person { name: "Eve" } }'

Needed = set[tuple[Action, str | None]]
Call = Callable[[og.Graph], object]

NEEDS: dict[str, tuple[Call, Needed]] = {
    "schema": (lambda g: g.schema, {(Action.READ, "main")}),
    "accepted_schema": (lambda g: g.accepted_schema(branch="review"), {(Action.READ, "review")}),
    "snapshot": (lambda g: g.snapshot(branch="review"), {(Action.READ, "review")}),
    "query": (lambda g: g.query(READ, branch="review"), {(Action.READ, "review")}),
    "explain": (lambda g: g.explain(READ), {(Action.READ, "main")}),
    "complete": (lambda g: g.complete("ma", branch="review"), {(Action.READ, "review")}),
    "lint": (lambda g: g.lint(READ, schema=SCHEMA, branch="review"), {(Action.READ, "review")}),
    "catalog": (lambda g: g.catalog(branch="review"), {(Action.READ, "review")}),
    "neighbours": (lambda g: g.neighbours([("Person", "Ada")], branch="review"), {(Action.READ, "review")}),
    "search": (lambda g: g.search("ada", branch="review"), {(Action.READ, "review")}),
    "query_window": (lambda g: g.query_window(READ, branch="review"), {(Action.READ, "review")}),
    "mutate": (lambda g: g.mutate(ADD, branch="review"), {(Action.CHANGE, "review")}),
    "load": (
        lambda g: g.load(BytesIO(b""), mode="append", branch="fresh", from_="main"),
        {(Action.READ, "main"), (Action.BRANCH_CREATE, "fresh"), (Action.CHANGE, "fresh")},
    ),
    "export": (lambda g: g.export(BytesIO(), branch="review"), {(Action.EXPORT, "review")}),
    "table": (lambda g: g.table("Person"), {(Action.EXPORT, "main")}),
    "blob": (lambda g: g.blob("Person", "Ada", "name"), {(Action.READ, "main")}),
    "commits": (lambda g: g.commits(branch="review"), {(Action.READ, "review")}),
    "commit": (lambda g: g.commit("01JC0000000000000000000000"), {(Action.READ, "main")}),
    "commit_page": (lambda g: g.commit_page(branch="review"), {(Action.READ, "review")}),
    "commit_changes": (lambda g: g.commit_changes("01JC0000000000000000000000"), {(Action.READ, "main")}),
    "changes": (
        lambda g: list(g.changes(branch="review")),
        {(Action.READ, "main"), (Action.READ, "review")},
    ),
    "history": (
        lambda g: g.history("Person", "Ada", branch="review"),
        {(Action.READ, "main"), (Action.READ, "review")},
    ),
    "diff": (lambda g: g.diff("main", "review"), {(Action.READ, "main"), (Action.READ, "review")}),
    "merge": (
        lambda g: g.merge("review"),
        {(Action.READ, "review"), (Action.READ, "main"), (Action.BRANCH_MERGE, "main")},
    ),
    "revert": (
        lambda g: g.revert("01JC0000000000000000000000", branch="review"),
        {(Action.READ, "review"), (Action.CHANGE, "review")},
    ),
    "cherry_pick": (
        lambda g: g.cherry_pick("01JC0000000000000000000000", branch="review"),
        {(Action.READ, "review"), (Action.CHANGE, "review")},
    ),
    "reset": (
        lambda g: g.reset("review", to="main"),
        {(Action.READ, "main"), (Action.READ, "review"), (Action.RESET, "review")},
    ),
    "plan_schema": (lambda g: g.plan_schema(SCHEMA), {(Action.SCHEMA_APPLY, "main")}),
    "apply_schema": (lambda g: g.apply_schema(SCHEMA, branch="review"), {(Action.SCHEMA_APPLY, "review")}),
    "embed": (lambda g: g.embed("Person"), {(Action.CHANGE, "main")}),
    "optimize": (lambda g: g.optimize(), {(Action.MAINTAIN, "main")}),
    "check": (lambda g: g.check(), {(Action.MAINTAIN, None)}),
    "verify": (lambda g: g.verify(branch="review"), {(Action.MAINTAIN, "review")}),
    "repair": (lambda g: g.repair(branch="review"), {(Action.MAINTAIN, "review")}),
    "indexes": (lambda g: g.indexes(), {(Action.READ, "main")}),
    "operations": (lambda g: g.operations(), {(Action.READ, None)}),
    "recoveries": (lambda g: g.recoveries(), {(Action.READ, None)}),
    "branches.list": (lambda g: g.branches.list(), {(Action.READ, None)}),
    "branches.create": (
        lambda g: g.branches.create("other", from_="review"),
        {(Action.READ, "review"), (Action.BRANCH_CREATE, "other")},
    ),
    "branches.delete": (lambda g: g.branches.delete("review"), {(Action.BRANCH_DELETE, "review")}),
    "algorithms.pagerank": (
        lambda g: g.algorithms.pagerank("Knows", into="Person.rank"),
        {(Action.READ, "main"), (Action.CHANGE, "main")},
    ),
    "algorithms.connected_components": (lambda g: g.algorithms.connected_components("Knows"), {(Action.READ, "main")}),
    "algorithms.label_propagation": (lambda g: g.algorithms.label_propagation("Knows"), {(Action.READ, "main")}),
    "algorithms.shortest_paths": (lambda g: g.algorithms.shortest_paths("Knows", "Ada"), {(Action.READ, "main")}),
    "algorithms.triangle_count": (lambda g: g.algorithms.triangle_count("Knows"), {(Action.READ, "main")}),
    "algorithms.strongly_connected_components": (
        lambda g: g.algorithms.strongly_connected_components("Knows"),
        {(Action.READ, "main")},
    ),
    "algorithms.topological_order": (lambda g: g.algorithms.topological_order("Knows"), {(Action.READ, "main")}),
    "algorithms.core_numbers": (lambda g: g.algorithms.core_numbers("Knows"), {(Action.READ, "main")}),
    "algorithms.betweenness": (lambda g: g.algorithms.betweenness("Knows"), {(Action.READ, "main")}),
    "algorithms.leiden": (lambda g: g.algorithms.leiden("Knows"), {(Action.READ, "main")}),
    "algorithms.node_similarity": (lambda g: g.algorithms.node_similarity("Knows"), {(Action.READ, "main")}),
    "algorithms.run": (
        lambda g: g.algorithms.run("pagerank", "Knows", into="Person.rank"),
        {(Action.READ, "main"), (Action.CHANGE, "main")},
    ),
    "to_networkx": (lambda g: g.to_networkx(branch="review"), {(Action.EXPORT, "review")}),
    "edge_list": (lambda g: g.edge_list("Knows", branch="review"), {(Action.EXPORT, "review")}),
    "cleanup": (lambda g: g.cleanup(keep=100), {(Action.MAINTAIN, None)}),
    "backup": (lambda g: g.backup(f"{g.uri}-backups"), {(Action.EXPORT, None)}),
    "clone": (lambda g: g.clone(f"{g.uri}-copy"), {(Action.EXPORT, None)}),
    "reconciler": (lambda g: g.reconciler(), {(Action.MAINTAIN, None)}),
    "export_stream": (lambda g: g.export_stream(branch="review"), {(Action.EXPORT, "review")}),
    "tags.create": (lambda g: g.tags.create("v1"), {(Action.BRANCH_CREATE, "v1"), (Action.READ, "main")}),
    "tags.delete": (lambda g: g.tags.delete("v1"), {(Action.BRANCH_DELETE, "v1")}),
    "spark": (lambda g: g.spark, {(Action.READ, "main"), (Action.EXPORT, "main")}),
    "sql": (lambda g: g.sql("select 1", branch="review"), {(Action.READ, "review")}),
    "cypher": (lambda g: g.cypher("RETURN 1 AS n", branch="review"), {(Action.READ, "review")}),
}
"""What each verb has to be allowed to do, on which branch; None is the graph as a whole."""

NO_VERBS = {"acting_as", "algorithms", "branches", "close", "create", "open", "tags", "uri"}
"""Names that do nothing to a graph that is open."""

SHOW_WHAT_MAY_BE_SEEN = {"permissions", "tags.list"}
"""Verbs that leave out what may not be read, instead of being denied."""

HIDE_ROWS = {
    "accepted_schema",
    "algorithms.betweenness",
    "algorithms.connected_components",
    "algorithms.core_numbers",
    "algorithms.label_propagation",
    "algorithms.leiden",
    "algorithms.node_similarity",
    "algorithms.shortest_paths",
    "algorithms.strongly_connected_components",
    "algorithms.topological_order",
    "algorithms.triangle_count",
    "blob",
    "branches.create",
    "branches.delete",
    "branches.list",
    "catalog",
    "changes",
    "commit",
    "commit_changes",
    "commit_page",
    "commits",
    "complete",
    "cypher",
    "diff",
    "edge_list",
    "export",
    "export_stream",
    "history",
    "lint",
    "mutate",
    "neighbours",
    "query",
    "query_window",
    "schema",
    "search",
    "snapshot",
    "sql",
    "tags.create",
    "tags.delete",
    "to_networkx",
}
"""Verbs for actors who see some rows only: they show, count and change these alone, or no rows at all. A verb that is
added here is compared on graphs that differ in hidden rows, in `tests/ops/test_hidden_rows.py`."""

NOT_GUARDED_YET: set[str] = set()
"""Verbs that don't ask yet. Nothing may be added; what is here waits for its guard."""


class Allowing:
    """A policy that allows what it is told, and nothing else."""

    def __init__(self) -> None:
        self.allowed: Needed = set()
        self.asked: list[Access] = []
        self.rules: RowRules | None = None

    def decide(self, access: Access) -> Decision:
        self.asked.append(access)
        return Decision(is_allowed=(access.action, access.branch) in self.allowed)

    def names_type(self, name: str) -> bool:
        return bool(name) and False

    def find_row_rules(self, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        del actor, branch, query
        return self.rules


@pytest.fixture(scope="module")
def policy() -> Allowing:
    return Allowing()


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("gate") / "g"), SCHEMA, runtime=runtime())
    graph.mutate('query add() { insert Person { name: "Ada" } }')
    graph.branches.create("review")
    return graph


@pytest.fixture
def guarded(open_to_all: og.Graph, policy: Allowing) -> Iterator[og.Graph]:
    policy.allowed, policy.asked, policy.rules = set(), [], None
    yield og.open_graph(open_to_all.uri, runtime=replace(runtime(), policy=policy))
    if "review" not in {branch.name for branch in open_to_all.branches.list()}:
        open_to_all.branches.create("review")
    for name in ("fresh", "other"):
        if name in {branch.name for branch in open_to_all.branches.list()}:
            open_to_all.branches.delete(name)


def is_denied(call: Call, graph: og.Graph) -> bool:
    """Whether the policy kept it from being done; that it fails for another reason does not matter."""
    try:
        call(graph)
    except DeniedError:
        return True
    except og.OmnigraphError:
        return False
    return False


def public_names(face: type[Any], prefix: str = "") -> set[str]:
    return {prefix + name for name, _ in inspect.getmembers(face) if not name.startswith("_")}


def test_every_verb_is_in_the_table() -> None:
    verbs = public_names(og.Graph) | public_names(GraphBranches, "branches.") | public_names(Algorithms, "algorithms.")

    verbs |= public_names(GraphTags, "tags.")

    assert verbs - NO_VERBS - SHOW_WHAT_MAY_BE_SEEN - NOT_GUARDED_YET == set(NEEDS)


@pytest.mark.parametrize("verb", NEEDS)
def test_nothing_is_done_for_an_actor_without_rights(
    verb: str, guarded: og.Graph, open_to_all: og.Graph, policy: Allowing
) -> None:
    before = [open_to_all.snapshot(branch=branch.name).commit.id for branch in open_to_all.branches.list()]

    denied = is_denied(NEEDS[verb][0], guarded.acting_as("eve"))

    assert denied
    assert policy.asked[0].actor.name == "eve"
    assert [open_to_all.snapshot(branch=one.name).commit.id for one in open_to_all.branches.list()] == before


@pytest.mark.parametrize("verb", NEEDS)
def test_a_verb_needs_exactly_what_the_table_says(verb: str, guarded: og.Graph, policy: Allowing) -> None:
    call, needed = NEEDS[verb]
    acting = guarded.acting_as("ada")

    refused = []
    for missing in needed:
        policy.allowed = needed - {missing}
        refused.append(is_denied(call, acting))
    policy.allowed = needed
    done = not is_denied(call, acting)

    assert all(refused)
    assert done


@pytest.mark.parametrize("verb", NEEDS)
def test_a_verb_that_does_not_hide_rows_refuses_those_who_may_not_see_all(
    verb: str, guarded: og.Graph, open_to_all: og.Graph, policy: Allowing
) -> None:
    call, needed = NEEDS[verb]
    policy.allowed = needed
    names = IsOneOf("name", frozenset({("str", "Zoe")}))
    policy.rules = RowRules((EitherHolds(IsType(frozenset({"Knows"})), names),), ())
    before = [open_to_all.snapshot(branch=branch.name).commit.id for branch in open_to_all.branches.list()]

    try:
        call(guarded.acting_as("ada"))
    except og.OmnigraphError as error:
        is_refused = error.code == "rows_hidden"
    else:
        is_refused = False

    assert is_refused == (verb not in HIDE_ROWS)
    if is_refused:
        assert [open_to_all.snapshot(branch=one.name).commit.id for one in open_to_all.branches.list()] == before


@pytest.mark.parametrize("branch, is_made", [("review", False), ("fresh", True)])
def test_a_load_with_if_exists_needs_no_right_to_make_a_branch_that_is_there(
    branch: str, is_made: bool, guarded: og.Graph, policy: Allowing
) -> None:
    def load(graph: og.Graph) -> object:
        return graph.load(BytesIO(b""), mode="append", branch=branch, from_="main", if_exists=True)

    policy.allowed = {(Action.READ, "main"), (Action.CHANGE, branch)}

    assert is_denied(load, guarded.acting_as("ada")) == is_made


def test_tags_of_branches_that_may_not_be_read_are_not_listed(
    guarded: og.Graph, open_to_all: og.Graph, policy: Allowing
) -> None:
    for name, branch in (("seen", "main"), ("hidden", "review")):
        if name not in {tag.name for tag in open_to_all.tags.list()}:
            open_to_all.mutate(f'query a() {{ insert Person {{ name: "{name}" }} }}', branch=branch)
            open_to_all.tags.create(name, branch)
    acting = guarded.acting_as("eve")

    nothing = acting.tags.list()
    policy.allowed = {(Action.READ, "main")}

    assert nothing == []
    assert "hidden" not in {tag.name for tag in acting.tags.list()}
    assert "seen" in {tag.name for tag in acting.tags.list()}


def test_a_handle_that_acts_for_nobody_is_refused(guarded: og.Graph) -> None:
    with pytest.raises(WrongActorError, match="acting_as"):
        guarded.query(READ)


def test_commits_are_by_the_one_that_a_handle_acts_for(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.CHANGE, "main"), (Action.READ, "main")}
    acting = guarded.acting_as("ada")

    acting.mutate('query add() { insert Person { name: "Bob" } }')

    assert acting.commits(limit=1)[0].actor == "ada"


def test_a_handle_signs_for_nobody_else(open_to_all: og.Graph) -> None:
    acting = open_to_all.acting_as("ada")

    with pytest.raises(WrongActorError, match="acts for `ada`"):
        acting.mutate(ADD, actor="bob")


def test_a_branch_that_is_not_there_looks_like_one_that_may_not_be_read(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.READ, "main")}
    acting = guarded.acting_as("eve")

    with pytest.raises(DeniedError) as hidden:
        acting.mutate(ADD, branch="review")
    with pytest.raises(DeniedError) as missing:
        acting.mutate(ADD, branch="nowhere")

    assert str(hidden.value).replace("review", "nowhere") == str(missing.value)
    assert hidden.value.facts() | {"branch": "nowhere"} == missing.value.facts()


def test_a_missing_branch_does_not_tell_of_those_that_may_not_be_read(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.READ, "main"), (Action.READ, "reviw")}

    with pytest.raises(og.BranchMissingError) as missing:
        guarded.acting_as("eve").query(READ, branch="reviw")

    assert missing.value.known == ("main",)
    assert missing.value.near is None


def test_the_past_of_another_branch_is_read_with_its_own_right(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.READ, "review"), (Action.READ, "main")}
    acting = guarded.acting_as("eve")
    of_main = acting.commits(branch="review")[-1]

    policy.allowed = {(Action.READ, "review")}

    assert of_main.branch == "main"
    with pytest.raises(DeniedError, match="main"):
        acting.query(READ, branch="review", snapshot=of_main.id)
    with pytest.raises(og.CommitMissingError):
        acting.diff("review", of_main.id)


@pytest.mark.parametrize(
    "statement",
    ['update Person set { age: 1 } where name = "Ada"', 'delete Person where name starts_with "Z"'],
)
def test_a_condition_of_a_write_needs_the_right_to_read(statement: str, guarded: og.Graph, policy: Allowing) -> None:
    """The number of rows that it selects would reveal them, one question at a time."""
    policy.allowed = {(Action.CHANGE, "main")}

    assert is_denied(lambda g: g.mutate(f"query q() {{ {statement} }}"), guarded.acting_as("eve"))


@pytest.fixture
def forked(tmp_path: Path) -> tuple[str, str]:
    """A branch that may be read, taken from one that may not and has another state before; and the id of that state."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    graph.branches.create("secret")
    first = graph.mutate('query add() { insert Person { name: "Hidden" } }', branch="secret").commit_id
    graph.mutate('query drop() { delete Person where name = "Hidden" }', branch="secret")
    graph.branches.create("public", from_="secret")
    graph.mutate('query add() { insert Person { name: "Shown" } }', branch="public")
    assert first is not None
    return graph.uri, first


PEOPLE = "query people() { match { $p: Person } return { $p.name } }"
WAYS_TO_THE_PAST: dict[str, Callable[[og.Graph, str], object]] = {
    "manifest version": lambda g, _: g.query(PEOPLE, branch="public", snapshot="1"),
    "commit": lambda g, commit: g.query(PEOPLE, branch="public", snapshot=commit),
    "branch of a version": lambda g, _: g.branches.create("mine", from_="public", snapshot="1"),
    "tag of a version": lambda g, _: g.tags.create("mine", "public@1"),
    "diff of a version": lambda g, _: g.diff("public@1", "public"),
    "export of a version": lambda g, _: list(g.export_stream(branch="public", snapshot="1").pieces),
}


@pytest.mark.parametrize("way", WAYS_TO_THE_PAST)
def test_a_state_of_a_forbidden_branch_is_forbidden_however_it_is_named(
    way: str, forked: tuple[str, str], policy: Allowing
) -> None:
    uri, commit = forked
    everything = {(action, name) for action in Action for name in ("public", "mine", "main", None)}
    policy.allowed = everything
    graph = og.open_graph(uri, runtime=replace(runtime(), policy=policy)).acting_as("eve")

    with pytest.raises(DeniedError):
        WAYS_TO_THE_PAST[way](graph, commit)


def test_the_newest_state_of_a_branch_is_its_own(tmp_path: Path, policy: Allowing) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    graph.mutate('query add() { insert Person { name: "Ada" } }')
    graph.branches.create("public")
    policy.allowed = {(Action.READ, "public")}
    guarded = og.open_graph(graph.uri, runtime=replace(runtime(), policy=policy)).acting_as("eve")
    newest = guarded.query(PEOPLE, branch="public")

    again = guarded.query(PEOPLE, branch="public", snapshot=newest.commit_id)

    assert again.to_arrow().to_pylist() == [{"p.name": "Ada"}]


def test_sql_on_spark_is_an_export(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.READ, "main")}

    denied = is_denied(lambda graph: graph.sql("select 1", engine="spark"), guarded.acting_as("ada"))

    assert denied
    assert (Action.EXPORT, "main") in [(asked.action, asked.branch) for asked in policy.asked]


def test_a_dry_run_of_a_mutation_needs_to_read_only(guarded: og.Graph, policy: Allowing) -> None:
    policy.allowed = {(Action.READ, "review")}

    assert not is_denied(lambda g: g.mutate(ADD, branch="review", dry_run=True), guarded.acting_as("ada"))

    policy.allowed = {(Action.CHANGE, "review")}
    assert is_denied(lambda g: g.mutate(ADD, branch="review", dry_run=True), guarded.acting_as("ada"))
