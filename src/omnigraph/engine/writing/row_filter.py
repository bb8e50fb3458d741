"""Which rows of a table a statement chooses: every predicate, text searches too, over rows that are there or pending.

A text is looked at as a query looks at it, so what `search` finds there is what it changes here. No index is asked:
what is pending has none, and what is committed is read anyway unless another part of the predicate can be pushed.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import Column, QueryInputs, RowValue, evaluate_over, find_columns, get_column_name
from omnigraph.engine.search.inverted_index import build_index
from omnigraph.engine.search.search_arguments import resolve_edits, resolve_text
from omnigraph.engine.search.text_match import find_rows, parse_text_query
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.query.expr import Compare, Expr, TextMatch
from omnigraph.schema.arrow import ID
from omnigraph.storage.lance_table import LanceTable

BATCH_ROWS = 65_536


def filter_rows(rows: pa.Table, predicate: Expr, inputs: QueryInputs) -> pa.Table:
    """The rows for which the predicate is true; where it is unknown, a row does not count.

    Raises:
        ParameterError: A text search is given nothing to look for.
    """
    truths = evaluate_over(predicate, _TableValues(rows, inputs), inputs)
    return rows.filter(truths, null_selection_behavior="drop")


def find_matching_ids(table: LanceTable, predicate: Expr, inputs: QueryInputs) -> pa.Array:
    """The ids of the committed rows for which the predicate is true; some rows are held at a time."""
    columns = list(dict.fromkeys([ID, *find_columns(predicate)]))
    parts = [
        filter_rows(pa.Table.from_batches([batch]), predicate, inputs).column(ID)
        for batch in table.iter_batches(columns, build_table_filter(predicate, inputs), batch_rows=BATCH_ROWS)
    ]
    chunks = [chunk for part in parts for chunk in part.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class _TableValues:
    """The rows at hand, whose columns have the names of properties."""

    rows: pa.Table
    inputs: QueryInputs

    @property
    def size(self) -> int:
        return int(self.rows.num_rows)

    def read_column(self, expr: RowValue) -> Column:
        return self.rows.column(get_column_name(expr))

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        looked_for = parse_text_query(
            expr.mode, resolve_text(self.inputs, expr.query, expr.mode.value), resolve_edits(self.inputs, expr)
        )
        texts = self.rows.column(expr.prop.name).combine_chunks()
        found = np.zeros(len(texts), np.bool_)
        found[find_rows(build_index(texts), looked_for)] = True
        return pa.array(found, mask=texts.is_null().to_numpy(zero_copy_only=False))
