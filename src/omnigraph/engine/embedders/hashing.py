"""Vectors by feature hashing: no model, no network, the same everywhere. Texts that share words are near each other."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.search.tokenizer import Vocabulary, analyse, stem_words


class HashProvider:
    """Each stem of a text adds to one number of the vector, which its hash chooses; the vector has length one.

    For tests, demos and texts whose words are what counts: it knows nothing of what words mean.
    """

    name = "hash"
    model = "hash"
    dimension = None

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """A row of that size for each text; zeros for a text without words."""
        vocabulary = Vocabulary()
        parts = list(analyse(pa.array(texts, pa.string()), vocabulary))
        counts = np.concatenate([np.diff(part.starts) for part in parts]) if parts else np.empty(0, np.int64)
        found = np.zeros((len(texts), size), np.float64)
        if counts.sum():
            hashes = np.array([_hash(stem) for stem in stem_words(vocabulary.words)], np.uint64)
            hashed = hashes[np.concatenate([part.words for part in parts])]
            places = (hashed >> np.uint64(1)) % np.uint64(size)
            signs = np.where(hashed & np.uint64(1), 1.0, -1.0)
            np.add.at(found, (np.repeat(np.arange(len(texts)), counts), places.astype(np.int64)), signs)
        lengths = np.sqrt(np.square(found).sum(axis=1, keepdims=True))
        vectors: NDArray[np.float32] = np.divide(found, lengths, out=found, where=lengths > 0).astype(np.float32)
        return vectors


def _hash(stem: str) -> int:
    return int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "little")
