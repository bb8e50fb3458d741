"""One Blob value of one snapshot, as a stream."""

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
    """The type has no Blob property of that name; `known` are those it has."""

    kind = Kind.NOT_FOUND
    code = "blob_property_not_found"

    def __init__(self, type: str, property: str, known: tuple[str, ...]) -> None:
        super().__init__(type, property, known)
        self.type, self.property, self.known = type, property, known

    def facts(self) -> dict[str, object]:
        """What was asked for, and what there is."""
        return {"type": self.type, "property": self.property, "known": list(self.known)}

    def __str__(self) -> str:
        known = ", ".join(f"`{name}`" for name in self.known)
        there = f"its Blob properties are {known}" if known else "it has none"
        return f"`{self.type}` has no Blob property `{self.property}`; {there}"


class RowMissingError(OmnigraphError):
    """No node or edge of the type has that id."""

    kind = Kind.NOT_FOUND
    code = "row_not_found"

    def __init__(self, type: str, id: str) -> None:
        super().__init__(type, id)
        self.type, self.id = type, id

    def __str__(self) -> str:
        return f"there is no {self.type} `{self.id}`"


def read_blob(session: Session, snapshot: Snapshot, type_name: str, row_id: str, name: str) -> IO[bytes] | None:
    """The bytes of a Blob property of one node or edge; None where it is null.

    The stream reads as it is asked, and shows the same bytes whatever is written meanwhile.
    """
    session.allow(Action.READ, snapshot.branch)
    catalog = session.load_catalog(snapshot)
    type_ = catalog.find_type(type_name) or catalog.find_edge(type_name)
    if type_ is None:
        raise TypeMissingError(type_name, find_closest(type_name, (*catalog.nodes, *catalog.edges)))
    known = list_blob_properties(type_)
    if name not in known:
        raise BlobPropertyMissingError(type_.name, name, tuple(known))
    table = session.open_tables(snapshot).open_table(type_.table_key)
    found = table.find_rows(ID, [row_id], [ID], with_address=True).column(ADDRESS).to_pylist()
    if not found:
        raise RowMissingError(type_.name, row_id)
    return open_blob(table, name, found[0])
