"""Everything that a load must keep between its rows and the committed ones, in the order in which it matters."""

from omnigraph.commit.requirements import Requirement, TableUnchanged
from omnigraph.engine.bulk.cardinality import check_cardinality
from omnigraph.engine.bulk.endpoints import check_dangling, check_endpoints
from omnigraph.engine.bulk.id_checks import check_ids, require_ids
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.outdated import find_stale_embeddings
from omnigraph.engine.bulk.unique import check_unique


def check_batch(batch: LoadBatch, inputs: InputNames) -> None:
    """Refuse every record that can't be taken, and say what the others rely on.

    A record that is refused counts for nothing: an edge to a node that is out is out too, and a value that it would
    have freed is still held. So the checks are made again until they refuse nothing more.
    """
    everything = [*batch.list_node_batches(), *batch.list_edge_batches()]
    for rows in everything:
        check_ids(batch, rows, inputs)
        if batch.mode is LoadMode.MERGE:
            for refusal in find_stale_embeddings(rows):
                batch.refuse(rows, refusal)
    while True:
        out = batch.excluded_rows
        batch.rejections.global_problems.clear()
        relied_on: list[Requirement] = []
        for rows in everything:
            relied_on += check_unique(batch, rows)
        for rows in batch.list_edge_batches():
            relied_on += check_endpoints(batch, rows)
        for edge in batch.list_edge_types():
            relied_on += check_cardinality(batch, edge)
        if batch.mode is LoadMode.OVERWRITE:
            for rows in batch.list_node_batches():
                relied_on += check_dangling(batch, rows) if rows.replaces_all else []
        if batch.excluded_rows == out:
            break
    batch.requirements += relied_on
    for rows in everything:
        require_ids(batch, rows)
        if rows.replaces_all:
            batch.requirements.append(TableUnchanged(table_key=rows.type.table_key))
