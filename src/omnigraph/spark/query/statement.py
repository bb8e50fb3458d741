"""What a query needs of a Spark session: views of scans, of parts of the statement and of tables, in their order.

A part that SQL has in one statement only with others around it (the rows of a stage, the elements of lists, the values
of a block) is a view of its own: Spark puts it into the statement that reads it, so nothing is computed for it alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.print_sql import print_query
from omnigraph.engine.relational.tree import ComputedRows, Reach, Relation
from omnigraph.spark.query.aggregates import AggregatePrinter
from omnigraph.spark.query.dialect import SparkDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """A view that is a query."""

    view: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """A search over several edges, as statements for its input, which runs before what follows is analysed."""

    view: str
    reach: Reach
    sources: str
    edges: str
    through: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedView:
    """Rows that our own engine computes on the driver when the query runs, and passes to Spark."""

    view: str
    build: Callable[[], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedView:
    """The scores that our own engine gives to ids, which Spark finds first."""

    view: str
    ids: str
    """A query with one column of ids."""
    build: Callable[[pa.Array], pa.Table]


View: TypeAlias = TextView | SearchView | ShippedView | RankedView


@dataclass(slots=True)
class StatementBuilder:
    """Print relations, and collect the views that their statements read."""

    dialect: SparkDialect
    views: list[View] = field(default_factory=list)
    _searched: dict[int, Relation] = field(default_factory=dict)

    @property
    def inputs(self) -> QueryInputs:
        """The parameters of the query."""
        return self.dialect.inputs

    @property
    def aggregates(self) -> AggregatePrinter:
        """Prints aggregates, and has the functions that they need."""
        return self.dialect.aggregates

    def print_relation(self, relation: Relation) -> str:
        """Return a query for the rows of a relation; its searches over several edges become views.

        Raises:
            UnsupportedForm: A part of it has no exact counterpart.
        """
        return print_query(self._replace_searches(relation), self.dialect)

    def add_text(self, text: str, names: tuple[str, ...]) -> ComputedRows:
        """Add a view that is a query with these columns."""
        rows = self._name_rows("part", names)
        self.views.append(TextView(view=self.dialect.print_computed(rows), text=text))
        return rows

    def add_shipped(self, build: Callable[[], pa.Table], names: tuple[str, ...]) -> ComputedRows:
        """Add a view of rows that are computed on the driver when the query runs."""
        rows = self._name_rows("shipped", names)
        self.views.append(ShippedView(view=self.dialect.print_computed(rows), build=build))
        return rows

    def add_ranked(self, ids: str, build: Callable[[pa.Array], pa.Table], names: tuple[str, ...]) -> ComputedRows:
        """Add a view of the scores of the ids that a query finds."""
        rows = self._name_rows("ranked", names)
        self.views.append(RankedView(view=self.dialect.print_computed(rows), ids=ids, build=build))
        return rows

    def _name_rows(self, kind: str, names: tuple[str, ...]) -> ComputedRows:
        return ComputedRows(label=f"{kind}_{len(self.views)}", names=names)

    def _replace_searches(self, relation: Relation) -> Relation:
        """Return a relation in which each search over several edges is a view, and add the searches in order."""
        if id(relation) in self._searched:
            return self._searched[id(relation)]
        changed: dict[str, Any] = {}
        for each in fields(relation):
            value = getattr(relation, each.name)
            if isinstance(value, Relation):
                changed[each.name] = self._replace_searches(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Relation):
                changed[each.name] = tuple(self._replace_searches(part) for part in value)
        # One that two others read stays one object, so that it is computed once.
        result = replace(relation, **changed) if changed else relation
        if isinstance(result, Reach):
            result = self._add_search(result)
        self._searched[id(relation)] = result
        # Kept, so that no other relation gets its id.
        self._searched[id(result)] = result
        self._kept.append(relation)
        return result

    def _add_search(self, reach: Reach) -> ComputedRows:
        through = None if reach.through is None else print_query(reach.through, self.dialect)
        sources, edges = (print_query(part, self.dialect) for part in (reach.sources, reach.edges))
        rows = self._name_rows("reach", reach.names)
        view = self.dialect.print_computed(rows)
        self.views.append(SearchView(view=view, reach=reach, sources=sources, edges=edges, through=through))
        return rows

    _kept: list[Relation] = field(default_factory=list)
