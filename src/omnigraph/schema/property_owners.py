"""Which declarations are one property: an interface's and those of the node types that implement it."""

from omnigraph.schema.catalog import Catalog, InterfaceType


def find_owner(catalog: Catalog, type_name: str, name: str) -> str | None:
    """Return the type or interface that stands for all that share this property with a type; None if it has none.

    A node type has the properties of its interfaces, so their names belong together; two interfaces do as well where
    one type implements both.
    """
    if not _has(catalog, type_name, name):
        return None
    todo, seen = [type_name], {type_name}
    while todo:
        current = todo.pop()
        for other in _list_related(catalog, current):
            if other not in seen and _has(catalog, other, name):
                seen.add(other)
                todo.append(other)
    return next((interface for interface in catalog.interfaces if interface in seen), type_name)


def _list_related(catalog: Catalog, name: str) -> list[str]:
    node = catalog.nodes.get(name)
    if node is not None:
        return list(node.implements)
    return [other.name for other in catalog.nodes.values() if name in other.implements]


def _has(catalog: Catalog, type_name: str, name: str) -> bool:
    declared = catalog.interfaces.get(type_name) or catalog.find_type(type_name)
    if declared is None:
        return False
    if isinstance(declared, InterfaceType):
        return any(property_.name == name for property_ in declared.properties)
    return declared.find_property(name) is not None
