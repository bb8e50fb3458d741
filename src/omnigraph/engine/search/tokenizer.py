"""How a text becomes words, when it is stored and when it is asked for: one definition for both.

A word is a run of Unicode letters, digits and the marks on them. It is folded (compatibility forms and case are
unified, what is a Latin letter with an accent becomes that letter) and stemmed as English; the commonest words are
dropped. Columns are analysed a chunk at a time: the bytes are split by a table, equal runs are found by Arrow, and only
what is distinct is looked at in Python.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import Stemmer
from numpy.typing import NDArray

T = TypeVar("T")
Check: TypeAlias = Callable[[], None]
"""Is called again and again, and raises when there is no time left."""

_COMMONEST = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with"
)
STOP_WORDS = frozenset(_COMMONEST.split())
"""Words that every text has; they are not looked for, counted or part of a phrase."""

_LATIN_LETTERS = dict(zip("æœøđðþłħıŋŧ", ("ae", "oe", "o", "d", "d", "th", "l", "h", "i", "n", "t"), strict=True))
"""Latin letters that Unicode does not take apart."""
_CHUNK_BYTES = 8 * 1024 * 1024
"""How much text is analysed at once: it bounds the memory for what lies between text and words."""
_RUNS = re.compile(r"[0-9A-Za-z\u0080-\U0010ffff]+")
_RUNS_PER_CHECK = 4_096
"""How much of a question is analysed between two looks at the clock."""
_IS_RUN = np.array([byte >= 0x80 or chr(byte).isalnum() for byte in range(256)])
"""Bytes that never end a run; whether a character beyond ASCII belongs to a word is asked of distinct runs."""
_LOWER = np.array([ord(chr(byte).lower()) if byte < 0x80 else byte for byte in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: folded, and as its stem."""

    folded: str
    stem: str


def tokenize(text: str, check: Check = lambda: None) -> Iterator[Word]:
    """The words of a text in order, without stop words."""
    runs = (found.group() for found in _RUNS.finditer(text))
    while some := list(islice(runs, _RUNS_PER_CHECK)):
        check()
        kept = [word for run in some for word in _fold(run) if word not in STOP_WORDS]
        yield from map(Word, kept, stem_words(kept))


def iter_with_check(items: Iterable[T], check: Check) -> Iterator[T]:
    """The same items, with a look at the clock now and then."""
    for place, item in enumerate(items):
        if not place % _RUNS_PER_CHECK:
            check()
        yield item


def stem_words(folded: list[str]) -> list[str]:
    """The stem of each word."""
    stemmer = Stemmer.Stemmer("english", 0)  # one of its own: they are not safe to share between threads
    found: list[str] = stemmer.stemWords(folded)
    return found


def _fold(run: str) -> list[str]:
    """The folded words of a run, stop words too."""
    if run.isascii():
        return [run.lower()]
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", run).casefold()).translate(_FOLDING)
    if _MARK in plain:
        plain = _MARKS_ON_ASCII.sub("", plain).replace(_MARK, "")
    return [word[start:] for word in plain.split() if (start := _find_first_letter(word)) < len(word)]


def _find_first_letter(word: str) -> int:
    """Return where the first letter or digit of a word stands: a mark before it is on none of them, and no part of it.

    Texts are split before they are normalised. `=` and a stroke through it are split, `≠` is not: without this, two
    spellings of one text had different words.
    """
    return next((place for place, char in enumerate(word) if char.isalnum()), len(word))


class _FoldingTable(dict[int, str]):
    """What each character becomes, remembered: itself, ASCII, or a space where it is no part of a word."""

    def __missing__(self, code: int) -> str:
        found = self[code] = self._fold(chr(code))
        return found

    @staticmethod
    def _fold(char: str) -> str:
        category = unicodedata.category(char)
        if not char.isalnum() and not category.startswith("M"):
            return " "
        base = unicodedata.normalize("NFKD", char)[0]
        if char in _LATIN_LETTERS or base.isascii():
            return _LATIN_LETTERS.get(char, base)
        return f"{_MARK}{char}" if category == "Mn" else char


_FOLDING = _FoldingTable()
_MARK = "\0"
"""Stands before a mark for a while, because those on ASCII letters go; no text has it here."""
_MARKS_ON_ASCII = re.compile(f"(?<=[0-9a-z])(?:{_MARK}.)+")


# --- columns ---------------------------------------------------------------------------------------


class Vocabulary:
    """The distinct words of a column, numbered in the order in which they were met."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}
        self._runs: dict[str, tuple[int, ...]] = {}

    def number_runs(self, runs: Iterable[str]) -> list[tuple[int, ...]]:
        """The words in each run, by number; most runs are one word."""
        known = self._runs
        return [known[run] if run in known else self._add(run) for run in runs]

    def _add(self, run: str) -> tuple[int, ...]:
        found = tuple(self._number_word(word) for word in _fold(run) if word not in STOP_WORDS)
        self._runs[run] = found
        return found

    def _number_word(self, word: str) -> int:
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """The words of some texts, by number: those of text `i` are `words[starts[i]:starts[i + 1]]`."""

    words: NDArray[np.int32]
    starts: NDArray[np.int64]


def analyse(texts: pa.Array, vocabulary: Vocabulary) -> Iterator[TokenizedTexts]:
    """The words of a column, some rows at a time, in order; a null has none."""
    for part in _iter_chunks(texts):
        yield _analyse(part, vocabulary)


def _iter_chunks(texts: pa.Array) -> Iterator[pa.Array]:
    """The rows in pieces of a size that is comfortable to work on."""
    wide = texts if pa.types.is_large_string(texts.type) else texts.cast(pa.large_string())
    start = 0
    offsets = _read_offsets(wide)
    while start < len(wide):
        stop = int(np.searchsorted(offsets, offsets[start] + _CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(wide))
        yield wide.slice(start, stop - start)
        start = stop


def _read_offsets(texts: pa.Array) -> NDArray[np.int64]:
    found = np.frombuffer(texts.buffers()[1], np.int64)
    return found[texts.offset : texts.offset + len(texts) + 1]


def _analyse(texts: pa.Array, vocabulary: Vocabulary) -> TokenizedTexts:
    if texts.null_count:
        texts = texts.fill_null("")
    offsets = _read_offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if not len(data):
        return TokenizedTexts(np.empty(0, np.int32), np.zeros(len(texts) + 1, np.int64))
    inside = _IS_RUN[data]
    is_first, is_last = inside.copy(), inside.copy()
    is_first[1:] &= ~inside[:-1]
    is_last[:-1] &= ~inside[1:]
    edges = offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(data))]
    is_first[edges] = inside[edges]
    is_last[edges - 1] = inside[edges - 1]
    first = np.flatnonzero(is_first)
    lengths = np.flatnonzero(is_last) - first + 1
    runs = _build_strings(_LOWER[data[inside]], lengths).dictionary_encode()
    return _number_words(runs, np.searchsorted(first, offsets), vocabulary)


def _build_strings(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Texts that lie one behind the other."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _number_words(runs: pa.DictionaryArray, starts: NDArray[np.int64], vocabulary: Vocabulary) -> TokenizedTexts:
    """Runs as words: each run becomes none, one or several."""
    places = np.asarray(runs.indices)
    numbers = vocabulary.number_runs(runs.dictionary.to_pylist())
    counts = np.fromiter(map(len, numbers), np.int64, len(numbers))
    flat = np.fromiter((number for some in numbers for number in some), np.int32, int(counts.sum()))
    per_run = counts[places]
    ends = np.zeros(len(places) + 1, np.int64)
    np.cumsum(per_run, out=ends[1:])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], per_run)
    first = np.cumsum(counts) - counts
    return TokenizedTexts(flat[np.repeat(first[places], per_run) + within], ends[starts])
