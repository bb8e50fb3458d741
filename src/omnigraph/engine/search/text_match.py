"""Text predicates: which rows `search`, `match_text` and `fuzzy` are true for.

A column that has room in memory is asked by its index. Of a larger one the same is asked batch by batch, so the answer
is the same.
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
from omnigraph.engine.search.column_index import find_matching_positions, has_index, iter_segments
from omnigraph.engine.search.fuzzy_terms import choose_max_edits
from omnigraph.engine.search.inverted_index import InvertedIndex, build_index
from omnigraph.engine.search.search_arguments import reserve, resolve_edits, resolve_text
from omnigraph.engine.search.tokenizer import Check, Word, iter_with_check, tokenize
from omnigraph.query.expr import TextMatch, TextMode

_MAX_CHUNK_WORDS = 1 << 20
"""How many words of candidates are laid out at a time, to look for a phrase in them."""
_MIN_ROWS_PER_CANDIDATE = 32
"""When fewer than one row in so many is asked for, their texts are looked at before an index of all is made."""
BYTES_PER_LETTER = 64
"""What the words of a question take at most for each of its letters, while they are found."""
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class AnyWord:
    """One of these stems."""

    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllWords:
    """All of these stems, and these sequences of them."""

    stems: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class NearWord:
    """A word within some edits of one of these, each with its own number."""

    words: tuple[tuple[Word, int], ...]


TextPattern: TypeAlias = AnyWord | AllWords | NearWord


def find_text_positions(
    reading: ExecutionContext, match: TextMatch, type_name: str, within: Positions | None = None
) -> NDArray[np.int64]:
    """The positions whose text matches, ascending; only those of `within`, which ascends.

    A null text never matches, and without a word to look for nothing does.
    """
    looked_for = _resolve_pattern(reading, match)
    if within is not None:
        is_found = _match_rows(reading, match, type_name, within, looked_for)
        return within[is_found].astype(np.int64, copy=False)
    parts = iter_segments(reading, reading.get_reader(type_name), match.prop.name)
    return find_matching_positions(parts, lambda index: find_rows(index, looked_for, reading.budget.check))


def evaluate_text_match(reading: ExecutionContext, match: TextMatch, type_name: str, at: Positions) -> pa.Array:
    """Row by row whether the text matches; null, that is unknown, where there is no text."""
    is_found = _match_rows(reading, match, type_name, at, _resolve_pattern(reading, match))
    has_text = reading.get_reader(type_name).take_values(match.prop.name, at, reading.budget).is_valid()
    return pa.array(is_found, mask=~np.asarray(has_text))


def _resolve_pattern(reading: ExecutionContext, match: TextMatch) -> TextPattern:
    query = resolve_text(reading.inputs, match.query, match.mode.value)
    with reserve(reading.budget, len(query) * BYTES_PER_LETTER, f"the words that `{match.mode.value}` looks for"):
        return parse_text_query(match.mode, query, resolve_edits(reading.inputs, match), reading.budget.check)


def _match_rows(
    reading: ExecutionContext, match: TextMatch, type_name: str, at: Positions, looked_for: TextPattern
) -> NDArray[np.bool_]:
    """Whether the texts of these rows match: by the index, or by themselves when they are few and there is none yet."""
    rows, column = reading.get_reader(type_name), match.prop.name
    if len(at) * _MIN_ROWS_PER_CANDIDATE < rows.size and not has_index(rows, column):
        is_found = np.zeros(len(at), np.bool_)
        index = build_index(rows.take_values(column, at, reading.budget), reading.budget)
        is_found[find_rows(index, looked_for, reading.budget.check)] = True
        return is_found
    is_match = np.zeros(rows.size, np.bool_)
    is_match[find_text_positions(reading, match, type_name)] = True
    found: NDArray[np.bool_] = is_match[at]
    return found


# --- the question ------------------------------------------------------------------------------------


def parse_text_query(mode: TextMode, query: str, edits: int | None = None, check: Check = lambda: None) -> TextPattern:
    """What a text predicate looks for, each once; `edits` None is the default for each word."""
    match mode:
        case TextMode.ANY:
            return AnyWord(stem_query(query, check))
        case TextMode.ALL:
            quoted = iter_with_check(dict.fromkeys(part.group(1) for part in _QUOTED.finditer(query)), check)
            phrases = dict.fromkeys(tuple(word.stem for word in tokenize(part, check)) for part in quoted)
            return AllWords(stem_query(query, check), tuple(phrase for phrase in phrases if len(phrase) > 1))
        case TextMode.FUZZY:
            found = dict.fromkeys(tokenize(query, check))
            return NearWord(tuple((w, choose_max_edits(w.folded) if edits is None else edits) for w in found))
        case _:
            assert_never(mode)


def stem_query(text: str, check: Check = lambda: None) -> tuple[str, ...]:
    """The stems of a text, each once, in order."""
    return tuple(dict.fromkeys(word.stem for word in tokenize(text, check)))


# --- the answer --------------------------------------------------------------------------------------


def find_rows(index: InvertedIndex, looked_for: TextPattern, check: Check = lambda: None) -> Positions:
    """The rows of an index that have it, ascending; `check` ends what takes too long."""
    match looked_for:
        case AnyWord():
            return _find_any_word(index, index.find_tokens(looked_for.stems), check)
        case AllWords():
            return _find_all_words(index, looked_for, check)
        case NearWord():
            return _find_near_words(index, looked_for, check)
        case _:
            assert_never(looked_for)


def _find_any_word(index: InvertedIndex, tokens: list[int], check: Check) -> Positions:
    if len(tokens) == 1:
        return index.get_postings(tokens[0])[0]
    has_one = np.zeros(index.size, np.bool_)
    for token in iter_with_check(tokens, check):
        has_one[index.get_postings(token)[0]] = True
    return np.flatnonzero(has_one)


def _find_all_words(index: InvertedIndex, looked_for: AllWords, check: Check) -> Positions:
    tokens = index.find_tokens(looked_for.stems)
    if not tokens or len(tokens) < len(looked_for.stems):
        return np.empty(0, np.int64)
    by_rarity = sorted((index.get_postings(token)[0] for token in tokens), key=len)
    found: Positions = by_rarity[0]
    for others in iter_with_check(by_rarity[1:], check):
        if not len(found):
            break
        places = np.searchsorted(others, found)
        found = found[others[np.minimum(places, len(others) - 1)] == found]
    for phrase in looked_for.phrases:
        if not len(found):
            break
        found = _filter_by_phrase(index, found, [index.tokens[stem] for stem in phrase], check)
    return found


def _filter_by_phrase(index: InvertedIndex, rows: Positions, phrase: list[int], check: Check) -> Positions:
    """Those of the rows that have these tokens one behind the other."""
    kept = [np.empty(0, rows.dtype)]
    for some, owners, stream in _iter_word_streams(index, rows):
        is_hit = np.zeros(len(stream), np.bool_)
        last = len(stream) - len(phrase) + 1
        if last > 0:
            tokens = index.token_of[stream]
            is_hit[:last] = owners[:last] == owners[len(phrase) - 1 :]
            for place, token in enumerate(phrase):
                check()
                is_hit[:last] &= tokens[place : place + last] == token
        kept.append(some[np.unique(owners[is_hit])])
    return np.concatenate(kept)


def _find_near_words(index: InvertedIndex, looked_for: NearWord, check: Check) -> Positions:
    found = np.zeros(index.size, np.bool_)
    is_near = np.zeros(len(index.words), np.bool_)
    for word, edits in looked_for.words:
        near = index.token_spellings.find_within(word.stem, edits, check)
        is_near[index.spellings.find_within(word.folded, edits, check)] = True
        for token in iter_with_check(near.tolist(), check):
            found[index.get_postings(token)[0]] = True
    # A word as it is written: whoever has its token may have another form of it, so the texts are looked at.
    candidates = np.zeros(index.size, np.bool_)
    for token in iter_with_check(np.unique(index.token_of[is_near]).tolist(), check):
        candidates[index.get_postings(token)[0]] = True
    for some, owners, stream in _iter_word_streams(index, np.flatnonzero(candidates & ~found)):
        check()
        found[some[np.unique(owners[is_near[stream]])]] = True
    return np.flatnonzero(found)


def _iter_word_streams(
    index: InvertedIndex, rows: Positions
) -> Iterator[tuple[Positions, NDArray[np.int64], NDArray[np.int32]]]:
    """The words of these rows, some rows at a time: the rows, whose of them each word is, and the words."""
    lengths = index.lengths[rows].astype(np.int64)
    ends = np.cumsum(lengths)
    start = 0
    while start < len(rows):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _MAX_CHUNK_WORDS, side="right")), start + 1)
        some, count = rows[start:stop], lengths[start:stop]
        owners = np.repeat(np.arange(len(some)), count)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(count) - count, count)
        yield some, owners, index.stream[index.starts[some][owners] + within]
        start = stop
