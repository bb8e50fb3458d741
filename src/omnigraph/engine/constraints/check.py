"""Check the incoming rows of a write against the constraints of the schema.

Each check records what it relied on as requirements. When another writer commits first, the publisher checks these
again, so two concurrent writes can't together break a constraint that neither breaks alone.
"""

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.constraints.candidate_state import CandidateState, CandidateTable
from omnigraph.engine.constraints.edge_constraints import check_cardinality, check_endpoints, require_no_new_edges
from omnigraph.engine.constraints.unique import check_unique
from omnigraph.engine.constraints.values import check_values
from omnigraph.engine.constraints.violations import BYTES_PER_VIOLATION, ConstraintFindings
from omnigraph.schema.catalog import EdgeType


def check_constraints(state: CandidateState) -> tuple[Requirement, ...]:
    """Check all incoming rows, and return the requirements that must still hold when they are published.

    Raises:
        ConstraintError: Incoming rows break constraints, whatever other writers do.
    """
    findings = ConstraintFindings()
    for table in state.touched:
        check_rows(state, table, findings)
        if isinstance(table.type, EdgeType):
            check_endpoints(state, table.type, findings)
        else:
            require_no_new_edges(state, table.type, findings)
    check_counts(state, findings)
    return findings.require()


def check_rows(state: CandidateState, table: CandidateTable, findings: ConstraintFindings) -> None:
    """Check the values and the unique groups of the incoming rows of one table."""
    for rows in table.iter_parts():
        check_values(table.type, rows, findings)
        # An update may break a rule in every one of millions of rows: the violations count against the budget.
        state.check_size(len(findings.violations) * BYTES_PER_VIOLATION, "the list of rows that break rules")
    check_unique(table, findings)


def check_counts(
    state: CandidateState, findings: ConstraintFindings, suspects: Mapping[str, pa.Array] | None = None
) -> None:
    """Check the cardinality of the edge types that the write concerns; `suspects` are further sources by table key."""
    touched = {table.type.name for table in state.touched}
    others = {} if suspects is None else suspects
    # A minimum cardinality also concerns nodes that are new: their edge types are checked even without incoming edges.
    for edge in state.view.catalog.edges.values():
        if edge.name in touched or edge.source in touched or edge.table_key in others:
            check_cardinality(state, edge, findings, others.get(edge.table_key))
