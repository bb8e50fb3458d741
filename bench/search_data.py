"""Documents with texts and vectors for `bench/search.py`: always the same, written and read part by part."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SIZE, CLUSTERS, WORDS, LETTERS = 384, 500, 40_000, "etaoinshrdlucmfwypvbgkjqxz"
TEXT_WORDS = 50
TOP = 10
FILTERED = 5
"""The share of rows that pass the filter, in percent."""
# Rows that are generated, written and read at a time: a million would take 8 GB at once.
_PART_ROWS = 50_000
# Rows per query that are compared again in double precision.
_FINALISTS = 4 * TOP


@dataclass(frozen=True)
class Questions:
    """The vectors and texts to search for, and the keys of the true nearest rows of each vector."""

    vectors: NDArray[np.float32]
    texts: list[str]
    nearest: list[set[str]]
    nearest_filtered: list[set[str]]


def write_documents(place: Path, rows: int, questions: int) -> None:
    """Generate clustered unit vectors and texts of 50 words by Zipf's law, and find the true neighbours."""
    random = np.random.default_rng(1)
    letters = np.array(list(LETTERS))
    words = np.array(["".join(random.choice(letters, n)) for n in random.integers(3, 11, WORDS)], object)
    centres = random.standard_normal((CLUSTERS, SIZE), dtype=np.float32)
    queries = _draw_vectors(random, centres, questions)
    texts = [" ".join(words[random.integers(20, 3_000, 3)]) for _ in range(questions)]
    found = (_Nearest(queries), _Nearest(queries))
    with pa.OSFile(str(place / "documents.arrow"), "wb") as file:
        writer = None
        for start in range(0, rows, _PART_ROWS):
            count = min(_PART_ROWS, rows - start)
            vectors = _draw_vectors(random, centres, count)
            drawn = words[np.minimum(random.zipf(1.3, (count, TEXT_WORDS)) - 1, WORDS - 1)]
            buckets = random.integers(0, 100, count)
            batch = pa.record_batch(
                {
                    "key": [f"d{number:07}" for number in range(start, start + count)],
                    "text": [" ".join(row) for row in drawn],
                    "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE),
                    "bucket": pa.array(buckets, pa.int32()),
                }
            )
            writer = writer or pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
            found[0].add(vectors, np.arange(start, start + count))
            passing = np.flatnonzero(buckets < FILTERED)
            found[1].add(vectors[passing], start + passing)
        if writer is not None:
            writer.close()
    np.save(place / "queries.npy", queries)
    listed = {"texts": texts, "nearest": found[0].list_keys(), "nearest_filtered": found[1].list_keys()}
    (place / "questions.json").write_text(json.dumps(listed))


class _Nearest:
    """The rows nearest to each query so far, by brute force."""

    def __init__(self, queries: NDArray[np.float32]) -> None:
        self._queries = queries
        self._rows = np.full((len(queries), TOP), -1)
        self._cosines = np.full((len(queries), TOP), -np.inf)

    def add(self, vectors: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        """Compare more rows: in single precision, and the best of these again in double precision."""
        if len(rows) <= _FINALISTS:
            return
        estimates = self._queries @ vectors.T
        best = np.argpartition(-estimates, _FINALISTS, axis=1)[:, :_FINALISTS]
        for number, at in enumerate(best):
            cosines = vectors[at].astype(np.float64) @ self._queries[number].astype(np.float64)
            all_rows = np.concatenate((self._rows[number], rows[at]))
            all_cosines = np.concatenate((self._cosines[number], cosines))
            order = np.argsort(-all_cosines, kind="stable")[:TOP]
            self._rows[number], self._cosines[number] = all_rows[order], all_cosines[order]

    def list_keys(self) -> list[list[str]]:
        """Return the keys of the nearest rows of each query."""
        return [[f"d{row:07}" for row in rows if row >= 0] for rows in self._rows.tolist()]


def _draw_vectors(random: np.random.Generator, centres: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    vectors = centres[random.integers(0, len(centres), rows)]
    vectors += np.float32(0.7) * random.standard_normal((rows, SIZE), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def read_questions(place: Path) -> Questions:
    """Read the questions of written documents."""
    listed = json.loads((place / "questions.json").read_text())
    return Questions(
        np.load(place / "queries.npy"),
        listed["texts"],
        [set(keys) for keys in listed["nearest"]],
        [set(keys) for keys in listed["nearest_filtered"]],
    )


def open_documents(place: Path) -> pa.Table:
    """Open the documents as a table over the mapped file."""
    return pa.ipc.open_file(pa.memory_map(str(place / "documents.arrow"))).read_all()
