"""Lint a valid schema: warnings L101 to L105."""

from collections.abc import Collection, Iterator

from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.lexer import RESERVED_WORDS
from omnigraph.lang.literals import Name
from omnigraph.lang.schema_ast import (
    Declaration,
    EdgeDecl,
    IndexDecl,
    InterfaceDecl,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
)
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.annotations import KNOWN_ANNOTATIONS
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import Scalar


def lint_schema(tree: SchemaFile, catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return the warnings about a schema, given its syntax tree and its catalog, in source order."""
    warnings: list[Diagnostic] = []
    implemented = {name for node in catalog.nodes.values() for name in node.implements}
    for declaration in tree.declarations:
        if isinstance(declaration, InterfaceDecl):
            warnings.extend(_find_unimplemented(declaration, implemented))
        else:
            warnings.extend(_find_repeated_indexes(declaration, catalog))
        warnings.extend(_find_reserved_words(declaration))
    warnings.extend(find_misspelt_annotations(tree))
    warnings.extend(_find_unindexed_vectors(tree, catalog))
    return sort_diagnostics(warnings)


def find_misspelt_annotations(tree: SchemaFile) -> Iterator[Diagnostic]:
    """Yield a warning for each unknown annotation whose name is close to a known one."""
    for declaration in tree.declarations:
        annotations = [] if isinstance(declaration, InterfaceDecl) else list(declaration.annotations)
        for decl in _iter_properties(declaration):
            annotations.extend(decl.annotations)
        for annotation in annotations:
            name = annotation.name.text
            near = None if name in KNOWN_ANNOTATIONS else find_closest(name, KNOWN_ANNOTATIONS)
            if near is not None:
                message = f"`@{name}` is not a known annotation: it is kept, but has no effect"
                yield Diagnostic("L105", annotation.span, message, f"did you mean `@{near}`?")


def _iter_properties(declaration: Declaration) -> Iterator[PropertyDecl]:
    return (member for member in declaration.members if isinstance(member, PropertyDecl))


def _find_unimplemented(declaration: InterfaceDecl, implemented: Collection[str]) -> Iterator[Diagnostic]:
    name = declaration.name
    if name.text not in implemented:
        message = f"nothing implements the interface `{name.text}`"
        yield Diagnostic("L101", name.span, message, f"write `node … implements {name.text}`, or remove it")


def _find_reserved_words(declaration: Declaration) -> Iterator[Diagnostic]:
    for decl in _iter_properties(declaration):
        if decl.name.text in RESERVED_WORDS:
            message = f"`{decl.name.text}` is a reserved word of the query language"
            yield Diagnostic("L103", decl.name.span, message, "it works after a `.`, but another name reads better")


def _find_repeated_indexes(declaration: NodeDecl | EdgeDecl, catalog: Catalog) -> Iterator[Diagnostic]:
    type_ = catalog.find_type(declaration.name.text)
    if type_ is None:
        return
    sources: dict[str, str] = {}
    if len(type_.key) == 1 and (column := type_.find_property(type_.key[0])) and column.type is not Scalar.STRING:
        # A declared index on a String also finds words, which the index of a key does not.
        sources[column.name] = "its `@key`"
    if isinstance(declaration, NodeDecl):
        for interface in declaration.implements:
            inherited = catalog.interfaces.get(interface.text)
            sources.update(dict.fromkeys(inherited.indexed if inherited else (), f"the interface `{interface.text}`"))
    for indexed in sorted(_iter_indexed_columns(declaration), key=lambda name: name.span):
        if indexed.text in sources:
            message = f"`{indexed.text}` already has an index through {sources[indexed.text]}"
            yield Diagnostic("L102", indexed.span, message, "remove this `@index`")
        sources.setdefault(indexed.text, "another `@index`")


def _iter_indexed_columns(declaration: NodeDecl | EdgeDecl) -> Iterator[Name]:
    for member in declaration.members:
        if isinstance(member, IndexDecl):
            yield from member.columns
        elif isinstance(member, PropertyDecl):
            for annotation in member.annotations:
                if annotation.name.text == "index":
                    yield Name(member.name.text, annotation.span)


def _find_unindexed_vectors(tree: SchemaFile, catalog: Catalog) -> Iterator[Diagnostic]:
    declared = {
        (declaration.name.text, decl.name.text): decl
        for declaration in tree.declarations
        for decl in _iter_properties(declaration)
    }
    for node in catalog.nodes.values():
        for vector in node.properties:
            if vector.embedding is None or vector.name in node.indexed:
                continue
            # A node may inherit the vector: the warning is then at the interface, once for all its nodes.
            for owner in (node.name, *node.implements):
                if (decl := declared.get((owner, vector.name))) is not None:
                    message = f"the vector `{owner}.{vector.name}` has no index: every search reads all rows"
                    yield Diagnostic("L104", decl.name.span, message, "add `@index` to it")
                    break
