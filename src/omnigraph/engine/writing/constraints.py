"""The schema as law: everything that is pending, checked against everything that will be there.

Each check returns what it relied on as requirements, which the publisher checks again when somebody else was faster:
so two writers can't together break what neither breaks alone.
"""

from omnigraph.commit.requirements import Requirement
from omnigraph.engine.writing.relations import check_cardinality, check_endpoints, require_no_new_edges
from omnigraph.engine.writing.unique import check_unique
from omnigraph.engine.writing.value_rules import check_values
from omnigraph.engine.writing.violations import BYTES_PER_VIOLATION, ConstraintFindings
from omnigraph.engine.writing.write_buffer import WriteBuffer
from omnigraph.schema.catalog import EdgeType


def check_constraints(pending: WriteBuffer) -> tuple[Requirement, ...]:
    """What must stay so for the pending rows to be right.

    Raises:
        ConstraintError: They are not, whatever anybody else does.
    """
    findings = ConstraintFindings()
    for table in pending.touched:
        for rows in table.iter_parts():
            check_values(table.type, rows, findings)
            pending.check_size(len(findings.violations) * BYTES_PER_VIOLATION, "the list of rows that break rules")
        check_unique(table, findings)
        findings.requirements += table.omitted.build_read_set()
        if isinstance(table.type, EdgeType):
            check_endpoints(pending, table.type, findings)
        else:
            require_no_new_edges(pending, table.type, findings)
    touched = {table.type.name for table in pending.touched}
    for edge in pending.view.catalog.edges.values():
        if edge.name in touched or edge.source in touched:
            check_cardinality(pending, edge, findings)
    return findings.require()
