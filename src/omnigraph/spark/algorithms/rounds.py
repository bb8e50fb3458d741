"""Run a program round by round: one job each, whose tasks read and write blocks.

The state of a part stays where it is; only messages move, one row for each pair of parts. After each round a record
names its blocks, and the next run of the same algorithm over the same snapshot goes on from there.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from omnigraph.schema.arrow import ID
from omnigraph.spark.algorithms.blocks import BlockStore, RunLease
from omnigraph.spark.algorithms.programs import Arrays, Facts, Program
from omnigraph.spark.algorithms.stored_network import Part, StoredNetwork, map_parts, read_part
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.handshake import TaskBody, map_tasks

_RECORD = "round"
_MESSAGES_DDL = "part int, sender int, payload binary"
_MESSAGES = pa.schema([pa.field("part", pa.int32()), pa.field("sender", pa.int32()), pa.field("payload", pa.binary())])
_STATES_DDL = "part int, block string, facts array<double>"
_STATES = pa.schema(
    [pa.field("part", pa.int32()), pa.field("block", pa.string()), pa.field("facts", pa.list_(pa.float64()))]
)
_BATCH_ROWS = 65_536


class RoundRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The state after a round, by part, and what its parts have reported together."""

    number: int
    blocks: tuple[str, ...]
    sums: tuple[float, ...]
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """A program over a stored network."""

    spark: SparkSession
    store: BlockStore
    lease: RunLease
    network: StoredNetwork
    program: Program

    def run(self) -> RoundRecord:
        """Run all rounds that no earlier run has completed, and return the last one.

        Raises:
            FencedError: Another process goes on with the run.
        """
        # A sweep may have removed blocks that a record names: then the run begins anew.
        record = self.store.read_record(_RECORD, RoundRecord)
        if record is None or not self.store.has_blocks(record.blocks):
            record = self._keep(0, self._start(), ())
        limit = self.program.max_rounds
        while not record.is_over and (limit is None or record.number < limit):
            earlier = record
            record = self._keep(record.number + 1, self._exchange(record), record.sums)
            # Only now: until the record was replaced, a run that goes on would need them.
            self.store.delete_blocks(earlier.blocks)
        return record

    def read_values(self, record: RoundRecord, type_: str) -> DataFrame:
        """Return the columns `id` and `value` in the order of ids."""
        store, network, program = self.store, self.network, self.program

        def read(number: int) -> Iterator[pa.RecordBatch]:
            values = program.finish(_bare_part(network, number), _read_arrays(store, record.blocks[number]))
            rows = pa.table([store.read_block(network.ids[number]).column(ID), values], names=[ID, "value"])
            return iter(rows.to_batches(_BATCH_ROWS))

        return map_parts(self.spark, network.parts, read, f"id string, value {type_}")

    def _keep(self, number: int, states: DataFrame, before: Facts) -> RoundRecord:
        """Compute the states of a round, and record them."""
        # One row for each part: what is collected does not grow with the network.
        rows = sorted(states.collect())
        sums = tuple(math.fsum(column) for column in zip(*(row.facts for row in rows), strict=True))
        is_over = not rows or self.program.is_over(number, sums, before)
        record = RoundRecord(number=number, blocks=tuple(row.block for row in rows), sums=sums, is_over=is_over)
        # The record is what counts: a process that lost its lease must not overwrite that of the next one.
        self.lease.check()
        self.store.put_record(_RECORD, record)
        return record

    def _start(self) -> DataFrame:
        store, network, program = self.store, self.network, self.program

        def start(number: int) -> Iterator[pa.RecordBatch]:
            ids = store.read_block(network.ids[number]).column(ID)
            state, facts = program.start(read_part(store, network, number), ids)
            return iter((_store_state(store, 0, number, state, facts),))

        return map_parts(self.spark, network.parts, start, _STATES_DDL)

    def _exchange(self, record: RoundRecord) -> DataFrame:
        store, network, program, number = self.store, self.network, self.program, record.number + 1

        def send(sender: int) -> Iterator[pa.RecordBatch]:
            part = read_part(store, network, sender)
            messages = program.send(number, part, _read_arrays(store, record.blocks[sender]))
            return _split_messages(network, sender, messages)

        # Spark moves messages by the number of their part, and keeps them on disk: a lost executor costs its tasks.
        sent = map_parts(self.spark, network.parts, send, _MESSAGES_DDL)
        received = sent.repartitionById(network.parts, "part").sortWithinPartitions("part", "sender")
        return map_tasks(received, _build_receiver(store, network, program, record), _STATES_DDL)


def _build_receiver(store: BlockStore, network: StoredNetwork, program: Program, record: RoundRecord) -> TaskBody:
    number = record.number + 1

    def receive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carry_errors():
            rows = (row for batch in batches for row in batch.to_pylist())
            for at, payloads in groupby(rows, lambda row: row["part"]):
                messages = pa.concat_tables(pa.ipc.open_stream(row["payload"]).read_all() for row in payloads)
                arrays = {name: messages.column(name).to_numpy() for name in messages.column_names}
                before = _read_arrays(store, record.blocks[at])
                state, facts = program.receive(number, _bare_part(network, at), before, arrays, record.sums)
                yield _store_state(store, number, at, state, facts)

    return receive


def _split_messages(network: StoredNetwork, sender: int, messages: Arrays) -> Iterator[pa.RecordBatch]:
    """Yield the messages to each part; one to the sender's own in any case, so that every part has a row."""
    table = pa.table({name: pa.array(values) for name, values in messages.items()})
    # Receivers ascend, so those of a part are one range.
    cuts = np.searchsorted(messages["node"], network.starts)
    for part, (low, high) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        if low < high or part == sender:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.slice(low, high - low))
            row = {"part": part, "sender": sender, "payload": sink.getvalue().to_pybytes()}
            yield pa.RecordBatch.from_pylist([row], schema=_MESSAGES)


def _store_state(store: BlockStore, number: int, part: int, state: Arrays, facts: Facts) -> pa.RecordBatch:
    block = pa.table({name: pa.array(values) for name, values in state.items()})
    row = {"part": part, "block": store.put_block(f"state-{number}-{part}", block), "facts": list(facts)}
    return pa.RecordBatch.from_pylist([row], schema=_STATES)


def _read_arrays(store: BlockStore, key: str) -> Arrays:
    block = store.read_block(key)
    return {name: block.column(name).to_numpy() for name in block.column_names}


def _bare_part(network: StoredNetwork, number: int) -> Part:
    """Return a part without its edges, which only senders need."""
    first = network.starts[number]
    return Part(first, network.starts[number + 1] - first, np.zeros(0, np.int64), np.zeros(0, np.int64))
