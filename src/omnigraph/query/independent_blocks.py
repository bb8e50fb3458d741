"""Solve blocks that read nothing from outside after the aggregates, in a read without group keys.

Such a block has one value, whatever the rows are, so it groups nothing: `return { count(*) as n, count { … } as all }`
is one row, also if there is no match. That row takes the value of the block in a stage of its own.
"""

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.query.bind_output import BoundOutput
from omnigraph.query.expr import Aggregate, Expr, ValueRef
from omnigraph.query.expr_tree import find_variables, map_children
from omnigraph.query.group_plan import OutputColumn
from omnigraph.query.logical_plan import Pattern, ValueBlock, iter_predicates


def split_aggregates(
    pattern: Pattern, output: BoundOutput, names: Iterator[str]
) -> tuple[tuple[Pattern, BoundOutput], ...]:
    """Return the pattern and output of each stage of a read: one, or two if its one group has values of blocks."""
    grouping = output.grouping
    if grouping is None or grouping.keys:
        return ((pattern, output),)
    results = [*(column.value for column in output.columns), *(key.value for key in output.order), *output.per]
    results += [] if output.having is None else [output.having]
    independent = {b.variable: b for b in pattern.blocks if isinstance(b, ValueBlock) and not b.shared}
    read = {name for expr in results for name in find_variables(expr)}
    used = [block for name, block in independent.items() if name in read]
    if not used:
        return ((pattern, output),)
    variables = {aggregate: next(names) for aggregate in grouping.aggregates}
    matched = {name for expr in (*grouping.aggregates, *iter_predicates(pattern)) for name in find_variables(expr)}
    kept = tuple(block for block in pattern.blocks if block not in used or block.variable in matched)
    columns = tuple(OutputColumn(name=name, value=aggregate) for aggregate, name in variables.items())
    # The one row is neither compared nor ordered.
    empty = replace(output, distinct=False, decided=(), having=None, order=(), ties=(), per=())
    first = replace(empty, columns=columns, limit=None, offset=None)

    def read_aggregates(expr: Expr) -> Expr:
        if not isinstance(expr, Aggregate):
            return map_children(expr, read_aggregates)
        return ValueRef(variable=variables[expr], type=expr.type, nullable=expr.nullable, origin=expr.origin)

    second = replace(
        empty,
        columns=tuple(replace(column, value=read_aggregates(column.value)) for column in output.columns),
        grouping=None,
        having=None if output.having is None else read_aggregates(output.having),
        order=tuple(replace(key, value=read_aggregates(key.value)) for key in output.order),
        per=tuple(map(read_aggregates, output.per)),
    )
    return (replace(pattern, blocks=kept), first), (Pattern(nodes=(), blocks=tuple(used)), second)
