"""Evaluate the text predicates `search`, `match_text` and `fuzzy`.

A column that fits into memory is searched by its cached index; a larger one is indexed batch by batch, with the same
result.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.column_index import find_matching_positions, get_language, has_index, iter_segments
from omnigraph.engine.search.fuzzy_terms import choose_max_edits
from omnigraph.engine.search.inverted_index import TextIndex, build_index, find_tokens
from omnigraph.engine.search.search_arguments import reserve, resolve_edits, resolve_text
from omnigraph.engine.search.tokenizer import Check, Word, iter_with_check, tokenize
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.engine.value_store import evaluate_bound
from omnigraph.query.expr import TextMatch, TextMode

# Words of candidate rows that are laid out in one step when a phrase is searched.
_MAX_CHUNK_WORDS = 1 << 20
# If fewer than one row in this many is a candidate, only their texts are tokenized, unless the column has an index.
_MIN_ROWS_PER_CANDIDATE = 32
# Upper limit of the memory per letter of a query while it is tokenized.
BYTES_PER_LETTER = 64
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class AnyWord:
    """A pattern that matches texts with at least one of these stems."""

    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllWords:
    """A pattern that matches texts with all of these stems and phrases."""

    stems: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class NearWord:
    """A pattern that matches texts with a word near one of these, as written or by stem, each within its own edits."""

    words: tuple[tuple[Word, int, int], ...]
    """Each word with the number of edits of the word as written, and of its stem."""


TextPattern: TypeAlias = AnyWord | AllWords | NearWord


def find_text_positions(
    context: ExecutionContext, match: TextMatch, type_name: str, within: Positions | None = None
) -> NDArray[np.int64]:
    """Return the positions whose text matches, ascending; only those of `within`, which ascends.

    A null text never matches, and a query without a word matches nothing.
    """
    table = context.get_reader(type_name)
    if isinstance(table, UnionReader):
        matches = table.join_positions(lambda member: find_text_positions(context, match, member.type.name))
        return matches if within is None else np.intersect1d(within, matches, assume_unique=True)
    if within is not None:
        is_match = _match_rows(context, match, type_name, within)
        return within[is_match].astype(np.int64, copy=False)
    pattern = resolve_pattern(context, match, table)
    segments = iter_segments(context, context.get_reader(type_name), match.prop.name)
    return find_matching_positions(segments, lambda index: find_rows(index, pattern, context.budget.check))


def evaluate_text_match(context: ExecutionContext, match: TextMatch, type_name: str, at: Positions) -> pa.Array:
    """Return, row by row, whether the text matches; null, that is unknown, where there is no text."""

    def evaluate(bound: Positions) -> pa.Array:
        is_match = _match_rows(context, match, type_name, bound)
        has_text = context.get_reader(type_name).take_values(match.prop.name, bound, context.budget).is_valid()
        return pa.array(is_match, mask=~np.asarray(has_text))

    return evaluate_bound(at, evaluate)


def resolve_pattern(context: ExecutionContext, match: TextMatch, rows: TableReader) -> TextPattern:
    """Return what a text predicate looks for in the texts of a table.

    Raises:
        ParameterError: There is nothing to look for, or a number is out of range.
    """
    language = get_language(rows, match.prop.name)
    query = resolve_text(context.inputs, match.query, match.mode.value)
    with reserve(context.budget, len(query) * BYTES_PER_LETTER, f"the words that `{match.mode.value}` looks for"):
        edits = resolve_edits(context.inputs, match)
        return parse_text_query(match.mode, query, edits, context.budget.check, language)


def _match_rows(context: ExecutionContext, match: TextMatch, type_name: str, at: Positions) -> NDArray[np.bool_]:
    """Return whether the texts of these rows match: by the column's index, or one of few rows if there is none yet."""
    rows, column = context.get_reader(type_name), match.prop.name
    if isinstance(rows, UnionReader):
        is_union_match = np.zeros(len(at), np.bool_)
        for member, indices, own in rows.split(at):
            is_union_match[indices] = _match_rows(context, match, member.type.name, own)
        return is_union_match
    if len(at) * _MIN_ROWS_PER_CANDIDATE < rows.size and not has_index(rows, column):
        is_match = np.zeros(len(at), np.bool_)
        texts = rows.take_values(column, at, context.budget)
        index = build_index(texts, context.budget, get_language(rows, column))
        is_match[find_rows(index, resolve_pattern(context, match, rows), context.budget.check)] = True
        return is_match
    is_table_match = np.zeros(rows.size, np.bool_)
    is_table_match[find_text_positions(context, match, type_name)] = True
    result: NDArray[np.bool_] = is_table_match[at]
    return result


# --- the query ---------------------------------------------------------------------------------------


def parse_text_query(
    mode: TextMode,
    query: str,
    edits: int | None = None,
    check: Check = lambda: None,
    language: str | None = None,
) -> TextPattern:
    """Parse the query of a text predicate into a pattern without repeats; `edits` None is the default per word."""
    match mode:
        case TextMode.ANY:
            return AnyWord(stem_query(query, check, language))
        case TextMode.ALL:
            quoted = iter_with_check(dict.fromkeys(part.group(1) for part in _QUOTED.finditer(query)), check)
            phrases = dict.fromkeys(tuple(word.stem for word in tokenize(part, check, language)) for part in quoted)
            # A quoted single word is already required by its stem.
            return AllWords(stem_query(query, check, language), tuple(phrase for phrase in phrases if len(phrase) > 1))
        case TextMode.FUZZY:
            words = dict.fromkeys(tokenize(query, check, language))
            # A stem is shorter than its word: with the edits of the word, `elefant` (stem `elef`) found `self`.
            choose = choose_max_edits if edits is None else lambda _: edits
            return NearWord(tuple((word, choose(word.folded), choose(word.stem)) for word in words))
        case _:
            assert_never(mode)


def stem_query(text: str, check: Check = lambda: None, language: str | None = None) -> tuple[str, ...]:
    """Return the distinct stems of a text, in order."""
    return tuple(dict.fromkeys(word.stem for word in tokenize(text, check, language)))


# --- matching rows -----------------------------------------------------------------------------------


def find_rows(index: TextIndex, pattern: TextPattern, check: Check = lambda: None) -> Positions:
    """Return the rows of an index that match a pattern, ascending; `check` may raise to end a long search."""
    match pattern:
        case AnyWord():
            return _find_any_word(index, find_tokens(index, pattern.stems), check)
        case AllWords():
            return _find_all_words(index, pattern, check)
        case NearWord():
            return _find_near_words(index, pattern, check)
        case _:
            assert_never(pattern)


def _find_any_word(index: TextIndex, tokens: list[int], check: Check) -> Positions:
    if len(tokens) == 1:
        return index.get_postings(tokens[0])[0]
    is_match = np.zeros(index.size, np.bool_)
    for token in iter_with_check(tokens, check):
        is_match[index.get_postings(token)[0]] = True
    return np.flatnonzero(is_match)


def _find_all_words(index: TextIndex, pattern: AllWords, check: Check) -> Positions:
    tokens = find_tokens(index, pattern.stems)
    if not tokens or len(tokens) < len(pattern.stems):
        return np.empty(0, np.int64)
    token_of = dict(zip(pattern.stems, tokens, strict=True))
    # Starting with the rarest word keeps the intersections small.
    by_rarity = sorted((index.get_postings(token)[0] for token in tokens), key=len)
    rows: Positions = by_rarity[0]
    for postings in iter_with_check(by_rarity[1:], check):
        if not len(rows):
            break
        indices = np.searchsorted(postings, rows)
        rows = rows[postings[np.minimum(indices, len(postings) - 1)] == rows]
    for phrase in pattern.phrases:
        if not len(rows):
            break
        rows = _filter_by_phrase(index, rows, list(map(token_of.__getitem__, phrase)), check)
    return rows


def _filter_by_phrase(index: TextIndex, rows: Positions, phrase: list[int], check: Check) -> Positions:
    """Return the rows that have these tokens consecutively."""
    matching = [np.empty(0, rows.dtype)]
    for chunk, owners, stream in _iter_word_streams(index, rows):
        is_hit = np.zeros(len(stream), np.bool_)
        last = len(stream) - len(phrase) + 1
        if last > 0:
            tokens = index.token_of[stream]
            # A phrase must not cross from one row into the next.
            is_hit[:last] = owners[:last] == owners[len(phrase) - 1 :]
            for offset, token in enumerate(phrase):
                check()
                is_hit[:last] &= tokens[offset : offset + last] == token
        matching.append(chunk[np.unique(owners[is_hit])])
    return np.concatenate(matching)


def _find_near_words(index: TextIndex, pattern: NearWord, check: Check) -> Positions:
    is_match = np.zeros(index.size, np.bool_)
    is_near = np.zeros(len(index.token_of), np.bool_)
    for word, word_edits, stem_edits in pattern.words:
        near = index.token_spellings.find_within(word.stem, stem_edits, check)
        is_near[index.spellings.find_within(word.folded, word_edits, check)] = True
        for token in iter_with_check(near.tolist(), check):
            is_match[index.get_postings(token)[0]] = True
    # Postings are by token: a row with the token of a near word may have another form of it, so its words are checked.
    is_candidate = np.zeros(index.size, np.bool_)
    for token in iter_with_check(np.unique(index.token_of[is_near]).tolist(), check):
        is_candidate[index.get_postings(token)[0]] = True
    for chunk, owners, stream in _iter_word_streams(index, np.flatnonzero(is_candidate & ~is_match)):
        check()
        is_match[chunk[np.unique(owners[is_near[stream]])]] = True
    return np.flatnonzero(is_match)


def _iter_word_streams(
    index: TextIndex, rows: Positions
) -> Iterator[tuple[Positions, NDArray[np.int64], NDArray[np.int32]]]:
    """Yield the words of these rows in chunks: the rows, the index of the row of each word, and the words."""
    lengths = index.lengths[rows].astype(np.int64)
    ends = np.cumsum(lengths)
    start = 0
    while start < len(rows):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _MAX_CHUNK_WORDS, side="right")), start + 1)
        chunk, counts = rows[start:stop], lengths[start:stop]
        owners = np.repeat(np.arange(len(chunk)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield chunk, owners, index.take_words(index.starts[chunk][owners] + within)
        start = stop
