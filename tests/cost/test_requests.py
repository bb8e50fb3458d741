"""What an operation costs, counted in requests, at any length of history. The counts are part of the contract."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.clock import SystemClock
from omnigraph.commit.recovery import recover
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.telemetry import RequestCounts
from s3_server import fresh_uri, s3_server, uploaded
from worlds import CALM, new_world, rows, runtime

SMALL = replace(CALM, head_commits=16, manifest_versions=25)
"""An eighth of the defaults, so that an eighth of the commits makes as long a history: as many seals, merges, trims."""
SHALLOW, SEALS = 10, 16


def depth(options: Options) -> int:
    """More than 2,000 commits by the defaults, with as many of them in the head as in the shallow graph."""
    return SHALLOW + SEALS * options.head_commits


NEXT = iter(range(10**9))


def commit(session: Session, tables: int = 1) -> None:
    number = next(NEXT)
    write_tables(
        session,
        [TableWrite(table_key=f"node:{name}", append=rows({f"k{number}": number})) for name in "ABCDE"[:tables]],
        operation="w",
        actor="x",
    )


def grow(session: Session, commits: int) -> None:
    """Commits up to a depth; the table is rewritten so that only the history grows, not its fragments."""
    while session.head().snapshot.commit.seq < commits:
        write_tables(session, [TableWrite(table_key="node:E", overwrite=rows({"x": 1}))], operation="w", actor="x")


def measured(session: Session, operation: Callable[[], object]) -> RequestCounts:
    with session.runtime.telemetry.count_requests() as requests:
        operation()
    return requests


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, storage=options)


def three_tables(uri: str, options: Options) -> Session:
    schema = Source("node A { v: I64 } node B { v: I64 } node E { v: I64 }")
    session = create(uri, schema, actor="t", runtime=Runtime(options=options))
    commit(session, 1)
    return session


@pytest.fixture
def on_s3(s3: Options) -> Session:
    return three_tables(fresh_uri(), s3)


def test_a_warm_insert_into_one_table(on_s3: Session) -> None:
    requests = measured(on_s3, lambda: commit(on_s3))

    assert requests.count() == 7, requests.format_table()
    assert requests.count(operation="put") == 5, "a data file and a version of both, a transaction of the manifest"
    assert requests.count(operation="list") == 0


def test_a_warm_write_of_two_tables(on_s3: Session) -> None:
    commit(on_s3, 2)

    requests = measured(on_s3, lambda: commit(on_s3, 2))

    assert requests.count() == 9, requests.format_table()
    assert requests.count(operation="put") == 7, "no sidecar: two for each table, and three for the manifest"
    assert requests.count(operation="list") == 0


def test_a_repeated_read_is_one_probe_and_no_manifest(on_s3: Session) -> None:
    on_s3.head()

    requests = measured(on_s3, on_s3.head)

    assert requests.count() == 1, requests.format_table()
    assert requests.count(operation="list") == 1


@pytest.mark.parametrize("commits", [2, Options().head_commits - 1])
def test_a_cold_open(commits: int, s3: Options, tmp_path: Path) -> None:
    grow(three_tables(str(tmp_path / "g"), CALM), commits)
    uri, cold = uploaded(tmp_path / "g"), Runtime(options=s3)

    with cold.telemetry.count_requests() as requests:
        opened = open_session(uri, is_read_only=False, runtime=cold)

    assert requests.count() == 4, requests.format_table()
    assert opened.head().snapshot.commit.seq == commits


@pytest.fixture(
    scope="module",
    params=[pytest.param(SMALL, id="small"), pytest.param(CALM, id="by the defaults", marks=pytest.mark.soak)],
)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    shallow, deep = (new_world(tmp_path_factory.mktemp(name) / "g", request.param) for name in ("shallow", "deep"))
    grow(shallow, SHALLOW)
    grow(deep, depth(request.param))
    return shallow, deep


OPERATIONS: dict[str, Callable[[Session], object]] = {
    "a warm commit": commit,
    "a warm commit of three tables": lambda session: commit(session, 3),
    "a warm read": lambda session: session.open_tables(session.resolve_snapshot()).open_table("node:E").scan(),
    "the latest ten commits": lambda session: [
        c for c, _ in zip(session.log.iter_history(session.head()), range(10), strict=False)
    ],
    "a recovery with nothing to do": lambda session: recover(session.store, session.log),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_cost_does_not_grow_with_history(name: str, deep: tuple[Session, Session]) -> None:
    shallow, long = deep
    for session in deep:
        OPERATIONS[name](session)

    costs = [measured(session, lambda s=session: OPERATIONS[name](s)).counts for session in (shallow, long)]  # type: ignore[misc]

    assert costs[0] == costs[1]
    assert long.head().snapshot.commit.seq >= depth(long.runtime.options)


def test_a_cold_open_does_not_grow_with_history(deep: tuple[Session, Session]) -> None:
    counts = []
    for session in deep:
        cold = runtime(session.runtime.options)
        with cold.telemetry.count_requests() as requests:
            open_session(session.uri, is_read_only=False, runtime=cold)
        counts.append(requests.counts)

    assert counts[0] == counts[1]


def test_old_manifest_versions_are_trimmed(deep: tuple[Session, Session]) -> None:
    _, long = deep

    versions = long.store.objects.list_under("__manifest/_versions")

    assert len(versions) <= long.runtime.options.manifest_versions + 110


def test_a_machine_whose_clock_is_far_off_does_not_trim(tmp_path: Path) -> None:
    """Lance would take for garbage what another writer is about to swap in, since it seems to be days old."""
    options = replace(CALM, manifest_versions=2, trim_every=1)
    session = new_world(tmp_path / "g", options)
    session.store.runtime = replace(session.runtime, clock=FarClock())
    about_to_land = tmp_path / "g" / "__manifest" / "data" / "about-to-land.lance"
    about_to_land.write_bytes(b"")
    days_ago = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    os.utime(about_to_land, (days_ago, days_ago))

    grow(session, 5)

    assert about_to_land.exists()
    session.store.runtime = runtime(options)
    grow(session, 6)
    assert not about_to_land.exists(), "else this test shows nothing"


class FarClock(SystemClock):
    """Eight days ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=8)


def test_history_is_whole_after_sealing(deep: tuple[Session, Session]) -> None:
    _, long = deep

    seqs = [entry.seq for entry in long.log.iter_history(long.head())]

    assert seqs == list(range(len(seqs)))[::-1]
    assert len(seqs) > depth(long.runtime.options)
    assert 1 < long.head().table.sealed_count <= long.runtime.options.sealed_fragments


def test_many_tables_cost_what_the_touched_ones_cost(tmp_path: Path) -> None:
    few = new_world(tmp_path / "few", CALM)
    types = ["A", "B", "C", *(f"T{n}" for n in range(214))]
    schema = Source("\n".join(f"node {name} {{ v: I64 }}" for name in types))
    many = create(str(tmp_path / "many"), schema, actor="t", runtime=runtime(CALM))
    for session in (few, many):
        commit(session, 3)

    costs = [measured(session, lambda s=session: commit(s, 3)).counts for session in (few, many)]  # type: ignore[misc]

    assert costs[0] == costs[1]
    assert len(many.resolve_snapshot().pins) == 217
