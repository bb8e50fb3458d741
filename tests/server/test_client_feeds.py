"""Feeds, Blobs and large answers through a client: as exact as those of the graph itself."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from doors import served
from omnigraph.backoff import OutageBackoff
from omnigraph.clock import SystemClock
from omnigraph.config.server import ServerLimits
from omnigraph.ids import SystemIds
from serving import ADD, TOKENS
from worlds import runtime

SCHEMA = "node Person { name: String @key  age: I64?  photo: Blob? }\nedge Knows: Person -> Person\n"
FEW = ServerLimits(threads=4, rows=10)
PHOTO = bytes(range(256)) * 8_192
MANY = b"".join(b'{"type":"Person","data":{"name":"p%03d"}}\n' % number for number in range(50))


@dataclass
class Both:
    """A graph, and the same one through a server that puts few rows into one document."""

    here: og.Graph
    there: og.RemoteGraph
    url: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("feeds")
    graph = og.create_graph(str(home / "g.omni"), SCHEMA, runtime=runtime())
    (home / "many.jsonl").write_bytes(MANY)
    graph.mutate(ADD, params={"n": "Ada"})
    graph.load(home / "many.jsonl", mode="append")
    graph.mutate('query q($p: Blob) { update Person set { photo: $p } where name = "Ada" }', params={"p": PHOTO})
    with served(home, {"g": graph}, FEW) as url, og.connect(url, TOKENS["admin"]) as remote:
        yield Both(graph, remote, url)


def test_a_commit_with_more_rows_than_a_document_takes_is_told_whole(both: Both) -> None:
    expected = [one.to_json() for one in both.here.changes()]

    assert [one.to_json() for one in both.there.changes()] == expected
    assert max(len(one["rows"]) for one in expected) > FEW.rows  # type: ignore[arg-type]  # a list


def test_lines_of_a_feed_are_the_same_bytes(both: Both) -> None:
    assert b"".join(both.there.changes().blocks()) == b"".join(both.here.changes().blocks())


def test_a_feed_knows_where_to_go_on(both: Both) -> None:
    feed = both.there.changes(limit=2)
    first = [one.cursor for one in feed]
    rest = [one.cursor for one in both.there.changes(since=feed.cursor)]

    assert first + rest == [one.cursor for one in both.here.changes()]


def test_who_follows_gets_each_commit_once_as_it_comes(both: Both) -> None:
    since = both.here.snapshot().commit.id
    names = [f"followed {number}" for number in range(3)]
    feed = both.there.changes(since=since, follow=True, limit=len(names))
    found: list[str] = []

    def follow() -> None:
        found.extend(str(row["id"]) for one in feed for row in one.records())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    for name in names:
        both.here.mutate(ADD, params={"n": name})
    thread.join(60)

    assert found == names


def test_who_follows_a_branch_is_told_when_it_is_gone(both: Both) -> None:
    both.here.branches.create("short")
    feed = both.there.changes(branch="short", since=both.here.snapshot(branch="short").commit.id, follow=True)
    both.here.branches.delete("short")

    with pytest.raises(og.BranchGoneError):
        next(feed)


class Back(SystemClock):
    """A clock by which the server is there again after any pause."""

    def __init__(self, remote: og.RemoteGraph, port: int) -> None:
        self._transport, self._back = remote._calls.transport, port
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._transport._port = self._back


def test_who_follows_a_server_that_is_gone_for_a_while_goes_on(tmp_path: Path, both: Both) -> None:
    with served(tmp_path, {"g": both.here}) as url, og.connect(url, TOKENS["admin"], graph="g") as remote:
        feed = remote.changes(follow=True, limit=2)
        first = next(feed)
        remote._calls.transport._port = 1  # nobody is there
        remote._calls.transport.close()
        clock = Back(remote, int(url.rpartition(":")[2]))
        feed._outage = OutageBackoff(clock, SystemIds(clock))
        feed._pending.clear()
        second = next(feed)

    assert [first.cursor, second.cursor] == [one.cursor for one in both.here.changes(limit=2)]
    assert len(clock.pauses) == 1
    assert 0 <= clock.pauses[0] < 0.1


def test_a_difference_is_of_the_states_that_were_there(both: Both) -> None:
    both.here.branches.create("other")
    both.here.mutate(ADD, params={"n": "one"}, branch="other")
    found = both.there.diff("main", "other")
    both.here.mutate(ADD, params={"n": "two"}, branch="other")

    assert found.counts()["Person"].inserted == len(list(found.json_lines())) == len(list(found)) == 1


def test_a_blob_is_read_in_parts(both: Both) -> None:
    there, here = both.there.blob("Person", "Ada", "photo"), both.here.blob("Person", "Ada", "photo")
    assert there is not None
    assert here is not None

    with there, here:
        there.seek(1_000_000)
        here.seek(1_000_000)
        assert there.read(1_500_000) == here.read(1_500_000)
        there.seek(-10, 2)
        assert there.read() == PHOTO[-10:]
        assert there.read() == b""


def test_a_blob_is_of_the_state_that_was_there(both: Both) -> None:
    blob = both.there.blob("Person", "Ada", "photo")
    assert blob is not None
    both.here.mutate('query q() { update Person set { photo: null } where name = "Ada" }')

    with blob:
        assert blob.read() == PHOTO
    assert both.there.blob("Person", "Ada", "photo") is None


@pytest.mark.parametrize(
    "type_, id_, name", [("Persn", "Ada", "photo"), ("Person", "Z", "photo"), ("Person", "Ada", "x")]
)
def test_a_blob_that_is_not_there_is_told_alike(type_: str, id_: str, name: str, both: Both) -> None:
    with pytest.raises(og.OmnigraphError) as here:
        both.here.blob(type_, id_, name)
    with pytest.raises(og.OmnigraphError) as there:
        both.there.blob(type_, id_, name)

    assert (there.value.code, str(there.value)) == (here.value.code, str(here.value))


def test_mistakes_of_several_files_have_their_own_places(tmp_path: Path, both: Both) -> None:
    good = '{"type":"Person","data":{"name":"fine"}}\n'
    bad = '\n// a comment\n{"type":"Person","data":{"name":7}}'
    for name, text in (("a.jsonl", good * 1), ("b.jsonl", bad), ("c.jsonl", bad + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(og.LoadError) as here:
        both.here.load(tmp_path, mode="append")
    with pytest.raises(og.LoadError) as there:
        both.there.load(tmp_path, mode="append")

    assert str(there.value) == str(here.value)
    assert there.value.facts() == here.value.facts()


def test_a_client_that_went_away_in_the_midst_of_a_body_leaves_nothing(both: Both) -> None:
    def broken() -> Iterator[bytes]:
        yield b'{"type":"Person","data":{"name":"half"}}\n'
        raise ZeroDivisionError

    before = both.here.snapshot().commit.id
    with pytest.raises(ZeroDivisionError):
        both.there._calls.post("load", broken(), query={"mode": "append"})

    assert both.there.query("query q() { match { $p: Person } return { count($p) as n } }").row_count == 1
    assert both.here.snapshot().commit.id == before
