"""Open the tables of a snapshot as an actor sees them: without the rows that the rules of a policy hide.

An edge is seen if its own rules let it be seen and both of its ends are. A type that lacks a property that its rules
read is hidden as a whole: after a rename, nothing must come into sight.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.row_security.evaluate_rules import Mask, RowValues, find_seen_rows
from omnigraph.engine.row_security.masked_table import MaskedTable, RowMask, build_row_mask
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.view import View
from omnigraph.row_rules import RowRules, TypeRules
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.lance_table import LanceTable


class MaskedTables(SnapshotTables):
    """The tables of a snapshot without the rows that any of several rules hides."""

    def __init__(
        self, whole: SnapshotTables, catalog: Catalog, rules: Sequence[RowRules], cache: GraphCache, budget: Budget
    ) -> None:
        # Shares what opens tables: handles, snapshot and watch.
        vars(self).update(vars(whole))
        self.realm = build_realm(rules)
        self._whole = whole
        # What masks are read from: they are cached for other operations, so without the watch of this one.
        self._view = View(catalog, whole.without_watch())
        self._rules = tuple(rules)
        self._cache = cache
        self._budget = budget
        self._masks: dict[str, RowMask | None] = {}

    @cached_property
    def _types(self) -> dict[str, AnyType]:
        return {type_.table_key: type_ for type_ in self._view.catalog.types}

    def open_table(self, table_key: str) -> LanceTable:
        """Open a table at its pinned version, without hidden rows."""
        table = self._whole.open_table(table_key)
        mask = self.get_mask(self._types[table_key])
        return table if mask is None else MaskedTable(table, mask)

    def get_mask(self, type_: AnyType) -> RowMask | None:
        """Return the hidden rows of a type; None if there are none."""
        key = type_.table_key
        if key not in self._masks:
            self._masks[key] = self._load_mask(type_)
        return self._masks[key]

    def list_type_rules(self, type_: AnyType) -> list[TypeRules]:
        """Return the rules for rows of one type, all of which must let a row be seen."""
        return [rules.get_type_rules(type_.name) for rules in self._rules]

    def _load_mask(self, type_: AnyType) -> RowMask | None:
        rows = self._cache.get_reader(self._view, type_)
        own = self.list_type_rules(type_)
        ends = self._list_end_masks(type_)
        if all(rules.is_everything_seen for rules in own) and not any(mask is not None for _, mask in ends):
            return None
        # Property names are those of the schema of this state; the same files may have others in another.
        schema = self._view.snapshot.manifest.schema.id
        ends_key = tuple((node.table_key, None if mask is None else mask.digest) for node, mask in ends)
        states = [self._cache.get_reader(self._view, node).columns.state for node, _ in ends]
        key = ("hidden rows", self.realm, type_.table_key, schema, ends_key, rows.columns.state, *states)
        found = self._cache.get_or_build(
            key, lambda: (self._build_mask(type_),), lambda masks: 64 if masks[0] is None else masks[0].nbytes
        )
        return found[0]

    def _list_end_masks(self, type_: AnyType) -> list[tuple[AnyType, RowMask | None]]:
        if not isinstance(type_, EdgeType):
            return []
        nodes = self._view.catalog.nodes
        return [(node, self.get_mask(node)) for node in (nodes[type_.source], nodes[type_.target])]

    def _build_mask(self, type_: AnyType) -> RowMask | None:
        rows = self._cache.get_reader(self._view, type_)
        budget = self._budget
        values = RowValues(type_, rows.size, lambda name: rows.load_column(name, budget), budget.check)
        seen = find_seen_rows(self.list_type_rules(type_), values)
        if isinstance(type_, EdgeType):
            seen &= self._find_edges_with_seen_ends(type_, seen)
        live = rows.columns.live_rows.get_mask()
        return build_row_mask(rows.table.list_fragments(), ~seen if live is None else live & ~seen)

    def _find_edges_with_seen_ends(self, edge: EdgeType, seen: Mask) -> Mask:
        """Return by position which edges have both ends seen."""
        ends = self._list_end_masks(edge)
        if not seen.any() or all(mask is None for _, mask in ends):
            return seen
        topology = self._cache.get_topology(self._view, edge, self._budget)
        result = seen.copy()
        for (node, mask), positions in zip(ends, (topology.source, topology.target), strict=True):
            if mask is not None:
                is_seen = self._find_seen_positions(node, mask)
                # Deleted edges have no ends, and are not asked for.
                result &= np.where(positions >= 0, is_seen[positions], False)
        return result

    def _find_seen_positions(self, node: AnyType, mask: RowMask) -> Mask:
        layout = self._cache.get_reader(self._view, node).columns.layout
        seen = np.ones(layout.size, np.bool_)
        for fragment, start in zip(layout.fragments, layout.starts.tolist(), strict=False):
            hidden = mask.hidden.get(fragment.number)
            if hidden is not None:
                seen[start + hidden] = False
        return seen


def build_realm(rules: Sequence[RowRules]) -> str:
    """Return what identifies rules in keys of caches."""
    return " ".join(sorted({rule.key for rule in rules}))


def find_seen_row(
    tables: SnapshotTables, catalog: Catalog, rules: Sequence[RowRules], type_: AnyType, row_id: str
) -> pa.Table | None:
    """Return the row with this id and its address, if it exists and is seen, without reading others of its table."""
    table = tables.open_table(type_.table_key)
    rows = table.find_rows(ID, [row_id], table.schema.names, with_address=True)
    if not rows.num_rows:
        return None
    own = [each.get_type_rules(type_.name) for each in rules]
    values = RowValues(type_, rows.num_rows, lambda name: concat_chunks(rows.column(name)))
    if not find_seen_rows(own, values).all():
        return None
    if isinstance(type_, EdgeType):
        for column, node in ((SRC, type_.source), (DST, type_.target)):
            end = rows.column(column)[0].as_py()
            if find_seen_row(tables, catalog, rules, catalog.nodes[node], end) is None:
                return None
    return rows
