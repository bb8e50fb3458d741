"""Which engine runs a load when its caller leaves that open: this process, or Spark. Nothing is started to find out.

Both do the same with the same result, so it is a matter of cost only. For the same rows one process needs about a
quarter of the work that Spark needs, and no start. It keeps ids in memory, though, and uses one core for most of its
work. So Spark pays where many cores work on much data, and where ids would not fit.
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

MIN_CORES = 8
"""With fewer, Spark on this machine takes longer than one process, whatever the size."""
MIN_SPARK_BYTES = 2 * 1024**3
"""From so many bytes on Spark's start is made good for, given many cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine, which is not AUTO, and why it was taken; `master` is where Spark runs, if not where it runs anyway."""

    engine: Engine
    reason: str
    master: str | None = None

    def __str__(self) -> str:
        where = f" on {self.master}" if self.master is not None and self.engine is Engine.SPARK else ""
        return f"engine {self.engine.value}{where}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is known of a load. `size` is None when part of its input is a stream; `limit` is the caller's own."""

    engine: Engine = Engine.AUTO
    master: str | None = None
    has_frames: bool = False
    size: int | None = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where this process runs; `cluster` is the master of a Spark elsewhere, if there is one."""

    cores: int
    memory: int
    cluster: str | None = None
    find_missing: Callable[[], str | None] = lambda: None
    """What Spark misses here, if anything."""


def choose_engine(given: LoadInput, options: Options, engine: Engine, master: str | None) -> EngineChoice:
    """The engine of a load. Input that can't be found is left to whoever reads it: it tells what is wrong."""
    has_frames = any(_is_frame(one.data) for one in given.typed)
    asked = LoadRequest(
        engine=engine,
        master=master,
        has_frames=has_frames,
        size=_measure_input(given, options) if engine is Engine.AUTO and master is None and not has_frames else None,
        limit=options.spark_bytes,
    )
    return choose_by_rules(asked, describe_machine(load_spark_settings().master))


def describe_machine(master: str | None) -> Machine:
    """The machine of this process; `master` is where Spark runs, if that is said."""
    cluster = None if master is None or is_own_machine(master) else master
    return Machine(cores=os.cpu_count() or 1, memory=detect_memory_limit(), cluster=cluster, find_missing=_find_missing)


def choose_by_rules(asked: LoadRequest, machine: Machine) -> EngineChoice:
    """The engine by the rules alone."""
    if asked.engine is not Engine.AUTO:
        return EngineChoice(engine=asked.engine, reason="as asked", master=asked.master)
    if asked.has_frames:
        return EngineChoice(engine=Engine.SPARK, reason="a DataFrame is in Spark already", master=asked.master)
    if asked.master is not None:
        return EngineChoice(engine=Engine.SPARK, reason="a master is named", master=asked.master)
    if asked.size is None:
        return EngineChoice(engine=Engine.LOCAL, reason="a stream is read once, by one process")
    limit = asked.limit if asked.limit is not None else compute_min_bytes(machine)
    if asked.size < limit:
        return EngineChoice(
            engine=Engine.LOCAL, reason=f"{format_bytes(asked.size)} of input, less than {format_bytes(limit)}"
        )
    lacks = machine.find_missing()
    told = f"{format_bytes(asked.size)} of input"
    if lacks is not None:
        return EngineChoice(engine=Engine.LOCAL, reason=f"{told}, and {lacks}")
    return EngineChoice(engine=Engine.SPARK, reason=f"{told}, {format_bytes(limit)} or more")


def compute_min_bytes(machine: Machine) -> int:
    """From how many bytes of input on a load is run on Spark: the rule that OMNIGRAPH_SPARK_BYTES replaces."""
    has_many_cores = machine.cluster is not None or machine.cores >= MIN_CORES
    return MIN_SPARK_BYTES if has_many_cores else max(machine.memory, MIN_SPARK_BYTES)


def _measure_input(given: LoadInput, options: Options) -> int | None:
    try:
        return count_bytes(given, options.storage)
    except OmnigraphError:
        return 0


def _is_frame(data: object) -> bool:
    """Whether it is a DataFrame of Spark; told by its name, because Spark may not be there to ask."""
    return type(data).__module__.startswith("pyspark.sql.")


def _find_missing() -> str | None:
    if find_spec("pyspark") is None:
        return "Spark is not installed (`pip install 'omnigraph[spark]'`)"
    try:
        detect_java()
    except JavaMissingError:
        return "there is no Java for Spark (`pip install 'omnigraph[jvm]'`)"
    return None
