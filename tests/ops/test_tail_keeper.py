"""Writers keep the number of small fragments bounded, and nobody notices but by the time that things take."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from mutating import run
from omnigraph.cli.main import main
from omnigraph.commit.manifest_types import MAINTAIN
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.ops import tail_keeper
from omnigraph.ops.session import Session
from omnigraph.options import Maintenance, Options, UpkeepOptions
from omnigraph.runtime import Runtime
from omnigraph.storage import compaction
from omnigraph.storage.compaction import FragmentNumbersExhaustedError
from upkeep_calls import MAINTAINED, AtPoint, exported, fragments, indexed_rows, settled
from worlds import FAST, runtime

SCHEMA = "node P { k: String @key  n: I64? }\nnode Q { k: String @key }\nedge E: P -> P\n"
SHORT = replace(FAST, maintenance=Maintenance.AUTO, upkeep=UpkeepOptions(tail_fragments=8))


def new_graph(root: Path, options: Options = SHORT) -> og.Graph:
    return og.create_graph(str(root / "g"), SCHEMA, runtime=runtime(options))


def add(graph: og.Graph, *numbers: int) -> None:
    for number in numbers:
        run(graph, f'insert P {{ k: "p{number}", n: {number} }}')


def maintained(graph: og.Graph, branch: str = "main") -> int:
    """How many commits of maintenance a branch has."""
    return len(graph.commits(branch=branch, filters={"operation": MAINTAIN}))


def test_the_number_of_fragments_does_not_follow_the_number_of_commits(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)

    for number in range(100):
        add(graph, number)
        settled(graph)

    assert fragments(graph, "P") <= 8 + 8
    assert graph.query("query q() { match { $p: P } return { count($p) as n } }").to_arrow().to_pylist() == [{"n": 100}]
    assert 0 < maintained(graph) <= 100 // 4


def test_off_means_off(tmp_path: Path) -> None:
    uri = new_graph(tmp_path, replace(SHORT, maintenance=Maintenance.OFF)).uri
    by_argument = og.open_graph(uri, maintenance="off", runtime=runtime(SHORT))

    add(by_argument, *range(20))
    settled(by_argument)

    assert fragments(by_argument, "P") == 20
    with pytest.raises(BadArgumentError, match="maintenance"):
        og.open_graph(uri, maintenance="sometimes")


def test_by_default_it_is_on() -> None:
    code = "from omnigraph.options import Options; print(Options().maintenance.value)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "auto\n"


def test_bulk_loads_leave_it_to_small_writes(tmp_path: Path) -> None:
    upkeep = UpkeepOptions(tail_fragments=4, tail_rows=10)
    graph = new_graph(tmp_path, replace(SHORT, upkeep=upkeep))

    for number in range(8):
        graph.load([{"type": "P", "data": {"k": f"{number}-{row}"}} for row in range(10)], mode="append")
    settled(graph)
    assert maintained(graph) == 0
    add(graph, *range(5))
    settled(graph)

    assert maintained(graph) == 1
    # The large fragments are left to `optimize`.
    assert fragments(graph, "P") == 8 + 1


def test_a_branch_has_its_own_tail(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    graph.branches.create("review")

    for number in range(10):
        graph.mutate(f'query q() {{ insert P {{ k: "p{number}" }} }}', branch="review")
    settled(graph)

    assert (maintained(graph), maintained(graph, "review")) == (0, 1)


def test_a_large_result_is_left_to_optimize(tmp_path: Path) -> None:
    upkeep = UpkeepOptions(tail_fragments=4, merged_fragments=2, tail_rows=30, tail_result_rows=40)
    graph = new_graph(tmp_path, replace(SHORT, upkeep=upkeep))

    for number in range(10):
        graph.load([{"type": "P", "data": {"k": f"{number}-{row}"}} for row in range(15)], mode="append")
        settled(graph)

    assert max(fragment.count_rows() for fragment in graph.table("P").get_fragments()) == 30


def test_indexes_that_exist_stay_complete(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, MAINTAINED)
    add(graph, *range(10))
    settled(graph)
    graph.optimize(all_indexes=True)
    assert indexed_rows(graph)

    for number in range(10, 20):
        add(graph, number)
        settled(graph)

    assert set(indexed_rows(graph).values()) == {1.0}
    found = graph.query("query q() { match { $p: P  $p.n = 15 } return { $p.k } }").to_arrow().to_pylist()
    assert found == [{"p.k": "p15"}]


def test_its_commits_are_silent(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    add(graph, *range(8))
    last = run(graph, 'insert P { k: "last" }')
    settled(graph)
    assert maintained(graph) == 1

    assert [commit.operation for commit in graph.commits()] == ["mutate"] * 9 + ["init"]
    assert [commit.operation for commit in graph.commits(include_maintenance=True, limit=2)] == ["maintain", "mutate"]
    assert graph.commit_page(limit=1).commits[0].id == last.commit_id
    text = 'query q() { update P set { n: 1 } where k = "last" }'
    assert graph.mutate(text, if_commit=last.commit_id).affected_nodes == 1
    with pytest.raises(og.ConflictError):
        graph.mutate(text, if_commit=last.commit_id)


def test_cleanup_does_not_count_its_commits(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    add(graph, *range(9))
    settled(graph)
    kept = [commit.id for commit in graph.commits(limit=2)]
    assert maintained(graph) == 1

    graph.cleanup(keep=2, grace=timedelta(0), confirm=True)

    assert all(exported(graph, snapshot=commit_id) for commit_id in kept)
    assert graph.commit_page().collected == {commit.id for commit in graph.commits()[2:]}


def test_if_commit_passes_over_optimize(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, replace(FAST, upkeep=UpkeepOptions(merged_fragments=2)))
    add(graph, 1, 2)
    last = graph.snapshot().commit.id
    graph.optimize()
    assert graph.snapshot().commit.id != last

    assert run(graph, 'insert P { k: "x" }').commit_id
    graph.optimize()
    newest = graph.commits(filters={"operation": "mutate"}, limit=1)[0].id
    assert graph.mutate('query q() { insert P { k: "y" } }', if_commit=newest).commit_id


def test_a_second_one_is_deferred(tmp_path: Path) -> None:
    """While another process compacts, or is stopped amid it, others leave the branch alone and write on."""
    reached, may_go_on = threading.Event(), threading.Event()

    def stop() -> None:
        reached.set()
        assert may_go_on.wait(60)

    slow = Runtime(options=SHORT, faults=AtPoint("upkeep.compacted", stop))
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=slow)
    add(graph, *range(9))
    assert reached.wait(60)

    other = og.open_graph(graph.uri, runtime=runtime(SHORT))
    add(graph, 9)
    add(other, *range(10, 20))
    settled(other)
    before = maintained(other)
    may_go_on.set()
    settled(graph)

    assert (before, maintained(other)) == (0, 1)
    assert len(other.query("query q() { match { $p: P } return { $p.k } }").to_arrow()) == 20


def test_every_verb_runs_beside_it(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, MAINTAINED)
    errors: list[BaseException] = []

    def write(first: int) -> None:
        try:
            add(og.open_graph(graph.uri, runtime=runtime(MAINTAINED)), *range(first, first + 15))
        except BaseException as error:
            errors.append(error)
            raise

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 100)]
    for writer in writers:
        writer.start()
    # Of another type than the writers', so that only maintenance could be in the way.
    for number in range(3):
        graph.load([{"type": "Q", "data": {"k": f"load{number}"}}], mode="merge")
        graph.branches.create(f"b{number}")
        graph.mutate(f'query q() {{ insert Q {{ k: "branch{number}" }} }}', branch=f"b{number}")
        graph.merge(f"b{number}")
        run(graph, f'delete Q where k = "branch{number}"')
        graph.optimize()
        graph.cleanup(keep=1, confirm=True)
        graph.repair(confirm=True)
    for writer in writers:
        writer.join()
    graph.apply_schema(f"{SCHEMA}node R {{ k: String @key }}\n")
    settled(graph)

    assert errors == []
    assert graph.query("query q() { match { $p: P } return { count($p) as n } }").to_arrow().to_pylist() == [{"n": 30}]
    assert not graph.check().has_errors
    assert not graph.operations().pending


def test_deletes_and_updates_beside_it_are_carried_over(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, replace(FAST, maintenance=Maintenance.OFF))
    add(graph, *range(9))

    def change() -> None:
        beside = og.open_graph(graph.uri, runtime=runtime())
        run(beside, 'delete P where k = "p3"')
        run(beside, 'update P set { n: 70 } where k = "p7"')

    writer = og.open_graph(graph.uri, runtime=Runtime(options=SHORT, faults=AtPoint("upkeep.compacted", change)))
    add(writer, 9)
    settled(writer)

    assert maintained(graph) == 1
    found = graph.query("query q() { match { $p: P } return { $p.k, $p.n } order { $p.k asc } }").to_arrow().to_pylist()
    assert [row["p.n"] for row in found] == [0, 1, 2, 4, 5, 6, 70, 8, 9]


@pytest.mark.parametrize("point", ["maintain.begun", "upkeep.compacted", "publish.flushed"])
def test_an_error_reaches_no_writer(point: str, tmp_path: Path) -> None:
    class BrokenError(OmnigraphError):
        pass

    def fail() -> None:
        if threading.current_thread().name == "maintain":
            raise BrokenError

    graph = og.create_graph(
        str(tmp_path / "g"), SCHEMA, runtime=Runtime(options=SHORT, faults=AtPoint(point, fail, 99))
    )

    add(graph, *range(20))
    settled(graph)

    assert maintained(graph) == 0
    assert og.open_graph(graph.uri, runtime=runtime()).check().has_errors is False


def test_a_short_lived_handle_does_it_when_it_is_closed(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, FAST)
    timed = replace(SHORT, maintenance_seconds=60.0)

    for number in range(9):
        with og.open_graph(graph.uri, runtime=runtime(timed)) as short_lived:
            add(short_lived, number)
            assert maintained(graph) == 0

    assert maintained(graph) == 1
    assert fragments(graph, "P") == 1


def test_another_thread_may_write_while_a_handle_is_closed(tmp_path: Path) -> None:
    graph = og.open_graph(new_graph(tmp_path, FAST).uri, runtime=runtime(replace(SHORT, maintenance_seconds=60.0)))
    keeper = graph._session.tails
    done: list[str] = []

    def compact(session: Session, table_key: str, _is_stopped: Callable[[], bool], _most: int) -> None:
        done.append(table_key)
        keeper._due["other", table_key] = session

    keeper.compact = compact
    keeper._due["main", "node:P"] = graph._session

    graph.close()

    assert done == ["node:P"]


def test_a_command_does_it_before_it_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE", "auto")
    monkeypatch.setattr("omnigraph.cli.options._MAINTENANCE_SECONDS", 60.0)
    graph = new_graph(tmp_path, FAST)
    add(graph, *range(Options().upkeep.tail_fragments))

    assert main(["mutate", graph.uri, "-e", 'query q() { insert P { k: "x" } }']) == 0

    assert (maintained(graph), fragments(graph, "P")) == (1, 1)


def test_a_long_tail_is_compacted_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_keeper, "MAX_FRAGMENTS_AT_CLOSE", 6)
    uri = new_graph(tmp_path, FAST).uri
    add(og.open_graph(uri, runtime=runtime()), *range(16))

    with og.open_graph(uri, runtime=runtime(replace(SHORT, maintenance_seconds=60.0))) as graph:
        add(graph, 16)

    assert fragments(graph, "P") == 17 - 6 + 1


def test_what_takes_too_long_is_not_done_at_all(tmp_path: Path) -> None:
    uri = new_graph(tmp_path, FAST).uri
    with og.open_graph(uri, runtime=runtime(replace(SHORT, maintenance_seconds=0.0))) as graph:
        add(graph, *range(9))

    assert (maintained(graph), fragments(graph, "P")) == (0, 9)
    assert not graph.operations().pending


def test_an_interpreter_ends_though_maintenance_hangs(tmp_path: Path) -> None:
    uri = new_graph(tmp_path, FAST).uri
    code = (
        f"""
import time, omnigraph as og
from collections.abc import Callable
from dataclasses import replace
from omnigraph.ops import tail_keeper
from omnigraph.options import *
from omnigraph.runtime import Runtime
from upkeep_calls import AtPoint
tail_keeper._SECONDS_AT_EXIT = 0.2
options = Options(maintenance=Maintenance.AUTO, upkeep=UpkeepOptions(tail_fragments=2, merged_fragments=2))
faults = AtPoint("upkeep.compacted", lambda: time.sleep(3600))
graph = og.open_graph({uri!r}, runtime=Runtime(options=options, faults=faults))
for number in range(4):
    graph.mutate('query q() {{{{ insert P {{{{ k: "%s" }}}} }}}}' % number)
print("written", flush=True)
""".replace("{{{{", "{")
        .replace("}}}}", "}")
        .replace("{{", "{")
        .replace("}}", "}")
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, "written\n"), ended.stderr


# --- fragment numbers -------------------------------------------------------------------------------------------


def test_a_compaction_reserves_few_numbers(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, replace(FAST, upkeep=UpkeepOptions(merged_fragments=2)))
    add(graph, 0)
    for number in range(1, 11):
        add(graph, number)
        graph.optimize()

    (fragment,) = graph.table("P").get_fragments()
    assert fragment.fragment_id <= 10 * (compaction.MIN_RESERVED_NUMBERS + 2)


def test_a_compaction_of_many_fragments_outlasts_as_many_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of writers may add them faster than one fragment after another."""
    monkeypatch.setattr(compaction, "MIN_RESERVED_NUMBERS", 2)
    graph = new_graph(tmp_path, replace(FAST, upkeep=UpkeepOptions(merged_fragments=2)))
    add(graph, *range(6))
    other = og.open_graph(graph.uri, runtime=runtime())
    faults = AtPoint("upkeep.compacted", lambda: add(other, *range(6, 12)))
    graph._session.store.runtime = replace(graph._session.runtime, faults=faults)

    (done,) = [table for table in graph.optimize().tables if table.table_key == "node:P"]

    assert (done.error, done.fragments_removed) == (None, 6)
    assert fragments(graph, "P") == 7


@pytest.mark.parametrize("left", [0, 1, 5])
def test_the_last_number_is_an_error_and_no_panic(left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path, replace(FAST, upkeep=UpkeepOptions(merged_fragments=2)))
    add(graph, 0, 1)
    with monkeypatch.context() as patched:
        last = compaction.MAX_FRAGMENT_NUMBER - left
        patched.setattr(compaction, "_reserve_numbers", lambda *_: last)
        graph.optimize()
    for number in range(left):
        add(graph, 10 + number)
    before = exported(graph)

    with pytest.raises(FragmentNumbersExhaustedError, match="into a new one"):
        add(graph, 99)

    assert exported(graph) == before
    (told,) = [table for table in graph.optimize().tables if table.table_key == "node:P"]
    assert ("fragment numbers" in (told.error or "")) == bool(left)


def test_near_the_end_half_of_the_numbers_is_left_to_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path, replace(FAST, upkeep=UpkeepOptions(merged_fragments=2)))
    add(graph, 0, 1)
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "_reserve_numbers", lambda *_: compaction.MAX_FRAGMENT_NUMBER - 10)
        graph.optimize()

    add(graph, 2)
    graph.optimize()

    (fragment,) = graph.table("P").get_fragments()
    assert compaction.MAX_FRAGMENT_NUMBER - 8 < fragment.fragment_id < compaction.MAX_FRAGMENT_NUMBER


def test_counts_of_many_branches_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_keeper, "MAX_COUNTED_TABLES", 1)
    graph = new_graph(tmp_path)
    graph.branches.create("review")

    graph.mutate('query q() { insert P { k: "a" } }', branch="review")
    add(graph, *range(9))
    settled(graph)

    assert maintained(graph) == 1
