"""`nearest` at every share of rows, over random histories: exact is brute force, approximate finds what it declares.

A history has nulls, zero vectors, duplicates, updates, deletions, branches, old commits, indexes that cover half of the
rows, and maintenance in between or beside the questions.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from vector_worlds import SIZE, World, make_small

BANDS = (0.99, 0.5, 0.1, 0.01, 0.001, 0.00001)
"""The shares of the rows that pass a filter."""
TAGS = {"half": 2, "tenth": 10, "few": 200, "one": 10**9}
"""By tag, every how many documents have it."""
DECLARED, TOP = 0.9, 10


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


class History:
    """A graph that changes at random, and every state that may be asked about."""

    def __init__(self, root: Path, kind: str, metric: str, seed: int, rows: int) -> None:
        self.world = World(root, kind, metric, seed)
        self.rows = rows
        self.random = np.random.default_rng(seed)
        self.recalls: dict[object, list[float]] = defaultdict(list)
        self.is_approximate = False
        self.world.add(0, rows)
        self.tags: dict[str, set[str]] = {}
        self._tag()
        self.world.graph.optimize()
        self.old: list[tuple[dict[str, Any], dict[str, Any], dict[str, float]]] = []

    def _tag(self) -> None:
        """Tie documents to tags, whose hops leave them."""
        keys = sorted(self.world.vectors)
        self.tags = {name: set(keys[5::every]) for name, every in TAGS.items()}
        pairs = [(key, name) for name, members in self.tags.items() for key in sorted(members)]
        graph = self.world.graph
        graph.load(nodes={"Tag": pa.table({"name": list(TAGS)})}, mode="merge")
        sources, targets = zip(*pairs, strict=True)
        graph.load(edges={"Has": pa.table({"src": list(sources), "dst": list(targets)})}, mode="append")

    def remember(self, **where: Any) -> None:
        """Keep the present state, which is asked about again later."""
        self.old.append((where, dict(self.world.vectors), dict(self.world.shares)))

    def change(self) -> None:
        """Write something, and keep up or not."""
        world, count = self.world, int(self.random.integers(1, self.rows // 8))
        keys = sorted(world.vectors)
        match int(self.random.integers(4)):
            case 0:
                world.add(len(keys) + 100_000, count)
            case 1:
                world.add(int(self.random.integers(self.rows)), count)
            case 2:
                world.delete([keys[at] for at in self.random.choice(len(keys), count, replace=False)])
            case _:
                world.graph.optimize()

    def check(self, questions: int = 2, **where: Any) -> None:
        """Ask in every band, and by hops."""
        world = self.world
        for share in BANDS:
            for query in world.draw(questions).astype(np.float64):
                self._compare(share, world.rank(query, share), query, f"$d.share < {share:.6f}", where)
        for name, members in self.tags.items():
            query = world.draw(1)[0].astype(np.float64)
            true = [(distance, key) for distance, key in world.rank(query) if key in members]
            self._compare(name, true, query, f'$t: Tag {{ name: "{name}" }}  $d has $t', where)

    def _compare(
        self, band: object, true: list[tuple[float, str]], query: np.ndarray, pattern: str, where: dict[str, Any]
    ) -> None:
        exact, _ = self._ask(query, pattern, "nearest($d.vec, $v, exact=true)", where)
        found, notes = self._ask(query, pattern, "nearest($d.vec, $v)", where)
        assert [key for _, key in exact] == [key for _, key in true[:TOP]]
        assert [distance for distance, _ in exact] == pytest.approx([d for d, _ in true[:TOP]], abs=1e-9)
        # Never short, never a wrong distance or order, whatever the index misses.
        assert len(found) == min(TOP, len(true))
        distances = {key: distance for distance, key in true}
        assert [distance for distance, _ in found] == pytest.approx([distances[key] for _, key in found], abs=1e-9)
        assert found == sorted(found)
        if any("approximate" in note for note in notes):
            self.is_approximate = True
        elif notes:
            assert found == exact
        if found:
            # Ties are equally right.
            last = true[len(found) - 1][0] + 1e-12
            self.recalls[band].append(sum(distance <= last for distance, _ in found) / len(found))

    def _ask(
        self, query: np.ndarray, pattern: str, rank: str, where: dict[str, Any]
    ) -> tuple[list[tuple[float, str]], tuple[str, ...]]:
        text = f"""query q($v: Vector({SIZE})) {{
          match {{ $d: Doc  {pattern} }}
          return {{ $d.key as key, {rank} as distance }} order {{ {rank} }} limit {TOP} }}"""
        result = self.world.graph.query(text, params={"v": query.tolist()}, **where)
        return [(row["distance"], row["key"]) for row in result.rows()], result.notes

    def check_old(self) -> None:
        """Ask about every state that was kept."""
        world = self.world
        now = world.vectors, world.shares
        for where, vectors, shares in self.old:
            world.vectors, world.shares = vectors, shares
            self.check(1, **where)
        world.vectors, world.shares = now

    def check_recalls(self) -> None:
        """In each band, what was found reaches what the index declares."""
        assert self.is_approximate
        low = {band: np.mean(found) for band, found in self.recalls.items() if np.mean(found) < DECLARED}
        assert not low


def play(history: History, changes: int) -> None:
    """Change and ask in turns; branches and old commits last."""
    graph = history.world.graph
    for number in range(changes):
        if number == 1:
            graph.branches.create("side")
            history.remember(branch="side")
        if number == 2:
            history.remember(snapshot=graph.snapshot().commit.id)
        history.change()
        history.check()
    history.check_old()
    history.check_recalls()


@contextmanager
def kept_up(history: History) -> Iterator[None]:
    """Maintenance beside the block, again and again."""
    failures: list[BaseException] = []
    is_over = threading.Event()
    graph = history.world.graph

    def maintain() -> None:
        try:
            while not is_over.is_set():
                graph.optimize()
                graph.cleanup(keep=1, grace=timedelta(minutes=30), confirm=True)
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert not failures


@pytest.mark.parametrize("kind, metric, seed", [("ivf_flat", "cosine", 1), ("ivf_rq", "l2", 2), ("hnsw", "dot", 3)])
def test_every_band_of_a_random_history_finds_what_is_declared(
    tmp_path: Path, kind: str, metric: str, seed: int
) -> None:
    play(History(tmp_path / "g", kind, metric, seed, rows=1_500), changes=4)


def test_every_band_finds_what_is_declared_beside_maintenance(tmp_path: Path) -> None:
    history = History(tmp_path / "g", "ivf_flat", "cosine", 4, rows=1_500)

    with kept_up(history):
        play(history, changes=3)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_pq", "ivf_rq", "hnsw"])
@pytest.mark.parametrize("metric", ["cosine", "l2", "dot"])
@pytest.mark.parametrize("seed", range(11, 14))
def test_long_histories(tmp_path: Path, kind: str, metric: str, seed: int) -> None:
    history = History(tmp_path / "g", kind, metric, seed, rows=8_000)

    with kept_up(history):
        play(history, changes=10)
