"""Annotations: which are known, where they may stand and what they take. All others are kept as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.lang.literals import (
    DateLiteral,
    DateTimeLiteral,
    ListLiteral,
    Literal,
    Name,
    NullLiteral,
    StringLiteral,
)
from omnigraph.lang.schema_ast import Annotation
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import suggest_closest
from omnigraph.schema.catalog import AnnotationValue, Value
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.values import InvalidValue, format_literal, parse_date, parse_datetime


class AnnotationTarget(Enum):
    """Where an annotation stands."""

    NODE = "a node type"
    EDGE = "an edge type"
    PROPERTY = "a property"
    INTERFACE_PROPERTY = "an interface's property"


class ArgumentKind(Enum):
    """What a known annotation wants between its parentheses."""

    NOTHING = "nothing"
    TEXT = "text"
    LITERAL = "literal"
    EMBED = "embed"
    MORE = "more"
    """Arguments that only the grammar of a constraint or `@card` gives, so a plain annotation never has them."""


_EXPECTED_ARGUMENTS = {
    ArgumentKind.TEXT: "a text in quotes",
    ArgumentKind.EMBED: "the name of a String in quotes",
    ArgumentKind.LITERAL: "a literal",
    ArgumentKind.MORE: "arguments",
}


@dataclass(frozen=True, slots=True)
class AnnotationRules:
    """The rules of one annotation; `usage` shows how it is written, `home` where."""

    targets: frozenset[AnnotationTarget]
    argument_kind: ArgumentKind
    usage: str
    home: str


_TYPES = frozenset({AnnotationTarget.NODE, AnnotationTarget.EDGE})
_PROPERTIES = frozenset({AnnotationTarget.PROPERTY, AnnotationTarget.INTERFACE_PROPERTY})
_IN_BODY = "inside the braces of a node or edge type"

KNOWN_ANNOTATIONS: Mapping[str, AnnotationRules] = {
    "default": AnnotationRules(_PROPERTIES, ArgumentKind.LITERAL, "@default(literal)", "behind a property"),
    "embed": AnnotationRules(
        _PROPERTIES, ArgumentKind.EMBED, '@embed("source", model="…")', "behind a Vector of a node type"
    ),
    "description": AnnotationRules(
        _TYPES | _PROPERTIES, ArgumentKind.TEXT, '@description("…")', "on a type or property"
    ),
    "instruction": AnnotationRules(_TYPES, ArgumentKind.TEXT, '@instruction("…")', "on a node or edge type"),
    "rename_from": AnnotationRules(
        _TYPES | _PROPERTIES, ArgumentKind.TEXT, '@rename_from("old name")', "on a type or property"
    ),
    "card": AnnotationRules(
        frozenset({AnnotationTarget.EDGE}), ArgumentKind.MORE, "@card(min..max)", "on an edge type"
    ),
    "key": AnnotationRules(frozenset({AnnotationTarget.PROPERTY}), ArgumentKind.NOTHING, "@key", _IN_BODY),
    "unique": AnnotationRules(_PROPERTIES, ArgumentKind.NOTHING, "@unique", _IN_BODY),
    "index": AnnotationRules(_PROPERTIES, ArgumentKind.NOTHING, "@index", _IN_BODY),
    "range": AnnotationRules(
        frozenset({AnnotationTarget.PROPERTY}), ArgumentKind.MORE, "@range(property, low..high)", _IN_BODY
    ),
    "check": AnnotationRules(
        frozenset({AnnotationTarget.PROPERTY}), ArgumentKind.MORE, '@check(property, "pattern")', _IN_BODY
    ),
}


@dataclass(frozen=True, slots=True)
class AnnotationSet:
    """The annotations of one property or type: known ones that keep the rules, by name, and all others."""

    known: Mapping[str, Annotation] = field(default_factory=dict)
    unknown: tuple[AnnotationValue, ...] = ()

    def get_text(self, name: str) -> str | None:
        """The text that a known annotation gives, or None without it."""
        annotation = self.known.get(name)
        argument = None if annotation is None else annotation.argument
        return argument.value if isinstance(argument, StringLiteral) else None


def read_annotations(
    annotations: tuple[Annotation, ...], place: AnnotationTarget, findings: DiagnosticCollector
) -> AnnotationSet:
    """Sort annotations into known and kept; a known one that breaks a rule is reported and left out."""
    known: dict[str, Annotation] = {}
    kept: list[AnnotationValue] = []
    for annotation in annotations:
        name = annotation.name.text
        rules = KNOWN_ANNOTATIONS.get(name)
        if rules is None:
            kept.append(_build_annotation_value(annotation))
        elif place not in rules.targets:
            _report_target(annotation, rules, place, findings)
        elif name in known:
            code = "S009" if name == "key" else "S023"
            findings.add_error(code, annotation.span, f"`@{name}` is given twice", "keep one of them")
        elif _check_arguments(annotation, rules, findings):
            known[name] = annotation
    return AnnotationSet(known, tuple(kept))


def get_argument_span(annotation: Annotation) -> Span:
    """The place of the argument, or of the whole annotation if it has none."""
    return annotation.span if annotation.argument is None else annotation.argument.span


def _report_target(
    annotation: Annotation, rules: AnnotationRules, place: AnnotationTarget, findings: DiagnosticCollector
) -> None:
    name = annotation.name.text
    if place is AnnotationTarget.INTERFACE_PROPERTY and name in ("key", "range", "check"):
        message = f"an interface can't have a `@{name}`"
        way_out = "declare it in each node type that implements the interface"
    else:
        message = f"`@{name}` means nothing on {place.value}"
        way_out = f"it stands {rules.home}: `{rules.usage}`"
    findings.add_error("S022", annotation.span, message, way_out)


def _check_arguments(annotation: Annotation, rules: AnnotationRules, findings: DiagnosticCollector) -> bool:
    problem = _find_problem(annotation, rules)
    if problem is not None:
        findings.add_error("S021", *problem)
    return problem is None


def _find_problem(annotation: Annotation, rules: AnnotationRules) -> tuple[Span, str, str] | None:
    """Where the arguments of a known annotation go wrong, why, and the way out; None if they don't."""
    name, argument, takes = annotation.name.text, annotation.argument, rules.argument_kind
    usage = f"write `{rules.usage}`"
    if takes is ArgumentKind.NOTHING:
        if argument is None and not annotation.options:
            return None
        return annotation.span, f"`@{name}` behind a property takes no arguments", usage
    if takes is ArgumentKind.MORE or argument is None:
        return annotation.span, f"`@{name}` needs {_EXPECTED_ARGUMENTS[takes]}", usage
    if isinstance(argument, Name):
        message = f"`@{name}` takes {_EXPECTED_ARGUMENTS[takes]}, not the word `{argument.text}`"
        return argument.span, message, f'put it in quotes: `@{name}("{argument.text}")`'
    if takes is not ArgumentKind.LITERAL and not isinstance(argument, StringLiteral):
        return argument.span, f"`@{name}` takes {_EXPECTED_ARGUMENTS[takes]}, not {format_literal(argument)}", usage
    return _find_option_problem(annotation, rules)


def _find_option_problem(annotation: Annotation, rules: AnnotationRules) -> tuple[Span, str, str] | None:
    known = ("model",) if rules.argument_kind is ArgumentKind.EMBED else ()
    usage = f"write `{rules.usage}`"
    seen: set[str] = set()
    for option, value in annotation.options:
        message = None
        if option.text not in known:
            message = f"`@{annotation.name.text}` has no option `{option.text}`"
        elif option.text in seen:
            message = f"the option `{option.text}` is given twice"
        elif not isinstance(value, StringLiteral):
            message = f"the option `{option.text}` takes a text in quotes, not {format_literal(value)}"
        if message is not None:
            return option.span, message, suggest_closest(option.text, known) or usage
        seen.add(option.text)
    return None


# --- the ones we don't know ------------------------------------------------------------------------


def _build_annotation_value(annotation: Annotation) -> AnnotationValue:
    argument = annotation.argument
    return AnnotationValue(
        name=annotation.name.text,
        argument=argument.text if isinstance(argument, Name) else _read_untyped_literal(argument),
        options=tuple((name.text, _read_untyped_literal(value)) for name, value in annotation.options),
    )


def _read_untyped_literal(literal: Literal | None) -> Value:
    """The value of a literal that no type checks; a date that is none stays text, because unknown names never fail."""
    match literal:
        case None | NullLiteral():
            return None
        case DateLiteral(text=text):
            day = parse_date(text)
            return text if isinstance(day, InvalidValue) else day
        case DateTimeLiteral(text=text):
            time = parse_datetime(text)
            return text if isinstance(time, InvalidValue) else time
        case ListLiteral(items=items):
            return tuple(_read_untyped_literal(item) for item in items)
        case _:
            return literal.value
