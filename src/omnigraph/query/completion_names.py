"""The names that may be written at a position of a query: properties, variables, edges and types."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from omnigraph.lang.cursor import decapitalize_name
from omnigraph.lang.lexer import Token, TokenKind
from omnigraph.lang.proposals import Proposal, ProposalKind
from omnigraph.query.completion_frames import BracketFrame, OpenBrackets, Role, find_open_brackets
from omnigraph.query.completion_scope import NamesInScope, list_properties, resolve_edges, resolve_type_names
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType

_META = {"@id": "the id of a node or edge", "@type": "its type", "@src": "an edge's source", "@dst": "its target"}


@dataclass
class NameProposals:
    """The tokens of a query before a position, and the names that may follow them."""

    tokens: Sequence[Token]
    catalog: Catalog
    names: NamesInScope

    @cached_property
    def brackets(self) -> OpenBrackets:
        """The brackets that are open."""
        return find_open_brackets(self.tokens)

    def text(self, back: int) -> str:
        """Return the text of a token before the position: 1 is the last one; empty if there is none."""
        return self.tokens[-back].text if back <= len(self.tokens) else ""

    def kind(self, back: int) -> TokenKind:
        """Return the kind of a token before the position."""
        return self.tokens[-back].kind if back <= len(self.tokens) else TokenKind.END

    def propose_edges(self, start: Token | None) -> Iterator[Proposal]:
        """Yield edges; those that fit the type of the variable that they start from, if it is written."""
        types = self.names.variables.get(start.text, set()) if start and start.text in self.names.explicit else set()
        for edge in self.catalog.edges.values():
            if not types or edge.source in types or edge.target in types:
                detail = f"{edge.source} -> {edge.target}"
                yield Proposal(decapitalize_name(edge.name), ProposalKind.EDGE, detail)

    def propose_fields(self, frame: BracketFrame) -> Iterator[Proposal]:
        """Yield the properties that a binding or an assignment may name and has not named yet."""
        if frame.role is Role.RECORD:
            return
        types = self.find_types_of(frame)
        if any(isinstance(type_, EdgeType) for type_ in types):
            yield from (Proposal(name, ProposalKind.PROPERTY) for name in ("from", "to") if name not in frame.names)
        for proposal in self.propose_properties(types):
            if proposal.text not in frame.names:
                yield proposal

    def propose_members(self) -> Iterator[Proposal]:
        """Yield what may follow the point after a variable or a record."""
        owner = self.tokens[-2] if len(self.tokens) > 1 else None
        types: list[AnyType] = []
        if owner is not None and owner.text in self.names.fields:
            for name, detail in self.names.fields[owner.text].items():
                yield Proposal(name, ProposalKind.PROPERTY, detail)
            return
        if owner is not None and owner.kind is TokenKind.VARIABLE:
            types = self.list_types(self.names.variables.get(owner.text, set()))
        yield from self.propose_properties(types or self.catalog.types)
        yield from self.propose_meta()

    def propose_meta(self) -> Iterator[Proposal]:
        """Yield the properties that every node or edge has."""
        yield from (Proposal(name, ProposalKind.PROPERTY, detail) for name, detail in _META.items())

    def propose_properties(self, types: Iterable[AnyType]) -> Iterator[Proposal]:
        """Yield the properties of these types; without a variable, also the ends of an edge."""
        types = list(types)
        for name, property_ in list_properties(types).items():
            detail = f"{property_.type}{'?' if property_.nullable else ''}"
            yield Proposal(name, ProposalKind.PROPERTY, detail)
        if self.brackets.bare is not None and any(isinstance(type_, EdgeType) for type_ in types):
            yield from (Proposal(name, ProposalKind.PROPERTY, "an end of the edge") for name in ("from", "to"))

    def propose_variables(self) -> Iterator[Proposal]:
        """Yield the variables of the query, each with its types."""
        for name, types in self.names.variables.items():
            yield Proposal(name, ProposalKind.VARIABLE, " | ".join(sorted(types)))

    def propose_node_types(self) -> Iterator[Proposal]:
        """Yield what a variable may be bound to."""
        yield from (Proposal(name, ProposalKind.TYPE, "node") for name in self.catalog.nodes)
        yield from (Proposal(name, ProposalKind.TYPE, "interface") for name in self.catalog.interfaces)

    def propose_table_types(self) -> Iterator[Proposal]:
        """Yield what a statement may change."""
        yield from (Proposal(name, ProposalKind.TYPE, "node") for name in self.catalog.nodes)
        yield from (Proposal(name, ProposalKind.TYPE, "edge") for name in self.catalog.edges)

    def list_types(self, names: Iterable[str]) -> list[AnyType]:
        """Return these types, without unknown ones."""
        return [type_ for name in sorted(names) if (type_ := self.catalog.find_type(name)) is not None]

    def find_types_of(self, frame: BracketFrame) -> list[AnyType]:
        """Return the types whose properties a frame names; all where they are unknown."""
        index = frame.subject if frame.role is Role.BODY else frame.owner
        if not 0 <= index < len(self.tokens):
            return list(self.catalog.types)
        token = self.tokens[index]
        if token.text in ("along", "through", "by"):
            return self._find_types_on_the_way(index)
        if token.kind is TokenKind.VARIABLE:
            names = self.names.variables.get(token.text, set())
        else:
            names = resolve_type_names(self.tokens, index, self.catalog)
        return self.list_types(names) or list(self.catalog.types)

    def _find_types_on_the_way(self, index: int) -> list[AnyType]:
        """Return the types that `along`, `through` or `by` at an index tells about: those of the hop before it."""
        word = self.tokens[index].text
        for at in range(index - 1, 0, -1):
            edges, _ = resolve_edges(self.tokens, at, self.catalog)
            if edges and self.tokens[at - 1].kind is TokenKind.VARIABLE:
                if word == "through":
                    return self.list_types({name for edge in edges for name in (edge.source, edge.target)})
                return list(edges)
        return list(self.catalog.types)
