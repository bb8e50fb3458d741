"""Cached keys change what a write costs, and nothing else: with, without and with little room, all writes end alike."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from load_calls import edge, loaded, node
from omnigraph.ops.load import LoadError
from omnigraph.options import Maintenance, UpkeepOptions
from omnigraph.runtime import Runtime
from omnigraph.storage import carried_rows, key_cache
from omnigraph.storage.lance_table import ADDRESS, LanceTable, read_ahead
from upkeep_calls import eager, exported

SCHEMA = """
node P { name: String @key  age: I32?  email: String? @unique  score: F64? @unique }
node Team { name: String @key }
edge Knows: P -> P @card(0..3) { since: I32?  @key(src, dst) }
edge Leads: Team -> P { role: String? @unique  @key(src, dst) }
"""
NAMES = [f"n{number}" for number in range(14)]
EMAILS = [f"e{number}" for number in range(6)]
BRANCHES = ["main", "main", "left", "right"]
LOOKUPS = [
    ("node:P", "id", NAMES),
    ("node:P", "email", EMAILS),
    ("node:P", "score", [0.0, 1.5]),
    ("edge:Knows", "src", NAMES),
    ("edge:Knows", "dst", NAMES),
    ("edge:Leads", "role", EMAILS),
]

# A step runs on two handles of one graph, and returns what a caller sees of it.
Step = Callable[[list[og.Graph]], object]


def run_mutation(handle: int, branch: str, text: str) -> Step:
    def run(handles: list[og.Graph]) -> object:
        result = handles[handle].mutate(f"query q() {{ {text} }}", branch=branch)
        return result.affected_nodes, result.affected_edges

    return run


def choose_statements(random: Random) -> str:
    name, other, email = random.choice(NAMES), random.choice(NAMES), random.choice(EMAILS)
    age, score = random.randrange(90), random.choice(["0.0", "-0.0", "1.5"])
    return random.choice(
        [
            f'insert P {{ name: "{name}", age: {age} }}',
            f'insert P {{ name: "{name}", email: "{email}" }} insert P {{ name: "{other}", age: {age} }}',
            f'insert P {{ name: "{name}", score: {score} }}',
            f'update P set {{ age: {age} }} where name = "{name}"',  # noqa: S608 - no SQL
            f'update P set {{ email: "{email}" }} where name in ["{name}", "{other}"]',  # noqa: S608 - no SQL
            f"update P set {{ age: {age} }} where age < 20",  # noqa: S608 - no SQL
            f'delete P where name = "{name}"',
            f'delete P where email = "{email}"',
            f'insert Knows {{ from: "{name}", to: "{other}" }}',
            f'insert Knows {{ from: "{name}", to: "{other}", since: {age} }}',
            f'insert P {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "{other}" }}',
            f'delete Knows where from = "{name}"',
            f'insert Team {{ name: "t" }} insert Leads {{ from: "t", to: "{name}", role: "{email}" }}',
        ]
    )


def choose_load(random: Random) -> Step:
    names = random.sample(NAMES, 3)
    mode, handle, age = random.choice(["append", "merge", "merge"]), random.randrange(2), random.randrange(90)
    records = [*(node("P", name=name, age=age) for name in names), edge("Knows", names[0], random.choice(NAMES))]
    return lambda handles: loaded(handles[handle], mode, *records).commit_id is not None


def choose_step(random: Random) -> Step:
    handle, branch = random.randrange(2), random.choice(BRANCHES)
    side = random.choice(["left", "right"])
    match random.randrange(20):
        case 0:
            return lambda handles: handles[handle].branches.create(side).name
        case 1:
            return lambda handles: handles[handle].branches.delete(side).name
        case 2:
            return lambda handles: handles[handle].merge(side).outcome
        case 3:
            return lambda handles: handles[handle].merge("main", into=side).outcome
        case 4:
            return lambda handles: len(handles[handle].optimize(branch=branch, all_indexes=True).tables)
        case 5:
            return lambda handles: handles[handle].cleanup(keep=2, grace=timedelta(0), confirm=True) is not None
        case 6 | 7:
            return choose_load(random)
        case 8 | 9:
            back = random.randrange(4)
            return lambda handles: compare_past(handles[handle], branch, back)
        case _:
            return run_mutation(handle, branch, choose_statements(random))


def compare_past(graph: og.Graph, branch: str, back: int) -> bytes:
    """Compare the lookups of an earlier state with scans of it."""
    commits = graph.commits(branch=branch, limit=back + 1)
    commit = commits[-1].id
    compare_lookups(graph, branch, commit)
    return exported(graph, commit, branch)


def compare_lookups(graph: og.Graph, branch: str = "main", commit: str | None = None) -> None:
    """Compare what lookups by key return with what scans do, for every column that a write looks up."""
    session = graph._session.checkout(branch)
    tables = session.open_tables(session.resolve_snapshot(commit_id=commit))
    for table_key, column, keys in LOOKUPS:
        table = tables.open_table(table_key)
        for columns in ([column], list(dict.fromkeys(["id", column])), table.schema.names):
            keyed = pa.array(keys, table.schema.field(column).type)
            assert sort_rows(table.find_rows(column, keyed, columns, with_address=True)) == sort_rows(
                scan_keys(table, column, keyed, columns)
            )


def scan_keys(table: LanceTable, column: str, keys: pa.Array, columns: list[str]) -> pa.Table:
    rows = table.scan(list(dict.fromkeys([column, *columns])), with_address=True)
    values = rows.column(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)
    return rows.filter(pc.is_in(values, value_set=keys)).select([*columns, ADDRESS])


def sort_rows(rows: pa.Table) -> tuple[pa.Schema, list[str]]:
    return rows.schema, sorted(map(repr, rows.to_pylist()))


def observe(step: Step, handles: list[og.Graph]) -> object:
    """Return the result of a step, or its error."""
    try:
        return step(handles)
    except LoadError as error:
        return type(error).__name__, error.code
    except og.OmnigraphError as error:
        # Some errors name commits, whose ids are random.
        is_stable = isinstance(error, og.ConstraintError)
        return type(error).__name__, str(error) if is_stable else error.code


@dataclass
class Replica:
    """A graph through two handles, each with this much memory for its caches."""

    root: Path
    cache_bytes: int | None

    def open(self) -> list[og.Graph]:
        runtime = Runtime(options=replace(eager(), cache_bytes=self.cache_bytes))
        uri = str(self.root / f"g{self.cache_bytes}")
        return [og.create_graph(uri, SCHEMA, runtime=runtime), og.open_graph(uri, runtime=runtime)]


@pytest.mark.parametrize("seed", range(4))
def test_all_writes_end_alike_whatever_is_cached(tmp_path: Path, seed: int) -> None:
    replicas = [Replica(tmp_path, cache_bytes).open() for cache_bytes in (None, 0, 4_096)]
    random = Random(seed)
    for number in range(50):
        step = choose_step(random)
        observed = [observe(step, handles) for handles in replicas]

        assert observed[1:] == observed[:1] * 2, f"step {number}"
        compare_lookups(replicas[0][number % 2])
    states = [exported(handles[0]) for handles in replicas]
    assert states[1:] == states[:1] * 2


def open_graph(root: Path) -> og.Graph:
    return Replica(root, None).open()[0]


def insert(graph: og.Graph, *names: str, branch: str = "main") -> None:
    graph.mutate("query q() { " + " ".join(f'insert P {{ name: "{name}" }}' for name in names) + " }", branch=branch)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every read of keys adds the number of its fragments."""
    reads: list[int] = []
    iter_written_rows = LanceTable.iter_written_rows

    def watch(table: LanceTable, columns: list[str], fragments: list[int]) -> object:
        reads.append(len(fragments))
        return iter_written_rows(table, columns, fragments)

    monkeypatch.setattr(LanceTable, "iter_written_rows", watch)
    return reads


@pytest.fixture
def _nothing_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let versions carry no rows, as those of earlier releases: the files themselves have to be read."""
    monkeypatch.setattr(carried_rows, "MAX_CARRIED_ROWS", 0)


@pytest.mark.usefixtures("_nothing_carried")
def test_a_handle_reads_no_file_twice_and_none_that_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = open_graph(tmp_path)
    insert(graph, "a")
    insert(graph, "b")
    reads = count_reads(monkeypatch)

    for number in range(5):
        insert(graph, f"n{number}")
    assert reads == []

    other = og.open_graph(graph.uri, runtime=Runtime(options=eager()))
    insert(other, "c")
    insert(other, "d")
    assert reads == [7]

    insert(graph, "e")
    assert reads == [7, 2], "those that the other handle has written"


def test_threads_that_write_at_the_same_time_keep_the_keys_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the keys of one of two files were lost, every later writer would read that file again."""
    graph = open_graph(tmp_path)
    insert(graph, "a")
    insert(graph, "b")
    reads = count_reads(monkeypatch)
    add = key_cache._FileKeys.add

    def add_slowly(*args: Any) -> key_cache._FileKeys:
        time.sleep(0.002)
        return add(*args)

    monkeypatch.setattr(key_cache._FileKeys, "add", add_slowly)
    threads = [threading.Thread(target=insert, args=(graph, f"n{number}")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    insert(graph, "last")

    assert reads == []
    compare_lookups(graph)


@pytest.mark.usefixtures("_nothing_carried")
def test_threads_that_look_up_the_same_new_files_read_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = open_graph(tmp_path)
    insert(graph, "a")
    insert(graph, "b")
    session = og.open_graph(graph.uri, runtime=Runtime(options=eager()))._session
    reads = count_reads(monkeypatch)
    have_looked = threading.Barrier(3)
    get_keys = key_cache._get_keys
    seen: set[int] = set()

    def wait_for_the_others(*args: Any) -> Any:
        known = get_keys(*args)
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            have_looked.wait(60)
        return known

    monkeypatch.setattr(key_cache, "_get_keys", wait_for_the_others)
    found: list[int] = []

    def look_up() -> None:
        table = session.open_tables(session.resolve_snapshot()).open_table("node:P")
        found.append(table.find_rows("id", ["a", "b", "c"], ["id"]).num_rows)

    threads = [threading.Thread(target=look_up) for _ in range(have_looked.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (found, reads) == ([2, 2, 2], [2])


@pytest.mark.usefixtures("_nothing_carried")
def test_keys_of_the_version_before_a_compaction_stay_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers look up rows in it while the compaction reads its own result, and some after that is published."""
    monkeypatch.setattr(key_cache, "MAX_STALE_FILES", 4)
    graph = open_graph(tmp_path)
    for name in NAMES[:12]:
        insert(graph, name)
    before = graph._session.open_tables(graph._session.resolve_snapshot()).open_table("node:P")
    graph.optimize()
    after = graph._session.open_tables(graph._session.resolve_snapshot()).open_table("node:P")
    new = {fragment.number for fragment in after.list_fragments()}
    reads = count_reads(monkeypatch)

    read_ahead(after, new)
    assert before.find_rows("id", NAMES, ["id"]).num_rows == 12
    assert reads == [len(new)]

    reads.clear()
    assert after.find_rows("id", NAMES, ["id"]).num_rows == 12
    assert before.find_rows("id", NAMES, ["id"]).num_rows == 12
    assert reads == [10], "half of the files that may be kept, the newest ones, are still known"


def test_branches_share_the_keys_of_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = open_graph(tmp_path)
    insert(graph, "a", "b")
    insert(graph, "c")
    graph.branches.create("left")
    insert(graph, "l", branch="left")
    reads = count_reads(monkeypatch)

    # The next fragments of both branches have the same number.
    insert(graph, "m")
    compare_lookups(graph, "left")
    compare_lookups(graph)

    assert 1 not in reads[:1]
    with pytest.raises(og.ConstraintError, match="no P 'l'"):
        graph.mutate('query q() { insert Knows { from: "m", to: "l" } }')
    graph.mutate('query q() { insert Knows { from: "l", to: "a" } }', branch="left")


def test_a_deleted_row_is_not_found_by_its_cached_key(tmp_path: Path) -> None:
    graph = open_graph(tmp_path)
    insert(graph, *NAMES)
    compare_lookups(graph)
    before = graph.snapshot().commit.id

    for name in NAMES[:4]:
        graph.mutate(f'query q() {{ delete P where name = "{name}" }}')
        compare_lookups(graph)
        with pytest.raises(og.ConstraintError, match=f"no P '{name}'"):
            graph.mutate(f'query q() {{ insert Knows {{ from: "{name}", to: "{NAMES[-1]}" }} }}')

    compare_lookups(graph, commit=before)
    insert(graph, NAMES[0])
    compare_lookups(graph)


def test_zeros_of_both_signs_are_one_cached_key(tmp_path: Path) -> None:
    graph = open_graph(tmp_path)
    graph.mutate('query q() { insert P { name: "a", score: -0.0 } insert P { name: "b" } }')
    insert(graph, "c")

    with pytest.raises(og.ConstraintError, match="@unique"):
        graph.mutate('query q() { insert P { name: "d", score: 0.0 } insert P { name: "e", score: 1.5 } }')


def test_a_dropped_column_and_a_new_one_of_its_name_are_two(tmp_path: Path) -> None:
    graph = open_graph(tmp_path)
    with_email, without = SCHEMA, SCHEMA.replace("email: String? @unique", "")
    graph.mutate('query q() { insert P { name: "a", email: "e" } }')
    with pytest.raises(og.ConstraintError):
        graph.mutate('query q() { insert P { name: "b", email: "e" } }')

    graph.apply_schema(without, allow_drops=True)
    graph.apply_schema(with_email)

    graph.mutate('query q() { insert P { name: "b", email: "e" } }')
    compare_lookups(graph)


@pytest.mark.usefixtures("_nothing_carried")
def test_an_update_of_a_row_that_this_handle_wrote_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = open_graph(tmp_path)
    insert(graph, "a", "b")
    insert(graph, "c")
    update_age(graph, "a")
    scans = count_scans(monkeypatch)
    for name in ["a", "c", "b", "a", "a"]:
        update_age(graph, name)
    assert not scans

    # Another handle reads the files, which it has not written, and finds the same.
    reads = count_reads(monkeypatch)
    update_age(og.open_graph(graph.uri), "b")
    assert reads
    ages = graph.query("query q() { match { $p: P } return { $p.name as name, $p.age as age } order { $p.name } }")
    assert [(row["name"], row["age"]) for row in ages.rows()] == [("a", 4), ("b", 2), ("c", 1)]


@pytest.mark.usefixtures("_nothing_carried")
@pytest.mark.parametrize("kept", ["file", "part"])
def test_a_small_file_is_read_once_for_all_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    if kept == "part":
        # As if the file were too large: each lookup reads its own row.
        monkeypatch.setattr(key_cache, "MAX_LOADED_ROWS", 1)
    graph = open_graph(tmp_path)
    insert(graph, *NAMES)
    update_age(graph, NAMES[0])
    other = og.open_graph(graph.uri, runtime=Runtime(options=eager()))
    update_age(other, NAMES[1])
    reads, scans = count_reads(monkeypatch), count_scans(monkeypatch)

    for name in NAMES:
        update_age(other, name)

    # One file has the row that the first handle has updated.
    assert len(reads) == 1
    assert len(scans) == (0 if kept == "file" else len(NAMES) - 2)
    compare_lookups(other)
    ages = other.query("query q() { match { $p: P } return { $p.name as name, $p.age as age } }").rows()
    assert {row["name"]: row["age"] for row in ages} == {name: 2 if name in NAMES[:2] else 1 for name in NAMES}


def test_kept_rows_of_a_table_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_TABLE_BYTES", 12_000)
    graph = open_graph(tmp_path)
    kept: dict[object, Any] = {}
    for number in range(30):
        insert(graph, f"n{number}", f"m{number}")
        update_age(graph, f"n{number // 2}")
        (kept,) = [rows for rows in list_kept_rows(graph) if rows]
        assert 0 < sum(size for _, size in kept.values()) <= 12_000
    assert len(kept) < 30
    compare_lookups(graph)


def list_kept_rows(graph: og.Graph) -> list[Any]:
    lru = graph._session.reads.lru._values
    return [value for key in lru.list_keys() if key[0] == "rows" for value in (lru.get(key) or ())]


def test_rows_and_keys_of_a_compaction_are_known_when_it_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep = UpkeepOptions(tail_fragments=4)
    options = replace(eager(), maintenance=Maintenance.AUTO, upkeep=upkeep)
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=Runtime(options=options))
    for name in NAMES[:5]:
        insert(graph, name)
        update_age(graph, name)
    assert graph._session.tails.wait(60)
    table = graph._session.open_tables(graph._session.resolve_snapshot()).open_table("node:P")
    assert len(table.list_fragments()) < 5
    monkeypatch.setattr(graph._session.tails, "on_write", lambda *_: None)
    reads, scans = count_reads(monkeypatch), count_scans(monkeypatch)

    for name in NAMES[:5]:
        update_age(graph, name)

    assert (reads, scans) == ([], [])
    compare_lookups(graph)


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    scans: list[object] = []
    scan = LanceTable.iter_batches

    def count_scan(table: LanceTable, *args: Any, **options: Any) -> Any:
        scans.append(args)
        return scan(table, *args, **options)

    monkeypatch.setattr(LanceTable, "iter_batches", count_scan)
    return scans


def update_age(graph: og.Graph, name: str) -> None:
    increment = "query q($name: String) { update P set { age: coalesce(age, 0) + 1 } where name = $name }"
    graph.mutate(increment, params={"name": name})


def test_a_row_in_memory_has_no_value_of_a_dropped_column(tmp_path: Path) -> None:
    graph = open_graph(tmp_path)
    without = SCHEMA.replace("email: String? @unique", "")
    graph.mutate('query q() { insert P { name: "a", email: "e", age: 1 } }')

    graph.apply_schema(without, allow_drops=True)
    graph.apply_schema(SCHEMA)
    update_age(graph, "a")

    rows = graph.query("query q() { match { $p: P } return { $p.age as age, $p.email as email } }").rows()
    assert rows == [{"age": 2, "email": None}]


def test_keys_of_files_that_are_gone_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_STALE_FILES", 4)
    graph = open_graph(tmp_path)
    insert(graph, "first")
    entries = []
    for number in range(40):
        insert(graph, f"n{number}")
        if number % 8 == 7:
            graph.optimize()
        cached = graph._session.reads.lru._values.list_values()
        entries.append(max(len(value.files) for (value,) in cached if isinstance(value, key_cache._FileKeys)))

    assert max(entries[8:]) <= 8 + 4 + 2
    compare_lookups(graph)


def test_a_large_file_and_too_many_rows_are_left_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_FILE_ROWS", 2)
    graph = open_graph(tmp_path)
    insert(graph, *NAMES[:3])
    insert(graph, *NAMES[3:5])
    insert(graph, NAMES[5])
    reads = count_reads(monkeypatch)

    compare_lookups(graph)
    assert max(reads, default=0) <= 2, "the large one is not read"

    monkeypatch.setattr(key_cache, "MAX_CACHED_ROWS", 2)
    reads.clear()
    insert(graph, NAMES[6])
    compare_lookups(graph)
    assert reads == []
