"""`omnigraph algorithm`: run a graph algorithm."""

from datetime import datetime

import click

from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    refuse,
    refuse_two_states,
    snapshot_option,
)
from omnigraph.cli.result_formats import resolve_format, result_options, write_result


@click.command("algorithm")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--edge", "edges", multiple=True, required=True, metavar="TYPE", help="An edge type; may be repeated.")
@click.option("--param", "pairs", multiple=True, metavar="NAME=VALUE", help="A parameter, such as weight=cost.")
@click.option("--into", metavar="TYPE.PROPERTY", help="Write the value of each node to this property, in one commit.")
@branch_option
@snapshot_option
@at_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@limit_options
@result_options
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    name: str,
    uri: str | None,
    store: str | None,
    edges: tuple[str, ...],
    pairs: tuple[str, ...],
    into: str | None,
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    actor: str,
    message: str | None,
    seconds: float | None,
    memory_bytes: int | None,
    format_: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Run a graph algorithm on the edges of a graph.

    NAME and its parameters are: pagerank (damping, tolerance, max_rounds, weight), betweenness (samples, seed,
    direction, weight, normalized), core_numbers, triangle_count, node_similarity (top, direction, weight),
    connected_components, strongly_connected_components, topological_order, label_propagation (max_rounds, weight),
    leiden (resolution, seed, max_rounds, weight), shortest_paths (start, direction, weight).

    A row has the id of a node and its value. If edges lead between nodes of several types, the column `type` tells
    them apart, and a node that is a value or `start` is written as TYPE/ID. The formats are those of `omnigraph query`.

    With --into, the values are also written to a property, in one commit. Nodes that already have their value are not
    changed.
    """
    refuse_two_states(commit_id, at)
    output_format = resolve_format(format_, output, as_json=as_json)
    parameters: dict[str, object] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not (key and sign) or key in parameters:
            refuse(f"--param takes NAME=VALUE, each name once, not `{pair}`")
        parameters[key] = value
    graph = open_selected_graph(uri, store, read_only=into is None)
    result = graph.algorithms.run(
        name,
        edges,
        parameters,
        into=into,
        branch=branch,
        snapshot=commit_id,
        at=at,
        actor=actor,
        message=message,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    write_result(result, output_format, output, as_json=as_json)
    return 0
