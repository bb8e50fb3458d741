"""A declared vector index: what it finds is re-ranked exactly, and it is never short of rows."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.faults import ArmedFaults
from omnigraph.ops.maintenance_worker import LocalOptimizeWorker
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.options import Options, UpkeepOptions
from omnigraph.runtime import Runtime
from upkeep_calls import AtPoint
from vector_worlds import SCHEMA, SIZE, World, make_small
from worlds import runtime

ROWS = 3_000
KINDS = ("ivf_flat", "ivf_pq", "ivf_rq", "hnsw")
METRICS = ("cosine", "l2", "dot")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_every_kind_finds_what_it_declares_at_every_share_of_rows(tmp_path: Path, kind: str, metric: str) -> None:
    world = World(tmp_path / "g", kind, metric)
    world.add(0, ROWS)
    world.graph.optimize()

    said = set()
    for share in (1.0, 0.99, 0.5, 0.1, 0.01, 0.001, 0.00001):
        found, notes = world.find_recall(share, questions=8)
        assert found >= 0.9, (share, found)
        said |= {note.split(":")[0] for note in notes}
    assert "nearest of Doc.vec is approximate" in said
    assert "nearest of Doc.vec is exact" in said


def test_without_an_index_and_when_asked_the_search_is_exact(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    query = world.draw(1)[0].astype(np.float64)
    before, notes = world.ask(query)
    assert notes == ("nearest of Doc.vec is exact",)
    world.graph.optimize()

    exact, notes = world.ask(query, exact=True)

    assert [key for _, key in before] == [key for _, key in exact] == [key for _, key in world.rank(query)[:10]]
    assert notes == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_half_covered_index_misses_no_new_changed_or_deleted_row(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path / "g", kind)
    world.add(0, ROWS)
    world.graph.optimize()
    world.add(ROWS, 500)
    world.add(100, 300)
    world.delete([f"d{number:05}" for number in range(500, 700)])

    said = set()
    for share in (1.0, 0.3, 0.02):
        found, notes = world.find_recall(share, questions=6)
        assert found >= 0.9
        said |= notes
    assert any("approximate" in note for note in said)
    # The nearest row of a new vector is the new row itself.
    key = f"d{ROWS + 5:05}"
    vector = world.vectors[key]
    assert vector is not None
    assert world.ask(vector.astype(np.float64), top=1)[0][0][1] == key


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_new_rows_are_searched_without_the_index_or_with_it(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path / "g", kind)
    world.add(0, ROWS)
    world.graph.optimize()
    world.add(ROWS, 100)

    few = world.graph.optimize()

    # Product quantization is trained with 256 vectors at least.
    pending = [name for table in few.tables for name in table.indexes_pending]
    assert pending == (["vec_ivf_pq"] if kind == "ivf_pq" else [])
    assert not few.has_failed
    vector = world.vectors[f"d{ROWS + 5:05}"]
    assert vector is not None
    assert world.ask(vector.astype(np.float64), top=1)[0][0][1] == f"d{ROWS + 5:05}"
    assert world.find_recall(1.0, questions=6)[0] >= 0.9

    world.add(ROWS + 100, 300)
    assert [name for table in world.graph.optimize().tables for name in table.indexes_pending] == []
    assert [report.state.value for report in world.graph.indexes() if report.column == "vec"] == ["complete"]


@pytest.mark.parametrize("kind", KINDS)
def test_branches_and_old_commits_are_searched_by_their_own_rows(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path / "g", kind)
    world.add(0, ROWS)
    world.graph.optimize()
    old = dict(world.vectors)
    first = world.graph.snapshot().commit.id
    world.graph.branches.create("side")
    world.add(0, 800)
    world.graph.optimize()
    new = dict(world.vectors)

    assert world.find_recall(1.0, questions=6)[0] >= 0.9
    shares = dict(world.shares)
    world.vectors = old
    states: list[dict[str, Any]] = [{"branch": "side"}, {"snapshot": first}]
    for where in states:
        # Shares were drawn anew; without them as a filter, only the vectors matter.
        world.shares = dict.fromkeys(old, 0.0)
        found, _ = world.find_recall(1.0, questions=6, **where)
        assert found >= 0.9
    world.vectors, world.shares = new, shares


def test_rows_that_hops_restrict_are_ranked_among_themselves(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.load(nodes={"Tag": pa.table({"name": ["few", "many"]})}, mode="merge")
    keys = sorted(world.vectors)
    few, many = keys[7::300], keys[::2]
    edges = pa.table({"src": few + many, "dst": ["few"] * len(few) + ["many"] * len(many)})
    world.graph.load(edges={"Has": edges}, mode="append")
    world.graph.optimize()

    for name, members in (("few", few), ("many", many)):
        query = world.draw(1)[0].astype(np.float64)
        text = f"""query q($v: Vector({SIZE})) {{
          match {{ $d: Doc  $t: Tag {{ name: "{name}" }}  $d has $t }}
          return {{ $d.key as key }} order {{ nearest($d.vec, $v) }} limit 10 }}"""
        found = [row["key"] for row in world.graph.query(text, params={"v": query.tolist()}).rows()]
        true = [key for _, key in world.rank(query) if key in set(members)]
        assert len(found) == min(10, len(true))
        assert len(set(found) & set(true[:10])) >= 8


def test_another_metric_or_kind_replaces_the_index_and_never_answers_by_the_old_one(tmp_path: Path) -> None:
    world = World(tmp_path / "g", metric="cosine")
    world.add(0, ROWS)
    world.graph.optimize()
    world.graph.apply_schema(SCHEMA.format(size=SIZE, kind="ivf_rq", metric="l2"))
    world.metric = "l2"

    found, notes = world.find_recall(1.0)
    assert (found, notes) == (1.0, {"nearest of Doc.vec is exact"})
    world.graph.optimize()

    found, notes = world.find_recall(1.0)
    assert found >= 0.9
    assert any("approximate" in note for note in notes)
    kinds = [report.kind for report in world.graph.indexes() if report.column == "vec"]
    assert kinds == ["IVF_RQ"]


def test_a_reader_without_a_measured_recall_is_exact_and_measures_it(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.optimize()
    stored = list((tmp_path / "g" / "_derived").glob("recall-*"))
    assert len(stored) == 1
    stored[0].write_bytes(b"damaged")
    world.graph = og.open_graph(str(tmp_path / "g"), runtime=runtime(options=Options()))

    found, notes = world.find_recall(1.0, questions=1)
    assert (found, notes) == (1.0, {"nearest of Doc.vec is exact"})
    world.graph._session.reads.wait_for_workers()

    assert any("approximate" in note for note in world.find_recall(1.0, questions=1)[1])


def test_a_build_that_fails_changes_no_answer(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    query = world.draw(1)[0].astype(np.float64)
    before = world.ask(query)
    faulty = Runtime(
        options=Options(upkeep=UpkeepOptions(index_rows=100)), faults=ArmedFaults("upkeep.indexed", "error")
    )

    result = og.open_graph(str(tmp_path / "g"), runtime=faulty).optimize()

    assert result.has_failed
    assert world.ask(query) == before
    assert [report.state.value for report in world.graph.indexes() if report.column == "vec"] == ["missing"]


@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("harm", ["gone", "cut", "changed"])
def test_a_damaged_index_is_not_used_and_repair_and_optimize_replace_it(tmp_path: Path, harm: str, name: str) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.optimize()
    described = {index.name: index for index in world.graph.table("Doc").describe_indices()}
    (segment,) = described["vec_ivf_flat"].segments
    (file,) = (tmp_path / "g").glob(f"nodes/*/_indices/{segment.uuid}/{name}")
    data = bytearray(file.read_bytes())
    file.unlink()
    if harm != "gone":
        data[len(data) // 2] ^= 0x55
        file.write_bytes(data[: len(data) // 3] if harm == "cut" else data)
    options = Options(upkeep=UpkeepOptions(index_rows=100))
    world.graph = og.open_graph(str(tmp_path / "g"), runtime=runtime(options=options))

    found, notes = world.find_recall(1.0, questions=2)

    assert (found, notes) == (1.0, {"nearest of Doc.vec is exact"})
    assert world.graph.check().has_errors
    world.graph.repair(confirm=True)
    world.graph.optimize()
    assert not world.graph.check().has_errors
    found, notes = world.find_recall(1.0, questions=4)
    assert found >= 0.9
    assert any("approximate" in note for note in notes)


def test_a_measurement_that_is_stopped_is_made_up_for_by_the_next_call(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    options = Options(upkeep=UpkeepOptions(index_rows=100))
    worker = LocalOptimizeWorker(options.upkeep)
    # The index is published already.
    stopping = Runtime(options=options, faults=AtPoint("publish.disarmed", worker.stop))
    session = og.open_graph(str(tmp_path / "g"), runtime=stopping)._session
    call = OptimizeCall(upkeep=UpkeepCall(actor="test"), types=("Doc",))

    done = optimize(session, call, worker)

    assert [table.error for table in done.tables] == [None]
    assert done.tables[0].is_committed
    assert not list((tmp_path / "g" / "_derived").glob("recall-*"))
    world.graph.optimize()
    assert len(list((tmp_path / "g" / "_derived").glob("recall-*"))) == 1
    assert any("approximate" in note for note in world.find_recall(1.0, questions=2)[1])


def test_searches_during_maintenance_and_writes_are_of_one_state(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.optimize()
    failures: list[BaseException] = []
    is_over = threading.Event()

    def maintain() -> None:
        try:
            while not is_over.is_set():
                world.graph.optimize()
                world.graph.cleanup(keep=1, grace=timedelta(minutes=5), confirm=True)
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        for number in range(6):
            world.add(ROWS + 50 * number, 50)
            # Read from the newest state, which only this thread changes.
            assert world.find_recall(1.0, questions=2)[0] >= 0.8
    finally:
        is_over.set()
        thread.join()
    assert not failures


def test_the_recall_of_an_index_is_measured_on_request(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.optimize()

    (report,) = [report for report in world.graph.indexes(recall=True) if report.column == "vec"]

    assert report.recall is not None
    assert list(report.recall) == ["1", "0.1", "0.01", "0.001"]
    assert all(share >= 0.85 for share in report.recall.values())
    assert all(other.recall is None for other in world.graph.indexes())


def test_explain_tells_how_a_vector_is_searched(tmp_path: Path) -> None:
    world = World(tmp_path / "g")
    world.add(0, ROWS)
    world.graph.optimize()
    order = "order { nearest($d.vec, $v) } limit 3"
    text = f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.key }} {order} }}"
    params = {"v": world.draw(1)[0].tolist()}

    planned = world.graph.explain(text, params=params)
    analyzed = world.graph.explain(text, params=params, analyze=True)
    forced = world.graph.explain(text.replace("$v) }", "$v, exact=true) }"), params=params)

    assert "nearest of Doc.vec: by its ivf_flat index where that is cheaper, recall at least 0.9" in planned.text
    assert "nearest of Doc.vec is approximate: expected recall" in analyzed.text
    assert forced.to_json()["searches"] == ["nearest of Doc.vec: exact, as asked"]
