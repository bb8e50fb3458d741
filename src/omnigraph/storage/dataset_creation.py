"""Create the first version of a Lance table, so that of several racers exactly one succeeds."""

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
    """Write a new table whose first version contains `rows`, and make it durable.

    `lance.write_dataset(mode="create")` is not safe: if another racer creates version 1 first, it retries, creates
    version 2 on top, and both racers see success (77 of 150 races). A strict commit creates version 1 or nothing.

    Raises:
        SwapLostError: The table exists, or another racer was first.
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
    assert isinstance(operation, LanceOperation.Overwrite)  # noqa: S101 - Lance represents a creation this way
    stamped = [stamp_fragment(store, path, fragment.to_json()) for fragment in operation.fragments]
    operation.fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in stamped]
    written = [file for fragment in operation.fragments for file in fragment.files]
    # The data must be durable before the version that names it.
    store.flush([f"{path}/data/{file.path}" for file in written])
    dataset = _commit_first(store, path, transaction)
    store.flush([f"{path}/{format_version_name(1)}"])
    return dataset


def _commit_first(store: GraphStorage, path: str, transaction: Transaction) -> LanceDataset:
    """Create version 1.

    Raises:
        SwapLostError: Another transaction has created it.
    """
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
        # If version 1 exists, Lance reports a conflict or a missing version 0. Only the store tells what happened.
        if store.objects.stat(f"{path}/{format_version_name(1)}") is None:
            if isinstance(error, CommitConflictError):
                raise SwapLostError(path, 0) from None
            raise
    dataset = _open_if_created(store, path, transaction)
    if dataset is None:
        raise SwapLostError(path, 0)
    return dataset


def _open_if_created(store: GraphStorage, path: str, transaction: Transaction) -> LanceDataset | None:
    """Return version 1 if this very transaction created it, so that only the response was lost; else None."""
    dataset = lance.dataset(
        store.resolve_uri(path), version=1, session=store.session, storage_options=store.lance_options
    )
    recorded = dataset.read_transaction(1)
    return dataset if recorded is not None and recorded.uuid == transaction.uuid else None
