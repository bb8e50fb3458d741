"""The names of a query that is being typed: its variables with their types, its columns, and named patterns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from omnigraph.lang.lexer import Token, TokenKind
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property

_NAME_KINDS = (TokenKind.IDENT, TokenKind.TYPE, TokenKind.STRING)


@dataclass(slots=True)
class NamesInScope:
    """The names of one query."""

    variables: dict[str, set[str]] = field(default_factory=dict)
    """The types that each variable can have, by its text with `$`; empty where they are unknown."""
    explicit: set[str] = field(default_factory=set)
    """The variables whose types are written in the text."""
    fields: dict[str, dict[str, str]] = field(default_factory=dict)
    """The fields of parameters that are lists of records, and of the elements of these, with their types."""
    columns: dict[str, None] = field(default_factory=dict)
    patterns: dict[str, None] = field(default_factory=dict)


def collect_names(tokens: Sequence[Token], text_tokens: Iterable[Token], catalog: Catalog) -> NamesInScope:
    """Collect the names of a query from all its tokens; named patterns come from the whole text."""
    names = NamesInScope()
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.VARIABLE:
            names.variables.setdefault(token.text, set())
            _record_binding(tokens, index, names, catalog)
            _record_fields(tokens, index, names)
        elif token.text == "as" and index + 1 < len(tokens) and tokens[index + 1].kind is TokenKind.IDENT:
            names.columns[tokens[index + 1].text] = None
    # After all bindings, for a written type counts more than what an edge says of its ends.
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.VARIABLE:
            _record_hop(tokens, index, names, catalog)
    declared = list(text_tokens)
    for first, second, third in zip(declared, declared[1:], declared[2:], strict=False):
        if first.text == "pattern" and second.kind is TokenKind.IDENT and third.text == "(":
            names.patterns[second.text] = None
    return names


def resolve_type_names(tokens: Sequence[Token], index: int, catalog: Catalog) -> set[str]:
    """Return the node and edge types that a token, or the group in parentheses that it starts, names."""
    types: set[str] = set()
    while 0 <= index < len(tokens):
        token = tokens[index]
        if token.kind is TokenKind.TYPE:
            if token.text in catalog.interfaces:
                types |= {name for name, node in catalog.nodes.items() if token.text in node.implements}
            elif catalog.find_type(token.text) is not None:
                types.add(token.text)
        elif token.text not in ("|", "("):
            break
        index += 1
        if index < len(tokens) and tokens[index].kind is TokenKind.TYPE and tokens[index - 1].text not in ("|", "("):
            break
    return types


def resolve_edges(tokens: Sequence[Token], index: int, catalog: Catalog) -> tuple[list[EdgeType], int]:
    """Return the edge types of the hop whose edge starts at `index`, and the index of the token after it."""
    edges: list[EdgeType] = []
    while index < len(tokens):
        token = tokens[index]
        if token.kind in _NAME_KINDS:
            name = str(token.value) if token.kind is TokenKind.STRING else token.text
            edge = catalog.find_edge(name)
            if edge is None:
                break
            edges.append(edge)
        elif token.text == "*":
            edges.extend(catalog.edges.values())
        elif token.text not in ("<", ">", "(", ")", "|"):
            break
        index += 1
        # Two names side by side are not one group.
        if token.kind in _NAME_KINDS and index < len(tokens) and tokens[index].kind in _NAME_KINDS:
            break
    return edges, index


def list_properties(types: Iterable[AnyType]) -> dict[str, Property]:
    """Return the properties of these types by name; of a name that several have, the first.

    Those that all of the types have come first: only these can be used without narrowing.
    """
    properties: dict[str, Property] = {}
    counts: Counter[str] = Counter()
    for type_ in types:
        for property_ in type_.properties:
            properties.setdefault(property_.name, property_)
            counts[property_.name] += 1
    most = max(counts.values(), default=0)
    return dict(sorted(properties.items(), key=lambda item: counts[item[0]] < most))


def _record_binding(tokens: Sequence[Token], index: int, names: NamesInScope, catalog: Catalog) -> None:
    """Record the types after `$x:`, or before `as $x`."""
    name = tokens[index].text
    if index + 2 < len(tokens) and tokens[index + 1].text == ":":
        types = resolve_type_names(tokens, index + 2, catalog)
        if types:
            names.explicit.add(name)
        else:
            types = {edge.name for edge in resolve_edges(tokens, index + 2, catalog)[0]}
        names.variables[name] |= types
    if index and tokens[index - 1].text == "as":
        # `insert Person { … } as $p`: the type is the one after the nearest `insert` before it.
        for at in range(index - 1, 0, -1):
            if tokens[at - 1].text == "insert":
                names.variables[name] |= resolve_type_names(tokens, at, catalog)
                break


def _record_fields(tokens: Sequence[Token], index: int, names: NamesInScope) -> None:
    """Record the fields of `$rows: [{name: String}]`, and those of `$r` in `each $r in $rows`."""
    name = tokens[index].text
    following = [token.text for token in tokens[index + 1 : index + 4]]
    if following == [":", "[", "{"]:
        fields: dict[str, str] = {}
        at = index + 4
        while at + 2 < len(tokens) and tokens[at].text not in ("}", "]"):
            if tokens[at + 1].text == ":" and tokens[at].kind is TokenKind.IDENT:
                fields[tokens[at].text] = tokens[at + 2].text
            at += 1
        names.fields[name] = fields
    elif index and tokens[index - 1].text == "each" and following[:1] == ["in"]:
        source = following[1] if len(following) > 1 else ""
        if source in names.fields:
            names.fields[name] = names.fields[source]


def _record_hop(tokens: Sequence[Token], index: int, names: NamesInScope, catalog: Catalog) -> None:
    """Record the types that the edge of `$a edge $b` or `$a $e:edge $b` gives to its ends."""
    at = index + 1
    if at + 1 < len(tokens) and tokens[at].kind is TokenKind.VARIABLE and tokens[at + 1].text == ":":
        at += 2
    edges, after = resolve_edges(tokens, at, catalog)
    if not edges:
        return
    ends = {type_ for edge in edges for type_ in (edge.source, edge.target)}
    if tokens[index].text not in names.explicit:
        names.variables[tokens[index].text] |= ends
    # Past the bounds of the hop.
    if after < len(tokens) and tokens[after].text == "{":
        while after < len(tokens) and tokens[after].text != "}":
            after += 1
        after += 1
    if after < len(tokens) and tokens[after].kind is TokenKind.VARIABLE and tokens[after].text not in names.explicit:
        names.variables.setdefault(tokens[after].text, set()).update(ends)
