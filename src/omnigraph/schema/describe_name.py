"""Describe a type or property of a schema as its declaration, with the text that is written about it."""

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_printer import format_property_declaration, print_declaration


def describe_type(catalog: Catalog, name: str) -> tuple[str, str | None] | None:
    """Return the declaration of a type and its description; None for an unknown one."""
    declared = catalog.interfaces.get(name) or catalog.find_type(name)
    if declared is None:
        return None
    return print_declaration(declared), getattr(declared, "description", None)


def describe_property(catalog: Catalog, owner: str, name: str) -> tuple[str, str | None] | None:
    """Return the declaration of a property and its description; None for an unknown one."""
    interface = catalog.interfaces.get(owner)
    declared = catalog.find_type(owner)
    if interface is not None:
        declared = next((node for node in catalog.nodes.values() if owner in node.implements), None)
    property_ = None if declared is None else declared.find_property(name)
    if declared is None or property_ is None:
        return None
    return f"{owner}.{format_property_declaration(declared, property_)}", property_.description
