"""The work of maintenance: fragments compacted, index segments built. All of it staged; nothing here is visible.

Every piece of work is plain data and needs only a table at a version, so it can be done by another process.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt

from lance.optimize import CompactionTask

from omnigraph.errors import OmnigraphError
from omnigraph.options import UpkeepOptions
from omnigraph.storage.checksum_stamping import Announce, stamp_fragment
from omnigraph.storage.compaction import CompactedGroup
from omnigraph.storage.index_staging import IndexUntrainableError, build_segment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, verify
from omnigraph.storage.staging import WriteObserver, list_open_files
from omnigraph.storage.table_cache import VerifyLevel, translate_rewrite_errors

VECTOR_INDEX = "IVF_FLAT"
_MAX_PARTITIONS = 4_096
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBuild:
    """One segment to build: of which index, over which fragments of the table."""

    name: str
    column: str
    kind: str
    fragments: tuple[int, ...]


def compact(
    table: LanceTable, group: tuple[int, ...], options: UpkeepOptions, announce: Announce = lambda _: None
) -> CompactedGroup:
    """Write the living rows of these fragments, in their order, into as few new ones as the limits allow."""
    dataset = table.handles.open(table.path, table.version)
    metadata = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    store = table.handles.store
    # What is written anew gets a checksum of its own, so damage must be found here or never.
    verify(table, VerifyLevel.WHOLE, only=group)
    task = CompactionTask.from_json(  # type: ignore[attr-defined]  # its stub lacks it
        json.dumps(
            {
                "task": {"fragments": [metadata[number].to_json() for number in sorted(group)]},
                "read_version": table.version,
                "options": _build_task_options(options),
            }
        )
    )
    errors = translate_rewrite_errors(f"compact {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        done = task.execute(dataset)
    new = tuple(json.dumps(stamp_fragment(store, table.path, one.to_json(), announce)) for one in done.new_fragments)
    return CompactedGroup(tuple(sorted(group)), new)


def _build_task_options(options: UpkeepOptions) -> Mapping[str, object]:
    """How Lance writes a group that we have chosen. Its planner would have to be talked into every group."""
    return {
        "target_rows_per_fragment": options.fragment_rows,
        "max_rows_per_group": 1_024,
        "materialize_deletions": True,
        "materialize_deletions_threshold": 0.0,
        "defer_index_remap": False,
        "enable_binary_copy": False,
        "enable_binary_copy_force": False,
    }


def build_index_segment(table: LanceTable, segment: SegmentBuild) -> str:
    """Build a segment, as text; IndexUntrainableError where vectors can't be learnt from."""
    settings: dict[str, object] = {}
    if segment.kind == VECTOR_INDEX:
        vectors = table.count_values(segment.column, segment.fragments)
        if not vectors:
            raise IndexUntrainableError(table.path, segment.name)
        settings = {"metric": "cosine", "num_partitions": max(1, min(isqrt(vectors), _MAX_PARTITIONS))}
    return build_segment(table, segment.column, segment.kind, segment.name, segment.fragments, settings)


@contextmanager
def report_open_files(table: LanceTable, witness: WriteObserver) -> Iterator[None]:
    """Tell of files that this process is writing for a table, while it does something that tells nothing itself."""
    is_over = threading.Event()

    def look() -> None:
        known: set[str] = set()
        while not is_over.wait(_POLL_SECONDS):
            fresh = set(list_open_files(table)) - known
            known |= fresh
            try:
                witness.on_begin(sorted(fresh))
            except OmnigraphError:
                return  # whoever does the work is told the same when it is done

    looking = threading.Thread(target=look, name=f"upkeep-{table.path}", daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()
