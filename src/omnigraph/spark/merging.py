"""A merge on Spark: executors read and check the records, and the driver fills, compares and writes them.

A merge looks at the committed row of every record. What changes is mostly small beside what is there, so this is
cheapest where the rows are together: they are handed to the driver, into the same spool that a load in one process
fills, and from there everything is the same.
"""

from omnigraph.commit.publisher import abandon
from omnigraph.ops.load_spooled import SpooledRecords
from omnigraph.ops.session import Session
from omnigraph.spark.load_jobs import LoadJobs
from omnigraph.spark.reading import SparkInput
from omnigraph.spark.task import HandingOver


class SparkMerge(SpooledRecords):
    """The records of a merge, read by Spark."""

    def __init__(self, session: Session, input_: SparkInput, jobs: LoadJobs) -> None:
        super().__init__(input_.call, input_.schema_id, session.blob_sources, input_.inputs)
        self._session, self._input, self._jobs = session, input_, jobs

    @property
    def is_repeatable(self) -> bool:
        """See Records."""
        return self._input.is_repeatable

    def read(self) -> None:
        """See Records."""
        for name in self._input.named:
            self.spool.name(self._input.type(name))
        armed, phases = self._input.begin(keeps_staged=False)
        try:
            with phases.opened() as phase:
                done = self._jobs.work(
                    self._input.spec, phase.number, HandingOver(wanted=None), doing="read", is_first=True
                )
                self.unreadable = self._input.take_over(done, self.rejects)
                self.inputs = self._input.inputs
                for _, fetched in self._input.handed_over(done):
                    self.spool.add(fetched.file, fetched.rows.window)
        finally:
            if armed.lease.is_running:
                abandon(self._session.log, armed, ())  # nothing is staged yet: the writer announces what it writes
        self.spool.seal()

    def close(self) -> None:
        """See Records."""
        self._input.close()
        super().close()
