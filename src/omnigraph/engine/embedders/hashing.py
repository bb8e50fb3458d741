"""Embed texts by feature hashing: without model or network, and deterministic."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.search.tokenizer import Vocabulary, analyse, stem_words


class HashProvider:
    """A provider that hashes each stem of a text to one dimension and a sign, and normalizes the sum to length one.

    Texts that share words are near each other. It suits tests, demos and search by words; it knows no meanings.
    """

    name = "hash"
    model = "hash"
    dimension = None

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        """Return one vector of this size per text; zeros for a text without words."""
        vocabulary = Vocabulary()
        parts = list(analyse(pa.array(texts, pa.string()), vocabulary))
        counts = np.concatenate([np.diff(part.starts) for part in parts]) if parts else np.empty(0, np.int64)
        sums = np.zeros((len(texts), size), np.float64)
        if counts.sum():
            hashes = np.array([_hash(stem) for stem in stem_words(vocabulary.words)], np.uint64)
            hashed = hashes[np.concatenate([part.words for part in parts])]
            # The lowest bit is the sign, the others choose the dimension.
            dimensions = (hashed >> np.uint64(1)) % np.uint64(size)
            signs = np.where(hashed & np.uint64(1), 1.0, -1.0)
            np.add.at(sums, (np.repeat(np.arange(len(texts)), counts), dimensions.astype(np.int64)), signs)
        lengths = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
        vectors: NDArray[np.float32] = np.divide(sums, lengths, out=sums, where=lengths > 0).astype(np.float32)
        return vectors


def _hash(stem: str) -> int:
    # Not `hash()`, which is salted per process: vectors are stored.
    return int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "little")
