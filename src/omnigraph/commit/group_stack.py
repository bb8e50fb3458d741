"""Create the table versions of the writes of a group side by side, before their turns come.

A write is expected to follow those before it if none of them changes what it relies on. Whether it does is decided in
its turn, as in a chain: a version that was created ahead is used only on exactly the version that it was created for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.row_changes import RowChange, combine_changes, find_change, is_unaffected
from omnigraph.storage.key_lookup import find_existing
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.version_stack import Stack, StackedWrite, create_stacks


@dataclass(slots=True)
class _TableStack:
    """The moves of one table, in order, and what they change together."""

    moves: list[tuple[Move, bool]] = field(default_factory=list)
    """Each with whether its rows may have other addresses in the version below than where it has found them."""
    change: RowChange | None = None


def prepare_versions(
    plans: Sequence[CommitPlan],
    state: Head,
    handles: TableCache,
    list_commits_since: Callable[[Head], Sequence[Commit]],
) -> list[CommitPlan]:
    """Create the versions of the first of these plans, as many as are expected to be placed one after the other.

    Return those plans with their versions; none if that would be one only, for which there is nothing to gain.
    """
    stacks: dict[str, _TableStack] = {}
    stacked: list[CommitPlan] = []
    for plan in plans:
        published = _find_published(plan, state, list_commits_since(plan.base))
        if published is None or not _fits(plan, published, stacks):
            break
        for move in plan.moves:
            stack = stacks.setdefault(move.table_key, _TableStack())
            assert move.change is not None  # noqa: S101 - `_fits` has checked it
            stack.change = combine_changes([stack.change, move.change]) if stack.change else move.change
            known = published.get(move.table_key)
            stack.moves.append((move, known is not None and known.moves_rows))
        stacked.append(plan)
        # Writes with different columns are rare; the next one is placed without a stack.
        if any(stack.change is None for stack in stacks.values()):
            break
    if len(stacked) < 2:
        return []
    created = create_stacks([_build_stack(stack.moves, state, handles) for stack in stacks.values()])
    versions = {key: iter(versions) for key, versions in zip(stacks, created, strict=True)}
    return [
        replace(plan, moves=tuple(replace(move, prepared=next(versions[move.table_key])) for move in plan.moves))
        for plan in stacked
    ]


def _find_published(plan: CommitPlan, state: Head, between: Sequence[Commit]) -> dict[str, RowChange] | None:
    """Return what the commits since a plan's base changed of the tables that it uses; None if that is not known."""
    base, newer = plan.base.snapshot, state.snapshot
    if plan.is_deferred or plan.if_commit is not None or base.manifest.schema.id != newer.manifest.schema.id:
        return None
    published = {}
    for key in plan.used_tables:
        if key not in newer.pins:
            return None
        if base.pins.get(key) != newer.pins[key]:
            change = find_change(key, between)
            if change is None:
                return None
            published[key] = change
    return published


def _fits(plan: CommitPlan, published: Mapping[str, RowChange], stacks: Mapping[str, _TableStack]) -> bool:
    """Return whether a plan is certainly not affected by the commits since its base, nor by the plans before it."""
    changes = [*published.items(), *((key, stack.change) for key, stack in stacks.items() if key in plan.used_tables)]
    return all(change is not None and _is_unaffected(plan, key, change) for key, change in changes) and all(
        move.change is not None and (not move.staged.taken_rows or move.change.located is not None)
        for move in plan.moves
    )


def _is_unaffected(plan: CommitPlan, key: str, change: RowChange) -> bool:
    """Return whether a change of a table leaves all that a plan requires of it, and the rows that it writes."""
    return all(
        is_unaffected(requirement, change) for requirement in plan.requirements if requirement.table_key == key
    ) and all(
        move.change is not None and move.change.ids.isdisjoint(change.ids)
        for move in plan.moves
        if move.table_key == key
    )


def _build_stack(moves: Sequence[tuple[Move, bool]], state: Head, handles: TableCache) -> Stack:
    pin = state.snapshot.pin(moves[0][0].table_key)
    table = LanceTable(handles, pin.path, pin.version)
    return Stack(
        table, [StackedWrite(move.staged, _locate(move, table, is_moved=is_moved)) for move, is_moved in moves]
    )


def _locate(move: Move, table: LanceTable, *, is_moved: bool) -> Addresses:
    """Return the addresses of the rows that a move replaces or deletes; they are looked up if they may have changed."""
    staged = move.staged
    if not staged.taken_rows or move.change is None or move.change.located is None:
        return np.empty(0, np.uint64)
    if not is_moved:
        return move.change.located.addresses
    return find_existing(table, lambda: staged.keys, len(staged.keys)).get_addresses()
