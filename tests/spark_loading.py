"""Short ways to load on Spark in tests, and to look at what is left behind."""

import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import Record, text_of
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, LoadResult, load
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader

_MADE = re.compile(r'"id":"[0-9A-HJKMNP-TV-Z]{26}",')
SMALL = SparkLoadOptions(split_bytes=1500, max_local_read_bytes=0)
"""Splits of few lines, so that even a small input has several."""
APART = SparkLoadOptions(split_bytes=1500, max_local_keys=0, max_local_reread_bytes=0, max_local_read_bytes=0)
"""As above, and nothing is done on the driver that tasks can do."""


def file_of(place: Path, *records: Record | str, name: str = "in.jsonl") -> Path:
    """A file of graph JSONL."""
    path = place / name
    path.write_bytes(text_of(records))
    return path


def spark_loaded(
    spark: SparkSession,
    graph: og.Graph,
    mode: str,
    data: Path | LoadInput,
    loading: SparkLoadOptions = SMALL,
    **options: Any,
) -> LoadResult:
    """Load a file, or whatever else, on Spark."""
    given = data if isinstance(data, LoadInput) else LoadInput(graph=(GraphSource(data=data),))
    call = LoadCall(input=given, mode=LoadMode(mode), **{"actor": "test", **options})
    return load(graph._session, call, build_reader(spark=spark, loading=loading))


def left_over(graph: og.Graph) -> list[str]:
    """Sidecars, notes and scratch."""
    found, broken = list_sidecars(graph._session.store)
    notes = [info.key for info in graph._session.store.objects.list_under("__recovery")]
    return sorted({*(one.key for one in found), *(one.key for one in broken), *notes})


def reasons(directory: Path) -> list[Mapping[str, Any]]:
    """Why records were kept aside, by file and line."""
    path = directory / "reasons.jsonl"
    told = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sorted(told, key=lambda one: (str(one["file"]), int(one["line"] or 0), str(one["message"])))


def texts(directory: Path) -> list[str]:
    """The records that were kept aside, sorted."""
    path = directory / "rejected.jsonl"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def exported(graph: og.Graph, types: Iterable[str] | None = None) -> list[str]:
    """Every record without an id that was made, sorted."""
    out = io.BytesIO()
    graph.export(out, types=None if types is None else list(types))
    return sorted(_MADE.sub("", line) for line in out.getvalue().decode().splitlines())
