"""Run several small queries on one state, within one budget: what a view of a graph consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.query_budget import Budget
from omnigraph.lang.cursor import decapitalize_name
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.limits import ResourceLimits, resolve_budget
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.query import QueryCall, query_snapshot, resolve_snapshot
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCall:
    """The state that a call reads, as in a query, and its limits."""

    branch: str = "main"
    snapshot: str | None = None
    at: datetime | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)


class SnapshotReader:
    """Runs queries on one state. The rules about rows of the actor, and the budget, are those of every query."""

    def __init__(self, session: Session, snapshot: Snapshot, budget: Budget) -> None:
        self.snapshot = snapshot
        self.budget = budget
        self.catalog: Catalog = session.load_catalog(snapshot)
        self._session = session

    @classmethod
    def open(cls, session: Session, call: StateCall) -> "SnapshotReader":
        """Resolve the state of a call, after checking that the caller may read it.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
            BadArgumentError: The call names two states.
        """
        budget = resolve_budget(session, call.limits)
        state = QueryCall(source=Source("", ""), branch=call.branch, snapshot=call.snapshot, at=call.at)
        return cls(session, resolve_snapshot(session, state, budget.check, hides_rows=True), budget)

    def read(self, text: str, params: Mapping[str, object]) -> list[Mapping[str, Any]]:
        """Return the rows of a query as objects of JSON values."""
        source = Source(text, "view.gq")
        call = QueryCall(source=source, params=params, branch=self.snapshot.branch)
        return list(query_snapshot(self._session, call, self.snapshot, self.budget).json_rows())

    def get_node_type(self, name: str) -> NodeType:
        """Return the node type of that name.

        Raises:
            TypeMissingError: There is none.
        """
        type_ = self.catalog.nodes.get(name)
        if type_ is None:
            raise TypeMissingError(name, find_closest(name, self.catalog.nodes), "node type")
        return type_

    def read_nodes(self, type_name: str, ids: list[str]) -> list[Mapping[str, Any]]:
        """Return the whole nodes with these ids, by id; those that do not exist, or are hidden, are left out."""
        pattern = f"match {{ $n: {type_name} $n.@id in $ids }}"
        text = f"query nodes($ids: [String]) {{ {pattern} return {{ $n }} order {{ $n.@id }} }}"
        return [row["n"] for row in self.read(text, {"ids": ids})]


def name_clause(edge: EdgeType) -> str:
    """Return the name of an edge type as a clause of a query has it."""
    return decapitalize_name(edge.name)
