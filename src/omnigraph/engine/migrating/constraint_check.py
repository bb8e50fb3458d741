"""Check stored rows against the constraints of a new schema, for the steps of the plan that require it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import select_complete
from omnigraph.engine.constraints.edge_constraints import EdgeCounts, add_count_violations, count_per_source
from omnigraph.engine.constraints.unique import add_unique_violations, find_row_clashes
from omnigraph.engine.constraints.values import find_broken_values
from omnigraph.engine.constraints.violations import ConstraintFindings
from omnigraph.engine.migrating.type_changes import CatalogChange, TypeChange
from omnigraph.engine.view import View
from omnigraph.schema.arrow import ID, SRC, to_arrow_type
from omnigraph.schema.catalog import Cardinality, Catalog, CheckRule, EdgeType, RangeRule
from omnigraph.schema.migration_steps import MigrationPlan, Step, UniqueRule
from omnigraph.storage.columnar_sets import concat_chunks, repeat_scalar

_BATCH_ROWS = 65_536


def check_rows(view: View, new: Catalog, plan: MigrationPlan, change: CatalogChange) -> ConstraintFindings:
    """Return every violation of the new schema by the rows of a state; types have their new names."""
    findings = ConstraintFindings()
    lasting = {type_change.new.name: type_change for type_change in change.lasting}
    for step in plan.steps:
        if step.validates:
            _check(view, new, step, lasting, findings)
    return findings


def find_touched_tables(new: Catalog, plan: MigrationPlan, change: CatalogChange) -> set[str]:
    """Return the tables that a change alters or whose rows `check_rows` reads, by their keys before the change."""
    lasting = {type_change.new.name: type_change.old.table_key for type_change in change.lasting}
    touched = {type_.table_key for type_ in change.dropped}
    touched |= {
        type_change.old.table_key
        for type_change in change.lasting
        if type_change.has_column_changes or type_change.is_renamed
    }
    for step in plan.steps:
        if step.validates:
            names = [step.type]
            # A cardinality is counted per source node, so the nodes are read as well.
            if isinstance(step.rule, Cardinality):
                names.append(new.edges[step.type].source)
            touched |= {lasting[name] for name in names if name in lasting}
    return touched


def _check(view: View, new: Catalog, step: Step, lasting: dict[str, TypeChange], findings: ConstraintFindings) -> None:
    type_ = new.find_type(step.type)
    assert type_ is not None  # noqa: S101 - only a type of the new schema can have a new rule
    match step.rule:
        case UniqueRule(columns=columns):
            _check_unique(view, lasting[type_.name], columns, findings)
        case RangeRule() | CheckRule():
            _check_values(view, lasting[type_.name], step.rule, findings)
        case Cardinality():
            assert isinstance(type_, EdgeType)  # noqa: S101 - only edge types have a cardinality
            _check_cardinality(view, type_, lasting, findings)
        case _:
            msg = f"a step that checks rows has a rule that can't be checked: {step.message}"
            raise ValueError(msg)


def _check_values(view: View, change: TypeChange, rule: RangeRule | CheckRule, findings: ConstraintFindings) -> None:
    """Check one rule on single values, batch by batch."""
    # A type with this rule alone, so that only its violations are reported.
    ruled = replace(
        change.new,
        properties=(change.new.by_name[rule.property],),
        ranges=(rule,) if isinstance(rule, RangeRule) else (),
        checks=(rule,) if isinstance(rule, CheckRule) else (),
    )
    old_name = change.old_names[rule.property]
    for batch in view.get_table(change.old).iter_batches([ID, old_name], batch_rows=_BATCH_ROWS):
        rows = pa.table({ID: batch.column(ID), rule.property: batch.column(old_name)})
        for broken in find_broken_values(ruled, rows):
            findings.add(broken.rule, change.new.name, rows.column(ID)[broken.row].as_py(), broken.message)


def _check_unique(view: View, change: TypeChange, columns: tuple[str, ...], findings: ConstraintFindings) -> None:
    rows = select_complete(_read_as_new(view, change, columns), columns)
    add_unique_violations(find_row_clashes(change.new, columns, rows), findings)


def _read_as_new(view: View, change: TypeChange, columns: Sequence[str]) -> pa.Table:
    """Return the ids and some columns of all rows, with the names and defaults of the new schema."""
    old_names = change.old_names
    lasting = [name for name in columns if name in old_names]
    rows = view.get_table(change.old).scan(list(dict.fromkeys([ID, *(old_names[name] for name in lasting)])))
    arrays = {ID: rows.column(ID)}
    arrays.update((name, rows.column(old_names[name])) for name in lasting)
    # An added column does not exist yet: every row will get its default.
    for p in change.iter_added():
        if p.name in columns:
            arrays[p.name] = repeat_scalar(pa.scalar(p.default, to_arrow_type(p.type)), rows.num_rows)
    return pa.table(arrays)


def _check_cardinality(
    view: View, edge: EdgeType, lasting: dict[str, TypeChange], findings: ConstraintFindings
) -> None:
    """Check that every source node of an edge type has a permitted number of edges."""
    source = lasting.get(edge.source)
    if source is None:
        return  # a new node type has no nodes yet
    nodes = concat_chunks(view.get_table(source.old).scan([ID]).column(ID))
    nodes = nodes.take(pc.sort_indices(nodes))
    counts = np.zeros(len(nodes), np.int64)
    edge_change = lasting.get(edge.name)
    # A new edge type has no edges yet, but may have a minimum that all nodes violate.
    if edge_change is not None:
        counts = count_per_source(view.get_table(edge_change.old).scan([SRC]).column(SRC), nodes)
    add_count_violations(EdgeCounts(edge=edge, sources=nodes, stored=counts, added=np.zeros_like(counts)), findings)
