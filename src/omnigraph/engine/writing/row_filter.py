"""Evaluate the predicate of a statement, text searches included, over committed or pending rows.

Texts are analysed as in a query, so a statement changes the rows that a query finds. No index is used: pending rows
have none, and committed rows are read anyway unless another part of the predicate is pushed into the scan.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.predicate_eval import Column, VariableValue, evaluate_over, find_columns, get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.search.inverted_index import build_index
from omnigraph.engine.search.search_arguments import resolve_edits, resolve_text
from omnigraph.engine.search.text_match import find_rows, parse_text_query
from omnigraph.engine.table_filters import build_table_filter
from omnigraph.query.expr import Compare, Expr, TextMatch, ValueRef
from omnigraph.schema.arrow import ID
from omnigraph.storage.lance_table import LanceTable

# Rows read per batch when a predicate is evaluated over a committed table; each batch is dropped once filtered.
BATCH_ROWS = 65_536


def filter_rows(rows: pa.Table, predicate: Expr, inputs: QueryInputs) -> pa.Table:
    """Return the rows for which the predicate is true; a row where it is null is left out.

    Raises:
        ParameterError: A text search has nothing to search for.
    """
    truths = evaluate_over(predicate, _TableValues(rows, inputs), inputs)
    return rows.filter(truths, null_selection_behavior="drop")


def find_matching_ids(table: LanceTable, predicate: Expr, inputs: QueryInputs) -> pa.Array:
    """Return the ids of the committed rows for which the predicate is true; the table is read batch by batch."""
    columns = list(dict.fromkeys([ID, *find_columns(predicate)]))
    parts = [
        filter_rows(pa.Table.from_batches([batch]), predicate, inputs).column(ID)
        for batch in table.iter_batches(columns, build_table_filter(predicate, inputs), batch_rows=BATCH_ROWS)
    ]
    chunks = [chunk for part in parts for chunk in part.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class _TableValues:
    """The values of a table whose columns are named after properties, as input of a predicate."""

    rows: pa.Table
    inputs: QueryInputs

    @property
    def size(self) -> int:
        return int(self.rows.num_rows)

    def read_column(self, expr: VariableValue) -> Column:
        # A mutation's `where` reads no value variable.
        assert not isinstance(expr, ValueRef)  # noqa: S101
        return self.rows.column(get_column_name(expr))

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - no shortcut: there are only values
        return None

    def match_text(self, expr: TextMatch) -> Column:
        text = resolve_text(self.inputs, expr.query, expr.mode.value)
        language = expr.prop.language
        text_query = parse_text_query(expr.mode, text, resolve_edits(self.inputs, expr), language=language)
        texts = self.rows.column(expr.prop.name).combine_chunks()
        is_match = np.zeros(len(texts), np.bool_)
        is_match[find_rows(build_index(texts, language=language), text_query)] = True
        # A null text is neither a match nor a mismatch: `not search(…)` must not select it.
        return pa.array(is_match, mask=texts.is_null().to_numpy(zero_copy_only=False))
