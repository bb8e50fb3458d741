"""Choose the passage of a text that shows why it matches a query, and mark the words that do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.engine.search.tokenizer import Check, split_runs, tokenize

# Code points of the text in a passage, without marks.
MAX_PASSAGE = 160
MARK = "**"
ELLIPSIS = "…"
# A passage begins this many code points before its first word, or fewer: where a word begins.
_LEAD = 40
# Texts that are searched between two checks of the deadline.
_TEXTS_PER_CHECK = 256
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class _Hit:
    """A word of a text that the query has too: where it stands, and its stem."""

    start: int
    end: int
    stem: str


def build_snippets(texts: pa.Array, stems: Iterable[str], check: Check, language: str | None = None) -> pa.Array:
    """Return a passage of each text with its matching words marked; null if the text is null or has none of them."""
    wanted = frozenset(stems)
    # Equal texts have equal passages.
    encoded = texts.dictionary_encode()
    passages: list[str | None] = []
    known: dict[str, str | None] = {}
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        if number % _TEXTS_PER_CHECK == 0:
            check()
        passages.append(_build_snippet(text, wanted, known, check, language))
    return pa.array(passages, pa.utf8()).take(encoded.indices)


def _build_snippet(
    text: str, stems: frozenset[str], known: dict[str, str | None], check: Check, language: str | None
) -> str | None:
    hits = _find_hits(text, stems, known, check, language)
    if not hits:
        return None
    first, last = _choose_window(hits)
    start, end = _widen(text, hits[first].start, hits[last].end)
    parts: list[str] = [] if start == 0 else [ELLIPSIS]
    position = start
    for hit in hits[first : last + 1]:
        parts += [text[position : hit.start], MARK, text[hit.start : hit.end], MARK]
        position = hit.end
    parts.append(text[position:end])
    parts += [] if end == len(text) else [ELLIPSIS]
    # A passage is one line: white space of any kind is a space.
    return _SPACE.sub(" ", "".join(parts)).strip()


def _find_hits(
    text: str, stems: frozenset[str], known: dict[str, str | None], check: Check, language: str | None
) -> list[_Hit]:
    hits: list[_Hit] = []
    for start, end in split_runs(text):
        run = text[start:end]
        if run not in known:
            # Runs repeat, within a text and between texts: each is folded and stemmed once.
            matching = (word.stem for word in tokenize(run, check, language) if word.stem in stems)
            known[run] = next(matching, None)
        stem = known[run]
        if stem is not None:
            hits.append(_Hit(start, end, stem))
    return hits


def _choose_window(hits: list[_Hit]) -> tuple[int, int]:
    """Return the first and last hit of the best passage: more different words win, then more words, then the first one.

    A single word may be longer than a passage; it is then its own passage.
    """
    best = (0, 0)
    best_score = (0, 0)
    last = 0
    counts: dict[str, int] = {}
    for first, hit in enumerate(hits):
        last = max(last, first)
        while last < len(hits) and (last == first or hits[last].end - hit.start <= MAX_PASSAGE):
            counts[hits[last].stem] = counts.get(hits[last].stem, 0) + 1
            last += 1
        score = (len(counts), last - first)
        if score > best_score:
            best, best_score = (first, last - 1), score
        counts[hit.stem] -= 1
        if not counts[hit.stem]:
            del counts[hit.stem]
    return best


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a passage around its words, not within a word."""
    if len(text) <= MAX_PASSAGE:
        return 0, len(text)
    free = max(0, MAX_PASSAGE - (end - start))
    # At the end of the text, all that is free comes before the words.
    begin = max(0, min(start - min(_LEAD, free), len(text) - MAX_PASSAGE))
    if begin > 0:
        # Only white space ends a word here: `don't` stays in one piece.
        space = _SPACE.search(text, begin, start)
        begin = start if space is None else space.end()
    stop = min(len(text), begin + max(MAX_PASSAGE, end - begin))
    if stop < len(text):
        spaces = [match.start() for match in _SPACE.finditer(text, end, stop + 1)]
        stop = spaces[-1] if spaces else end
    return begin, stop
