"""Text search and ranks, by hand: a small vocabulary whose stems are written down, and the formulas as they stand.

The stems are those of the English Snowball stemmer; a word that is not listed here is refused, so that no test relies
on a stem that nobody looked at.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache

from omnigraph.query.expr import TextMode

STEMS: dict[str, str] = {
    "run": "run",
    "runs": "run",
    "running": "run",
    "runner": "runner",
    "graph": "graph",
    "graphs": "graph",
    "engine": "engin",
    "engines": "engin",
    "query": "queri",
    "queries": "queri",
    "table": "tabl",
    "tables": "tabl",
    "fast": "fast",
    "faster": "faster",
    "quick": "quick",
    "quickly": "quick",
    "cat": "cat",
    "cats": "cat",
    "dog": "dog",
    "cafe": "cafe",
    "naive": "naiv",
    "zurich": "zurich",
    "index": "index",
    "indexed": "index",
    "go": "go",
    "data": "data",
    "hello": "hello",
    "grahp": "grahp",
    "grap": "grap",
    "gra": "gra",
    "rgahp": "rgahp",
    "abc": "abc",
    "ca": "ca",
    "cafes": "cafe",
    "o": "o",
}
STOP_WORDS = frozenset({"the", "a", "an", "and", "of", "is", "to", "in", "not", "for"})
K1, B = 1.2, 0.75


class UnknownWordError(Exception):
    """A word whose stem is not written down here."""


def written_words(text: str) -> list[str]:
    """The words of a text in order: small letters without accents, and no stop words."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    return [word for word in re.findall(r"[a-z0-9]+", folded) if word not in STOP_WORDS]


def words_of(text: str) -> list[str]:
    """The stems of a text's words, in order."""
    return [_stem(word) for word in written_words(text)]


def _stem(word: str) -> str:
    if word not in STEMS:
        raise UnknownWordError(word)
    return STEMS[word]


def text_matches(mode: TextMode, text: str, query: str, edits: int | None = None) -> bool:
    """Whether a text is found; a query without a word finds nothing."""
    stored, asked = words_of(text), words_of(query)
    match mode:
        case TextMode.ANY:
            return any(word in stored for word in asked)
        case TextMode.ALL:
            phrases = [words_of(quoted) for quoted in re.findall(r'"([^"]*)"', query)]
            return bool(asked) and all(word in stored for word in asked) and all(_has(stored, p) for p in phrases)
        case TextMode.FUZZY:
            return any(_is_near(one, other, edits) for one in written_words(query) for other in written_words(text))


def _has(stored: Sequence[str], phrase: Sequence[str]) -> bool:
    places = range(len(stored) - len(phrase) + 1)
    return any(list(stored[at : at + len(phrase)]) == list(phrase) for at in places)


def _is_near(asked: str, stored: str, edits: int | None) -> bool:
    """Near as they are written, or their stems are; the length of the form that is compared decides how near."""
    pairs = [(asked, stored), (_stem(asked), _stem(stored))]
    return any(edit_distance(one, other) <= (_allowed(one) if edits is None else edits) for one, other in pairs)


def fuzzy_score(text: str, query: str, edits: int | None = None) -> float | None:
    """Over the words of a query, the sum of the distances of the nearest word, or one more than is allowed."""
    total, is_near = 0, False
    for asked in dict.fromkeys(written_words(query)):
        distances, missing = [], 0
        for stored in [None, *written_words(text)]:
            for one, other in [(asked, stored), (_stem(asked), None if stored is None else _stem(stored))]:
                allowed = _allowed(one) if edits is None else edits
                missing = max(missing, allowed + 1)
                if other is not None and edit_distance(one, other) <= allowed:
                    distances.append(edit_distance(one, other))
        total += min(distances, default=missing)
        is_near = is_near or bool(distances)
    return float(total) if is_near else None


def _allowed(form: str) -> int:
    return 0 if len(form) <= 2 else 1 if len(form) <= 5 else 2


@cache
def edit_distance(a: str, b: str) -> int:
    """How often a letter must be put in, taken out or changed, or two neighbours be exchanged, each letter once.

    That is optimal string alignment: `ca` and `abc` are three edits apart, where exchanging `ca` first and putting a
    letter between its two would be two.
    """
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return edit_distance(a[1:], b[1:])
    ways = [edit_distance(a[1:], b), edit_distance(a, b[1:]), edit_distance(a[1:], b[1:])]
    if a[:2] == b[:2][::-1]:
        ways.append(edit_distance(a[2:], b[2:]))
    return 1 + min(ways)


def relevances(texts: Mapping[str, str | None], query: str) -> dict[str, float]:
    """BM25 of every text with a match, by id; the statistics are of all texts that there are."""
    words = {id_: words_of(text) for id_, text in texts.items() if text is not None}
    found: dict[str, float] = {}
    average = sum(map(len, words.values())) / len(words) if words else 0.0
    for word in dict.fromkeys(words_of(query)):
        having = [id_ for id_, all_words in words.items() if word in all_words]
        weight = math.log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
        for id_ in having:
            times, length = words[id_].count(word), len(words[id_])
            share = times * (K1 + 1) / (times + K1 * (1 - B + B * length / average))
            found[id_] = found.get(id_, 0.0) + weight * share
    return found


def cosine_distance(a: Sequence[float], b: Sequence[float]) -> float:
    """1 less the cosine of the angle; a vector of zeros has none, and counts as a right one."""
    lengths = math.hypot(*a), math.hypot(*b)
    if 0.0 in lengths:
        return 1.0
    return 1 - math.fsum(x / lengths[0] * (y / lengths[1]) for x, y in zip(a, b, strict=True))


def fuses(first: Sequence[str], second: Sequence[str], *, k: int, length: int) -> dict[str, float]:
    """Reciprocal rank fusion of two lists of ids, each cut to a length; who is in neither has no score."""
    found: dict[str, float] = {}
    for ranked in (first, second):
        for rank, id_ in enumerate(ranked[:length], 1):
            found[id_] = found.get(id_, 0.0) + 1 / (k + rank)
    return found


def chosen_to_differ(
    relevance: Mapping[str, float], vectors: Mapping[str, Sequence[float] | None], balance: float, count: int
) -> dict[str, float]:
    """The rows chosen one after the other by relevance and difference, and what each had when it was chosen."""
    if not relevance:
        return {}
    low, high = min(relevance.values()), max(relevance.values())
    scaled = {id_: 1.0 if high == low else (value - low) / (high - low) for id_, value in relevance.items()}
    chosen: dict[str, float] = {}

    def likeness(one: str, other: str) -> float:
        a, b = vectors[one], vectors[other]
        return 0.0 if a is None or b is None else max(0.0, round(1 - cosine_distance(a, b), 12))

    while len(chosen) < len(scaled):
        values = {
            id_: balance * value - (1 - balance) * max((likeness(id_, other) for other in chosen), default=0.0)
            for id_, value in scaled.items()
            if id_ not in chosen
        }
        best = min(values, key=lambda id_: (-values[id_], id_))
        if len(chosen) >= count and values[best] < min(chosen.values()):
            break
        chosen[best] = values[best]
    return chosen
