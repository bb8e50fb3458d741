"""Run the Spark jobs of a load and watch their progress: read splits, shuffle keys, fill groups of a merge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.ops.load_call import LoadCall
from omnigraph.schema.catalog_codec import decode_catalog
from omnigraph.spark.load.id_join import (
    MATCHES_DDL,
    ChunkGroup,
    FragmentRange,
    collect_matches,
    iter_fragment_keys,
    iter_group_keys,
    join_ids,
)
from omnigraph.spark.load.key_hashes import REPEATED, SEPARATE
from omnigraph.spark.load.key_shuffle import (
    KEYS_DDL,
    KeyRules,
    KeySource,
    find_suspicious_keys,
    iter_key_batches,
)
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec
from omnigraph.spark.load.load_task import (
    RESULT_SCHEMA,
    SplitResult,
    Work,
    build_frame_task,
    build_split_task,
    decode_result,
    encode_payload,
    run_splits,
)
from omnigraph.spark.load.merge_fill_task import (
    DeletionResult,
    DeletionTask,
    FillResult,
    MergeFill,
    decode_deletion_result,
    decode_fill_result,
    encode_result,
)
from omnigraph.spark.load.merge_probe_task import MergeProbe
from omnigraph.spark.load.repeated_rows import (
    STORED_DDL,
    ListedIds,
    RepeatedRows,
    encode_rows,
    find_repeats,
    iter_listed_ids,
    store_repeats,
)
from omnigraph.spark.load.row_filter import StoredRows, Wanted, select_wanted
from omnigraph.spark.load.separate_keys import StoredHashes, SuspiciousKeys
from omnigraph.spark.session.connect import count_parallel_tasks
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import build_progress_callback, run_job
from omnigraph.storage.column_hashing import Hashes

# Up to this number of keys, the driver checks them itself: starting tasks would take longer.
MAX_LOCAL_KEYS = 200_000
# Up to this number of rows, the driver fills, compares and writes a merge itself: the cheapest way where changes are
# few compared to the committed rows. A row takes about a hundred bytes of its memory.
MAX_LOCAL_MERGE_ROWS = 2_000_000
# Up to this number of bytes, the driver itself reads files that have to be read again.
MAX_LOCAL_REREAD_BYTES = 8 * 1024 * 1024
# Up to this number of bytes, the driver of a merge reads files itself: their rows would be sent to it anyway.
MAX_LOCAL_READ_BYTES = 32 * 1024 * 1024
# One task holds the keys of a bucket, and the JVM hands them over in one batch: few enough that a load of any size
# takes no more memory than one of a million rows.
_KEYS_PER_BUCKET = 1_000_000
_MAX_BUCKETS = 4_096
# A task that checks keys stores more suspicious keys than this of one role, where rows can be checked by themselves.
_MAX_RETURNED_KEYS = 1_000
# Up to this number of suspicious keys, the driver looks at their rows itself: one process takes 0.24 kB for each.
MAX_DRIVER_SUSPECTS = 100_000
_SUSPECTS_DDL = "role string, payload binary, stored string, count long"
_SUSPECTS_SCHEMA = pa.schema(
    [
        pa.field("role", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("stored", pa.string()),
        pa.field("count", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class LoadJobs:
    """Run the jobs of one load; an interrupt stops them."""

    spark: SparkSession
    call: LoadCall
    frames: Sequence[tuple[FrameSource, DataFrame]] = ()
    max_local_keys: int = MAX_LOCAL_KEYS
    max_local_reread_bytes: int = MAX_LOCAL_REREAD_BYTES
    max_local_merge_rows: int = MAX_LOCAL_MERGE_ROWS
    max_local_read_bytes: int = MAX_LOCAL_READ_BYTES
    max_driver_suspects: int = MAX_DRIVER_SUSPECTS
    max_local_rebase_rows: int = MAX_LOCAL_KEYS

    def run_splits(
        self,
        spec: LoadSpec,
        phase: int,
        work: Work,
        *,
        doing: str,
        is_first: bool = False,
        max_local_bytes: int | None = None,
        buffer: dict[str, bytes] | None = None,
    ) -> list[SplitResult]:
        """Run the work on all splits that it includes, and return their results.

        The driver itself reads files of up to `max_local_bytes`; by default none when `is_first`, and up to
        `max_local_reread_bytes` when they are read again. Rows that it hands over go to `buffer`, if there is one.
        """
        if max_local_bytes is None:
            # Below zero, so that executors read even empty files.
            max_local_bytes = -1 if is_first else self.max_local_reread_bytes
        included = [[number for number in pack if work.includes(number)] for pack in spec.packs]
        packs = [pack for pack in included if pack]
        total = sum(spec.splits[number].size for pack in packs for number in pack)
        results: list[SplitResult] = []

        def count_rows() -> int:
            return sum(type_result.rows for result in results for type_result in result.types.values())

        on_progress = build_progress_callback(self.call, doing, rows=count_rows, total_bytes=total)
        if packs and total <= max_local_bytes:
            results += run_splits(spec, phase, packs, work, buffer)
        elif packs:
            # One task per pack.
            count = len(packs)
            tasks = self.spark.range(0, count, 1, count)
            frame = map_tasks(tasks, build_split_task(spec, phase, packs, work), RESULT_SCHEMA)
            results += _decode_results(
                run_job(self.spark, frame.collect, description=f"omnigraph load: {doing}", on_progress=on_progress)
            )
        for source, data in self.frames:
            if any(map(work.includes, source.splits)):
                frame = map_tasks(data, build_frame_task(spec, phase, source, work), RESULT_SCHEMA)
                description = f"omnigraph load: {doing} {source.type}"
                results += _decode_results(
                    run_job(self.spark, frame.collect, description=description, on_progress=on_progress)
                )
        self.call.report_progress(doing, count_rows(), total, total)
        return results

    def find_suspicious_keys(
        self, spec: LoadSpec, sources: Sequence[KeySource], rules: KeyRules, keys: int, phase: int = 0
    ) -> SuspiciousKeys:
        """Return the suspicious hashes of these sources, which have about `keys` keys.

        If the rules separate them, keys of single rows, and repeated ids, may be many: then they are stored in the
        `phase`.
        """
        if keys <= self.max_local_keys:
            return SuspiciousKeys.from_parts(_find_suspicious_keys_here(spec, sources, rules, keys), ())
        count = len(sources)
        buckets = self._choose_buckets(keys)
        key_frame = map_tasks(self.spark.range(0, count, 1, count), _build_key_task(spec, sources, buckets), KEYS_DDL)
        task = _build_check_task(spec, rules, phase)
        frame = map_tasks(key_frame.repartitionById(buckets, "bucket"), task, _SUSPECTS_DDL)
        on_progress = build_progress_callback(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: check", on_progress=on_progress)
        returned: dict[str, list[Hashes]] = {}
        for row in rows:
            if row["stored"] is None:
                returned.setdefault(row["role"], []).append(np.frombuffer(bytes(row["payload"]), np.uint64))
        stored = [(row["role"], StoredHashes(key=row["stored"], count=row["count"])) for row in rows if row["stored"]]
        return SuspiciousKeys.from_parts(returned, stored)

    def filter_rows(
        self, spec: LoadSpec, parts: Sequence[StoredRows], wanted: Wanted
    ) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of staged fragments that have one of these values; None if the driver reads them sooner."""
        rows = sum(part.rows for part in parts)
        if rows <= self.max_local_rebase_rows:
            return None
        count = len(parts)
        frame = map_tasks(self.spark.range(0, count, 1, count), _build_filter_task(spec, parts, wanted), RESULT_SCHEMA)
        on_progress = build_progress_callback(self.call, "check", rows=lambda: rows)
        payloads = run_job(self.spark, frame.collect, description="omnigraph load: rebase", on_progress=on_progress)
        return (batch for row in payloads for batch in pa.ipc.open_stream(bytes(row["payload"])))

    def find_repeated_rows(
        self, spec: LoadSpec, phase: int, listed: Sequence[ListedIds], rows: int
    ) -> dict[tuple[int, str], RepeatedRows]:
        """Return, by split and type, the rows that have the id of an earlier one, of about `rows` listed ids."""
        count = len(listed)
        buckets = self._choose_buckets(rows)
        ids = map_tasks(self.spark.range(0, count, 1, count), _build_listed_task(spec, listed, buckets), KEYS_DDL)
        # Two shuffles in one job: ids by their hash, then repeats by their split.
        repeats = map_tasks(ids.repartitionById(buckets, "bucket"), _build_repeats_task(buckets), KEYS_DDL)
        frame = map_tasks(repeats.repartitionById(buckets, "bucket"), _build_store_task(spec, phase), STORED_DDL)
        on_progress = build_progress_callback(self.call, "check", rows=lambda: rows)
        stored = run_job(self.spark, frame.collect, description="omnigraph load: duplicates", on_progress=on_progress)
        return {(row["split"], row["type"]): RepeatedRows(key=row["stored"], count=row["count"]) for row in stored}

    def fill_groups(
        self, spec: LoadSpec, work: MergeFill | MergeProbe, ranges: Sequence[FragmentRange], keys: int
    ) -> list[FillResult]:
        """Join the ids of all groups with the committed ones, about `keys` in all, and run the work on every group."""
        groups = len(work.groups)
        tasks, buckets = groups + len(ranges), self._choose_buckets(keys)
        # Two shuffles in one job: ids by bucket, then matches by group. Neither passes through the driver.
        key_frame = map_tasks(
            self.spark.range(0, tasks, 1, tasks), _build_id_key_task(spec, work.groups, ranges, buckets), KEYS_DDL
        )
        matches = map_tasks(key_frame.repartitionById(buckets, "bucket"), _build_join_task(), MATCHES_DDL)
        frame = map_tasks(matches.repartitionById(groups, "number"), _build_fill_task(spec, work), RESULT_SCHEMA)
        on_progress = build_progress_callback(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: merge", on_progress=on_progress)
        results = [decode_fill_result(bytes(row["payload"])) for row in rows]
        return sorted(results, key=lambda result: result.number)

    def delete_rows(self, spec: LoadSpec, phase: int, deletions: Sequence[DeletionTask]) -> list[DeletionResult]:
        """Run the deletion tasks, and return their results."""
        if not deletions:
            return []
        count = len(deletions)
        frame = map_tasks(
            self.spark.range(0, count, 1, count), _build_deletion_task(spec, phase, deletions), RESULT_SCHEMA
        )
        on_progress = build_progress_callback(self.call, "write")
        rows = run_job(self.spark, frame.collect, description="omnigraph load: replace", on_progress=on_progress)
        return [decode_deletion_result(bytes(row["payload"])) for row in rows]

    def _choose_buckets(self, keys: int) -> int:
        cores = count_parallel_tasks(self.spark)
        return min(max(-(-keys // _KEYS_PER_BUCKET), cores), _MAX_BUCKETS)


def _find_suspicious_keys_here(
    spec: LoadSpec, sources: Sequence[KeySource], rules: KeyRules, keys: int
) -> dict[str, list[Hashes]]:
    """Return the suspicious hashes of all buckets, one of which is in memory at a time."""
    buckets = min(-(-keys // _KEYS_PER_BUCKET), _MAX_BUCKETS) or 1
    places: dict[int, list[tuple[str, int, int]]] = {}
    suspicious: dict[str, list[Hashes]] = {}
    with SpooledTemporaryFile(max_size=8 * _KEYS_PER_BUCKET) as file:
        for batch in iter_key_batches(spec, sources, iter(range(len(sources))), buckets):
            for bucket, role, payload in zip(*batch.to_pydict().values(), strict=True):
                places.setdefault(bucket, []).append((role, file.tell(), len(payload)))
                file.write(payload)
        for bucket in sorted(places):
            parts: dict[str, list[Hashes]] = {}
            for role, start, size in places[bucket]:
                file.seek(start)
                parts.setdefault(role, []).append(np.frombuffer(file.read(size), np.uint64))
            for role, hashes in find_suspicious_keys(decode_catalog(spec.catalog), rules, parts).items():
                suspicious.setdefault(role, []).append(hashes)
    return suspicious


def _build_key_task(spec: LoadSpec, sources: Sequence[KeySource], buckets: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                yield from iter_key_batches(spec, sources, iter(batch.column(0).to_pylist()), buckets)

    return run


def _build_check_task(spec: LoadSpec, rules: KeyRules, phase: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            parts: dict[str, list[Hashes]] = {}
            for batch in batches:
                _add_hashes(parts, batch)
            worker = spec.create_worker()
            suspicious = find_suspicious_keys(worker.catalog, rules, parts)
            is_stored = {
                role: role.startswith((SEPARATE, REPEATED)) and len(hashes) > _MAX_RETURNED_KEYS
                for role, hashes in suspicious.items()
            }
            journal = worker.begin_journal(phase, _get_partition()) if any(is_stored.values()) else None
            for number, (role, hashes) in enumerate(suspicious.items()):
                data, key = hashes.tobytes(), None
                if is_stored[role] and journal is not None:
                    data, key = b"", journal.keep(f"{number}.suspects", data)
                arrays = [pa.array([role]), pa.array([data]), pa.array([key], pa.string()), pa.array([len(hashes)])]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SUSPECTS_SCHEMA)

    return run


def _get_partition() -> int:
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - run by a task
    return context.partitionId()


def _build_listed_task(spec: LoadSpec, listed: Sequence[ListedIds], buckets: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from iter_listed_ids(worker, listed[number], buckets)

    return run


def _build_filter_task(spec: LoadSpec, parts: Sequence[StoredRows], wanted: Wanted) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    selected = list(select_wanted(worker, parts[number], wanted))
                    if selected:
                        yield encode_payload(encode_rows(pa.Table.from_batches(selected)))

    return run


def _build_repeats_task(groups: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            yield from find_repeats(batches, groups)

    return run


def _build_store_task(spec: LoadSpec, phase: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            yield from store_repeats(spec.create_worker(), phase, _get_partition(), batches)

    return run


def _build_id_key_task(
    spec: LoadSpec, groups: Sequence[ChunkGroup], ranges: Sequence[FragmentRange], buckets: int
) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    # Groups come first, then ranges of committed fragments.
                    if number < len(groups):
                        yield from iter_group_keys(worker, number, groups[number], buckets)
                    else:
                        yield from iter_fragment_keys(worker, ranges[number - len(groups)], buckets)

    return run


def _build_join_task() -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            yield from join_ids(batches)

    return run


def _build_fill_task(spec: LoadSpec, work: MergeFill | MergeProbe) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for number, matches in sorted(collect_matches(batches).items()):
                yield encode_result(work.run(worker, number, matches))

    return run


def _build_deletion_task(spec: LoadSpec, phase: int, deletions: Sequence[DeletionTask]) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield encode_result(deletions[number].run(worker, phase, number))

    return run


def _add_hashes(parts: dict[str, list[Hashes]], batch: pa.RecordBatch) -> None:
    for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
        parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64))


def _decode_results(rows: Sequence[Row]) -> list[SplitResult]:
    return [decode_result(bytes(row["payload"])) for row in rows]
