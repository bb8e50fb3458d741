"""Optimising changes how rows are stored, never what they say."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import run
from omnigraph.ops import maintenance_worker
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.session import ReadOnlyError
from omnigraph.storage.compaction import SegmentBuild, build_index_segment
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import StoreUnavailableError
from upkeep_calls import EAGER, by_table, exported, files_of, fragments, indexed_rows, opened, optimized
from worlds import FAST, runtime

SCHEMA = """
node P {
  k: String @key
  n: I64 @index
  s: String? @index
  e: enum(red, green)? @index
  b: Bool? @index
  i: I32? @unique
  u: U32? @index
  w: U64? @index
  f: F32? @index
  g: F64? @index
  d: Date? @index
  t: DateTime? @index
  l: [String]? @index
  m: [I64]? @index
  v: Vector(3)? @index
  z: Blob?
}
edge E: P -> P { w: I32?  z: Blob? }
"""
SIZES = (0, 10, 5_000, 200_000)


def row(number: int) -> dict[str, object]:
    """A row with a value of every type; every third is mostly null."""
    if number % 3 == 2:
        return {"type": "P", "data": {"k": f"p{number}", "n": number}}
    return {
        "type": "P",
        "data": {
            "k": f"p{number}",
            "n": number - 5,
            "s": f"graphs run {number}",
            "e": "red" if number % 2 else "green",
            "b": bool(number % 2),
            "i": -number,
            "u": 2**32 - 1 - number,
            "w": 2**64 - 1 - number,
            "f": number / 2,
            "g": -number / 3,
            "d": f"2024-02-{number % 28 + 1:02}",
            "t": f"2024-02-29T00:00:{number % 60:02}.000001Z",
            "l": ["a", f"b{number}"],
            "m": [number, -number],
            "v": [float(number), 1.0, -1.0],
            "z": os.urandom(SIZES[number % 4]),
        },
    }


def edge(source: int, target: int) -> dict[str, object]:
    return {
        "edge": "E",
        "from": f"p{source}",
        "to": f"p{target}",
        "data": {"w": source, "z": os.urandom(SIZES[target % 4])},
    }


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Five loads, an update and a delete: many fragments, some with holes."""
    made = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    for part in range(5):
        rows = [row(number) for number in range(part * 6, part * 6 + 6)]
        edges = [edge(part * 6 + 1, target) for target in range(part * 6, part * 6 + 3)]
        made.load([*rows, *edges], mode="append")
    run(made, 'update P set { n: 1000 } where k = "p7"')
    run(made, 'delete P where k = "p0"')
    return made


def test_every_type_says_the_same_afterwards(graph: og.Graph) -> None:
    before = exported(graph)

    done = by_table(optimized(graph))

    assert exported(graph) == before
    # The row that was updated has a blob as large as all blobs of a load together: it is one of them.
    assert (fragments(graph, "P"), fragments(graph, "E")) == (1, 1)
    assert (done["P"].fragments_removed, done["P"].fragments_added) == (6, 1)


def test_blobs_are_read_as_before(graph: og.Graph) -> None:
    names = [f"p{number}" for number in range(1, 30)]

    def blobs() -> list[bytes | None]:
        found = [graph.blob("P", name, "z") for name in names]
        return [None if one is None else one.read() for one in found]

    before = blobs()

    optimized(graph)

    assert blobs() == before
    assert {None if one is None else len(one) for one in before} == {None, *SIZES}


def test_every_declared_index_is_there_and_complete(graph: og.Graph) -> None:
    optimized(graph)

    scalars = {f"P.{name} BTREE" for name in ("id", "n", "s", "e", "i", "u", "w", "f", "g", "d", "t")}
    others = {"P.b BITMAP", "P.s INVERTED", "P.l LABEL_LIST", "P.m LABEL_LIST", "P.v IVF_FLAT"}
    assert indexed_rows(graph) == dict.fromkeys({*scalars, *others, "E.id BTREE", "E.src BTREE", "E.dst BTREE"}, 1.0)


def test_only_indexes_that_queries_ask_are_built_unless_all_are_wanted(graph: og.Graph) -> None:
    optimized(graph, all_indexes=False)

    wanted = {f"P.{name} BTREE" for name in ("id", "n", "s", "e", "i", "u", "w", "f", "g", "d", "t")}
    others = {"P.b BITMAP", "P.l LABEL_LIST", "P.m LABEL_LIST"}
    assert set(indexed_rows(graph)) == {*wanted, *others, "E.id BTREE", "E.src BTREE", "E.dst BTREE"}


def test_an_index_that_was_built_once_is_kept_up_whoever_asks(graph: og.Graph) -> None:
    optimized(graph, all_indexes=True)
    graph.load([row(number) for number in range(40, 45)], mode="append")

    optimized(graph, all_indexes=False)

    assert set(indexed_rows(graph).values()) == {1.0}


def test_a_table_with_nothing_to_do_gets_no_commit_and_no_file(graph: og.Graph) -> None:
    optimized(graph)
    commits, files = len(graph.commits()), files_of(graph)

    done = optimized(graph)

    assert {(one.skipped, one.commit_id) for one in done.tables} == {("nothing to do", None)}
    assert len(graph.commits()) == commits
    assert files_of(graph) == files


def test_a_table_with_nothing_to_do_costs_a_look(graph: og.Graph) -> None:
    optimized(graph)
    again = opened(graph.uri)
    again.optimize()

    with again._session.runtime.telemetry.count_requests() as requests:
        again.optimize()

    assert requests.count(operation="put") == 0
    assert requests.count(target="table") == 0


def test_each_table_gets_a_commit_of_its_own_that_says_who_and_why(graph: og.Graph) -> None:
    done = opened(graph.uri).optimize(actor="ada", message="at night")

    newest = graph.commits()[:2]
    assert {one.commit_id for one in done.tables} == {commit.id for commit in newest}
    assert {(one.operation, one.actor, one.message) for one in newest} == {("optimize", "ada", "at night")}
    assert {one.manifest_version for one in done.tables} == {commit.manifest_version for commit in newest}


def test_states_before_are_read_as_before(graph: og.Graph) -> None:
    before = {commit.id: exported(graph, commit.id) for commit in graph.commits()}

    optimized(graph)

    assert {commit_id: exported(graph, commit_id) for commit_id in before} == before


def test_what_an_open_handle_has_in_memory_stays_right(graph: og.Graph) -> None:
    query = "query q() { match { $p: P  $p $e:e $q } return { $p.k, $q.k, $e.w } order { $p.k, $q.k } }"
    search = 'query q() { match { $p: P  search($p.s, "graphs") } return { $p.k } order { $p.k } }'
    before = [graph.query(text).rows() for text in (query, search)]

    optimized(graph)
    after = [graph.query(text).rows() for text in (query, search)]
    run(graph, 'delete P where k = "p8"')
    later = graph.query(query).rows()

    assert after == before
    assert later == [one for one in before[0] if "p8" not in one.values()]


def test_only_the_types_that_are_named_are_touched(graph: og.Graph) -> None:
    done = opened(graph.uri).optimize(types=["E"])

    assert [one.table_key for one in done.tables] == ["edge:E"]
    assert (fragments(graph, "P"), fragments(graph, "E")) == (6, 1)


def test_a_type_that_is_not_there_is_refused(graph: og.Graph) -> None:
    with pytest.raises(TypeMissingError, match="`Pp`"):
        graph.optimize(types=["Pp"])


def test_a_read_only_graph_is_not_optimised(graph: og.Graph) -> None:
    with pytest.raises(ReadOnlyError):
        og.open_graph(graph.uri, read_only=True).optimize()


def test_a_branch_is_optimised_by_itself(graph: og.Graph) -> None:
    graph.branches.create("b")
    before, was = exported(graph, branch="b"), fragments(graph, "E")

    optimized(graph, branch="b")

    assert exported(graph, branch="b") == before
    assert len(graph.table("E", branch="b").get_fragments()) == 1
    assert fragments(graph, "E") == was


def test_small_tables_are_left_alone_by_default(graph: og.Graph) -> None:
    run(graph, 'insert P { k: "x", n: 1 }')
    sixth = fragments(graph, "P")

    graph.optimize()

    assert fragments(graph, "P") < sixth, "seven fragments are worth merging"
    assert indexed_rows(graph) == {}, "thirty rows are not worth an index"


def test_a_few_new_rows_are_indexed_without_the_others(graph: og.Graph) -> None:
    optimized(graph)
    graph.load([row(number) for number in range(40, 45)], mode="append")
    alone = replace(EAGER, merged_fragments=10)

    og.open_graph(graph.uri, runtime=runtime(replace(FAST, upkeep=alone))).optimize()

    found = next(one for one in graph.indexes() if (one.type_name, one.column, one.kind) == ("P", "n", "BTREE"))
    assert (found.segments, found.coverage) == (2, 1.0)


# --- indexes that are asked -----------------------------------------------------------------------------


def test_full_text_hits_are_not_doubled_however_often_it_runs(graph: og.Graph) -> None:
    for number in range(40, 46):
        graph.load([row(number)], mode="append")
        optimized(graph)

    found = graph.table("P").to_table(["id", "_score"], full_text_query="graphs")["id"].to_pylist()

    assert len(found) == len(set(found)) == sum("graphs" in (one or "") for one in _texts(graph))


def _texts(graph: og.Graph) -> list[str | None]:
    found: list[str | None] = graph.table("P").to_table(["s"])["s"].to_pylist()
    return found


def test_vectors_are_found_through_the_index(graph: og.Graph) -> None:
    optimized(graph)

    nearest = {"column": "v", "q": [4.0, 1.0, -1.0], "k": 1, "nprobes": 20}
    found = graph.table("P").to_table(["id", "_distance"], nearest=nearest)

    assert found["id"].to_pylist() == ["p4"]


def test_a_vector_index_without_vectors_is_pending_and_built_later(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key  v: Vector(2)? @index }", runtime=runtime())
    graph.load([{"type": "P", "data": {"k": "a"}}], mode="append")

    first = by_table(optimized(graph))["P"]
    again = by_table(optimized(graph))["P"]
    run(graph, 'update P set { v: [1.0, 2.0] } where k = "a"')
    later = by_table(optimized(graph))["P"]

    assert (first.indexes_built, first.indexes_pending) == (("id_btree",), ("v_ivf_flat",))
    assert (again.commit_id, again.indexes_pending) == (None, ("v_ivf_flat",))
    assert "v_ivf_flat" in later.indexes_built
    assert later.indexes_pending == ()


def test_queries_ask_the_indexes(tmp_path: Path) -> None:
    graph = og.create_graph(
        str(tmp_path / "g"), "node P { k: String @key  n: I64 @index }\nedge E: P -> P", runtime=runtime()
    )
    count = 270_000
    graph.load(nodes={"P": _people(count)}, mode="append")
    graph.load(edges={"E": _edges(60_000)}, mode="append")
    by_value = "query q() { match { $p: P { n: 77 } } return { $p.k } }"
    by_edge = 'query q() { match { $p: P { k: "p00000005" }  $p e $q } return { $q.k } }'
    before = [str(graph.explain(text)) for text in (by_value, by_edge)]
    rows = [sorted(map(str, graph.query(text).rows())) for text in (by_value, by_edge)]

    graph.optimize()
    fresh = og.open_graph(graph.uri, runtime=runtime())
    after = [str(fresh.explain(text)) for text in (by_value, by_edge)]

    assert ["index n_btree" in text for text in (before[0], after[0])] == [False, True]
    assert ["indexed" in text for text in (before[1], after[1])] == [False, True]
    assert [sorted(map(str, fresh.query(text).rows())) for text in (by_value, by_edge)] == rows


def _people(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table({"k": [f"p{number:08}" for number in numbers], "n": [number % 9_973 for number in numbers]})


def _edges(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table({"from": [f"p{number:08}" for number in numbers], "to": [f"p{n + 1:08}" for n in numbers]})


# --- what goes wrong --------------------------------------------------------------------------------------


def test_a_table_that_fails_is_reported_and_the_others_are_done(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(table: LanceTable, segment: SegmentBuild) -> str:
        if segment.column == "src":
            raise StoreUnavailableError("build it", "the disk is full")
        return build_index_segment(table, segment)

    monkeypatch.setattr(maintenance_worker, "build_index_segment", wrong)
    before, known = exported(graph), files_of(graph)

    done = opened(graph.uri).optimize()

    assert done.has_failed
    assert "the disk is full" in str(by_table(done)["E"].error)
    assert by_table(done)["P"].commit_id is not None
    assert exported(graph) == before
    assert {file for file in files_of(graph) - known if file.startswith("edges/") and "/_versions/" not in file} == {
        file for file in files_of(graph) - known if "/_indices/" in file and file.startswith("edges/")
    }


def test_an_interrupt_leaves_nothing_behind(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(maintenance_worker, "build_index_segment", interrupted)
    before, commits = files_of(graph), len(graph.commits())

    with pytest.raises(KeyboardInterrupt):
        opened(graph.uri).optimize()

    assert files_of(graph) == before
    assert len(graph.commits()) == commits
    assert graph.operations().pending == ()


def test_nothing_is_left_that_no_version_uses(graph: og.Graph) -> None:
    before = files_of(graph)

    optimized(graph)

    used = set()
    for name, room in (("P", "nodes"), ("E", "edges")):
        table = graph.table(name)
        path = table.uri.partition(f"/{room}/")[2].rstrip("/")
        used |= {f"{room}/{path}/data/{file.path}" for one in table.get_fragments() for file in one.metadata.files}
        uuids = [segment.uuid for index in table.describe_indices() for segment in index.segments]
        used |= {f"{room}/{path}/_indices/{uuid}" for uuid in uuids}
    made = {file for file in files_of(graph) - before if "/_versions/" not in file}
    assert {file for file in made if not file.rsplit("/", 1)[0].endswith("data") and "/data/" not in file} <= {
        file for file in made if file.rsplit("/", 1)[0] in used
    }
    assert {file for file in made if file.endswith(".lance") and "/data/" in file} <= used
    versions = [file for file in files_of(graph) - before if "/_versions/" in file]
    assert len(versions) == 2, "one for each table: previews are gone"


BLOBS = "node A { k: String @key  z: Blob? }"


def with_blobs(graph: og.Graph, rows: dict[str, int]) -> None:
    """Rows by name, each with a blob of so many bytes; 0: none."""
    made = {key: None if size == 0 else os.urandom(size) for key, size in rows.items()}
    graph.load([{"type": "A", "data": {"k": key, "z": blob}} for key, blob in made.items()], mode="append")


def blob_sizes(graph: og.Graph) -> dict[str, int]:
    """By its name, how many bytes each blob file of the tables has."""
    found = [file for file in (Path(graph.uri) / "nodes").rglob("*.blob") if file.is_file()]
    return {str(file): file.stat().st_size for file in found}


@pytest.mark.parametrize("size, left", [(0, 1), (300_000, 2)])
def test_blobs_are_not_written_anew_for_the_sake_of_a_few_rows(size: int, left: int, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), BLOBS, runtime=runtime())
    for rows, blob in ((1, 0), (9, 0), (40, 0), (2, size), (3, 0)):
        with_blobs(graph, {f"{rows} {number}": blob for number in range(rows)})
    before = blob_sizes(graph)

    graph.optimize()

    assert fragments(graph, "A") == left
    assert blob_sizes(graph) == before


def test_small_rows_come_together_beside_a_large_blob(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), BLOBS, runtime=runtime())
    with_blobs(graph, {"large": 3_000_000})
    before, said = blob_sizes(graph), []
    for number in range(8):
        with_blobs(graph, {f"small {number}": 0})
        said.append(exported(graph))
        graph.optimize()

        assert exported(graph) == said[-1]

    assert blob_sizes(graph) == before
    assert fragments(graph, "A") <= 5


def test_a_blob_is_written_anew_a_few_times_at_most(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), BLOBS, runtime=runtime())
    size, loads = 200_000, 20
    for number in range(loads):
        with_blobs(graph, {f"a{number}": size})
        graph.optimize()

    written = sum(blob_sizes(graph).values())

    assert fragments(graph, "A") <= 8
    assert size * loads < written <= size * loads * 4


def test_deleted_rows_give_the_room_of_their_blobs_back(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), BLOBS, runtime=runtime())
    with_blobs(graph, {f"a{number}": 400_000 for number in range(6)})
    run(graph, 'delete A where k in ["a1", "a2", "a3"]')
    before = blob_sizes(graph)

    done = by_table(graph.optimize())

    fresh = sum(size for file, size in blob_sizes(graph).items() if file not in before)
    assert (done["A"].fragments_removed, done["A"].fragments_added) == (1, 1)
    assert fresh == 3 * 400_000
