"""The parts of a vector search that exact and approximate ranking share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.schema.catalog import Metric


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """A search for the vectors of one column that are nearest to a query."""

    context: ExecutionContext
    rows: TableReader
    column: str
    query: NDArray[np.float64]
    metric: Metric
