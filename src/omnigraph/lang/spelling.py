"""Suggestions for misspelt words: the known word with the smallest edit distance."""

from collections.abc import Iterable

# Longer words get no suggestion: they are hardly misspelt names, and the work stays bounded.
MAX_WORD_LENGTH = 64

# Searching for near names is the expensive part of reporting a mistake.
MAX_LOOKUPS = 50


class Suggestions:
    """Suggestions for the words of one report, up to `MAX_LOOKUPS`: a text with thousands of mistakes gets no more."""

    def __init__(self) -> None:
        self._lookups = 0

    def find_closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """Find the nearest candidate; None if none is near or the limit is reached."""
        self._lookups += 1
        return find_closest(word, candidates) if self._lookups <= MAX_LOOKUPS else None

    def suggest_closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """Return a help line with the nearest candidate, or None."""
        return _format_suggestion(self.find_closest(word, candidates))


def find_closest(word: str, candidates: Iterable[str]) -> str | None:
    """Find the candidate that `word` is most likely a misspelling of; None if none is near.

    The same letters in another case win; otherwise the fewest insertions, deletions, replacements and swaps of
    neighbours, up to about a third of the word. Ties go to the first in alphabetical order.
    """
    if not word or len(word) > MAX_WORD_LENGTH:
        return None
    folded = word.lower()
    allowed = _limit_distance(len(word))
    best: tuple[int, int, str] | None = None
    for candidate in set(candidates):
        if candidate == word or len(candidate) > MAX_WORD_LENGTH or abs(len(candidate) - len(word)) > allowed:
            continue
        limit = min(allowed, _limit_distance(len(candidate)), best[0] if best else allowed)
        distance = _measure_distance(folded, candidate.lower(), limit)
        if distance is None:
            continue
        # A slip rarely changes the first letter, so among equally near words one that keeps it is likelier.
        rank = (distance, int(candidate[:1].lower() != folded[0]), candidate)
        if best is None or rank < best:
            best = rank
    return best[2] if best else None


def suggest_closest(word: str, candidates: Iterable[str]) -> str | None:
    """Return a help line with the nearest of a few candidates; None if none is near."""
    return _format_suggestion(find_closest(word, candidates))


def _format_suggestion(near: str | None) -> str | None:
    return None if near is None else f"did you mean `{near}`?"


def _limit_distance(length: int) -> int:
    """Limit the edit distance of a word of this length."""
    if length <= 2:
        return 0
    if length <= 4:
        return 1
    return 2 if length <= 9 else 3


def _measure_distance(left: str, right: str, limit: int) -> int | None:
    """Measure the edit distance with transpositions; None if it is above `limit`."""
    if abs(len(left) - len(right)) > limit:
        return None
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        # One row of the dynamic-programming table; `before_last` is needed for transpositions only.
        current = [row]
        for column, b in enumerate(right, 1):
            cost = min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before_last[column - 2] + 1)
            current.append(cost)
        # Distances never fall from one row to the next, so the rest can't get below the limit again.
        if min(current) > limit:
            return None
        before_last, last = last, current
    return last[-1] if last[-1] <= limit else None
