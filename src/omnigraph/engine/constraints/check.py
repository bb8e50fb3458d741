"""Check the pending rows of a write against the constraints of the schema.

Each check records what it relied on as requirements. When another writer commits first, the publisher checks these
again, so two concurrent writes can't together break a constraint that neither breaks alone.
"""

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.constraints.candidate_state import CandidateState
from omnigraph.engine.constraints.edge_constraints import check_cardinality, check_endpoints, require_no_new_edges
from omnigraph.engine.constraints.unique import check_unique
from omnigraph.engine.constraints.values import check_values
from omnigraph.engine.constraints.violations import BYTES_PER_VIOLATION, ConstraintFindings
from omnigraph.schema.catalog import EdgeType


def check_constraints(pending: CandidateState) -> tuple[Requirement, ...]:
    """Check all pending rows, and return the requirements that must still hold when they are published.

    Raises:
        ConstraintError: Pending rows break constraints, whatever other writers do.
    """
    findings = ConstraintFindings()
    for table in pending.touched:
        for rows in table.iter_parts():
            check_values(table.type, rows, findings)
            # An update may break a rule in every one of millions of rows: the violations count against the budget.
            pending.check_size(len(findings.violations) * BYTES_PER_VIOLATION, "the list of rows that break rules")
        check_unique(table, findings)
        findings.requirements += table.omitted.build_read_set()
        if isinstance(table.type, EdgeType):
            check_endpoints(pending, table.type, findings)
        else:
            require_no_new_edges(pending, table.type, findings)
    touched = {table.type.name for table in pending.touched}
    # A minimum cardinality also concerns nodes that are new: their edge types are checked even without pending edges.
    for edge in pending.view.catalog.edges.values():
        if edge.name in touched or edge.source in touched:
            check_cardinality(pending, edge, findings)
    return findings.require()
