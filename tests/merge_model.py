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


ENDS = {"Knows": "PP", "Owns": "PC"}
"""By edge type, the types of its two ends."""


def ends_of(kind: str, key: str) -> list[tuple[str, str]]:
    """Return the types and keys of an edge's two ends."""
    return list(zip(ENDS[kind], key.split(">"), strict=True))


def broken(state: State) -> bool:
    """Whether a state breaks a rule: two of one email, an edge without an end, a person who owns two."""
    emails = [one["email"] for one in state["P"].values() if one["email"] is not None]
    owners = [key.split(">")[0] for key in state["Owns"]]
    ends = [end for kind in ENDS for key in state[kind] for end in ends_of(kind, key)]
    is_repeated = any(len(values) != len(set(values)) for values in (emails, owners))
    return is_repeated or any(key not in state[kind] for kind, key in ends)


def merge_states(base: State, ours: State, theirs: State, prefer: str | None) -> tuple[State, bool, dict[str, int]]:
    """Return the merged state, whether the sides did not agree, and how many edges stay with nodes that are kept."""
    found, is_clash = dict[str, dict[str, Row]](), False
    for kind in COLUMNS:
        found[kind] = {}
        for key in _keys(kind, base, ours, theirs):
            row, differs = merged_row(base[kind].get(key), ours[kind].get(key), theirs[kind].get(key), prefer)
            is_clash |= differs
            if row is not None:
                found[kind][key] = row
    keeper, deleter = (ours, theirs) if prefer == "ours" else (theirs, ours)
    kept = {(kind, key) for kind in "PC" for key in found[kind] if key in base[kind] and key not in deleter[kind]}
    restored = {}
    for kind in ENDS:
        lost = {
            key: row
            for key, row in keeper[kind].items()
            if key in base[kind] and key not in deleter[kind] and key not in found[kind]
            if kept & {*ends_of(kind, key)} and all(end in found[of] for of, end in ends_of(kind, key))
        }
        found[kind] |= lost
        if lost:
            restored[f"edge:{kind}"] = len(lost)
    return found, is_clash, restored if prefer else {}


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

    def merge(self, ours: str, theirs: str, prefer: str | None) -> tuple[set[str], State | None, dict[str, int]]:
        """Return how a merge may end, the state then or None for conflicts, and how many edges are restored."""
        bases = self.bases(ours, theirs)
        if theirs in bases:
            return {"already_up_to_date"}, self.states[ours], {}
        if ours in bases:
            is_level = len(self.before(theirs) - self.before(ours)) == 1 and self.states[ours] == self.states[theirs]
            return {"fast_forward", *(["already_up_to_date"] if is_level else [])}, self.states[theirs], {}
        states = self.ground(bases), self.states[ours], self.states[theirs]
        found, is_clash, restored = merge_states(*states, prefer)
        if broken(found) or (is_clash and prefer is None):
            return {"conflicts"}, None, {}
        return {"merged"}, found, restored


def _keys(kind: str, *states: Mapping[str, Mapping[str, Row]]) -> Iterable[str]:
    return {key for state in states for key in state[kind]}


def _crossed(base: State, one: State, other: State) -> State:
    """Two bases as one: what depends on whose word counts is not known."""
    first, second = (merge_states(base, one, other, prefer)[0] for prefer in ("ours", "theirs"))
    found: State = {}
    for kind, names in COLUMNS.items():
        found[kind] = {}
        for key in _keys(kind, first, second):
            mine, others = first[kind].get(key), second[kind].get(key)
            if mine is None or others is None:
                found[kind][key] = dict.fromkeys(names, UNKNOWN)
            else:
                found[kind][key] = {name: mine[name] if mine[name] == others[name] else UNKNOWN for name in names}
    return found
