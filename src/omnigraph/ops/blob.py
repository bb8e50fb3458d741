"""Open one Blob value of one snapshot as a stream."""

from typing import IO

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.errors import MissingError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.storage.blobs import open_blob
from omnigraph.storage.lance_table import ADDRESS


def read_blob(session: Session, snapshot: Snapshot, type_name: str, row_id: str, name: str) -> IO[bytes] | None:
    """Open the Blob property of one node or edge; return None if it is null.

    The stream reads on demand, and yields the bytes of the snapshot even if others write in the meantime.

    Raises:
        TypeMissingError, MissingError: The type, its property or the row does not exist.
    """
    session.allow(Action.READ, snapshot.branch, hides_rows=True)
    catalog = session.load_catalog(snapshot)
    # An edge type is also found by its name in another case.
    type_ = catalog.find_type(type_name) or catalog.find_edge(type_name)
    if type_ is None:
        raise TypeMissingError(type_name, find_closest(type_name, (*catalog.nodes, *catalog.edges)))
    properties = list_blob_properties(type_)
    if name not in properties:
        raise MissingError.blob_property_not_found(type_.name, name, tuple(properties))
    table = session.open_tables(snapshot).open_table(type_.table_key)
    # A blob is opened by the physical address of its row, so only the id column is read to find it.
    addresses = table.find_rows(ID, [row_id], [ID], with_address=True).column(ADDRESS).to_pylist()
    if not addresses:
        raise MissingError.row_not_found(type_.name, row_id)
    return open_blob(table, name, addresses[0])
