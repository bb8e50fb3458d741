"""The names of Cypher against a schema: labels, relationship types and property keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.spelling import find_closest
from omnigraph.query.cypher.findings import CypherFindings
from omnigraph.schema.catalog import Catalog, EdgeType

CYPHER_ANNOTATION = "cypher"
"""`edge Likes: … @cypher("LIKES")`: the relationship type that an edge type has in Cypher."""


def fold_name(name: str) -> str:
    """Return a name without case and underscores: `ACTED_IN` and `ActedIn` are one."""
    return name.replace("_", "").lower()


@dataclass(frozen=True)
class CypherNames:
    """The types of a schema by the names that Cypher has for them."""

    catalog: Catalog
    findings: CypherFindings

    @cached_property
    def labels(self) -> Mapping[str, frozenset[str]]:
        """The node types of each label as declared: a node type itself, or those of an interface."""
        labels = {name: frozenset({name}) for name in self.catalog.nodes}
        for interface in self.catalog.interfaces:
            members = (node.name for node in self.catalog.nodes.values() if interface in node.implements)
            labels[interface] = frozenset(members)
        return labels

    @cached_property
    def relationship_types(self) -> Mapping[str, tuple[EdgeType, ...]]:
        """The edge types of each relationship type: of their name, or of their annotation."""
        types: dict[str, tuple[EdgeType, ...]] = {}
        for edge in self.catalog.edges.values():
            name = get_relationship_type(edge)
            types[name] = (*types.get(name, ()), edge)
        return types

    def resolve_labels(self, labels: tree.LabelExpr) -> frozenset[str]:
        """Return the node types that have these labels."""
        match labels:
            case tree.LabelName(name=name):
                return self._find_label(name)
            case tree.AnyLabel():
                return self.all_nodes
            case tree.LabelAnd(terms=terms):
                return frozenset.intersection(*map(self.resolve_labels, terms))
            case tree.LabelOr(terms=terms):
                return frozenset().union(*map(self.resolve_labels, terms))
            case tree.LabelNot(term=term):
                return self.all_nodes - self.resolve_labels(term)

    def resolve_types(self, types: tree.LabelExpr | None) -> frozenset[str]:
        """Return the names of the edge types that have these relationship types; all without any."""
        match types:
            case None | tree.AnyLabel():
                return self.all_edges
            case tree.LabelName(name=name):
                return self._find_type(name)
            case tree.LabelAnd(terms=terms):
                return frozenset.intersection(*map(self.resolve_types, terms))
            case tree.LabelOr(terms=terms):
                return frozenset().union(*map(self.resolve_types, terms))
            case tree.LabelNot(term=term):
                return self.all_edges - self.resolve_types(term)

    @property
    def all_nodes(self) -> frozenset[str]:
        """The names of all node types."""
        return frozenset(self.catalog.nodes)

    @property
    def all_edges(self) -> frozenset[str]:
        """The names of all edge types."""
        return frozenset(self.catalog.edges)

    def _find_label(self, name: Name) -> frozenset[str]:
        known = _find_folded(name.text, self.labels)
        if known is None:
            self.findings.warn_label(name, f"no node has the label `{name.text}`", suggest(name.text, self.labels))
            return frozenset()
        return self.labels[known]

    def _find_type(self, name: Name) -> frozenset[str]:
        known = _find_folded(name.text, self.relationship_types)
        if known is None:
            near = suggest(name.text, self.relationship_types)
            self.findings.warn_label(name, f"no relationship has the type `{name.text}`", near)
            return frozenset()
        return frozenset(edge.name for edge in self.relationship_types[known])


def get_relationship_type(edge: EdgeType) -> str:
    """Return the relationship type of an edge type: its annotation, or its name."""
    for annotation in edge.annotations:
        if annotation.name == CYPHER_ANNOTATION and isinstance(annotation.argument, str):
            return annotation.argument
    return edge.name


def _find_folded(name: str, known: Mapping[str, object]) -> str | None:
    """Return the known name that is this one, or the only one that is equal without case and underscores."""
    if name in known:
        return name
    folded = fold_name(name)
    alike = [each for each in known if fold_name(each) == folded]
    return alike[0] if len(alike) == 1 else None


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return a help line with the nearest known name, or None."""
    near = find_closest(name, known)
    return None if near is None else f"did you mean `{near}`?"
