"""The tour, step by step: what is done, why, and the command to do it yourself."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from omnigraph.demo.directory import GRAPH, write_data
from omnigraph.demo.runner import TourRunner
from omnigraph.demo.synthetic_data import FULL, MIN_EMPLOYED, SMALL, VECTOR_SIZE, SyntheticData
from omnigraph.faults import FAULT_VARIABLE
from omnigraph.options import Engine
from omnigraph.telemetry import format_bytes

QUERIES = ("--query", "queries.gq")
HASH = {"OMNIGRAPH_EMBED_PROVIDER": "hash"}
BRANCH = "review/births"
# The return code of a process that SIGKILL has ended.
KILLED = -9
# The exit code of the command line for a conflict.
CONFLICT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """The settings of a tour; the working directory is `directory` while it runs."""

    directory: Path
    is_small: bool
    engine: Engine


def play(tour: Tour, runner: TourRunner) -> None:
    """Run all steps.

    Raises:
        BugError: A command did not end as expected.
    """
    data = _generate_data(tour, runner)
    cast = _choose_cast(data)
    _load(tour, runner, data)
    _kill_writers(runner, cast)
    _run_queries(runner, cast)
    before = _merge_with_conflict(runner, cast)
    _travel_back(runner, cast, before)
    _maintain(runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cast:
    """The rows that the commands name: a person who knows many, a colleague, another field, and a company."""

    person: str
    colleague: str
    field: str
    company: str


def _choose_cast(data: SyntheticData) -> _Cast:
    people = data.person.slice(0, MIN_EMPLOYED).to_pylist()
    acquaintances = {row["values"]: row["counts"] for row in data.knows["from"].value_counts().to_pylist()}
    person, colleague = sorted(people, key=lambda row: -acquaintances.get(row["handle"], 0))[:2]
    field = next(row["field"] for row in people if row["field"] != person["field"])
    company: str = data.company["name"][0].as_py()
    return _Cast(person=person["handle"], colleague=colleague["handle"], field=field, company=company)


def _generate_data(tour: Tour, runner: TourRunner) -> SyntheticData:
    size = SMALL if tour.is_small else FULL
    runner.begin_step("make up data", f"A data set: {size.nodes:,} people, companies and papers, {size.edges:,} edges")
    data = SyntheticData(size)
    with runner.measure_work(size.nodes + size.edges):
        paths = write_data(data, tour.directory)
    for name, path in paths.items():
        rows, nbytes = data.build_tables()[name].num_rows, (tour.directory / path).stat().st_size
        runner.say(f"  {name:8} {rows:>9,} rows  {format_bytes(nbytes):>8}  {path}")
    paper = {name: data.paper[name][0].as_py() for name in ("title", "year", "abstract")}
    runner.say(f"\nOne of the papers: {paper['title']} ({paper['year']})")
    runner.say(fill(paper["abstract"], 110, initial_indent="  ", subsequent_indent="  "))
    runner.say(f"Each abstract has a vector of {VECTOR_SIZE} numbers beside it. schema.pg declares it all.\n")
    return data


def _load(tour: Tour, runner: TourRunner, data: SyntheticData) -> None:
    by_spark = tour.engine is Engine.SPARK
    if by_spark:
        who = "Spark reads, checks and writes the rows; this process publishes"
    else:
        who = "this process does everything"
    runner.begin_step("init", "A graph, created whole or not at all")
    runner.run("init", GRAPH, "--schema", "schema.pg", "--as", "ada")
    runner.begin_step("load", f"All of it in one commit, checked against the schema: {who}")
    words: list[str] = []
    for option, names in (
        ("--node", ("Person", "Company", "Paper")),
        ("--edge", ("Knows", "WorksAt", "Wrote", "Cites")),
    ):
        words += [word for name in names for word in (option, f"{name}=data/{name.lower()}.parquet")]
    runner.run(
        *("load", GRAPH, "--mode", "append", *words, "--engine", tour.engine.value, "--as", "ada"),
        rows=data.size.nodes + data.size.edges,
        are_requests_elsewhere=by_spark,
    )


def _run_queries(runner: TourRunner, cast: _Cast) -> None:
    query = ("introductions", GRAPH, *QUERIES, "--param", f"handle={cast.person}", "--param", f"field={cast.field}")
    runner.begin_step(
        "traversal", "A traversal: friends of friends, two or three steps away, who write about something else"
    )
    runner.run("query", *query)
    runner.begin_step("aggregate", "An aggregate over four types: whose papers are cited most")
    runner.run("query", "employers", GRAPH, *QUERIES)
    runner.begin_step("hybrid search", "A hybrid search: meaning and words in one ranking, after a filter")
    words = "why do indexes grow stale while schemas change"
    search = ("find", GRAPH, *QUERIES, "--param", f"words={words}", "--param", "since=2015")
    runner.run("query", *search, variables=HASH)
    runner.begin_step("explain", "How the traversal is run: what was expected of each step, and what it did")
    runner.run("explain", *query, "--analyze")


def _kill_writers(runner: TourRunner, cast: _Cast) -> None:
    runner.begin_step(
        "killed writers", "A writer is killed in the middle of a commit over two tables, by a real SIGKILL"
    )
    params = {"field": "networks", "born": "1914", "company": cast.company, "role": "fellow", "year": "2026"}
    options = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    hire = ("mutate", "hire", GRAPH, *QUERIES, *options, "--as", "bob")
    hedy = ("--param", "handle=hedy", "--param", "name=Hedy Lamarr")
    runner.run_child(*hire, *hedy, expected=KILLED, variables={FAULT_VARIABLE: "publish.head_written=kill"})
    runner.say("Both tables had been written, but nothing is visible: the commit was not published yet.")
    runner.run("query", "person", GRAPH, *QUERIES, "--param", "handle=hedy")
    runner.say(
        "The next writer does not wait for the dead one. It is killed too, a moment later: everything is visible."
    )
    mary = ("--param", "handle=mary", "--param", "name=Mary Somerville")
    runner.run_child(*hire, *mary, expected=KILLED, variables={FAULT_VARIABLE: "publish.swapped=kill"})
    runner.run("query", "person", GRAPH, *QUERIES, "--param", "handle=mary")


def _merge_with_conflict(runner: TourRunner, cast: _Cast) -> str:
    runner.begin_step(
        "branch", "A branch with an edit: a few requests whatever the size of the graph, and invisible on main"
    )
    runner.run("branch", "create", BRANCH, GRAPH)
    # Years and a field that the data does not contain, so that every step below changes something.
    on_branch = (GRAPH, *QUERIES, "--branch", BRANCH, "--as", "cyd")
    runner.run("mutate", "correct_birth", *on_branch, "--param", f"handle={cast.person}", "--param", "born=1931")
    runner.run(
        "mutate", "move", *on_branch, "--param", f"handle={cast.colleague}", "--param", "field=history of science"
    )
    runner.begin_step("diff", "What differs, found by reading only the changed parts")
    runner.run("diff", "main", BRANCH, GRAPH)
    runner.begin_step(
        "merge with a conflict", "Main has another year: the merge reports the conflict, and changes nothing"
    )
    on_main = (GRAPH, *QUERIES, "--as", "bob")
    printed = runner.run(
        "mutate", "correct_birth", *on_main, "--param", f"handle={cast.person}", "--param", "born=1932"
    )
    runner.run("branch", "merge", BRANCH, GRAPH, expected=CONFLICT)
    runner.begin_step("resolution", "Resolved in favour of the branch. All other changes of both sides are kept")
    runner.run("branch", "merge", BRANCH, GRAPH, "--strategy", "theirs", "--as", "bob")
    return printed.rpartition("commit ")[2].split()[0]


def _travel_back(runner: TourRunner, cast: _Cast, before: str) -> None:
    runner.begin_step("time travel", "Time travel: the row now, and before the merge")
    query = ("person", GRAPH, *QUERIES, "--param", f"handle={cast.person}")
    runner.run("query", *query)
    runner.run("query", *query, "--snapshot", before)
    runner.run("commit", "list", GRAPH, "--limit", "5")


def _maintain(runner: TourRunner) -> None:
    runner.begin_step(
        "optimize", "Maintenance: small files merged, indexes built; no reader or writer waits, and no result changes"
    )
    runner.run("optimize", GRAPH, "--as", "ada")
    runner.run("branch", "delete", BRANCH, GRAPH)
    runner.begin_step("check", "Check the whole graph: manifests, files, rows, indexes")
    runner.say("A small write that is killed leaves nothing to repair, only files that no commit contains:")
    runner.run("check", GRAPH)


def format_farewell(directory: Path) -> list[str]:
    """Return the last lines, printed after the table of costs."""
    return [
        "reads, writes, lists: requests of the object store by this process; none are shown for Spark's executors and",
        "the killed processes, which count for themselves. rows: of the data, or of the result.",
        "",
        f"The graph stays in {directory}: cd there, and every command above is yours to try. The tour can be repeated.",
        "Then: docs/tutorial/first-graph.md goes through it slowly; `omnigraph COMMAND --help` has the rest.",
    ]
