"""Random mutations and loads against plain dictionaries: the same verdicts, the same graph after every step."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import omnigraph as og
from load_calls import loaded
from mutating import new_graph
from omnigraph.ops.load import LoadError
from omnigraph.options import Options
from plain_writes import (
    SCHEMA,
    Mutation,
    Statement,
    Tables,
    broken_rules,
    contents,
    load,
    nothing,
    text_of,
    with_ids,
)
from upkeep_calls import MAINTAINED, settled
from worlds import FAST, runtime

PEOPLE, TEAMS, TITLES = (st.sampled_from(list(values)) for values in ("abcd", "tu", "XY"))
TAGS, NUMBERS = st.sampled_from([None, "x", "y"]), st.sampled_from([None, 0, 1, 5, 6])
SLOTS, ZIPS, R = st.sampled_from([None, 1, 2]), st.sampled_from([None, 7]), st.sampled_from([1, 2**63 - 1])
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5])
CITIES = st.sampled_from(["cx", "cy", "cz", "nowhere"])


def inserts(name: str, /, **values: st.SearchStrategy[Any]) -> st.SearchStrategy[Statement]:
    """Inserts of a type."""
    return st.tuples(st.just("insert"), st.just(name), st.fixed_dictionaries(values))


def updates(
    name: str, column: str, wanted: st.SearchStrategy[Any], /, **values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Statement]:
    """Updates of a type where a column is as wanted."""
    return st.tuples(st.just("update"), st.just(name), st.fixed_dictionaries(values), st.just(column), wanted)


def deletes(name: str, column: str, wanted: st.SearchStrategy[Any]) -> st.SearchStrategy[Statement]:
    """Deletes of a type where a column is as wanted."""
    return st.tuples(st.just("delete"), st.just(name), st.just(column), wanted)


TEAM = st.tuples(TEAMS, PEOPLE).map(
    lambda pair: [("insert", "T", {"k": pair[0]}), ("insert", "Leads", {"src": pair[0], "dst": pair[1]})]
)
PUT = st.one_of(
    inserts("P", name=PEOPLE, tag=TAGS, n=NUMBERS, r=R),
    inserts("P", name=PEOPLE, tag=TAGS, r=R),
    inserts("P", name=PEOPLE, r=R, f=FLOATS),
    inserts("Knows", src=PEOPLE, dst=PEOPLE),
    updates("P", "name", PEOPLE, f=FLOATS),
    inserts("C", title=TITLES, zip=ZIPS),
    inserts("Knows", src=PEOPLE, dst=PEOPLE, w=SLOTS),
    inserts("Owns", src=PEOPLE, dst=CITIES, slot=SLOTS),
    inserts("Leads", src=TEAMS, dst=PEOPLE),
    inserts("T", k=TEAMS),
    updates("P", "name", PEOPLE, tag=TAGS, m=st.sampled_from([1, 2])),
    updates("P", "n", st.sampled_from([0, 1, 5]), n=NUMBERS),
    updates("C", "title", TITLES, zip=ZIPS),
    updates("Owns", "src", PEOPLE, slot=SLOTS),
    updates("Knows", "dst", PEOPLE, w=SLOTS),
)
PUTS = st.one_of(st.lists(PUT, min_size=1, max_size=3), st.lists(PUT, min_size=1, max_size=3), TEAM)
DROPS = st.lists(
    st.one_of(
        deletes("P", "name", PEOPLE),
        deletes("C", "title", TITLES),
        deletes("T", "k", TEAMS),
        deletes("Knows", "dst", PEOPLE),
        deletes("Owns", "src", PEOPLE),
        deletes("Leads", "dst", PEOPLE),
    ),
    min_size=1,
    max_size=2,
)


def records(kind: str, optional: dict[str, Any], fixed: dict[str, Any], id_: Any = None) -> st.SearchStrategy[Any]:
    """Records with any of the optional properties, null or not, and any of the ids or none."""
    data = st.fixed_dictionaries(
        {name: value for name, value in fixed.items() if name not in ("from", "to")}, optional=optional
    )
    ends = {name: value for name, value in fixed.items() if name in ("from", "to")}
    key = "edge" if ends else "type"
    return st.fixed_dictionaries(
        {key: st.just(kind), **ends, "data": data}, optional={} if id_ is None else {"id": st.sampled_from(id_)}
    )


RECORD = st.one_of(
    records("P", {"tag": TAGS, "n": NUMBERS, "m": st.just(2), "f": FLOATS}, {"name": PEOPLE, "r": R}),
    records("P", {"tag": TAGS, "n": NUMBERS | st.just("many"), "r": R | st.none()}, {"name": PEOPLE}),
    records("C", {"zip": ZIPS, "title": TITLES}, {}, ["cx", "cy", "cz"]),
    records("T", {}, {"k": TEAMS}),
    records("Knows", {"w": SLOTS}, {"from": PEOPLE, "to": PEOPLE}),
    records("Owns", {"slot": SLOTS}, {"from": PEOPLE, "to": CITIES}, ["1", "2", "3"]),
    records("Leads", {}, {"from": TEAMS, "to": PEOPLE}, ["1", "2"]),
    st.just("nonsense"),
)
GOOD = st.lists(RECORD.filter(lambda one: one != "nonsense"), min_size=1, max_size=3)
WHOLE_TEAM = st.tuples(TEAMS, PEOPLE).map(
    lambda pair: [
        {"type": "T", "data": {"k": pair[0]}},
        {"edge": "Leads", "from": pair[0], "to": pair[1], "data": {}},
        {"type": "P", "data": {"name": pair[1], "r": 1}},
    ]
)
RECORDS = st.one_of(GOOD, st.lists(RECORD, min_size=1, max_size=8), WHOLE_TEAM)
START = [
    *({"type": "P", "data": {"name": name, "r": 1, "n": place}} for place, name in enumerate("abc")),
    *({"type": "C", "id": f"c{name.lower()}", "data": {"title": name}} for name in "XY"),
    {"edge": "Owns", "id": "1", "from": "a", "to": "cx", "data": {"slot": 1}},
    {"type": "T", "data": {"k": "t"}},
    {"edge": "Leads", "id": "1", "from": "t", "to": "a", "data": {}},
]


def newest(graph: og.Graph) -> str:
    """The newest commit of anybody but maintenance."""
    return graph.commits(limit=1)[0].id


@contextmanager
def unchanged(graph: og.Graph) -> Iterator[None]:
    """Nothing may happen to the graph."""
    before, rows = newest(graph), contents(graph)
    yield
    assert newest(graph) == before
    assert contents(graph) == rows


class Writes(RuleBasedStateMachine):
    """A graph and its dictionaries."""

    template: Path
    options: Options

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.tables: Tables = nothing()

    @initialize(is_seeded=st.booleans())
    def begin(self, is_seeded: bool) -> None:
        """A graph with nothing, or with something."""
        shutil.copytree(self.template, self.place / "g")
        self.graph = og.open_graph(str(self.place / "g"), runtime=runtime(self.options))
        if is_seeded:
            self.load(mode="append", records=START, leaves_out=False, is_dry_run=False)

    @rule(statements=PUTS)
    def put(self, statements: list[Statement]) -> None:
        """Inserts and updates."""
        self._mutate(statements)

    @rule(statements=DROPS)
    def drop(self, statements: list[Statement]) -> None:
        """Deletes."""
        self._mutate(statements)

    @rule(
        mode=st.sampled_from(["append", "merge", "overwrite"]),
        records=RECORDS,
        leaves_out=st.booleans(),
        is_dry_run=st.sampled_from([False, False, True]),
    )
    def load(self, mode: str, records: list[Any], leaves_out: bool, is_dry_run: bool) -> None:
        """A load in any mode, of good and bad records."""
        wanted = load(self.tables, mode, records, leaves_out=leaves_out)
        bad = Path(tempfile.mkdtemp(dir=self.place)) / "bad"
        options: dict[str, Any] = {"is_dry_run": is_dry_run, "on_error": bad if leaves_out else None}
        if wanted.unplaced or (wanted.refused and not leaves_out):
            with unchanged(self.graph), pytest.raises(LoadError) as caught:
                loaded(self.graph, mode, *records, **options)
            problems = caught.value.problems
            assert {one.line: one.rule for one in problems if one.line} == wanted.refused
            assert sum(one.line is None for one in problems) == wanted.unplaced
            assert caught.value.total == len(problems)
            return
        before = newest(self.graph)
        result = loaded(self.graph, mode, *records, **options)
        counts = {name: one.to_json() for name, one in (*result.nodes.items(), *result.edges.items())}
        assert (counts, result.rejected) == (wanted.counts, len(wanted.refused))
        self._check_reasons(bad, {} if is_dry_run else wanted.refused)
        has_effect = any(one["inserted"] + one["updated"] + one["deleted"] for one in wanted.counts.values())
        self._follow(
            before, result.commit_id, self.tables if is_dry_run else wanted.tables, has_effect and not is_dry_run
        )

    def _mutate(self, statements: list[Statement]) -> None:
        wanted = Mutation.of(self.tables, statements)
        broken = broken_rules(wanted.tables)
        text = f"query q() {{ {' '.join(map(text_of, statements))} }}"
        if broken:
            with unchanged(self.graph), pytest.raises(og.ConstraintError) as caught:
                self.graph.mutate(text)
            assert {(one.rule, one.type) for one in caught.value.violations} == broken
            return
        before = newest(self.graph)
        result = self.graph.mutate(text)
        assert (result.affected_nodes, result.affected_edges) == wanted.affected
        self._follow(before, result.commit_id, wanted.tables, wanted.affected != (0, 0))

    def _follow(self, before: str, commit_id: str | None, wanted: Tables, has_effect: bool) -> None:
        """The graph is as wanted, by one commit if that is a change."""
        last, *earlier = (commit.id for commit in self.graph.commits(limit=2))
        assert commit_id == (last if has_effect else None)
        assert before == (earlier[0] if has_effect else last)
        found = contents(self.graph)
        self.tables = with_ids(wanted, found)
        assert found == self.tables

    def _check_reasons(self, bad: Path, refused: dict[int, str]) -> None:
        """What was left out is kept with its reasons."""
        told = (bad / "reasons.jsonl").read_text("utf-8").splitlines() if bad.exists() else []
        assert {one["line"]: one["rule"] for one in map(json.loads, told)} == refused
        assert len(told) == len(refused)

    def teardown(self) -> None:
        """Nothing stays."""
        settled(self.graph)  # a compaction would write into the directory while it is removed
        shutil.rmtree(self.place)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty graph, to copy."""
    root = tmp_path_factory.mktemp("model")
    new_graph(root, SCHEMA)
    return root / "g"


@pytest.mark.parametrize(
    "examples",
    [pytest.param(15, id="some"), pytest.param(500, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
@pytest.mark.parametrize("options", [FAST, MAINTAINED], ids=["off", "auto"])
def test_a_graph_is_what_dictionaries_would_be(template: Path, examples: int, options: Options) -> None:
    machine: type[Writes] = type("Writes", (Writes,), {"template": template, "options": options})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            derandomize=examples < 100,
            deadline=None,
            phases=tuple(Phase) if examples > 100 else (Phase.generate,),  # making it smaller takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
