"""Commits as plain dictionaries, merged by the book: what stories of branches, edits and merges are compared with."""

from collections.abc import Iterable, Mapping
from typing import Any

COLUMNS = {"P": ("n", "m", "email"), "C": ("v",), "Knows": ("w", "z"), "Owns": ("w",)}
Row = dict[str, Any]
State = dict[str, dict[str, Row]]
"""By type and key, rows; the key of an edge is its two ends."""


class _Unknown:
    """The value of a base that contradicts itself: equal to nothing, not even to itself."""

    __hash__ = None  # type: ignore[assignment]  # it is never a key

    def __eq__(self, other: object) -> bool:
        return False


UNKNOWN = _Unknown()


def merged_row(base: Row | None, ours: Row | None, theirs: Row | None, prefer: str | None) -> tuple[Row | None, bool]:
    """A row after a merge, and whether the sides did not agree."""
    if ours is None or theirs is None:
        left = theirs if ours is None else ours
        if left is None or base is None or all(left[name] == base[name] for name in base):
            return (left if base is None else None), False
        return (ours if prefer == "ours" else theirs if prefer == "theirs" else None), True
    found, is_clash = {}, False
    for name in ours:
        mine, other = ours[name], theirs[name]
        changed = [base is None or value != base[name] for value in (mine, other)]
        is_different = all(changed) and mine != other
        is_clash |= is_different
        takes = prefer == "theirs" if is_different else changed[1] and not changed[0]
        found[name] = other if takes else mine
    return found, is_clash


def broken(state: State) -> bool:
    """Whether a state breaks a rule: two of one email, an edge without an end, a person who owns two."""
    emails = [one["email"] for one in state["P"].values() if one["email"] is not None]
    owners = [key.split(">")[0] for key in state["Owns"]]
    ends = [(end, "P") for key in state["Knows"] for end in key.split(">")]
    ends += [(end, kind) for key in state["Owns"] for end, kind in zip(key.split(">"), "PC", strict=True)]
    is_repeated = any(len(values) != len(set(values)) for values in (emails, owners))
    return is_repeated or any(end not in state[kind] for end, kind in ends)


class Model:
    """A graph of commits, each with its state."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.parents: dict[str, tuple[str, ...]] = {}

    def add(self, commit_id: str, state: State, *parents: str) -> None:
        """One more commit."""
        self.states[commit_id] = {kind: {key: dict(row) for key, row in rows.items()} for kind, rows in state.items()}
        self.parents[commit_id] = parents

    def before(self, commit_id: str) -> set[str]:
        """A commit, and all that it descends from."""
        found: set[str] = set()
        waiting = [commit_id]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.parents[one]
        return found

    def bases(self, one: str, other: str) -> list[str]:
        """Common ancestors that no other one descends from, newest first."""
        common = self.before(one) & self.before(other)
        return sorted(common - {parent for commit in common for parent in self.parents[commit]}, reverse=True)

    def ground(self, bases: list[str]) -> State:
        """Several bases as one."""
        found = self.states[bases[0]]
        for number, tip in enumerate(bases[1:], start=1):
            below = {one for other in bases[:number] for one in self.bases(other, tip)}
            if tip not in below:
                found = _crossed(self.ground(sorted(below, reverse=True)), found, self.states[tip])
        return found

    def merge(self, ours: str, theirs: str, prefer: str | None) -> tuple[set[str], State | None]:
        """How a merge may end, and the state then; None: with conflicts."""
        bases = self.bases(ours, theirs)
        if theirs in bases:
            return {"already_up_to_date"}, self.states[ours]
        if ours in bases:
            is_level = len(self.before(theirs) - self.before(ours)) == 1 and self.states[ours] == self.states[theirs]
            return {"fast_forward", *(["already_up_to_date"] if is_level else [])}, self.states[theirs]
        base, found, clashes = self.ground(bases), dict[str, dict[str, Row]](), False
        mine, others = self.states[ours], self.states[theirs]
        for kind in COLUMNS:
            found[kind] = {}
            for key in _keys(kind, base, mine, others):
                row, is_clash = merged_row(base[kind].get(key), mine[kind].get(key), others[kind].get(key), prefer)
                clashes |= is_clash and prefer is None
                if row is not None:
                    found[kind][key] = row
        return ({"conflicts"}, None) if clashes or broken(found) else ({"merged"}, found)


def _keys(kind: str, *states: Mapping[str, Mapping[str, Row]]) -> Iterable[str]:
    return {key for state in states for key in state[kind]}


def _crossed(base: State, one: State, other: State) -> State:
    """Two bases as one: what depends on whose word counts is not known."""
    found: State = {}
    for kind, names in COLUMNS.items():
        found[kind] = {}
        for key in _keys(kind, base, one, other):
            rows = [
                merged_row(base[kind].get(key), one[kind].get(key), other[kind].get(key), prefer)[0]
                for prefer in ("ours", "theirs")
            ]
            first, second = rows
            if first is not None and second is not None:
                found[kind][key] = {name: first[name] if first[name] == second[name] else UNKNOWN for name in names}
            elif first is not None or second is not None:
                found[kind][key] = dict.fromkeys(names, UNKNOWN)
    return found
