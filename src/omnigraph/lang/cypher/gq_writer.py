"""What a clause that writes says in `.gq`: the matches before it, and what is inserted, changed or deleted for each."""

from collections.abc import Sequence
from typing import Final

from omnigraph.lang.cypher import tree
from omnigraph.lang.cypher.tree import BinaryOp, CompareOp, Direction, Expr
from omnigraph.lang.expression_printer import print_float, quote
from omnigraph.lang.lexer import RESERVED_WORDS
from omnigraph.lang.literals import Name

_COMPARISONS: Final = {CompareOp.NE: "!="}
_OPERATORS: Final = {
    BinaryOp.AND: "and",
    BinaryOp.OR: "or",
    BinaryOp.ADD: "+",
    BinaryOp.SUBTRACT: "-",
    BinaryOp.MULTIPLY: "*",
    BinaryOp.MODULO: "%",
    BinaryOp.IN: "in",
    BinaryOp.STARTS_WITH: "starts_with",
    BinaryOp.CONTAINS: "contains",
}


class UntoldError(Exception):
    """A clause says what only a schema or a parameter tells, or what `.gq` says in another way."""


class GqWriter:
    """Writes the text of one query; every method raises `UntoldError` where the text does not tell it."""

    def __init__(self, matches: Sequence[tree.Match]) -> None:
        self._bound: set[str] = set()
        self._relationships: set[str] = set()
        self._fresh = 0
        self._clauses: list[str] = []
        self._writes: list[str] = []
        for match in matches:
            self._add_match(match)

    def format(self, name: str) -> str:
        """Return the query."""
        match = f"match {{ {_join(self._clauses)} }} " if self._clauses else ""
        return f"query {name}() {{ {match}{' '.join(self._writes)} }}"

    # --- writes --------------------------------------------------------------------------------------

    def create(self, paths: Sequence[tree.PathPattern]) -> None:
        """Insert the nodes that are not bound, and all relationships."""
        joined = {node.variable.text for path in paths if path.relationships for node in path.nodes if node.variable}
        for path in paths:
            _require(path.variable is None)
            ends = [self._insert_node(node, named=bool(path.relationships), joined=joined) for node in path.nodes]
            for index, relationship in enumerate(path.relationships):
                _require(relationship.direction is not Direction.BOTH)
                self._insert_edge(relationship, ends[index], ends[index + 1])

    def merge(self, path: tree.PathPattern) -> None:
        """Put one node in place, or one relationship between nodes that are bound, unless it is there."""
        if not path.relationships:
            self.create((path,))
            return
        names = [node.variable.text for node in path.nodes if node.variable is not None]
        is_known = len(path.relationships) == 1 and len(names) == len(path.nodes) and self._bound.issuperset(names)
        relationship = path.relationships[0]
        _require(is_known and relationship.properties is None and all(_is_bare(node) for node in path.nodes))
        before = self._clauses
        self._clauses = []
        self._add_hop(relationship, f"${names[0]}", f"${names[1]}")
        self._clauses = [*before, f"not {{ {_join(self._clauses)} }}"]
        self.create((path,))

    def change(self, items: Sequence[tuple[Expr, Expr]]) -> None:
        """Set properties of what is bound: `p.age = 4`, or all entries of a map."""
        changes: dict[str, list[str]] = {}
        for target, value in items:
            if isinstance(target, tree.Variable) and isinstance(value, tree.MapLiteral):
                entries = [(key, each) for key, each in value.entries]
                variable = target
            else:
                _require(isinstance(target, tree.Property) and isinstance(target.operand, tree.Variable))
                assert isinstance(target, tree.Property) and isinstance(target.operand, tree.Variable)  # noqa: S101, PT018
                entries, variable = [(target.key, value)], target.operand
            _require(variable.name in self._bound or variable.name in self._relationships)
            texts = changes.setdefault(_read_variable(variable.name), [])
            texts += [f"{_read_name(key)}: {self._format(each)}" for key, each in entries]
        for name, texts in changes.items():
            assignments = ", ".join(texts)
            self._writes.append(f"update ${name} set {{ {assignments} }}")  # noqa: S608 - no SQL, and only shown

    def delete(self, names: Sequence[str]) -> None:
        """Delete what is bound."""
        for name in names:
            _require(name in self._bound or name in self._relationships)
            self._writes.append(f"delete ${_read_variable(name)}")

    def _insert_node(self, node: tree.NodePattern, *, named: bool, joined: set[str]) -> str:
        variable = None if node.variable is None else _read_variable(node.variable.text)
        if variable is not None and variable in self._bound:
            _require(_is_bare(node))
            return f"${variable}"
        entries = self._format_entries(node.properties)
        _require(node.labels is not None and bool(entries) and node.where is None)
        text = f"insert {_read_label(node.labels)} {{ {', '.join(entries)} }}"
        if named or variable in joined:
            variable = variable or self._name()
            self._bound.add(variable)
            text += f" as ${variable}"
        self._writes.append(text)
        return f"${variable}"

    def _insert_edge(self, relationship: tree.RelationshipPattern, left: str, right: str) -> None:
        _require(relationship.length is None and relationship.where is None)
        if relationship.direction is Direction.IN:
            left, right = right, left
        entries = [f"from: {left}", f"to: {right}", *self._format_entries(relationship.properties)]
        self._writes.append(f"insert {_read_type(relationship.types)} {{ {', '.join(entries)} }}")

    # --- matches -------------------------------------------------------------------------------------

    def _add_match(self, match: tree.Match) -> None:
        _require(not match.optional)
        for path in match.patterns:
            _require(path.variable is None and path.kind is tree.PathKind.ALL)
            ends = [self._add_node(node, is_end=bool(path.relationships)) for node in path.nodes]
            for index, relationship in enumerate(path.relationships):
                self._add_hop(relationship, ends[index], ends[index + 1])
        self._add_condition(match.where)

    def _add_condition(self, where: Expr | None) -> None:
        """Add the terms of a condition, each as a clause."""
        if isinstance(where, tree.Binary) and where.op is BinaryOp.AND:
            self._add_condition(where.left)
            self._add_condition(where.right)
        elif where is not None:
            self._clauses.append(self._format(where))

    def _add_node(self, node: tree.NodePattern, *, is_end: bool) -> str:
        entries = self._format_entries(node.properties)
        if node.variable is None and node.labels is None and not entries and node.where is None:
            _require(is_end)
            return "$_"
        name = self._name() if node.variable is None else _read_variable(node.variable.text)
        # A node without a label gets its type from a hop.
        _require(node.labels is not None or is_end or name in self._bound)
        if node.labels is not None:
            inside = f" {{ {', '.join(entries)} }}" if entries else ""
            self._clauses.append(f"${name}: {_read_label(node.labels)}{inside}")
        else:
            self._clauses += [f"${name}.{entry.replace(': ', ' = ', 1)}" for entry in entries]
        self._bound.add(name)
        self._add_condition(node.where)
        return f"${name}"

    def _add_hop(self, relationship: tree.RelationshipPattern, left: str, right: str) -> None:
        _require(relationship.length is None)
        entries = self._format_entries(relationship.properties)
        edge = _read_type(relationship.types)
        edge = edge[0].lower() + edge[1:]
        edge = quote(edge) if edge in RESERVED_WORDS else edge
        if relationship.direction is Direction.IN:
            left, right = right, left
        is_both = relationship.direction is Direction.BOTH
        name = None if relationship.variable is None else _read_variable(relationship.variable.text)
        if name is None and (entries or relationship.where is not None):
            name = self._name()
        if name is None:
            self._clauses.append(f"{left} <{edge}> {right}" if is_both else f"{left} {edge} {right}")
            return
        _require(not is_both and name not in self._relationships)
        self._relationships.add(name)
        self._clauses.append(f"{left} ${name}:{edge} {right}")
        self._clauses += [f"${name}.{entry.replace(': ', ' = ', 1)}" for entry in entries]
        self._add_condition(relationship.where)

    def _name(self) -> str:
        self._fresh += 1
        return f"_{self._fresh}"

    # --- expressions ---------------------------------------------------------------------------------

    def _format_entries(self, properties: tree.MapLiteral | tree.Parameter | None) -> list[str]:
        if properties is None:
            return []
        _require(isinstance(properties, tree.MapLiteral))
        assert isinstance(properties, tree.MapLiteral)  # noqa: S101 - as above
        return [f"{_read_name(key)}: {self._format(value)}" for key, value in properties.entries]

    def _format(self, expr: Expr) -> str:
        match expr:
            case tree.Literal(value=value):
                return _format_literal(value)
            case tree.Property(operand=tree.Variable(name=name), key=key):
                _require(name in self._bound or name in self._relationships)
                return f"${_read_variable(name)}.{_read_name(key)}"
            case tree.ListLiteral(items=items):
                return f"[{', '.join(map(self._format, items))}]"
            case tree.Unary(op=tree.UnaryOp.NOT, operand=operand):
                return f"not ({self._format(operand)})"
            case tree.Unary(op=tree.UnaryOp.MINUS, operand=operand):
                return f"-{self._format_operand(operand)}"
            case tree.Binary(op=op, left=left, right=right) if op in _OPERATORS:
                return f"{self._format_operand(left)} {_OPERATORS[op]} {self._format_operand(right)}"
            case tree.Comparison(first=first, rest=((op, second),)):
                sign = _COMPARISONS.get(op, op.value)
                return f"{self._format_operand(first)} {sign} {self._format_operand(second)}"
            case tree.IsNull(operand=operand, negated=negated):
                return f"{self._format_operand(operand)} is {'not ' if negated else ''}null"
            case _:
                raise UntoldError

    def _format_operand(self, expr: Expr) -> str:
        text = self._format(expr)
        is_whole = isinstance(expr, tree.Literal | tree.Property | tree.ListLiteral)
        return text if is_whole else f"({text})"


def _join(clauses: Sequence[str]) -> str:
    """Return clauses in one line; one that could go on the clause before it is kept apart."""
    text = ""
    for clause in clauses:
        gap = "; " if clause[0] in "(-[" else " "
        text += (gap if text else "") + clause
    return text


def _require(holds: bool) -> None:
    if not holds:
        raise UntoldError


def _is_bare(node: tree.NodePattern) -> bool:
    return node.labels is None and node.properties is None and node.where is None


def _read_name(name: Name) -> str:
    """Return a name that `.gq` writes alike."""
    _require(_is_plain(name.text))
    return name.text


def _read_variable(name: str) -> str:
    _require(_is_plain(name) and name[0].islower())
    return name


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and name not in RESERVED_WORDS


def _read_label(labels: tree.LabelExpr | None) -> str:
    """Return the one type of a node."""
    _require(isinstance(labels, tree.LabelName))
    assert isinstance(labels, tree.LabelName)  # noqa: S101 - as above
    name = _read_name(labels.name)
    _require(name[0].isupper())
    return name


def _read_type(types: tree.LabelExpr | None) -> str:
    """Return the one type of a relationship, as types are named here: `ActedIn` for `ACTED_IN`."""
    _require(isinstance(types, tree.LabelName))
    assert isinstance(types, tree.LabelName)  # noqa: S101 - as above
    text = types.name.text
    _require(text.isascii() and text.isidentifier() and text[0].isalpha())
    if "_" in text or text.isupper():
        return "".join(part.capitalize() for part in text.split("_"))
    return text[0].upper() + text[1:]


def _format_literal(value: bool | float | str | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return print_float(value)
        case _:
            return quote(value)
