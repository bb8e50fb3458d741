"""The jobs of a Spark load, run and watched: splits are worked on, and keys meet in the ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.ops.load_call import LoadCall
from omnigraph.schema.catalog_codec import decode_catalog
from omnigraph.spark.load.id_join import (
    ID_KEYS_DDL,
    MATCHES_DDL,
    ChunkGroup,
    FragmentRange,
    collect_matches,
    iter_fragment_keys,
    iter_group_keys,
    join_ids,
)
from omnigraph.spark.load.key_shuffle import KEYS_DDL, KeyRules, KeySource, find_suspicious_keys, iter_key_batches
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec
from omnigraph.spark.load.load_task import (
    RESULT_SCHEMA,
    SplitResult,
    Work,
    build_frame_task,
    build_split_task,
    decode_result,
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
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks
from omnigraph.spark.session.job_monitor import build_progress_callback, run_job
from omnigraph.storage.column_hashing import Hashes

MAX_LOCAL_KEYS = 200_000
"""Up to so many keys, the ledger is written on the driver: starting tasks would take longer."""
MAX_LOCAL_MERGE_ROWS = 2_000_000
"""Up to so many rows of a merge are filled, compared and written by the driver: where changes are few beside what is
there, that is cheapest, and a row takes about a hundred bytes of its memory."""
MAX_LOCAL_REREAD_BYTES = 8 * 1024 * 1024
"""Up to so many bytes of files, what has to be read again is read on the driver."""
MAX_LOCAL_READ_BYTES = 32 * 1024 * 1024
"""Up to so many bytes of files, the driver of a merge reads them by itself: their rows would come to it anyway."""
_KEYS_PER_BUCKET = 1_000_000
"""What one task holds, and the JVM hands it in one piece: few enough that a load of many rows takes no more memory than
one of a million."""
_MAX_BUCKETS = 4_096
_SUSPECTS_DDL = "role string, payload binary"
_SUSPECTS_SCHEMA = pa.schema([pa.field("role", pa.string()), pa.field("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class LoadJobs:
    """Runs the jobs of one load; an interrupt stops them."""

    spark: SparkSession
    call: LoadCall
    frames: Sequence[tuple[FrameSource, DataFrame]] = ()
    max_local_keys: int = MAX_LOCAL_KEYS
    max_local_reread_bytes: int = MAX_LOCAL_REREAD_BYTES
    max_local_merge_rows: int = MAX_LOCAL_MERGE_ROWS
    max_local_read_bytes: int = MAX_LOCAL_READ_BYTES

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
        """Work on all splits that the work is about; `is_first` when they have not been read before.

        Up to `max_local_bytes` bytes of files are read on the driver: without it none at first, and few when read again. What
        is handed over there goes to `held` if that is given.
        """
        here = max_local_bytes if max_local_bytes is not None else -1 if is_first else self.max_local_reread_bytes
        chosen = [split.number for split in spec.splits if work.is_about(split.number)]
        total = sum(spec.splits[number].size for number in chosen)
        found: list[SplitResult] = []

        def rows() -> int:
            return sum(told.rows for one in found for told in one.types.values())

        tell = build_progress_callback(self.call, doing, rows=rows, total_bytes=total)
        if chosen and total <= here:
            found += run_splits(spec, phase, chosen, work, buffer)
        elif chosen:
            count = len(chosen)
            numbers = self.spark.range(0, count, 1, count)
            frame = map_tasks(numbers, build_split_task(spec, phase, chosen, work), RESULT_SCHEMA)
            found += _decode_results(
                run_job(self.spark, frame.collect, description=f"omnigraph load: {doing}", on_progress=tell)
            )
        for source, data in self.frames:
            if any(map(work.is_about, source.splits)):
                frame = map_tasks(data, build_frame_task(spec, phase, source, work), RESULT_SCHEMA)
                what = f"omnigraph load: {doing} {source.type}"
                found += _decode_results(run_job(self.spark, frame.collect, description=what, on_progress=tell))
        self.call.report_progress(doing, rows(), total, total)
        return found

    def find_suspicious_keys(
        self, spec: LoadSpec, units: Sequence[KeySource], rules: KeyRules, keys: int
    ) -> dict[str, Hashes]:
        """What is suspicious among about so many keys of these units."""
        if keys <= self.max_local_keys:
            return self._find_suspicious_keys_here(spec, units, rules)
        count = len(units)
        buckets = self._choose_buckets(keys)
        ledger = map_tasks(self.spark.range(0, count, 1, count), _build_key_task(spec, units, buckets), KEYS_DDL)
        frame = map_tasks(ledger.repartitionById(buckets, "bucket"), _build_check_task(spec, rules), _SUSPECTS_DDL)
        tell = build_progress_callback(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: check", on_progress=tell)
        found: dict[str, list[Hashes]] = {}
        for row in rows:
            found.setdefault(row["role"], []).append(np.frombuffer(bytes(row["payload"]), np.uint64))
        return {role: np.concatenate(parts) for role, parts in found.items()}

    def fill_groups(
        self, spec: LoadSpec, filling: MergeFill | MergeProbe, stretches: Sequence[FragmentRange], keys: int
    ) -> list[FillResult]:
        """Find the committed rows of all groups among about so many ids; have every group filled, or tell of itself."""
        groups = len(filling.groups)
        units, buckets = groups + len(stretches), self._choose_buckets(keys)
        met = map_tasks(
            self.spark.range(0, units, 1, units),
            _build_id_key_task(spec, filling.groups, stretches, buckets),
            ID_KEYS_DDL,
        )
        found = map_tasks(met.repartitionById(buckets, "bucket"), _build_join_task(), MATCHES_DDL)
        frame = map_tasks(found.repartitionById(groups, "number"), _build_fill_task(spec, filling), RESULT_SCHEMA)
        tell = build_progress_callback(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: merge", on_progress=tell)
        return sorted((decode_fill_result(bytes(row["payload"])) for row in rows), key=lambda one: one.number)

    def delete_rows(self, spec: LoadSpec, phase: int, takings: Sequence[DeletionTask]) -> list[DeletionResult]:
        """Have rows taken away."""
        if not takings:
            return []
        count = len(takings)
        frame = map_tasks(
            self.spark.range(0, count, 1, count), _build_deletion_task(spec, phase, takings), RESULT_SCHEMA
        )
        tell = build_progress_callback(self.call, "write")
        rows = run_job(self.spark, frame.collect, description="omnigraph load: replace", on_progress=tell)
        return [decode_deletion_result(bytes(row["payload"])) for row in rows]

    def _find_suspicious_keys_here(
        self, spec: LoadSpec, units: Sequence[KeySource], rules: KeyRules
    ) -> dict[str, Hashes]:
        parts: dict[str, list[Hashes]] = {}
        for batch in iter_key_batches(spec, units, iter(range(len(units))), 1):
            _add_hashes(parts, batch)
        return find_suspicious_keys(decode_catalog(spec.catalog), rules, parts)

    def _choose_buckets(self, keys: int) -> int:
        cores = self.spark.sparkContext.defaultParallelism
        return min(max(-(-keys // _KEYS_PER_BUCKET), cores), _MAX_BUCKETS)


def _build_key_task(spec: LoadSpec, units: Sequence[KeySource], buckets: int) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            for batch in batches:
                yield from iter_key_batches(spec, units, iter(batch.column(0).to_pylist()), buckets)

    return run


def _build_check_task(spec: LoadSpec, rules: KeyRules) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            parts: dict[str, list[Hashes]] = {}
            for batch in batches:
                _add_hashes(parts, batch)
            found = find_suspicious_keys(spec.create_worker().catalog, rules, parts)
            payloads = [hashes.tobytes() for hashes in found.values()]
            arrays = [pa.array(list(found), pa.string()), pa.array(payloads, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SUSPECTS_SCHEMA)

    return run


def _build_id_key_task(
    spec: LoadSpec, groups: Sequence[ChunkGroup], stretches: Sequence[FragmentRange], buckets: int
) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    if number < len(groups):
                        yield from iter_group_keys(worker, number, groups[number], buckets)
                    else:
                        yield from iter_fragment_keys(worker, stretches[number - len(groups)], buckets)

    return run


def _build_join_task() -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            yield from join_ids(batches)

    return run


def _build_fill_task(spec: LoadSpec, filling: MergeFill | MergeProbe) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for number, places in sorted(collect_matches(batches).items()):
                yield encode_result(filling.run(worker, number, places))

    return run


def _build_deletion_task(spec: LoadSpec, phase: int, takings: Sequence[DeletionTask]) -> TaskBody:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            worker = spec.create_worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield encode_result(takings[number].run(worker, phase, number))

    return run


def _add_hashes(parts: dict[str, list[Hashes]], batch: pa.RecordBatch) -> None:
    for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
        parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64))


def _decode_results(rows: Sequence[Row]) -> list[SplitResult]:
    return [decode_result(bytes(row["payload"])) for row in rows]
