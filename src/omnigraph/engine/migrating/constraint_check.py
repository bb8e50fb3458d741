"""Whether the rows that are there keep the rules of a new schema: those that its plan says must be looked at."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import normalize_zeros
from omnigraph.engine.migrating.type_changes import CatalogChange, TypeChange
from omnigraph.engine.view import View
from omnigraph.engine.writing.relations import format_cardinality
from omnigraph.engine.writing.unique import format_unique_violation, get_row
from omnigraph.engine.writing.value_rules import find_broken_values
from omnigraph.engine.writing.violations import ConstraintFindings
from omnigraph.schema.arrow import ID, SRC, to_arrow_type
from omnigraph.schema.catalog import Cardinality, Catalog, CheckRule, EdgeType, RangeRule
from omnigraph.schema.migration_steps import MigrationPlan, Step, UniqueRule
from omnigraph.storage.columnar_sets import concat_chunks, find_duplicates, find_positions, repeat_scalar

_ROWS_AT_ONCE = 65_536


def check_rows(view: View, new: Catalog, plan: MigrationPlan, change: CatalogChange) -> ConstraintFindings:
    """Everything that the rows of a state would break under the new schema; types are called by their new names."""
    findings = ConstraintFindings()
    lasting = {one.new.name: one for one in change.lasting}
    for step in plan.steps:
        if step.validates:
            _check(view, new, step, lasting, findings)
    return findings


def find_touched_tables(new: Catalog, plan: MigrationPlan, change: CatalogChange) -> set[str]:
    """Return the tables that a change alters or whose rows `check_rows` reads, by their keys before the change."""
    lasting = {one.new.name: one.old.table_key for one in change.lasting}
    touched = {type_.table_key for type_ in change.dropped}
    touched |= {one.old.table_key for one in change.lasting if one.has_column_changes or one.is_renamed}
    for step in plan.steps:
        if step.validates:
            names = [step.type]
            if isinstance(step.rule, Cardinality):
                names.append(new.edges[step.type].source)
            touched |= {lasting[name] for name in names if name in lasting}
    return touched


def _check(view: View, new: Catalog, step: Step, lasting: dict[str, TypeChange], findings: ConstraintFindings) -> None:
    type_ = new.find_type(step.type)
    assert type_ is not None  # noqa: S101 - only what the new schema has can have a new rule
    match step.rule:
        case UniqueRule(columns=columns):
            _check_unique(view, lasting[type_.name], columns, findings)
        case RangeRule() | CheckRule():
            _check_values(view, lasting[type_.name], step.rule, findings)
        case Cardinality():
            assert isinstance(type_, EdgeType)  # noqa: S101 - only edges have one
            _check_cardinality(view, type_, lasting, findings)
        case _:
            msg = f"a step that checks rows has a rule that can't be checked: {step.message}"
            raise ValueError(msg)


def _check_values(view: View, change: TypeChange, rule: RangeRule | CheckRule, findings: ConstraintFindings) -> None:
    """One rule over single values."""
    ruled = replace(
        change.new,
        properties=(change.new.by_name[rule.property],),
        ranges=(rule,) if isinstance(rule, RangeRule) else (),
        checks=(rule,) if isinstance(rule, CheckRule) else (),
    )
    old_name = change.old_names[rule.property]
    for batch in view.get_table(change.old).iter_batches([ID, old_name], batch_rows=_ROWS_AT_ONCE):
        rows = pa.table({ID: batch.column(ID), rule.property: batch.column(old_name)})
        for one in find_broken_values(ruled, rows):
            findings.add(one.rule, change.new.name, rows.column(ID)[one.row].as_py(), one.message)


def _check_unique(view: View, change: TypeChange, columns: tuple[str, ...], findings: ConstraintFindings) -> None:
    rows = normalize_zeros(_read_as_new(view, change, columns))
    for name in columns:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    values = rows.select(list(columns))
    for row, first in zip(*(part.tolist() for part in find_duplicates(values.columns)), strict=True):
        row_id, holder = rows.column(ID)[row].as_py(), rows.column(ID)[first].as_py()
        message = format_unique_violation(change.new, columns, get_row(values, row), holder, row_id)
        findings.add("unique", change.new.name, row_id, message)


def _read_as_new(view: View, change: TypeChange, columns: Sequence[str]) -> pa.Table:
    """Ids and some columns of all rows, as the new schema has them."""
    names = change.old_names
    lasting = [name for name in columns if name in names]
    rows = view.get_table(change.old).scan(list(dict.fromkeys([ID, *(names[name] for name in lasting)])))
    found = {ID: rows.column(ID), **{name: rows.column(names[name]) for name in lasting}}
    for p in change.iter_added():
        if p.name in columns:
            found[p.name] = repeat_scalar(pa.scalar(p.default, to_arrow_type(p.type)), rows.num_rows)
    return pa.table(found)


def _check_cardinality(
    view: View, edge: EdgeType, lasting: dict[str, TypeChange], findings: ConstraintFindings
) -> None:
    """Every node at the source of an edge type has as many edges as it may and must."""
    source = lasting.get(edge.source)
    if source is None:
        return  # new: there is no node that could break it
    limits = edge.cardinality
    nodes = concat_chunks(view.get_table(source.old).scan([ID]).column(ID))
    nodes = nodes.take(pc.sort_indices(nodes))
    counts = np.zeros(len(nodes), np.int64)
    known = lasting.get(edge.name)
    if known is not None:
        sources = view.get_table(known.old).scan([SRC]).column(SRC)
        places = find_positions(sources, nodes)
        counts += np.bincount(places[places >= 0], minlength=len(nodes))
    is_over = counts > limits.high if limits.high is not None else np.zeros(len(counts), np.bool_)
    for at in np.flatnonzero(is_over | (counts < limits.low)).tolist():
        bound = f"max {limits.high}" if is_over[at] else f"min {limits.low}"
        node = nodes[at].as_py()
        findings.add("card", edge.name, node, format_cardinality(edge, node, int(counts[at]), bound))
