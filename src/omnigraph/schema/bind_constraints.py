"""Bind the constraints of a type: `@key`, `@unique`, `@index`, `@range` and `@check`, bare or in parentheses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.lang.literals import Name
from omnigraph.lang.schema_ast import (
    Annotation,
    Bound,
    CheckDecl,
    Constraint,
    IndexDecl,
    KeyDecl,
    RangeDecl,
    UniqueDecl,
)
from omnigraph.lang.source import Span
from omnigraph.schema.annotations import get_argument_span
from omnigraph.schema.bind_properties import BoundProperty, Owner, OwnerKind
from omnigraph.schema.catalog import CheckRule, RangeRule, Value
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.regex import compile_pattern, find_pattern_problem
from omnigraph.schema.types import Scalar, is_numeric, is_scalar
from omnigraph.schema.values import InvalidValue, format_type, from_literal, to_json

# The columns of an edge that `@key` and `@unique` may list beside its properties.
ENDS = ("src", "dst")


@dataclass(slots=True)
class BoundConstraints:
    """The valid constraints of a type, filled while they are bound."""

    key: tuple[str, ...] = ()
    unique: list[tuple[str, ...]] = field(default_factory=list)
    indexed: list[str] = field(default_factory=list)
    ranges: dict[str, RangeRule] = field(default_factory=dict)
    checks: list[CheckRule] = field(default_factory=list)


def bind_constraints(
    declared: Iterable[Constraint], properties: Mapping[str, BoundProperty], owner: Owner, findings: DiagnosticCollector
) -> BoundConstraints:
    """Bind the constraints of a type: inherited ones first, then bare and declared ones in source order."""
    binder = _ConstraintBinder(properties, owner, findings)
    for bound in properties.values():
        binder.inherit(bound)
    bare = [
        _expand_bare_constraint(kind, bound.column.name, annotation)
        for bound in properties.values()
        for kind, annotation in bound.bare.items()
    ]
    for constraint in sorted((*bare, *declared), key=lambda constraint: constraint.span):
        binder.add(constraint)
    binder.check_defaults()
    return binder.result


def _expand_bare_constraint(kind: str, name: str, annotation: Annotation) -> KeyDecl | UniqueDecl | IndexDecl:
    """Return the constraint that a bare annotation after a property is short for."""
    columns = (Name(name, annotation.span),)
    match kind:
        case "key":
            return KeyDecl(columns=columns, span=annotation.span)
        case "unique":
            return UniqueDecl(columns=columns, span=annotation.span)
        case _:
            return IndexDecl(columns=columns, span=annotation.span)


class _ConstraintBinder:
    """Add constraints individually; an invalid one is reported and left out."""

    def __init__(self, properties: Mapping[str, BoundProperty], owner: Owner, findings: DiagnosticCollector) -> None:
        self.properties = properties
        self.owner = owner
        self.findings = findings
        self.result = BoundConstraints()
        self._has_key = False
        self._seen: set[tuple[str, frozenset[str]]] = set()

    def inherit(self, bound: BoundProperty) -> None:
        """Add the bare constraints that an interface declares for a property; repeating one of them is allowed."""
        # Invalid ones were reported at the interface.
        name = bound.column.name
        if "unique" in bound.inherited_bare and bound.is_sound and is_scalar(bound.type):
            self.result.unique.append((name,))
        if "index" in bound.inherited_bare and bound.type is not Scalar.BLOB:
            self.result.indexed.append(name)

    def add(self, constraint: Constraint) -> None:
        match constraint:
            case KeyDecl():
                self._add_key(constraint)
            case UniqueDecl():
                self._add_unique(constraint)
            case IndexDecl():
                self._add_index(constraint)
            case RangeDecl():
                self._add_range(constraint)
            case CheckDecl():
                self._add_check(constraint)
            case _:
                assert_never(constraint)

    def _find_property(self, column: Name, constraint: str) -> BoundProperty | None:
        """Return the property that a constraint names; None, with an error, if it does not exist."""
        bound = self.properties.get(column.text)
        # If an interface of the type is unknown, the property may be one of its: no error is certain.
        if bound is not None or not self.owner.is_whole:
            return bound
        is_edge = self.owner.kind is OwnerKind.EDGE
        lists_ends = is_edge and constraint in ("key", "unique")
        # JSON records call the ends of an edge `from` and `to`; the schema language calls them `src` and `dst`.
        if column.text in (*ENDS, "from", "to"):
            if lists_ends:
                way_out = f"write `{'src' if column.text == 'from' else 'dst'}` for the edge's end"
            elif is_edge:
                way_out = "only `@key` and `@unique` may list an edge's ends"
            else:
                way_out = "only edge types have ends"
        else:
            candidates = (*self.properties, *(ENDS if lists_ends else ()))
            way_out = self.findings.suggest_closest(column.text, candidates) or "declare the property first"
        message = f"`@{constraint}` names an unknown property `{column.text}` of `{self.owner.name}`"
        self.findings.add_error("S010", column.span, message, way_out)
        return None

    def _has_repeats(self, columns: tuple[Name, ...], constraint: str) -> bool:
        seen: set[str] = set()
        for column in columns:
            if column.text in seen:
                message = f"`@{constraint}` names `{column.text}` twice"
                self.findings.add_error("S023", column.span, message, "remove one of them")
            seen.add(column.text)
        return len(seen) != len(columns)

    def _is_end(self, column: Name) -> bool:
        return self.owner.kind is OwnerKind.EDGE and column.text in ENDS

    # --- key, unique, index

    def _add_key(self, decl: KeyDecl) -> None:
        if self._has_key:
            message = f"`{self.owner.name}` has two keys"
            self.findings.add_error("S009", decl.span, message, "list all columns of the key in one `@key(a, b)`")
            return
        self._has_key = True
        if self._has_repeats(decl.columns, "key"):
            return
        columns = [column for column in decl.columns if self._is_end(column) or self._is_key_column(column)]
        if len(columns) == len(decl.columns):
            self.result.key = tuple(column.text for column in columns)

    def _is_key_column(self, column: Name) -> bool:
        bound = self._find_property(column, "key")
        if bound is None:
            return False
        name = column.text
        type_ = bound.type
        if bound.is_sound and not is_scalar(type_):
            message = f"`{name}` can't be part of a key: {type_} has no text form"
            self.findings.add_error(
                "S009", column.span, message, "a key takes strings, enums, whole numbers, dates or booleans"
            )
            return False
        # 0.0 and -0.0 are equal but have different texts, so a float can't identify a row.
        if bound.is_sound and type_ in (Scalar.F32, Scalar.F64):
            message = f"`{name}` can't be part of a key: {type_} can't be compared exactly"
            self.findings.add_error("S009", column.span, message, "use a whole number or a String")
            return False
        if bound.column.nullable:
            message = f"`{name}` can't be part of a key: it is nullable"
            self.findings.add_error("S009", column.span, message, f"make it required: `{name}: {format_type(type_)}`")
            return False
        return True

    def _add_unique(self, decl: UniqueDecl) -> None:
        if self._has_repeats(decl.columns, "unique"):
            return
        is_good = True
        for column in decl.columns:
            if self._is_end(column):
                continue
            bound = self._find_property(column, "unique")
            if bound is None:
                is_good = False
            elif bound.is_sound and not is_scalar(bound.type):
                message = f"`@unique` on `{column.text}`: values of {bound.type} can't be compared"
                self.findings.add_error("S011", column.span, message, "put it on a scalar property")
                is_good = False
        names = tuple(column.text for column in decl.columns)
        if not is_good or self._is_repeated("unique", names, decl.span):
            return
        # An inherited `@unique` may be declared again, and is then there already.
        if names not in self.result.unique:
            self.result.unique.append(names)

    def _add_index(self, decl: IndexDecl) -> None:
        if self._has_repeats(decl.columns, "index"):
            return
        names = tuple(column.text for column in decl.columns)
        if self._is_repeated("index", names, decl.span):
            return
        for column in decl.columns:
            if self._is_end(column):
                message = f"`{column.text}` always has an index"
                self.findings.add_error("S012", column.span, message, "leave it out")
                continue
            bound = self._find_property(column, "index")
            if bound is None:
                continue
            if bound.is_sound and bound.type is Scalar.BLOB:
                message = f"`@index` on `{column.text}`: a Blob can't be indexed"
                self.findings.add_error("S012", column.span, message, "index a property that describes it")
            elif column.text not in self.result.indexed:
                self.result.indexed.append(column.text)

    def _is_repeated(self, constraint: str, names: tuple[str, ...], span: Span) -> bool:
        """Return whether the type itself declared this constraint before, and report it if so."""
        # The order of columns does not matter: `@unique(x, y)` and `@unique(y, x)` are the same constraint.
        declaration = (constraint, frozenset(names))
        if declaration in self._seen:
            message = f"`@{constraint}({', '.join(names)})` is given twice"
            self.findings.add_error("S023", span, message, "keep one of them")
            return True
        self._seen.add(declaration)
        return False

    # --- range, check

    def _add_range(self, decl: RangeDecl) -> None:
        name = decl.column.text
        bound = self._find_property(decl.column, "range")
        if bound is None:
            return
        if name in self.result.ranges:
            message = f"`{name}` has two `@range`s"
            self.findings.add_error("S023", decl.span, message, "keep one of them")
            return
        if not bound.is_sound:
            return
        if not (is_numeric(bound.type) or bound.type in (Scalar.DATE, Scalar.DATETIME)):
            message = f"`@range` on `{name}`: {format_type(bound.type)} has no range"
            self.findings.add_error("S013", decl.column.span, message, "it takes numbers, Date and DateTime")
            return
        if decl.low is None and decl.high is None:
            message = f"the `@range` of `{name}` has no bound"
            self.findings.add_error("S013", decl.span, message, f"write `@range({name}, 0..)`, or leave it out")
            return
        # Both are bound before either is checked, so that two wrong bounds are two errors.
        low = self._bind_bound(decl.low, bound)
        high = self._bind_bound(decl.high, bound)
        if isinstance(low, InvalidValue) or isinstance(high, InvalidValue):
            return
        if decl.low is not None and decl.high is not None and _is_above(low, high):
            lowest, highest = to_json(bound.type, low), to_json(bound.type, high)
            message = f"the `@range` of `{name}` is empty: {lowest} is above {highest}"
            self.findings.add_error("S013", decl.low.span.to(decl.high.span), message, "write the lower bound first")
            return
        self.result.ranges[name] = RangeRule(property=name, low=low, high=high)

    def _bind_bound(self, literal: Bound | None, bound: BoundProperty) -> Value | InvalidValue:
        if literal is None:
            return None
        value = from_literal(bound.type, literal)
        if isinstance(value, InvalidValue):
            message = f"a bound of `{bound.column.name}` does not fit: {value.reason}"
            self.findings.add_error("S013", literal.span, message)
        # -0.0 is the same bound as 0.0, but its JSON differs, and with it the fingerprint of the schema would.
        return 0.0 if value == 0.0 and isinstance(value, float) else value

    def _add_check(self, decl: CheckDecl) -> None:
        name = decl.column.text
        bound = self._find_property(decl.column, "check")
        # Checked even if the property is unknown: the pattern is wrong either way.
        problem = find_pattern_problem(decl.pattern)
        if problem is not None:
            message = f"the pattern of `@check` on `{name}` is not a pattern: {problem}"
            way_out = "patterns are RE2: no look-around and no back references"
            self.findings.add_error("S014", decl.pattern_span, message, way_out)
        if bound is None:
            return
        if bound.is_sound and bound.type is not Scalar.STRING:
            message = f"`@check` on `{name}`, which is {format_type(bound.type)}, not a String"
            self.findings.add_error("S014", decl.column.span, message, "patterns are searched in Strings only")
            return
        rule = CheckRule(property=name, pattern=decl.pattern)
        if rule in self.result.checks:
            message = f"this `@check` of `{name}` is given twice"
            self.findings.add_error("S023", decl.span, message, "keep one of them")
        elif problem is None:
            self.result.checks.append(rule)

    # --- defaults

    def check_defaults(self) -> None:
        """Report each default that breaks a `@range` or `@check` of the type: it would fail at the first insert."""
        for rule in self.result.ranges.values():
            bound = self.properties[rule.property]
            value = bound.column.default
            if value is None:
                continue
            if rule.low is not None and _is_above(rule.low, value):
                self._report_default(bound, f"it is below the minimum {to_json(bound.type, rule.low)} of its `@range`")
            elif rule.high is not None and _is_above(value, rule.high):
                self._report_default(bound, f"it is above the maximum {to_json(bound.type, rule.high)} of its `@range`")
        for check in self.result.checks:
            bound = self.properties[check.property]
            value = bound.column.default
            if isinstance(value, str) and compile_pattern(check.pattern).search(value) is None:
                self._report_default(bound, f'it does not match its `@check` "{check.pattern}"')

    def _report_default(self, bound: BoundProperty, reason: str) -> None:
        annotation = bound.notes.known["default"]
        message = f"the default of `{bound.column.name}` is not allowed: {reason}"
        self.findings.add_error("S017", get_argument_span(annotation), message, "change the default or the constraint")


def _is_above(left: Value, right: Value) -> bool:
    """Return whether `left > right`, for two values of the same ordered type."""
    return bool(left > right)  # type: ignore[operator]  # both were bound to the same numeric or time type
