"""Choose the engine of a load when its caller leaves that open: this process, or Spark. Nothing is started for it.

Both give the same result, so only the cost decides. For the same rows one process needs about a quarter of the work
that Spark needs, and no start. But it keeps ids in memory, and uses one core for most of its work. So Spark pays off
where many cores work on much data, and where ids would not fit.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from omnigraph.config.spark import load_spark_settings
from omnigraph.engine.tables.graph_cache import detect_memory_limit
from omnigraph.errors import OmnigraphError
from omnigraph.ops.load_inputs import LoadInput, count_bytes
from omnigraph.options import Engine, Options
from omnigraph.spark.session.java_runtime import JavaMissingError, detect_java
from omnigraph.spark.session.master import is_own_machine
from omnigraph.telemetry import format_bytes

# With fewer cores, Spark on this machine takes longer than one process, at any size. An estimate from measurements with
# two cores (decision 19): break-even at about four free cores, half the time at eight.
MIN_CORES = 8
# From this size on, the start of Spark pays off, given many cores: also an estimate of decision 19.
MIN_SPARK_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine, never AUTO, and the reason for it; `master` is where Spark runs, if not at its default."""

    engine: Engine
    reason: str
    master: str | None = None

    def __str__(self) -> str:
        where = f" on {self.master}" if self.master is not None and self.engine is Engine.SPARK else ""
        return f"engine {self.engine.value}{where}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The facts about a load that decide its engine.

    `size` is None when part of the input is a stream; `limit` is the value of OMNIGRAPH_SPARK_BYTES.
    """

    engine: Engine = Engine.AUTO
    master: str | None = None
    has_frames: bool = False
    size: int | None = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of this process; `cluster` is the master of a Spark on other machines, if there is one."""

    cores: int
    memory: int
    cluster: str | None = None
    find_missing: Callable[[], str | None] = lambda: None
    """Describes what Spark lacks here, if anything."""


def choose_engine(input_: LoadInput, options: Options, engine: Engine, master: str | None) -> EngineChoice:
    """Choose the engine of a load. Input that does not exist counts as empty: reading it reports the error."""
    has_frames = any(_is_frame(source.data) for source in input_.typed)
    # The size decides only if nothing else does; measuring it lists directories.
    is_size_needed = engine is Engine.AUTO and master is None and not has_frames
    request = LoadRequest(
        engine=engine,
        master=master,
        has_frames=has_frames,
        size=_measure_input(input_, options) if is_size_needed else None,
        limit=options.spark_bytes,
    )
    return choose_by_rules(request, describe_machine(load_spark_settings().master))


def describe_machine(master: str | None) -> Machine:
    """Describe the machine of this process; `master` is the configured Spark master, if any."""
    cluster = None if master is None or is_own_machine(master) else master
    return Machine(cores=os.cpu_count() or 1, memory=detect_memory_limit(), cluster=cluster, find_missing=_find_missing)


def choose_by_rules(request: LoadRequest, machine: Machine) -> EngineChoice:
    """Choose the engine from these facts alone."""
    if request.engine is not Engine.AUTO:
        return EngineChoice(engine=request.engine, reason="as requested", master=request.master)
    if request.has_frames:
        return EngineChoice(engine=Engine.SPARK, reason="a DataFrame is in Spark already", master=request.master)
    if request.master is not None:
        return EngineChoice(engine=Engine.SPARK, reason="a master is named", master=request.master)
    if request.size is None:
        return EngineChoice(engine=Engine.LOCAL, reason="a stream is read once, by one process")
    limit = request.limit if request.limit is not None else compute_min_bytes(machine)
    size = f"{format_bytes(request.size)} of input"
    if request.size < limit:
        return EngineChoice(engine=Engine.LOCAL, reason=f"{size}, less than {format_bytes(limit)}")
    # Last, because it looks for Java.
    missing = machine.find_missing()
    if missing is not None:
        return EngineChoice(engine=Engine.LOCAL, reason=f"{size}, and {missing}")
    return EngineChoice(engine=Engine.SPARK, reason=f"{size}, {format_bytes(limit)} or more")


def compute_min_bytes(machine: Machine) -> int:
    """Return the input size from which a load runs on Spark: the rule that OMNIGRAPH_SPARK_BYTES replaces."""
    has_many_cores = machine.cluster is not None or machine.cores >= MIN_CORES
    # With few cores Spark pays off only where ids may not fit into memory.
    return MIN_SPARK_BYTES if has_many_cores else max(machine.memory, MIN_SPARK_BYTES)


def _measure_input(input_: LoadInput, options: Options) -> int | None:
    try:
        return count_bytes(input_, options.storage)
    except OmnigraphError:
        return 0


def _is_frame(data: object) -> bool:
    """Return whether data is a Spark DataFrame, by its module's name: pyspark may not be installed."""
    return type(data).__module__.startswith("pyspark.sql.")


def _find_missing() -> str | None:
    if find_spec("pyspark") is None:
        return "Spark is not installed (`pip install 'omnigraph[spark]'`)"
    try:
        detect_java()
    except JavaMissingError:
        return "there is no Java for Spark (`pip install 'omnigraph[jvm]'`)"
    return None
