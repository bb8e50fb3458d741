"""Graphs of documents with vectors, and the same vectors in memory, to compare answers with brute force."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.search import recall
from omnigraph.engine.tables import column_residency
from omnigraph.options import Options, UpkeepOptions
from worlds import runtime

SIZE = 16
SCHEMA = """
node Doc {{
  key: String @key  share: F64  cluster: I32  vec: Vector({size})? @metric("{metric}") @index(kind="{kind}", recall=0.9)
}}
node Tag {{ name: String @key }}
edge Has: Doc -> Tag
"""


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand short vectors are too many to be read at once, here, and are measured with few queries."""
    monkeypatch.setattr(column_residency, "_LIGHT_BYTES", 1)
    monkeypatch.setattr(recall, "DEPTHS", {16: 12, 128: 8, 1_024: 4})


class World:
    """A graph of documents, and the same vectors in memory."""

    def __init__(self, root: Path, kind: str = "ivf_flat", metric: str = "cosine", seed: int = 7) -> None:
        options = Options(upkeep=UpkeepOptions(index_rows=100))
        schema = SCHEMA.format(size=SIZE, kind=kind, metric=metric)
        self.graph = og.create_graph(str(root), schema, runtime=runtime(options=options))
        self.metric = metric
        self.random = np.random.default_rng(seed)
        self.centres = self.random.standard_normal((40, SIZE))
        self.vectors: dict[str, np.ndarray | None] = {}
        self.shares: dict[str, float] = {}
        self.clusters: dict[str, int] = {}

    def draw(self, count: int) -> np.ndarray:
        chosen = self.random.integers(0, len(self.centres), count)
        return (self.centres[chosen] + 0.5 * self.random.standard_normal((count, SIZE))).astype(np.float32)

    def add(self, first: int, count: int) -> None:
        """Write documents: some without a vector, some with zeros, some alike."""
        vectors: list[Any] = list(self.draw(count))
        for number in range(0, count, 50):
            vectors[number] = None
        for number in range(1, count, 50):
            vectors[number] = np.zeros(SIZE, np.float32)
        for number in range(2, count - 3, 50):
            vectors[number + 1] = vectors[number + 2] = vectors[number]
        keys = [f"d{first + number:05}" for number in range(count)]
        shares = self.random.random(count)
        clusters = self.random.integers(0, 5, count)
        self.vectors |= dict(zip(keys, vectors, strict=True))
        self.shares |= dict(zip(keys, shares.tolist(), strict=True))
        self.clusters |= dict(zip(keys, clusters.tolist(), strict=True))
        listed = [None if vector is None else vector.tolist() for vector in vectors]
        table = pa.table(
            {
                "key": keys,
                "share": shares,
                "cluster": pa.array(clusters, pa.int32()),
                "vec": pa.array(listed, pa.list_(pa.float32(), SIZE)),
            }
        )
        self.graph.load(nodes={"Doc": table}, mode="merge")

    def delete(self, keys: list[str]) -> None:
        for key in keys:
            del self.vectors[key]
        self.graph.mutate("query q($keys: [String]) { delete Doc where key in $keys }", params={"keys": keys})

    def rank(self, query: np.ndarray, share: float = 1.0) -> list[tuple[float, str]]:
        """The true order of all documents below a share."""
        keys = [key for key, vector in self.vectors.items() if vector is not None and self.shares[key] < share]
        if not keys:
            return []
        return sorted(zip(self.measure(np.array([self.vectors[key] for key in keys]), query), keys, strict=True))

    def measure(self, vectors: np.ndarray, query: np.ndarray) -> list[float]:
        """The distance of each vector, which depends on nothing but itself: equal ones tie."""
        matrix = vectors.astype(np.float64)
        products = (matrix * query).sum(axis=1)
        if self.metric == "l2":
            return list(np.sqrt(np.square(matrix - query).sum(axis=1)).tolist())
        if self.metric == "dot":
            return list((-products).tolist())
        norms = np.sqrt(np.square(matrix).sum(axis=1)) * np.linalg.norm(query)
        return list((1 - np.divide(products, norms, out=np.zeros(len(norms)), where=norms > 0)).tolist())

    def ask(
        self, query: np.ndarray, share: float = 1.0, top: int = 10, *, exact: bool = False, **where: Any
    ) -> tuple[list[tuple[float, str]], tuple[str, ...]]:
        rank = f"nearest($d.vec, $v{', exact=true' if exact else ''})"
        text = f"""query q($v: Vector({SIZE})) {{
          match {{ $d: Doc  $d.share < {share:.6f} }}
          return {{ $d.key as key, {rank} as distance }} order {{ {rank} }} limit {top} }}"""
        result = self.graph.query(text, params={"v": query.tolist()}, **where)
        return [(row["distance"], row["key"]) for row in result.rows()], result.notes

    def find_recall(self, share: float, questions: int = 15, top: int = 10, **where: Any) -> tuple[float, set[str]]:
        """The mean recall over some questions; no answer is short, wrong or out of order."""
        found: list[float] = []
        notes: set[str] = set()
        for query in self.draw(questions).astype(np.float64):
            answer, said = self.ask(query, share, top, **where)
            true = self.rank(query, share)
            assert len(answer) == min(top, len(true))
            distances = {key: distance for distance, key in true}
            assert all(distance == pytest.approx(distances[key], abs=1e-9) for distance, key in answer)
            assert answer == sorted(answer)
            # Ties are equally right.
            last = true[len(answer) - 1][0] if answer else 0.0
            found.append(sum(distance <= last + 1e-12 for distance, _ in answer) / len(answer) if answer else 1.0)
            notes |= set(said)
        return float(np.mean(found)), notes
