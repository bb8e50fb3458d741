"""Executors with another omnigraph: `spark_other_build.py GRAPH DATA OTHER OUT` answers in JSON what each door said.

OTHER is a directory with a copy of the package, which executors import before the one that is installed.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import omnigraph as og
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from omnigraph.spark.maintenance import SparkMaintenanceWorker
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.spark_session import session
from upkeep_calls import EAGER, opened


def run(uri: str, data: str, other: str, out: str) -> dict[str, Any]:
    """Everything that runs tasks, one after the other."""
    spark = session("local[1]", **{"spark.executorEnv.PYTHONPATH": other})
    graph = opened(uri)
    call = LoadCall(input=LoadInput(graph=(GraphSource(data=data),)), mode=LoadMode.APPEND, actor="test")
    how = SparkLoadOptions(max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0, max_local_read_bytes=0)
    hands = SparkMaintenanceWorker(spark, GraphLocation.from_session(graph._session), EAGER, min_rows=0)
    upkeep = OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True))
    rows = spark.createDataFrame([("new", 1)], "name string, age int")
    frame = {"Person": rows}
    source = spark.read.format("omnigraph").options(graph=uri, type="Person")
    sink = rows.write.format("omnigraph").mode("append").options(graph=uri, type="Person")
    doors: dict[str, Callable[[], object]] = {
        "load": lambda: load(graph._session, call, build_reader(spark=spark, loading=how)),
        "load of a frame": lambda: graph.spark.load(nodes=frame, mode="append"),
        "read": lambda: graph.spark.table("Person").collect(),
        "export": lambda: graph.spark.export(out),
        "optimize": lambda: optimize(graph._session, upkeep, hands),
        "source": lambda: source.load().collect(),
        "sink": sink.save,
    }
    return {name: _said(door) for name, door in doors.items()}


def _said(door: Callable[[], object]) -> str:
    try:
        found = door()
    except og.OmnigraphError as error:
        return f"{error.code}: {error}"
    except Exception as error:  # noqa: BLE001 - Spark's own, which has ours in its text
        return str(error)
    errors = [one.error for one in getattr(found, "tables", ()) if one.error is not None]
    return str(errors[0]) if errors else "done"


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))  # noqa: T201 - its answer
