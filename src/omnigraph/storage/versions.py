"""Making table versions. Only the publisher may import this module.

Every version is detached: immutable, unnamed, seen by nobody who does not know its number.
"""

import json
from collections.abc import Iterable

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.compaction import build_rewrite_operation
from omnigraph.storage.dataset_creation import create_dataset
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.index_staging import index_from_json
from omnigraph.storage.io_counters import attribute_requests, translate_store_errors
from omnigraph.storage.lance_table import build_physical_schema
from omnigraph.storage.layout import format_detached_name
from omnigraph.storage.schema_staging import build_freed_schema, build_relaxed_schema, build_schema
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import TableCache


class StaleBaseError(OmnigraphError):
    """A staged write other than an append was about to be applied to another version than its own."""

    kind = Kind.INTERNAL
    code = "stale_base"

    def __init__(self, path: str, base: int, found: int) -> None:
        super().__init__(path, base, found)
        self.path, self.base, self.found = path, base, found

    def __str__(self) -> str:
        return (
            f"a write of {self.path} was staged on version {self.base}, not {self.found};"
            " applying it there would bring rows back, or double them"
        )


def create_table(store: GraphStorage, path: str, schema: pa.Schema) -> int:
    """A new, empty table with stable row ids; the number of its first version. SwapLostError: somebody was first."""
    schema = build_physical_schema(schema)
    with attribute_requests(store.runtime.telemetry, "table"), translate_store_errors(f"create {path}"):
        return int(create_dataset(store, path, schema.empty_table()).version)


def apply(handles: TableCache, staged: StagedWrite, base: int) -> int:
    """One detached version of the table: `base` with the staged write. Its number; nobody sees it yet."""
    if staged.base != base and staged.change is not WriteKind.APPEND:
        raise StaleBaseError(staged.path, staged.base, base)
    dataset = handles.open(staged.path, base)
    if staged.change is WriteKind.SCHEMA and staged.preview:
        return _commit(handles, staged.path, handles.open(staged.path, staged.preview), _build_purge_operation(staged))
    if staged.change is WriteKind.SCHEMA:
        return _reshape(handles, staged, dataset)
    if staged.change is not WriteKind.REWRITE:
        return _commit(handles, staged.path, dataset, _build_operation(staged, dataset))
    is_previewed = staged.preview and staged.base == staged.origin
    rewritten = staged.preview if is_previewed else build_preview(handles, staged)
    if not staged.indexes and not staged.replaced_indexes:
        return rewritten
    made = _commit(handles, staged.path, handles.open(staged.path, rewritten), _build_index_operation(staged))
    if not is_previewed:  # it was only a step; a preview goes when its owner needs it no more
        handles.store.objects.delete(f"{staged.path}/{format_detached_name(rewritten)}")
    return made


def build_preview(handles: TableCache, staged: StagedWrite) -> int:
    """A detached version of rewritten fragments alone, for who has to index them; it is not published by itself.

    Of a change of columns, one with these columns, for who has to write them anew.
    """
    dataset = handles.open(staged.path, staged.base)
    if staged.change is WriteKind.SCHEMA:
        return _reshape(handles, staged, dataset)
    there = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    return _commit(handles, staged.path, dataset, build_rewrite_operation(staged, there))


def _reshape(handles: TableCache, staged: StagedWrite, dataset: LanceDataset) -> int:
    """A detached version with other columns.

    Where some become nullable, or get the names of others, Lance wants a step for that alone.
    """
    fragments = [FragmentMetadata.from_json(text) for text in staged.fragments]
    stored = dataset.lance_schema
    relaxed, freed = build_relaxed_schema(staged, stored), build_freed_schema(staged, stored)
    if relaxed is not None:
        step = _commit(handles, staged.path, dataset, LanceOperation.Project(relaxed))
    elif freed is not None:
        as_they_are = [fragment.metadata for fragment in dataset.get_fragments()]
        step = _commit(handles, staged.path, dataset, LanceOperation.Merge(as_they_are, freed))
    else:
        return _commit(handles, staged.path, dataset, LanceOperation.Merge(fragments, build_schema(staged, stored)))
    made = _reshape(handles, staged, handles.open(staged.path, step))
    handles.store.objects.delete(f"{staged.path}/{format_detached_name(step)}")
    return made


def _commit(handles: TableCache, path: str, dataset: LanceDataset, operation: LanceOperation.BaseOperation) -> int:
    store = handles.store
    with attribute_requests(store.runtime.telemetry, "table"), translate_store_errors(f"make a version of {path}"):
        made = LanceDataset.commit(
            dataset,
            Transaction(dataset.version, operation),
            detached=True,
            storage_options=store.lance_options,
        )
    handles.put(path, made)
    # Its files are those of a version that was verified, and some that this process has just written.
    handles.mark_verified(path, int(made.version), handles.get_verified_level(path, int(dataset.version)))
    return int(made.version)


def list_detached_files(path: str, versions: Iterable[int]) -> tuple[str, ...]:
    """The files that hold these detached versions, relative to the root."""
    return tuple(f"{path}/{format_detached_name(version)}" for version in versions)


def _build_operation(staged: StagedWrite, dataset: LanceDataset) -> LanceOperation.BaseOperation:
    written = [FragmentMetadata.from_json(text) for text in staged.written]
    if staged.change is WriteKind.APPEND:
        return LanceOperation.Append(written)
    if staged.change is WriteKind.OVERWRITE:
        return LanceOperation.Overwrite(dataset.lance_schema, written)
    if staged.change is WriteKind.INDEX:
        return _build_index_operation(staged)
    updated = [FragmentMetadata.from_json(text) for text in staged.updated]
    if staged.change is WriteKind.DELETE:
        return LanceOperation.Delete(updated, list(staged.removed), json.dumps({"ids": len(staged.keys)}))
    return LanceOperation.Update(
        removed_fragment_ids=list(staged.removed), updated_fragments=updated, new_fragments=written, fields_modified=[]
    )


def _build_purge_operation(staged: StagedWrite) -> LanceOperation.Update:
    """Other files for the same rows. As an update, because after a merge Lance takes indexes for outdated."""
    fragments = [FragmentMetadata.from_json(text) for text in staged.fragments]
    return LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=fragments, new_fragments=[], fields_modified=[]
    )


def _build_index_operation(staged: StagedWrite) -> LanceOperation.CreateIndex:
    new, old = ([index_from_json(text) for text in texts] for texts in (staged.indexes, staged.replaced_indexes))
    return LanceOperation.CreateIndex(new, old)
