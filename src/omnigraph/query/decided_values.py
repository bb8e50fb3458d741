"""Find the values that group keys decide: those of blocks that read nothing else of the rows."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from omnigraph.query.expr import Entity, Expr, Identity, MetaColumn, Prop, ValueRef
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import Pattern, ValueBlock, get_patterns, iter_predicates


def find_decided(
    blocks: Iterable[ValueBlock], keys: Collection[Expr], type_keys: Mapping[str, Collection[str]]
) -> tuple[ValueRef, ...]:
    """Return the values of the blocks that read only `keys`: these are equal in all rows with equal keys.

    `type_keys` are the properties that tell the nodes of a variable apart, its `@key`: if all of them are keys, so is
    the node. Without a key, blocks that read nothing from outside are decided.
    """
    # The properties of a whole node or edge follow from it.
    wholes = {key.variable for key in keys if isinstance(key, Entity)}
    read = {(key.variable, key.name) for key in keys if isinstance(key, Prop)}
    wholes |= {name for name, parts in type_keys.items() if parts and all((name, part) in read for part in parts)}
    ids = {key.variable for key in keys if isinstance(key, Identity) and key.part is MetaColumn.ID}
    decided = []
    for block in blocks:
        shared = {each.variable for each in block.shared}
        ends = {end for end in _iter_hop_ends(block.pattern) if end in shared}
        reads = [part for expr in _list_exprs(block) for part in walk(expr) if _get_variable(part) in shared]
        if ends <= wholes | ids and all(part in keys or _get_variable(part) in wholes for part in reads):
            decided.append(
                ValueRef(variable=block.variable, type=block.type, nullable=block.nullable, origin=block.origin)
            )
    return tuple(decided)


def _list_exprs(block: ValueBlock) -> tuple[Expr, ...]:
    return (*block.exprs, *iter_predicates(block.pattern))


def _get_variable(part: Expr) -> str | None:
    return part.variable if isinstance(part, Prop | Identity | ValueRef | Entity) else None


def _iter_hop_ends(pattern: Pattern) -> Iterator[str]:
    """Yield the ends of all hops of a pattern and of its blocks."""
    for hop in pattern.hops:
        yield from (hop.source, hop.target)
    for block in pattern.blocks:
        for inner in get_patterns(block):
            yield from _iter_hop_ends(inner)
