"""Graphs as earlier releases wrote them: no name carries a checksum, no pin or manifest records one."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa

from omnigraph.commit import manifest_codec, manifest_log
from omnigraph.commit.manifest_types import Manifest
from omnigraph.storage import cas_table, checksum_stamping, row_deletion
from omnigraph.storage.verification import Verifier


@contextmanager
def without_checksums() -> Iterator[None]:
    """Let what is written inside of the block record no checksum at all."""
    head_rows = manifest_codec.encode_head

    def plain_rows(state: Manifest, version: int) -> pa.Table:
        rows = head_rows(state, version)
        return rows.slice(0, rows.num_rows - 1)  # the last one is of all others

    with (
        patch.object(checksum_stamping, "name_data_file", lambda name, _found, _blobs: name),
        patch.object(checksum_stamping, "mark_read_version", lambda found: found & 0xFFFF_FFFF),
        patch.object(row_deletion, "mark_read_version", lambda found: found & 0xFFFF_FFFF),
        patch.object(checksum_stamping, "mark_uuid", lambda text, _found: text),
        patch.object(Verifier, "checksum_version", lambda *_: None),
        patch.object(manifest_log, "encode_head", plain_rows),
        patch.object(cas_table, "write_note", lambda *_: None),
    ):
        yield
