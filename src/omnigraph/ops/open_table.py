"""Open the table of a type at its pinned version, for other tools that read Lance."""

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.errors import Kind, MissingError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_text
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.storage.table_cache import PinnedDataset


class TypeMissingError(MissingError):
    """The schema has no type, or no edge type, of that name; `near` is the name that was likely meant."""

    kind = Kind.NOT_FOUND
    code = "type_not_found"
    name: str
    near: str | None
    wanted: str = "type"

    def __str__(self) -> str:
        way_out = f"; did you mean `{self.near}`?" if self.near else ""
        return f"the graph has no {self.wanted} `{self.name}`{way_out}"


def find_edge_type(catalog: Catalog, name: str) -> EdgeType:
    """Return the edge type of that name, in any case.

    Raises:
        TypeMissingError: There is none.
    """
    edge = catalog.find_edge(name)
    if edge is None:
        raise TypeMissingError(name, find_closest(name, catalog.edges), "edge type")
    return edge


def open_pinned_table(session: Session, snapshot: Snapshot, type_name: str) -> PinnedDataset:
    """Open a separate handle on the version that `snapshot` pins.

    Operations on the handle affect neither the graph nor its other readers.

    Raises:
        TypeMissingError: The snapshot has no such type.
    """
    session.allow(Action.EXPORT, snapshot.branch)
    check_text("type_name", type_name)
    # A table key such as `node:Person` is accepted as well.
    names = {key.partition(":")[2]: key for key in snapshot.pins}
    table_key = names.get(type_name, type_name)
    if table_key not in snapshot.pins:
        raise TypeMissingError(type_name, find_closest(type_name, names))
    pin = snapshot.pin(table_key)
    return session.handles.open_uncached(pin.path, pin.version)
