"""Tokenize texts into words: one definition for stored texts and for queries.

A word is a run of Unicode letters, digits and the marks on them. It is folded (compatibility forms and case are
unified, Latin letters lose their accents) and stemmed as English, whose stop words are dropped, or in the language that
its property declares. Chinese, Japanese and Korean, if declared, have pairs of neighbouring characters as words.
Columns are tokenized in chunks: the bytes are split by a table, Arrow finds equal runs, and only distinct runs are
processed in Python.
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
# Called regularly; raises when the deadline has passed.
Check: TypeAlias = Callable[[], None]

_COMMONEST = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with"
)
# Words that nearly every text has; they are not searched, counted or part of a phrase.
STOP_WORDS = frozenset(_COMMONEST.split())

# Latin letters that Unicode does not decompose.
_LATIN_LETTERS = dict(zip("æœøđðþłħıŋŧ", ("ae", "oe", "o", "d", "d", "th", "l", "h", "i", "n", "t"), strict=True))
# Bytes of text per chunk: it limits the memory of intermediate arrays.
_CHUNK_BYTES = 8 * 1024 * 1024
_RUNS = re.compile(r"[0-9A-Za-z\u0080-\U0010ffff]+")
# Runs of a query that are processed between two checks of the deadline.
_RUNS_PER_CHECK = 4_096
# Bytes that never end a run. All bytes beyond ASCII belong to one: `_fold` splits distinct runs by character.
_IS_RUN = np.array([byte >= 0x80 or chr(byte).isalnum() for byte in range(256)])
_LOWER = np.array([ord(chr(byte).lower()) if byte < 0x80 else byte for byte in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text, folded, and its stem."""

    folded: str
    stem: str


def tokenize(text: str, check: Check = lambda: None, language: str | None = None) -> Iterator[Word]:
    """Yield the words of a text in order, without stop words; without a language it is English."""
    runs = (match.group() for match in _RUNS.finditer(text))
    while chunk := list(islice(runs, _RUNS_PER_CHECK)):
        check()
        words = [word for run in chunk for word in _list_words(run, language)]
        yield from map(Word, words, stem_words(words, language))


def split_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the runs of letters and digits of a text begin and end; a run has one or more words, or none."""
    return (match.span() for match in _RUNS.finditer(text))


def iter_with_check(items: Iterable[T], check: Check) -> Iterator[T]:
    """Yield the same items, calling `check` regularly."""
    for number, item in enumerate(items):
        if not number % _RUNS_PER_CHECK:
            check()
        yield item


def stem_words(folded: list[str], language: str | None = None) -> list[str]:
    """Return the stem of each word; a language without a stemmer has the words themselves."""
    if language in _UNSTEMMED:
        return folded
    # A new stemmer per call: they are not safe to share between threads.
    stemmer = Stemmer.Stemmer(language or "english", 0)
    stems: list[str] = stemmer.stemWords(folded)
    return stems


# Declared languages without a stemmer: words as they are, and text without spaces between words.
_CJK = "cjk"
_UNSTEMMED = ("none", _CJK)
# Han, kana and Hangul, with the marks that lengthen a sound.
_CJK_RUNS = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def _list_words(run: str, language: str | None) -> list[str]:
    """Return the words of a run, without stop words."""
    words = _fold(run)
    if language is None:
        return [word for word in words if word not in STOP_WORDS]
    if language == _CJK:
        return [part for word in words for part in _split_cjk(word)]
    return words


def _split_cjk(word: str) -> Iterator[str]:
    """Yield the pairs of neighbouring characters of each part without spaces, and the other parts as they are."""
    start = 0
    for match in _CJK_RUNS.finditer(word):
        if match.start() > start:
            yield word[start : match.start()]
        part = match.group()
        yield from (part[at : at + 2] for at in range(max(len(part) - 1, 1)))
        start = match.end()
    if start < len(word):
        yield word[start:]


def _fold(run: str) -> list[str]:
    """Return the folded words of a run, stop words included."""
    if run.isascii():
        return [run.lower()]
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", run).casefold()).translate(_FOLDING)
    if _MARK in plain:
        plain = _MARKS_ON_ASCII.sub("", plain).replace(_MARK, "")
    return [word[start:] for word in plain.split() if (start := _find_first_letter(word)) < len(word)]


def _find_first_letter(word: str) -> int:
    """Return the index of the first letter or digit of a word: marks before it are not part of the word.

    Texts are split before they are normalised. `=` and a stroke through it are split, `≠` is not: without this, two
    spellings of the same text had different words.
    """
    return next((index for index, char in enumerate(word) if char.isalnum()), len(word))


class _FoldingTable(dict[int, str]):
    """A cached translation table: a character becomes itself, ASCII, or a space if it is not part of a word."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = self._fold(chr(code))
        return folded

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
# Precedes each mark until those on ASCII letters are removed; folded text has no other NUL.
_MARK = "\0"
_MARKS_ON_ASCII = re.compile(f"(?<=[0-9a-z])(?:{_MARK}.)+")


# --- columns ---------------------------------------------------------------------------------------


class Vocabulary:
    """The distinct words of a column in one language, numbered in order of first occurrence."""

    def __init__(self, language: str | None = None) -> None:
        self.language = language
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}
        self._runs: dict[str, tuple[int, ...]] = {}

    def number_runs(self, runs: Iterable[str]) -> list[tuple[int, ...]]:
        """Return the word numbers of each run; most runs are a single word."""
        cached = self._runs
        return [cached[run] if run in cached else self._add(run) for run in runs]

    def _add(self, run: str) -> tuple[int, ...]:
        numbers = tuple(self._number_word(word) for word in _list_words(run, self.language))
        self._runs[run] = numbers
        return numbers

    def _number_word(self, word: str) -> int:
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """The word numbers of some texts: those of text `i` are `words[starts[i]:starts[i + 1]]`."""

    words: NDArray[np.int32]
    starts: NDArray[np.int64]


def analyse(texts: pa.Array, vocabulary: Vocabulary) -> Iterator[TokenizedTexts]:
    """Yield the words of a column in chunks of rows, in order; a null has none."""
    for part in _iter_chunks(texts):
        yield _analyse(part, vocabulary)


def _iter_chunks(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield the rows in chunks of limited size."""
    wide = texts if pa.types.is_large_string(texts.type) else texts.cast(pa.large_string())
    start = 0
    offsets = _read_offsets(wide)
    while start < len(wide):
        stop = int(np.searchsorted(offsets, offsets[start] + _CHUNK_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(wide))
        yield wide.slice(start, stop - start)
        start = stop


def _read_offsets(texts: pa.Array) -> NDArray[np.int64]:
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    return offsets[texts.offset : texts.offset + len(texts) + 1]


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
    # Texts are adjacent in memory: a run ends where its text ends.
    bounds = offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(data))]
    is_first[bounds] = inside[bounds]
    is_last[bounds - 1] = inside[bounds - 1]
    first = np.flatnonzero(is_first)
    lengths = np.flatnonzero(is_last) - first + 1
    runs = _build_strings(_LOWER[data[inside]], lengths).dictionary_encode()
    return _number_words(runs, np.searchsorted(first, offsets), vocabulary)


def _build_strings(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Build a string array from adjacent texts of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _number_words(runs: pa.DictionaryArray, starts: NDArray[np.int64], vocabulary: Vocabulary) -> TokenizedTexts:
    """Replace each run by the numbers of its words: none, one or several."""
    codes = np.asarray(runs.indices)
    run_words = vocabulary.number_runs(runs.dictionary.to_pylist())
    counts = np.fromiter(map(len, run_words), np.int64, len(run_words))
    flat = np.fromiter((number for words in run_words for number in words), np.int32, int(counts.sum()))
    # Expands each run to the slice of `flat` that has its words.
    words_per_run = counts[codes]
    ends = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(words_per_run, out=ends[1:])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], words_per_run)
    first = np.cumsum(counts) - counts
    return TokenizedTexts(flat[np.repeat(first[codes], words_per_run) + within], ends[starts])
