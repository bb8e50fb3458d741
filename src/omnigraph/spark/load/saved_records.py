"""Load rows that tasks have staged before the load began: the driver checks their keys, and publishes them.

It runs in a process that can't start jobs. So it reads the keys of the staged rows itself, in bounded memory. Only if
some rows may be wrong does it read these again, from the chunks that the tasks have stored beside the fragments.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from pyspark.sql import SparkSession

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.task_journal import clear
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.decoding.typed_files import TypedTable
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_engine import LoadRecords, Reader
from omnigraph.ops.load_inputs import InputSource
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.session import Session
from omnigraph.schema.catalog_codec import encode_catalog
from omnigraph.spark.load.input_splits import Split
from omnigraph.spark.load.load_append import SparkRecords
from omnigraph.spark.load.load_input import SparkInput
from omnigraph.spark.load.load_jobs import LoadJobs
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.spark.load.load_task import SplitResult
from omnigraph.spark.load.stored_chunks import StoredChunks
from omnigraph.spark.load.task_phases import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRows:
    """The rows that the tasks of a write have stored and staged, in order: a result for each task."""

    spec: LoadSpec
    results: Sequence[SplitResult]


def build_saved_reader(saved: SavedRows) -> Reader:
    """Return the reader by which `ops.load.load` publishes staged rows; the data of the call are their chunks.

    If the schema has changed since they were staged, it reads the chunks in this process, as any table.
    """

    def read(session: Session, call: LoadCall, head: Head) -> LoadRecords:
        is_usable = (
            call.mode is not LoadMode.MERGE
            and encode_catalog(session.load_catalog(head.snapshot)) == saved.spec.catalog
            and all(head.snapshot.pins[key].path == path for key, (path, _) in saved.spec.pins.items())
        )
        if not is_usable:
            return read_locally(session, call, head)
        limit = sys.maxsize
        # No limit is ever reached, so no job is started.
        jobs = LoadJobs(cast("SparkSession", None), call, (), *[limit] * 6)
        return _SavedRecords(session, _SavedInput(session, call, head, saved), jobs, saved)

    return read


class _SavedInput(SparkInput):
    """The chunks of all tasks as one input, of which each task has a split."""

    def __init__(self, session: Session, call: LoadCall, head: Head, saved: SavedRows) -> None:
        super().__init__(session, call, head)
        self._saved = saved

    def _plan(self, spark: SparkSession | None) -> tuple[list[InputSource], list[Split], list[range]]:
        del spark
        numbers = range(len(self._saved.results))
        splits = [Split(number=number, input=0, start=number, end=number + 1) for number in numbers]
        return [*self.sources], splits, [range(number, number + 1) for number in numbers]

    def _create_spec(self, operation_id: str) -> LoadSpec:
        # Rows are read again with the same ids and hashes.
        return replace(
            super()._create_spec(operation_id), seed=self._saved.spec.seed, first_id=self._saved.spec.first_id
        )


class _SavedRecords(SparkRecords):
    """The records of an append or overwrite whose rows are staged already."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs, saved: SavedRows) -> None:
        super().__init__(session, input_, jobs)
        self._saved = saved

    def read(self) -> None:
        """Take over the files: once the sidecar names them, the notes of their tasks are cleared."""
        super().read()
        source = self._input.sources[0].source
        assert isinstance(source, TypedTable)  # noqa: S101 - as the caller has built it
        assert isinstance(source.data, StoredChunks)  # noqa: S101 - as above
        chunks = [key for keys in source.data.tasks for key in keys]
        files = self._list_staged_files(self._saved.results)
        clear(self._session.store, self._saved.spec.operation_id, keep={*files, *chunks})

    def _stage(self, phase: Phase) -> Sequence[SplitResult]:
        """Return the results of the tasks."""
        del phase
        return self._saved.results
