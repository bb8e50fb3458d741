"""Making the first version of a Lance table, so that of several racers exactly one makes it."""

import json

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import LANCE_STORAGE_VERSION, format_version_name


def create_dataset(store: GraphStorage, path: str, rows: pa.Table) -> LanceDataset:
    """Write a new table whose first version holds `rows`, and make it durable.

    `lance.write_dataset(mode="create")` won't do: when another racer makes version 1 first it tries again and makes
    version 2 on top, and both are told success (77 of 150 races). A strict commit makes version 1 or nothing.

    Raises:
        SwapLostError: There is such a table already, or another racer was first.
    """
    try:
        transaction = write_fragments(
            rows,
            store.resolve_table_uri(path),
            mode="create",
            return_transaction=True,
            data_storage_version=LANCE_STORAGE_VERSION,
            enable_stable_row_ids=True,
            storage_options=store.lance_options,
            session=store.session,
        )
    except OSError as error:
        if "already exists" in str(error):
            raise SwapLostError(path, 0) from None
        raise
    operation = transaction.operation
    assert isinstance(operation, LanceOperation.Overwrite)  # noqa: S101 - what a creation is to Lance
    stamped = [stamp_fragment(store, path, fragment.to_json()) for fragment in operation.fragments]
    operation.fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in stamped]
    written = [file for fragment in operation.fragments for file in fragment.files]
    store.flush([f"{path}/data/{file.path}" for file in written])
    made = _commit_first(store, path, transaction)
    store.flush([f"{path}/{format_version_name(1)}"])
    return made


def _commit_first(store: GraphStorage, path: str, transaction: Transaction) -> LanceDataset:
    """Make version 1; SwapLostError when another transaction has made it."""
    try:
        return LanceDataset.commit(
            store.resolve_uri(path),
            transaction,
            max_retries=0,
            enable_v2_manifest_paths=True,
            enable_stable_row_ids=True,
            storage_options=store.lance_options,
        )
    except OSError as error:
        # To Lance this is a conflict, or a version 0 that is missing where version 1 is: the store tells which.
        if store.objects.stat(f"{path}/{format_version_name(1)}") is None:
            if isinstance(error, CommitConflictError):
                raise SwapLostError(path, 0) from None
            raise
    own = _open_own(store, path, transaction)
    if own is None:
        raise SwapLostError(path, 0)
    return own


def _open_own(store: GraphStorage, path: str, transaction: Transaction) -> LanceDataset | None:
    """Return version 1 when this very transaction made it: only the response was lost."""
    made = lance.dataset(store.resolve_uri(path), version=1, session=store.session, storage_options=store.lance_options)
    found = made.read_transaction(1)
    return made if found is not None and found.uuid == transaction.uuid else None
