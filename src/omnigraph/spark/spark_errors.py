"""Define the errors of the Spark pipeline."""

from omnigraph.errors import Kind, OmnigraphError, variant


class SparkInputError(OmnigraphError):
    """The SQL, the function or the rows given to Spark are invalid: change them."""

    kind = Kind.INVALID

    @variant
    def sql(self, reason: str) -> str:
        """Report that a SQL statement is invalid, names what does not exist, or has a result that can't be returned."""
        return reason

    @variant
    def task_failed(self, reason: str) -> str:
        """Report that a task failed in code outside of omnigraph, such as a user-defined function of a DataFrame."""
        return f"a task failed on Spark: {reason}"

    @variant
    def input_changed(self, name: str) -> str:
        """Report that an input gave other rows when it was read again."""
        return (
            f"{name} gave other rows when it was read again; nothing was loaded."
            " Don't change files while they are loaded, and persist or write a DataFrame whose rows are computed again"
            " on each read"
        )


class SparkFailedError(OmnigraphError):
    """Spark failed for a reason of its own; the debug log has its whole message."""

    kind = Kind.UNAVAILABLE
    code = "spark_failed"
    reason: str
    message = "Spark failed: {reason}"

    @variant
    def spark_not_started(self, master: str, reason: str) -> str:
        """Report that Spark does not start, or its master does not answer; `reason` is its last message."""
        return f"can't start Spark on `{master}`: {reason}"

    @variant
    def executor_lost(self, reason: str) -> str:
        """Report that an executor, or its Python process, was lost too often for the job to continue."""
        return f"an executor of Spark was lost: {reason}"

    @variant
    def job_cancelled(self, reason: str) -> str:
        """Report that the job was cancelled in Spark, or its session was stopped."""
        return f"the job was cancelled on Spark: {reason}"


class SparkUsageError(OmnigraphError):
    """Spark can't be used in this way: change the call, or the setup of Spark."""

    kind = Kind.USAGE

    @variant
    def source_option(self, option: str, reason: str) -> str:
        """Report that an option of the data source is missing, unknown or malformed."""
        return f"the option `{option}` of the data source `omnigraph`: {reason}"

    @variant
    def bad_mapping(self, type: str, reason: str) -> str:
        """Report that the mapping from a stream's rows to nodes and edges is invalid; `type` may be empty."""
        return f"the mapping of `{type}`: {reason}" if type else f"the mapping: {reason}"

    @variant
    def view_name(self, first: str, second: str) -> str:
        """Report that the names of two types differ only in case, which SQL ignores."""
        return (
            f"SQL can't distinguish `{first}` from `{second}`; read one of them with `table`, and give it"
            " another name with `createOrReplaceTempView`"
        )

    @variant
    def view_taken(self, name: str) -> str:
        """Report that a temporary view has the name of a type, which Spark Connect can't hide for one statement."""
        return f"a temporary view of this session is named `{name}`, as a type is; drop it, or give it another name"

    @variant
    def stream_elsewhere(self, name: str, master: str) -> str:
        """Report that a stream or a table in memory is to be loaded by Spark on other machines, which can't read it."""
        return (
            f"only this process can read `{name}`, and Spark runs on `{master}`; write it to a file that all"
            " of its machines can read"
        )

    @variant
    def too_many_parts(self, what: str, parts: int, most: int) -> str:
        """Report that an input has more parts than one load can number."""
        return (
            f"{what}: {parts:,} parts are more than the limit of {most:,} for one load;"
            " coalesce a DataFrame, merge small files, or load in several steps"
        )

    @variant
    def other_master(self, asked: str, active: str) -> str:
        """Report that a master is requested, but this process has its only session on another one."""
        return (
            f"a Spark session on `{active}` is active, so none can be started on `{asked}`;"
            " name no master to use the active session, or stop it first"
        )

    @variant
    def old_spark(self, version: str, needed: str) -> str:
        """Report that the active session is of a version of Spark that lacks what this package needs."""
        return (
            f"the active session runs Spark {version}, and omnigraph needs {needed} or newer; stop it, and start one"
            " with the pyspark that omnigraph is installed with"
        )

    @variant
    def connect_unsupported(self, what: str, instead: str) -> str:
        """Report that a session of Spark Connect can't do something; nothing was read or written."""
        return f"{what} can't run through Spark Connect, whose client has no JVM; nothing was done. {instead}"

    @variant
    def no_spark_table(self) -> str:
        """Report that a table of Spark's catalog can't be of this source: Spark passes it no options of the table."""
        return (
            "Spark passes the options of a table to no source in Python; use `CREATE TEMPORARY VIEW name USING"
            " omnigraph OPTIONS (graph '…', type '…')`, which takes `SELECT` and `INSERT INTO`,"
            " or `graph.spark.register(…)`"
        )

    @variant
    def sql_write(self, type: str) -> str:
        """Report that a SQL statement writes to a type, which is only read by SQL."""
        return (
            f"SQL only reads `{type}`; write its rows with `graph.spark.load(…)`, or with"
            ' `df.write.format("omnigraph")`'
        )

    @variant
    def no_checkpoints(self, master: str) -> str:
        """Report that a search over several edges has no directory for its checkpoints."""
        return (
            f"hops over several edges keep checkpoints, and `{master}` has no directory for them; name one that all"
            " executors see with `spark.sparkContext.setCheckpointDir(…)` or the setting spark.checkpoint.dir"
        )

    @variant
    def form_unsupported(self, form: str) -> str:
        """Report that a query has a form that Spark does not run; nothing was read."""
        return f"Spark does not run {form}; nothing was read. Run the query with the engine `memory` or `local`"

    @variant
    def executor_not_ready(self, reason: str) -> str:
        """Report that an executor can't run our tasks: it lacks omnigraph, or has another Python."""
        return f"an executor of Spark can't run this: {reason}"

    @variant
    def executor_differs(self, host: str, what: str, driver: str, executor: str) -> str:
        """Report that an executor has another omnigraph than the driver, or other versions of its libraries."""
        return (
            f"the executor on {host} differs from the driver in {what}: {executor} there, {driver}"
            " here; install the same omnigraph, with the same requirements, everywhere. Nothing was done"
        )
