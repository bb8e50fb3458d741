"""Score texts by how near their words are to those of a fuzzy search."""

import numpy as np
import pyarrow as pa

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.inverted_index import build_index
from omnigraph.engine.search.text_match import NearWord, TextPattern


def score_texts(texts: pa.Array, pattern: TextPattern, budget: Budget, language: str | None) -> pa.Array:
    """Return the number of edits of each text: over the words of the query, the sum of the smallest distances.

    A word that no word of the text is near counts one more than its edits. Null without any near word.
    """
    assert isinstance(pattern, NearWord)  # noqa: S101 - the binder gives a score a fuzzy match only
    # Texts that `fuzzy` has found are few; 100,000 texts of 50 words take about a second.
    index = build_index(texts, budget, language)
    totals = np.zeros(index.size, np.int64)
    has_near = np.zeros(index.size, np.bool_)
    filled = np.flatnonzero(index.lengths)
    for word, word_edits, stem_edits in pattern.words if len(filled) else ():
        missing = max(word_edits, stem_edits) + 1
        of_token = np.full(len(index.tokens), missing, np.int64)
        near, distances = index.token_spellings.measure_within(word.stem, stem_edits, budget.check)
        of_token[near] = distances
        of_word = of_token[index.token_of]
        near, distances = index.spellings.measure_within(word.folded, word_edits, budget.check)
        of_word[near] = np.minimum(of_word[near], distances)
        nearest = np.full(index.size, missing, np.int64)
        # Rows without a word have no part of the stream, so each part ends where the next one begins.
        nearest[filled] = np.minimum.reduceat(of_word[index.stream], index.starts[filled])
        totals += nearest
        has_near |= nearest < missing
    return pa.array(totals.astype(np.float64), mask=~has_near)
