"""The jobs of a Spark load, run and watched: splits are worked on, and keys meet in the ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.ops.load_call import LoadCall
from omnigraph.schema.catalog_codec import decode_catalog
from omnigraph.spark.load.id_join import (
    FOUND,
    MET,
    Group,
    Stretch,
    group_keys,
    places_found,
    places_of,
    stretch_keys,
)
from omnigraph.spark.load.key_shuffle import LEDGER, Rules, Unit, judged, ledger_rows
from omnigraph.spark.load.load_spec import FrameSource, LoadSpec
from omnigraph.spark.load.load_task import RESULT, Done, Work, decode_done, frame_body, split_body, worked_on
from omnigraph.spark.load.merge_fill_task import Filled, Filling, Taken, Taking, decode_filled, decode_taken, told
from omnigraph.spark.load.merge_probe_task import Telling
from omnigraph.spark.session.error_translation import carrying
from omnigraph.spark.session.handshake import Body, map_tasks
from omnigraph.spark.session.job_monitor import load_teller, run_job
from omnigraph.storage.column_hashing import Hashes

LOCAL_KEYS = 200_000
"""Up to so many keys, the ledger is written on the driver: starting tasks would take longer."""
MERGED_HERE = 2_000_000
"""Up to so many rows of a merge are filled, compared and written by the driver: where changes are few beside what is
there, that is cheapest, and a row takes about a hundred bytes of its memory."""
LOCAL_BYTES = 8 * 1024 * 1024
"""Up to so many bytes of files, what has to be read again is read on the driver."""
READ_HERE = 32 * 1024 * 1024
"""Up to so many bytes of files, the driver of a merge reads them by itself: their rows would come to it anyway."""
_KEYS_PER_BUCKET = 1_000_000
"""What one task holds, and the JVM hands it in one piece: few enough that a load of many rows takes no more memory than
one of a million."""
_MOST_BUCKETS = 4_096
_JUDGED = "role string, payload binary"
_JUDGED_SCHEMA = pa.schema([pa.field("role", pa.string()), pa.field("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class LoadJobs:
    """Runs the jobs of one load; an interrupt stops them."""

    spark: SparkSession
    call: LoadCall
    frames: Sequence[tuple[FrameSource, DataFrame]] = ()
    local_keys: int = LOCAL_KEYS
    local_bytes: int = LOCAL_BYTES
    merged_here: int = MERGED_HERE
    read_here: int = READ_HERE

    def work(
        self,
        spec: LoadSpec,
        phase: int,
        work: Work,
        *,
        doing: str,
        is_first: bool = False,
        most_here: int | None = None,
        held: dict[str, bytes] | None = None,
    ) -> list[Done]:
        """Work on all splits that the work is about; `is_first` when they have not been read before.

        Up to `most_here` bytes of files are read on the driver: without it none at first, and few when read again. What
        is handed over there goes to `held` if that is given.
        """
        here = most_here if most_here is not None else -1 if is_first else self.local_bytes
        chosen = [split.number for split in spec.splits if work.is_about(split.number)]
        total = sum(spec.splits[number].size for number in chosen)
        found: list[Done] = []

        def rows() -> int:
            return sum(told.rows for one in found for told in one.types.values())

        tell = load_teller(self.call, doing, rows=rows, total_bytes=total)
        if chosen and total <= here:
            found += worked_on(spec, phase, chosen, work, held)
        elif chosen:
            count = len(chosen)
            numbers = self.spark.range(0, count, 1, count)
            frame = map_tasks(numbers, split_body(spec, phase, chosen, work), RESULT)
            found += _done(run_job(self.spark, frame.collect, description=f"omnigraph load: {doing}", tell=tell))
        for source, data in self.frames:
            if any(map(work.is_about, source.splits)):
                frame = map_tasks(data, frame_body(spec, phase, source, work), RESULT)
                what = f"omnigraph load: {doing} {source.type}"
                found += _done(run_job(self.spark, frame.collect, description=what, tell=tell))
        self.call.tell(doing, rows(), total, total)
        return found

    def judge(self, spec: LoadSpec, units: Sequence[Unit], rules: Rules, keys: int) -> dict[str, Hashes]:
        """What is suspicious among about so many keys of these units."""
        if keys <= self.local_keys:
            return self._judge_here(spec, units, rules)
        count = len(units)
        buckets = self._buckets(keys)
        ledger = map_tasks(self.spark.range(0, count, 1, count), _ledger_body(spec, units, buckets), LEDGER)
        frame = map_tasks(ledger.repartitionById(buckets, "bucket"), _judging_body(spec, rules), _JUDGED)
        tell = load_teller(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: check", tell=tell)
        found: dict[str, list[Hashes]] = {}
        for row in rows:
            found.setdefault(row["role"], []).append(np.frombuffer(bytes(row["payload"]), np.uint64))
        return {role: np.concatenate(parts) for role, parts in found.items()}

    def fill(self, spec: LoadSpec, filling: Filling | Telling, stretches: Sequence[Stretch], keys: int) -> list[Filled]:
        """Find the committed rows of all groups among about so many ids; have every group filled, or tell of itself."""
        groups = len(filling.groups)
        units, buckets = groups + len(stretches), self._buckets(keys)
        met = map_tasks(
            self.spark.range(0, units, 1, units), _meeting_body(spec, filling.groups, stretches, buckets), MET
        )
        found = map_tasks(met.repartitionById(buckets, "bucket"), _finding_body(), FOUND)
        frame = map_tasks(found.repartitionById(groups, "number"), _filling_body(spec, filling), RESULT)
        tell = load_teller(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: merge", tell=tell)
        return sorted((decode_filled(bytes(row["payload"])) for row in rows), key=lambda one: one.number)

    def take(self, spec: LoadSpec, phase: int, takings: Sequence[Taking]) -> list[Taken]:
        """Have rows taken away."""
        if not takings:
            return []
        count = len(takings)
        frame = map_tasks(self.spark.range(0, count, 1, count), _taking_body(spec, phase, takings), RESULT)
        tell = load_teller(self.call, "write")
        rows = run_job(self.spark, frame.collect, description="omnigraph load: replace", tell=tell)
        return [decode_taken(bytes(row["payload"])) for row in rows]

    def _judge_here(self, spec: LoadSpec, units: Sequence[Unit], rules: Rules) -> dict[str, Hashes]:
        parts: dict[str, list[Hashes]] = {}
        for batch in ledger_rows(spec, units, iter(range(len(units))), 1):
            _add(parts, batch)
        return judged(decode_catalog(spec.catalog), rules, parts)

    def _buckets(self, keys: int) -> int:
        cores = self.spark.sparkContext.defaultParallelism
        return min(max(-(-keys // _KEYS_PER_BUCKET), cores), _MOST_BUCKETS)


def _ledger_body(spec: LoadSpec, units: Sequence[Unit], buckets: int) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            for batch in batches:
                yield from ledger_rows(spec, units, iter(batch.column(0).to_pylist()), buckets)

    return run


def _judging_body(spec: LoadSpec, rules: Rules) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            parts: dict[str, list[Hashes]] = {}
            for batch in batches:
                _add(parts, batch)
            found = judged(spec.worker().catalog, rules, parts)
            payloads = [hashes.tobytes() for hashes in found.values()]
            arrays = [pa.array(list(found), pa.string()), pa.array(payloads, pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_JUDGED_SCHEMA)

    return run


def _meeting_body(spec: LoadSpec, groups: Sequence[Group], stretches: Sequence[Stretch], buckets: int) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            worker = spec.worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    if number < len(groups):
                        yield from group_keys(worker, number, groups[number], buckets)
                    else:
                        yield from stretch_keys(worker, stretches[number - len(groups)], buckets)

    return run


def _finding_body() -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            yield from places_found(batches)

    return run


def _filling_body(spec: LoadSpec, filling: Filling | Telling) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            worker = spec.worker()
            for number, places in sorted(places_of(batches).items()):
                yield told(filling.done(worker, number, places))

    return run


def _taking_body(spec: LoadSpec, phase: int, takings: Sequence[Taking]) -> Body:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carrying():
            worker = spec.worker()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield told(takings[number].done(worker, phase, number))

    return run


def _add(parts: dict[str, list[Hashes]], batch: pa.RecordBatch) -> None:
    for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
        parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64))


def _done(rows: Sequence[Row]) -> list[Done]:
    return [decode_done(bytes(row["payload"])) for row in rows]
