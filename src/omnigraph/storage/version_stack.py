"""Create the versions of several small writes of one table side by side. Only the publisher may import this module.

In a chain each write waits for the version before it, which is two requests on an object store. Here every version is
made of the one below all of them, with the rows of the writes before it: the same fragments, row ids and deletions.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import format_detached_name
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.staging import StagedWrite, WriteKind, delete_rows, list_deletion_files, remove_files
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.versions import adopt_version, create_version

# On a disk, Lance creates a version in a millisecond, nearly all of it CPU time. On an object store it waits for two
# requests.
_DISK_THREADS = 2
_STORE_THREADS = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StackedWrite:
    """A staged write of rows, and the addresses of the rows that it replaces or deletes, in the version below."""

    staged: StagedWrite
    addresses: Addresses


@dataclass(frozen=True, slots=True)
class StackedVersion:
    """A version that was created ahead. It is right if the write is applied to the base of `staged`, and only then."""

    origin: StagedWrite
    """The write as it was staged."""
    staged: StagedWrite
    """The same write on the version before it in the stack."""
    dataset: LanceDataset
    files: tuple[str, ...]
    """The files that were created for it."""

    def fits(self, origin: StagedWrite, base: int) -> bool:
        """Return whether it is the version of this write on this base."""
        return self.origin is origin and self.staged.base == base


@dataclass(frozen=True, slots=True)
class Stack:
    """Writes of one table, in order, and the version below them."""

    table: LanceTable
    writes: Sequence[StackedWrite]


def create_stacks(stacks: Sequence[Stack]) -> list[list[StackedVersion]]:
    """Create the versions of all writes at the same time; if one fails, the files of all are removed."""
    is_local = stacks[0].table.handles.store.location.is_local
    with ThreadPoolExecutor(_DISK_THREADS if is_local else _STORE_THREADS, "stack") as pool:
        deletions = [_start_deletions(pool, stack) for stack in stacks]
        try:
            deleted = [_wait_for_all(futures) for futures in deletions]
            versions = [
                [pool.submit(_create, stack.table, operation) for operation in _build_operations(stack, parts)]
                for stack, parts in zip(stacks, deleted, strict=True)
            ]
        except BaseException:
            _remove_deletions(stacks, deletions)
            raise
        try:
            created = [_wait_for_all(futures) for futures in versions]
        except BaseException:
            _remove_deletions(stacks, deletions)
            for stack, futures in zip(stacks, versions, strict=True):
                names = [_name_version(stack.table, dataset) for dataset in _list_done(futures)]
                remove_files(stack.table, names)
            raise
    return [_describe(stack, parts, datasets) for stack, parts, datasets in zip(stacks, deleted, created, strict=True)]


def adopt_stacked(handles: TableCache, version: StackedVersion) -> int:
    """Cache the handle and the fragments of a version whose turn has come; return its number."""
    staged, number = version.staged, int(version.dataset.version)
    adopt_version(handles, staged.path, version.dataset, staged.base)
    handles.list_successor(staged.path, staged.base, number, [json.loads(text)["id"] for text in staged.updated])
    return number


# The fragments with new deletion files, as Lance's JSON, and the numbers of those that lose all rows.
_Deletions = tuple[tuple[str, ...], tuple[int, ...]]


def _start_deletions(pool: ThreadPoolExecutor, stack: Stack) -> "list[Future[_Deletions]]":
    """Start to write the deletion files of each write: they contain the rows that those before it delete."""
    futures: list[Future[_Deletions]] = []
    before = np.empty(0, np.uint64)
    for position, write in enumerate(stack.writes):
        numbers = np.unique(write.addresses >> np.uint64(32))
        before = np.concatenate([before, write.addresses])
        staged = write.staged
        if not len(write.addresses):
            futures.append(_complete(((), ())))
        elif position == 0 and staged.base == stack.table.version:
            futures.append(_complete((staged.updated, staged.removed)))
        else:
            together = np.sort(before[np.isin(before >> np.uint64(32), numbers)])
            futures.append(pool.submit(delete_rows, stack.table, together))
    return futures


def _complete(result: _Deletions) -> "Future[_Deletions]":
    future: Future[_Deletions] = Future()
    future.set_result(result)
    return future


def _build_operations(stack: Stack, deletions: Sequence[_Deletions]) -> list[LanceOperation.BaseOperation]:
    """Return the operation of each version on the one below the stack: all writes up to it."""
    new: list[FragmentMetadata] = []
    updated: dict[int, FragmentMetadata] = {}
    removed: list[int] = []
    operations: list[LanceOperation.BaseOperation] = []
    is_append = all(write.staged.change is WriteKind.APPEND for write in stack.writes)
    for write, (changed, emptied) in zip(stack.writes, deletions, strict=True):
        new += map(FragmentMetadata.from_json, write.staged.written)
        for fragment in map(FragmentMetadata.from_json, changed):
            updated[fragment.id] = fragment
        for number in emptied:
            updated.pop(number, None)
        removed += emptied
        if is_append:
            operations.append(LanceOperation.Append(list(new)))
        else:
            operations.append(
                LanceOperation.Update(
                    removed_fragment_ids=list(removed),
                    updated_fragments=list(updated.values()),
                    new_fragments=list(new),
                    fields_modified=[],
                )
            )
    return operations


def _create(table: LanceTable, operation: LanceOperation.BaseOperation) -> LanceDataset:
    base = table.handles.open(table.path, table.version)
    return create_version(table.handles.store, table.path, base, operation)


def _describe(stack: Stack, deletions: Sequence[_Deletions], datasets: Sequence[LanceDataset]) -> list[StackedVersion]:
    """Return each version with its write as it is staged on the version before it."""
    table = stack.table
    base, rows = table.version, table.count()
    versions = []
    for write, (updated, removed), dataset in zip(stack.writes, deletions, datasets, strict=True):
        origin = write.staged
        staged = origin
        if origin.base != base:
            staged = replace(
                origin,
                base=base,
                base_rows=rows,
                updated=updated,
                removed=removed,
                taken_rows=len(write.addresses),
            )
        deletion_files = () if staged is origin else list_deletion_files(table, updated)
        versions.append(StackedVersion(origin, staged, dataset, (*deletion_files, _name_version(table, dataset))))
        base, rows = int(dataset.version), staged.rows_after
    return versions


def _name_version(table: LanceTable, dataset: LanceDataset) -> str:
    return f"{table.path}/{format_detached_name(int(dataset.version))}"


def _remove_deletions(stacks: Sequence[Stack], deletions: "Sequence[Sequence[Future[_Deletions]]]") -> None:
    """Remove the deletion files that were written, except for those that the first write had before."""
    for stack, futures in zip(stacks, deletions, strict=True):
        own = stack.writes[0].staged.updated
        for updated, _ in _list_done(futures):
            if updated is not own:
                remove_files(stack.table, list_deletion_files(stack.table, updated))


def _wait_for_all(futures: "Iterable[Future[T]]") -> list[T]:
    return [future.result() for future in futures]


def _list_done(futures: "Iterable[Future[T]]") -> list[T]:
    """Wait for all, and return the results of those that did not fail."""
    return [future.result() for future in futures if future.exception() is None]
