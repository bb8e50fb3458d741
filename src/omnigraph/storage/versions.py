"""Create table versions. Only the publisher may import this module.

Every version is detached: immutable, in no list, and readable only by its number.
"""

import json
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata

from omnigraph.bug_error import BugError
from omnigraph.ids import draw_bytes
from omnigraph.storage.carried_rows import add_keys, encode_keys
from omnigraph.storage.checksums import format_checksum
from omnigraph.storage.compaction import FragmentNumbersExhaustedError, build_rewrite_operation
from omnigraph.storage.dataset_creation import create_dataset
from omnigraph.storage.fragment_list import Fragment, FragmentJson, list_written_fragments
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.index_staging import index_from_json
from omnigraph.storage.io_counters import attribute_requests, translate_store_errors
from omnigraph.storage.lance_table import build_physical_schema
from omnigraph.storage.layout import format_detached_name
from omnigraph.storage.schema_staging import build_freed_schema, build_relaxed_schema, build_schema
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.version_codec import TooManyFragmentsError, UnknownFormatError, VersionContent
from omnigraph.telemetry import log as telemetry_log

# The writes that leave all fragments as they are but those they name.
_ROW_WRITES = (WriteKind.APPEND, WriteKind.UPSERT, WriteKind.DELETE)
# Part of the message of Lance's panic about a fragment number.
_NUMBER_PANIC = "TryFromIntError(PosOverflow)"


def create_table(store: GraphStorage, path: str, schema: pa.Schema) -> int:
    """Create an empty table with stable row ids, and return the number of its first version.

    Raises:
        SwapLostError: Another writer has created it first.
    """
    schema = build_physical_schema(schema)
    with attribute_requests(store.runtime.telemetry, "table"), translate_store_errors(f"create {path}"):
        return int(create_dataset(store, path, schema.empty_table()).version)


def apply(handles: TableCache, staged: StagedWrite, base: int) -> int:
    """Commit a detached version, `base` with the staged write, and return its number; no manifest pins it yet.

    Raises:
        BugError: The write was staged on another version, and is not an append.
    """
    if staged.base != base and staged.change is not WriteKind.APPEND:
        raise BugError.stale_base(staged.path, staged.base, base)
    if staged.change in _ROW_WRITES:
        return _apply_rows(handles, staged, base)
    dataset = handles.open(staged.path, base)
    if staged.change is WriteKind.SCHEMA and staged.preview:
        return _commit(handles, staged.path, handles.open(staged.path, staged.preview), _build_purge_operation(staged))
    if staged.change is WriteKind.SCHEMA:
        return _commit_columns(handles, staged, dataset)
    if staged.change is not WriteKind.REWRITE:
        return _commit(handles, staged.path, dataset, _build_operation(staged, dataset))
    # The preview can be used only if the write was not rebased since.
    is_previewed = staged.preview and staged.base == staged.origin
    rewritten = staged.preview if is_previewed else build_preview(handles, staged)
    version = rewritten
    if staged.indexes or staged.replaced_indexes:
        version = _commit(handles, staged.path, handles.open(staged.path, rewritten), _build_index_operation(staged))
    settled = _settle(handles, staged, base, version)
    # Intermediate versions are no longer needed; a preview is removed by its owner.
    for unused in {rewritten, version} - {settled, staged.preview if is_previewed else settled}:
        handles.store.objects.delete(f"{staged.path}/{format_detached_name(unused)}")
    return settled


def _settle(handles: TableCache, staged: StagedWrite, base: int, version: int) -> int:
    """Write a compacted version of Lance again, as `VersionContent.settle` says; return its number."""
    path = staged.path
    rewritten = {fragment["id"] for text in staged.rewrites for fragment in json.loads(text)["new"]}
    fragments = handles.list_fragments(path, version)
    rows = sum(fragment.rows - fragment.deleted for fragment in fragments)
    try:
        carried = handles.read_content(path, base).carried
        content = handles.read_content(path, version).settle(int.from_bytes(draw_bytes(8)), rewritten, carried)
    except UnknownFormatError as error:
        telemetry_log.info("a compacted version of %s stays as Lance wrote it: %s", path, error)
        return version
    if handles.keys is not None:
        written = {fragment.number: fragment.files for fragment in fragments if fragment.number in rewritten}
        keys = {number: encode_keys(files, handles.keys.get_keys(path, files)) for number, files in written.items()}
        content = replace(content, carried=add_keys(content.carried, keys, rows))
    _write_version(handles, path, content, fragments, rows, expected=rows)
    _inherit_level(handles, path, content.number, version)
    handles.keep_facts(path, version, content.number)
    return content.number


def _write_version(
    handles: TableCache,
    path: str,
    content: VersionContent,
    fragments: tuple[Fragment, ...] | None,
    rows: int | None,
    *,
    expected: int,
) -> None:
    """Write the file of a version, of which the fragments and the number of rows may be known.

    `expected` is the number of rows that its pin will have.
    """
    store = handles.store
    manifest = content.encode_manifest(store.runtime.clock.now())
    data = content.encode_file(manifest)
    store.write_file(f"{path}/{format_detached_name(content.number)}", data)
    store.runtime.faults.reach("version.written")
    if store.location.is_local:
        store.verifier.expect(path, content.number, format_checksum(data), expected)
    handles.put_created(path, content.number, manifest, fragments, rows)
    handles.put_content(path, content)


def _apply_rows(handles: TableCache, staged: StagedWrite, base: int) -> int:
    """Create a version that differs from its base in the rows of a write; return its number."""
    path = staged.path
    written = [json.loads(text) for text in staged.written]
    updated = [json.loads(text) for text in staged.updated]
    try:
        before = handles.read_content(path, base)
        number = int.from_bytes(draw_bytes(8))
        content = before.apply(number, written, updated, staged.removed, handles.carried.get_written)
    except TooManyFragmentsError as error:
        raise FragmentNumbersExhaustedError(path) from error
    except UnknownFormatError as error:
        telemetry_log.info("Lance creates a version of %s: %s", path, error)
        dataset = handles.open(path, base)
        return _commit(handles, path, dataset, _build_operation(staged, dataset))
    fragments = handles.get_fragments(path, base)
    if fragments is not None:
        fragments = list_written_fragments(fragments, written, updated, staged.removed, before.highest + 1)
    # An append may be applied to a version with more rows than the one that it was staged on.
    rows = staged.rows_after if staged.base == base else None
    _write_version(handles, path, content, fragments, rows, expected=staged.rows_after)
    _inherit_level(handles, path, content.number, base)
    handles.keep_facts(path, base, content.number)
    return content.number


def build_preview(handles: TableCache, staged: StagedWrite) -> int:
    """Commit a detached version with the rewritten fragments but without new indexes, and return its number.

    The new indexes are built on it. For a change of columns, it has the new columns, from which they are rewritten.
    """
    dataset = handles.open(staged.path, staged.base)
    if staged.change is WriteKind.SCHEMA:
        return _commit_columns(handles, staged, dataset)
    fragments = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    return _commit(handles, staged.path, dataset, build_rewrite_operation(staged, fragments))


def _commit_columns(handles: TableCache, staged: StagedWrite, dataset: LanceDataset) -> int:
    """Commit a detached version with other columns, and return its number."""
    fragments = [FragmentMetadata.from_json(text) for text in staged.fragments]
    stored = dataset.lance_schema
    # Lance needs a separate step to make columns nullable, and another one before columns get the names of others.
    relaxed = build_relaxed_schema(staged, stored)
    freed = build_freed_schema(staged, stored)
    if relaxed is not None:
        step = _commit(handles, staged.path, dataset, LanceOperation.Project(relaxed))
    elif freed is not None:
        unchanged = [fragment.metadata for fragment in dataset.get_fragments()]
        step = _commit(handles, staged.path, dataset, LanceOperation.Merge(unchanged, freed))
    else:
        return _commit(handles, staged.path, dataset, LanceOperation.Merge(fragments, build_schema(staged, stored)))
    version = _commit_columns(handles, staged, handles.open(staged.path, step))
    handles.store.objects.delete(f"{staged.path}/{format_detached_name(step)}")
    return version


def _commit(handles: TableCache, path: str, dataset: LanceDataset, operation: LanceOperation.BaseOperation) -> int:
    committed = create_version(handles.store, path, dataset, operation)
    adopt_version(handles, path, committed, int(dataset.version))
    return int(committed.version)


def create_version(
    store: GraphStorage, path: str, dataset: LanceDataset, operation: LanceOperation.BaseOperation
) -> LanceDataset:
    """Create a detached version without caching its handle."""
    # Lance reads the indexes from the file of the version before, which may be on its way.
    store.wait_for_uploads(path)
    try:
        with (
            attribute_requests(store.runtime.telemetry, "table"),
            translate_store_errors(f"create a version of {path}"),
        ):
            return LanceDataset.commit(
                dataset,
                Transaction(dataset.version, operation),
                detached=True,
                storage_options=store.lance_options,
            )
    except BaseException as error:
        # The panic of Lance when a fragment number exceeds 32 bits. It is no Exception, and has no public type.
        if _NUMBER_PANIC in str(error):
            raise FragmentNumbersExhaustedError(path) from error
        raise


def adopt_version(handles: TableCache, path: str, created: LanceDataset, base: int) -> None:
    """Cache the handle of a version that was made of `base`."""
    handles.put(path, created)
    _inherit_level(handles, path, int(created.version), base)


def _inherit_level(handles: TableCache, path: str, version: int, base: int) -> None:
    """Record that a version is as verified as its base: its other files were just written by this process."""
    handles.mark_verified(path, version, handles.get_verified_level(path, base))


def list_detached_files(path: str, versions: Iterable[int]) -> tuple[str, ...]:
    """Return the manifest files of these detached versions, relative to the root."""
    return tuple(f"{path}/{format_detached_name(version)}" for version in versions)


def _build_operation(staged: StagedWrite, dataset: LanceDataset) -> LanceOperation.BaseOperation:
    written = [FragmentMetadata.from_json(text) for text in staged.written]
    if staged.change is WriteKind.APPEND:
        return LanceOperation.Append(written)
    if staged.change is WriteKind.OVERWRITE:
        return LanceOperation.Overwrite(dataset.lance_schema, written)
    if staged.change is WriteKind.INDEX:
        return _build_index_operation(staged)
    updated = [_complete_fragment(dataset, json.loads(text)) for text in staged.updated]
    if staged.change is WriteKind.DELETE:
        return LanceOperation.Delete(updated, list(staged.removed), json.dumps({"ids": len(staged.keys)}))
    return LanceOperation.Update(
        removed_fragment_ids=list(staged.removed), updated_fragments=updated, new_fragments=written, fields_modified=[]
    )


def _complete_fragment(dataset: LanceDataset, updated: FragmentJson) -> FragmentMetadata:
    """Return a fragment with a new deletion file, of which a staged write may have only that and the number."""
    if "files" not in updated:
        fragment = dataset.get_fragment(updated["id"])
        assert fragment is not None  # noqa: S101 - the write was staged on this very version
        updated = {**fragment.metadata.to_json(), **updated}
    return FragmentMetadata.from_json(json.dumps(updated))


def _build_purge_operation(staged: StagedWrite) -> LanceOperation.Update:
    """Return the operation that replaces the files of a table's rows by others without purged columns."""
    # An update, because after a merge Lance considers the indexes outdated.
    fragments = [FragmentMetadata.from_json(text) for text in staged.fragments]
    return LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=fragments, new_fragments=[], fields_modified=[]
    )


def _build_index_operation(staged: StagedWrite) -> LanceOperation.CreateIndex:
    new = [index_from_json(text) for text in staged.indexes]
    replaced = [index_from_json(text) for text in staged.replaced_indexes]
    return LanceOperation.CreateIndex(new, replaced)
