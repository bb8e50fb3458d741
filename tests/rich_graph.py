"""A small graph on local disk that has a file of every kind: what damage is done to, and what older releases left.

Its tables have several fragments, deletions as Arrow arrays and as bitmaps, every kind of index, blobs in files of
their own, and a compaction behind them; it has a branch with commits of its own, a tag on an old commit, sealed parts
of the journal with runs of idempotency keys, a sidecar of an operation in flight, an audit and derived adjacency.
"""

import base64
import hashlib
import io
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.commit.checksummed_json import encode_with_checksum
from omnigraph.commit.sidecar import Sidecar
from omnigraph.faults import InjectedFaultError
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from read_thresholds import as_if_large
from upkeep_calls import EAGER, AtPoint
from worlds import CALM

SCHEMA = """
node P {
  name: String @key
  age: I64? @index
  alive: Bool? @index
  bio: String? @index
  nicks: [String]? @index
  spot: Vector(4)? @index
  mood: enum(good, bad)?
  mail: String?
  photo: Blob?
  @unique(mail)
}
node N { number: I64 @key }
edge Knows: P -> P { since: I64? }
"""
OPTIONS = replace(CALM, head_commits=4, sealed_fragments=3, upkeep=EAGER)
"""Few commits in a head, so that a short history has sealed parts; leases that no machine is too slow for."""
NUMBERS = 6_000
"""Rows of N, of which Lance writes the deleted ones as a bitmap: it does so from 5,000 on."""
PACKED_BLOB = 70_000
"""Bytes of a blob that lies in a file beside its data file: smaller ones lie in the data file."""
WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath")
Record = dict[str, object]


class HurriedClock(SystemClock):
    """A clock that nobody waits by: a wait moves it on, and is over."""

    def __init__(self) -> None:
        self._waited = 0.0

    def monotonic(self) -> float:
        """Return the process's monotonic clock, and what was not waited."""
        return super().monotonic() + self._waited

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self._waited += seconds


def runtime(options: Options = OPTIONS) -> Runtime:
    """Return a runtime for this graph, which nobody else uses."""
    return Runtime(options=options, clock=HurriedClock())


def person(name: str, *, blob: int = 0) -> Record:
    """Return the record of a person, every value made of the name."""
    seed = hashlib.sha256(name.encode()).digest()
    data: Record = {
        "name": name,
        "age": seed[0],
        "alive": bool(seed[1] & 1),
        "bio": f"{WORDS[seed[2] % 8]} {WORDS[seed[3] % 8]} {name}",
        "nicks": [WORDS[seed[4] % 8], WORDS[seed[5] % 8]],
        "spot": [float(value) for value in seed[6:10]],
        "mood": ("good", "bad")[seed[10] & 1],
        "mail": f"{name}@example.org",
    }
    if blob:
        data["photo"] = "base64:" + base64.b64encode((seed * (blob // len(seed) + 1))[:blob]).decode()
    return {"type": "P", "data": data}


def number(value: int) -> Record:
    """Return the record of a number."""
    return {"type": "N", "data": {"number": value}}


def knows(one: str, other: str, since: int) -> Record:
    """Return the record of an edge between people."""
    return {"edge": "Knows", "from": one, "to": other, "data": {"since": since}}


def build(root: Path, *, indexed: bool = True) -> None:
    """Make the graph in a new directory; without indexes a check of it takes a third of the time."""
    building = root.with_name(f"{root.name}-building")
    upkeep = EAGER if indexed else replace(EAGER, index_rows=1_000_000)
    settings = runtime(replace(OPTIONS, upkeep=upkeep))
    with og.create_graph(str(building), SCHEMA, runtime=settings) as graph:
        people = [person(name, blob=PACKED_BLOB if name == "a" else 40) for name in "abcdefgh"]
        pairs = zip("abcdefg", "bcdefgh", strict=True)
        graph.load(people, mode="append", idempotency_key="people")
        graph.load([knows(one, other, ord(one)) for one, other in pairs], mode="append", idempotency_key="edges")
        graph.load([number(value) for value in range(NUMBERS)], mode="append")
        graph.mutate(f"query q() {{ delete N where number < {NUMBERS - 500} }}", idempotency_key="numbers")
        graph.mutate('query q() { delete P where name = "h" }')
        graph.tags.create("old")
        _go_on(graph, indexed=indexed)
        _branch_off(graph, indexed=indexed)
    _leave_audit(building)
    _leave_derived(building)
    _leave_sidecars(building, root)
    shutil.rmtree(building)


def _go_on(graph: og.Graph, *, indexed: bool) -> None:
    """Change every table after the tag, with a compaction and indexes in between."""
    graph.load([person("i"), person("j"), knows("i", "j", 5)], mode="append", idempotency_key="more")
    graph.mutate('query q() { update P set { age: 300 } where name = "c" }')
    graph.optimize(all_indexes=indexed, types=["P", "Knows"])
    graph.load([person("k", blob=PACKED_BLOB), knows("k", "a", 7)], mode="append")
    graph.mutate('query q() { delete P where name = "b" }', idempotency_key="deletion")
    graph.mutate("query q() { insert N { number: 7000 } }")


def _branch_off(graph: og.Graph, *, indexed: bool) -> None:
    """Make a branch whose commits change rows that main has too, and rows of its own."""
    graph.branches.create("side")
    graph.load([person("s"), knows("s", "a", 9)], mode="append", branch="side", idempotency_key="side")
    graph.mutate('query q() { update P set { age: 301 } where name = "d" }', branch="side")
    for value in (8001, 8002, 8003):
        mutation = f"query q() {{ insert N {{ number: {value} }} }}"
        graph.mutate(mutation, branch="side", idempotency_key=f"number {value}")
    graph.optimize(all_indexes=indexed, types=["P", "Knows"], branch="side")
    graph.mutate("query q() { delete N where number = 8002 }", branch="side")


def _leave_audit(root: Path) -> None:
    """Let recovery settle an operation that died, which leaves a row in the audit."""
    dead = Sidecar(
        id="01DEAD",
        commit_id="01GONE",
        branch="main",
        manifest_path="__manifest",
        base_seq=0,
        operation="load",
        actor="test",
        started_at="2026-01-01T00:00:00Z",
        state="abandoned",
    )
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01DEAD.json").write_bytes(encode_with_checksum(dead))
    og.open_graph(str(root), runtime=runtime()).close()


def _leave_derived(root: Path) -> None:
    """Seal a run of keys, and let a query keep the adjacency and the words that it derived."""
    with og.open_graph(str(root), runtime=runtime()) as graph, as_if_large():
        for value in (9001, 9002, 9003):
            mutation = f"query q() {{ insert N {{ number: {value} }} }}"
            graph.mutate(mutation, idempotency_key=f"number {value}")
        graph.query("query q() { match { $a: P  $a knows $b  $b knows $c } return { count($c) as n } }")
        graph.query('query q() { match { $a: P  search($a.bio, "amber") } return { $a.name } }')


def _leave_sidecars(building: Path, root: Path) -> None:
    """Copy the graph with the sidecar of a load that has landed, in the middle of another, as if both had died."""
    sidecars = building / "__recovery"
    kept = building.with_name("sidecar")

    def keep() -> None:
        (landed,) = sidecars.glob("*.json")
        shutil.copy2(landed, kept)
        kept.rename(kept.with_name(landed.name))

    def copy() -> None:
        shutil.copytree(building, root)
        (landed,) = building.parent.glob("*.json")
        landed.rename(root / "__recovery" / landed.name)
        raise InjectedFaultError("publish.applied")

    with og.open_graph(str(building), runtime=_acting(AtPoint("publish.verified", keep))) as graph:
        graph.load([person("y"), knows("y", "a", 2)], mode="append")
    with (
        suppress(InjectedFaultError),
        og.open_graph(str(building), runtime=_acting(AtPoint("publish.applied", copy))) as graph,
    ):
        graph.load([person("x"), knows("x", "a", 1)], mode="append")


def _acting(faults: AtPoint) -> Runtime:
    return Runtime(options=OPTIONS, faults=faults)


# --- what it says ------------------------------------------------------------------------------------------

Read = Callable[[og.Graph], object]

QUERIES = {
    "scan": "match { $p: P } return { $p.name, $p.age, $p.alive, $p.bio, $p.nicks, $p.spot, $p.mood, $p.mail }",
    "age": "match { $p: P  $p.age > 100 } return { $p.name, $p.age }",
    "alive": "match { $p: P  $p.alive = true } return { $p.name }",
    "key": 'match { $p: P { name: "k" } } return { $p.name, $p.mail }',
    "mail": 'match { $p: P { mail: "c@example.org" } } return { $p.name, $p.age }',
    "bio": 'match { $p: P { bio: "birch cedar a" } } return { $p.name }',
    "nicks": 'match { $p: P  $p.nicks contains "dune" } return { $p.name }',
    "search": 'match { $p: P  search($p.bio, "birch") } return { $p.name }',
    "words": 'match { $p: P } return { $p.name } order { bm25($p.bio, "grove birch") } limit 4',
    "near": "match { $p: P } return { $p.name } order { nearest($p.spot, [9.0, 1.0, 5.0, 2.0]) } limit 4",
    "hop": "match { $a: P  $a knows $b } return { $a.name, $b.name }",
    "hops": "match { $a: P  $a knows{1,3} $b } return { $a.name, count($b) as n }",
    "edge": "match { $a: P  $a $k: Knows $b  $k.since > 6 } return { $a.name, $k.since }",
    "numbers": "match { $n: N } return { count($n) as n, sum($n.number) as s }",
    "number": "match { $n: N  $n.number >= 5998 } return { $n.number }",
}
STATES: dict[str, dict[str, str]] = {"main": {}, "side": {"branch": "side"}, "old": {"snapshot": "old"}}
"""The states that are read: main's present, a branch's, and what a tag names."""


def _query(text: str) -> Callable[..., object]:
    def run(graph: og.Graph, **state: Any) -> object:
        rows = graph.query(f"query q() {{ {text} }}", **state).rows()
        return rows if " limit " in text else sorted(rows, key=json.dumps)

    return run


def _export(graph: og.Graph, **state: Any) -> object:
    out = io.BytesIO()
    graph.export(out, **state)
    return out.getvalue().decode().splitlines()


def _blobs(graph: og.Graph, **state: Any) -> object:
    digests: list[str] = []
    for name in "ak":
        with suppress(og.MissingError):
            stream = graph.blob("P", name, "photo", **state)
            assert stream is not None
            digests.append(hashlib.sha256(stream.read()).hexdigest())
    return digests


def _history(graph: og.Graph, **state: Any) -> object:
    if "snapshot" in state:
        return [graph.commit(graph.snapshot(snapshot=state["snapshot"]).commit.id).operation]
    return [commit.id for commit in graph.commits(branch=state.get("branch", "main"))]


READS: dict[str, Callable[..., object]] = {
    **{name: _query(text) for name, text in QUERIES.items()},
    "export": _export,
    "blobs": _blobs,
    "history": _history,
}
"""Every way to read, by its name; each takes a graph and a state."""


def read_all(graph: og.Graph, state: str = "main") -> dict[str, object]:
    """Return every answer of one state, as JSON has it."""
    answers = {name: read(graph, **STATES[state]) for name, read in READS.items()}
    return json.loads(json.dumps(answers))  # type: ignore[no-any-return]  # what it was made of
