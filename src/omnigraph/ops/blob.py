"""Open one Blob value of one snapshot as a stream."""

from typing import IO

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.storage.blobs import open_blob
from omnigraph.storage.lance_table import ADDRESS


class BlobPropertyMissingError(OmnigraphError):
    """The type has no Blob property of that name; `known` lists those it has."""

    kind = Kind.NOT_FOUND
    code = "blob_property_not_found"
    type: str
    property: str
    known: tuple[str, ...]

    def facts(self) -> dict[str, object]:
        """Return the requested property, and those that exist."""
        return {"type": self.type, "property": self.property, "known": list(self.known)}

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known)
        existing = f"its Blob properties are {known}" if known else "it has none"
        return f"`{self.type}` has no Blob property `{self.property}`; {existing}"


class RowMissingError(OmnigraphError):
    """No node or edge of the type has this id."""

    kind = Kind.NOT_FOUND
    code = "row_not_found"
    type: str
    id: str
    message = "there is no {type} `{id}`"


def read_blob(session: Session, snapshot: Snapshot, type_name: str, row_id: str, name: str) -> IO[bytes] | None:
    """Open the Blob property of one node or edge; return None if it is null.

    The stream reads on demand, and yields the bytes of the snapshot even if others write in the meantime.

    Raises:
        TypeMissingError, BlobPropertyMissingError, RowMissingError: The type, its property or the row does not exist.
    """
    session.allow(Action.READ, snapshot.branch)
    catalog = session.load_catalog(snapshot)
    # An edge type is also found by its name in another case.
    type_ = catalog.find_type(type_name) or catalog.find_edge(type_name)
    if type_ is None:
        raise TypeMissingError(type_name, find_closest(type_name, (*catalog.nodes, *catalog.edges)))
    properties = list_blob_properties(type_)
    if name not in properties:
        raise BlobPropertyMissingError(type_.name, name, tuple(properties))
    table = session.open_tables(snapshot).open_table(type_.table_key)
    # A blob is opened by the physical address of its row, so only the id column is read to find it.
    addresses = table.find_rows(ID, [row_id], [ID], with_address=True).column(ADDRESS).to_pylist()
    if not addresses:
        raise RowMissingError(type_.name, row_id)
    return open_blob(table, name, addresses[0])
