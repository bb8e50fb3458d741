"""Split a read that folds all matches into one row: aggregates of different variables are solved one after the other.

`avg($a.x)` and `max($b.y)` of a pattern that connects the two need each variable alone, with the number of its matches,
and never the pairs. Each part is solved by counted subtrees, as a query with its aggregates only is.
"""

from dataclasses import replace

from omnigraph.query.expr import Aggregate
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import Grouping, ReadQuery


def split_aggregates(query: ReadQuery) -> tuple[ReadQuery, ...]:
    """Return reads whose aggregates, each in one of them, are those of the query; none if it can't be split."""
    grouping = query.grouping
    # The rows of an earlier stage are solved once, so a read that starts from them is not run again.
    if grouping is None or grouping.keys or query.source is not None:
        return ()
    reads = {aggregate: frozenset(find_variables(aggregate)) for aggregate in grouping.aggregates}
    # What reads fewer variables comes with what reads more.
    largest = [names for names in dict.fromkeys(reads.values()) if not any(names < others for others in reads.values())]
    if len(largest) < 2:
        return ()
    members: dict[frozenset[str], list[Aggregate]] = {names: [] for names in largest}
    for aggregate, names in reads.items():
        members[next(others for others in largest if names <= others)].append(aggregate)
    return tuple(_select_aggregates(query, tuple(aggregates)) for aggregates in members.values())


def _select_aggregates(query: ReadQuery, aggregates: tuple[Aggregate, ...]) -> ReadQuery:
    output = tuple(
        replace(query.output[0], name=f"c{number}", value=aggregate) for number, aggregate in enumerate(aggregates)
    )
    return replace(
        query,
        output=output,
        grouping=Grouping(keys=(), aggregates=aggregates),
        having=None,
        order=(),
        ties=(),
        limit=None,
        offset=None,
    )
