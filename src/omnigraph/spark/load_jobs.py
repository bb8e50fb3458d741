"""The jobs of a Spark load, run and watched: splits are worked on, and keys meet in the ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.ops.load_call import LoadCall
from omnigraph.schema.codec import decode_catalog
from omnigraph.spark.failures import carrying
from omnigraph.spark.ledger import LEDGER, Rules, Unit, judged, ledger_rows
from omnigraph.spark.load_spec import FrameSource, LoadSpec
from omnigraph.spark.progress import load_teller, run_job
from omnigraph.spark.task import RESULT, Body, Done, Work, decode_done, frame_body, split_body, worked_on
from omnigraph.storage.hashing import Hashes

LOCAL_KEYS = 200_000
"""Up to so many keys, the ledger is written on the driver: starting tasks would take longer."""
LOCAL_BYTES = 8 * 1024 * 1024
"""Up to so many bytes of files, what has to be read again is read on the driver."""
_KEYS_PER_BUCKET = 6_000_000
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

    def work(self, spec: LoadSpec, phase: int, work: Work, *, doing: str, is_first: bool = False) -> list[Done]:
        """Work on all splits that the work is about; `is_first` when they have not been read before."""
        chosen = [split.number for split in spec.splits if work.is_about(split.number)]
        total = sum(spec.splits[number].size for number in chosen)
        found: list[Done] = []

        def rows() -> int:
            return sum(told.rows for one in found for told in one.types.values())

        tell = load_teller(self.call, doing, rows=rows, total_bytes=total)
        if chosen and not is_first and total <= self.local_bytes:
            found += worked_on(spec, phase, chosen, work)
        elif chosen:
            count = len(chosen)
            frame = self.spark.range(0, count, 1, count).mapInArrow(split_body(spec, phase, chosen, work), RESULT)
            found += _done(run_job(self.spark, frame.collect, description=f"omnigraph load: {doing}", tell=tell))
        for source, data in self.frames:
            if any(map(work.is_about, source.splits)):
                frame = data.mapInArrow(frame_body(spec, phase, source, work), RESULT)
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
        frame = (
            self.spark.range(0, count, 1, count)
            .mapInArrow(_ledger_body(spec, units, buckets), LEDGER)
            .repartitionById(buckets, "bucket")
            .mapInArrow(_judging_body(spec, rules), _JUDGED)
        )
        tell = load_teller(self.call, "check", rows=lambda: keys)
        rows = run_job(self.spark, frame.collect, description="omnigraph load: check", tell=tell)
        found: dict[str, list[Hashes]] = {}
        for row in rows:
            found.setdefault(row["role"], []).append(np.frombuffer(bytes(row["payload"]), np.uint64))
        return {role: np.concatenate(parts) for role, parts in found.items()}

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


def _add(parts: dict[str, list[Hashes]], batch: pa.RecordBatch) -> None:
    for role, payload in zip(batch.column("role").to_pylist(), batch.column("payload"), strict=True):
        parts.setdefault(role, []).append(np.frombuffer(payload.as_buffer(), np.uint64))


def _done(rows: Sequence[Row]) -> list[Done]:
    return [decode_done(bytes(row["payload"])) for row in rows]
