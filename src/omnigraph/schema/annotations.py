"""The known annotations: where each may be used, and its arguments. Unknown annotations are kept unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.lang.literals import (
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
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
    """The kind of declaration that an annotation belongs to."""

    NODE = "a node type"
    EDGE = "an edge type"
    PROPERTY = "a property"
    INTERFACE_PROPERTY = "an interface's property"


class ArgumentKind(Enum):
    """The arguments that a known annotation takes in parentheses."""

    NOTHING = "nothing"
    TEXT = "text"
    LITERAL = "literal"
    EMBED = "embed"
    INDEX = "index"
    # Arguments that only the grammar of a constraint or of `@card` allows, so a plain annotation never has them.
    MORE = "more"


_EXPECTED_ARGUMENTS = {
    ArgumentKind.TEXT: "a text in quotes",
    ArgumentKind.EMBED: "the name of a String in quotes",
    ArgumentKind.LITERAL: "a literal",
    ArgumentKind.MORE: "arguments",
}


@dataclass(frozen=True, slots=True)
class AnnotationRules:
    """The rules of one annotation; for messages, `usage` shows how it is written, `home` where."""

    targets: frozenset[AnnotationTarget]
    argument_kind: ArgumentKind
    usage: str
    home: str


_TYPES = frozenset({AnnotationTarget.NODE, AnnotationTarget.EDGE})
_PROPERTIES = frozenset({AnnotationTarget.PROPERTY, AnnotationTarget.INTERFACE_PROPERTY})
# `@key`, `@range` and `@check` are constraints of a node or edge type: interfaces only pass on `@unique` and `@index`.
_IN_BODY = "inside the braces of a node or edge type"

KNOWN_ANNOTATIONS: Mapping[str, AnnotationRules] = {
    "default": AnnotationRules(_PROPERTIES, ArgumentKind.LITERAL, "@default(literal)", "after a property"),
    "embed": AnnotationRules(
        _PROPERTIES, ArgumentKind.EMBED, '@embed("source", model="…")', "after a Vector of a node type"
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
    "index": AnnotationRules(
        _PROPERTIES, ArgumentKind.INDEX, '@index` or `@index(kind="ivf_flat", recall=0.98)', _IN_BODY
    ),
    "metric": AnnotationRules(_PROPERTIES, ArgumentKind.TEXT, '@metric("l2")', "after a Vector"),
    "language": AnnotationRules(_PROPERTIES, ArgumentKind.TEXT, '@language("german")', "after a String"),
    "range": AnnotationRules(
        frozenset({AnnotationTarget.PROPERTY}), ArgumentKind.MORE, "@range(property, low..high)", _IN_BODY
    ),
    "check": AnnotationRules(
        frozenset({AnnotationTarget.PROPERTY}), ArgumentKind.MORE, '@check(property, "pattern")', _IN_BODY
    ),
}


@dataclass(frozen=True, slots=True)
class AnnotationSet:
    """The annotations of one property or type: the valid known ones by name, and the unknown ones."""

    known: Mapping[str, Annotation] = field(default_factory=dict)
    unknown: tuple[AnnotationValue, ...] = ()

    def get_text(self, name: str) -> str | None:
        """Return the text argument of a known annotation, or None without it."""
        annotation = self.known.get(name)
        argument = None if annotation is None else annotation.argument
        return argument.value if isinstance(argument, StringLiteral) else None


def read_annotations(
    annotations: tuple[Annotation, ...], target: AnnotationTarget, findings: DiagnosticCollector
) -> AnnotationSet:
    """Split annotations into known and unknown ones; a known one that breaks a rule is reported and left out."""
    known: dict[str, Annotation] = {}
    unknown: list[AnnotationValue] = []
    for annotation in annotations:
        name = annotation.name.text
        rules = KNOWN_ANNOTATIONS.get(name)
        if rules is None:
            # Unknown annotations are kept for readers of the catalog, and never fail.
            unknown.append(_build_annotation_value(annotation))
        elif target not in rules.targets:
            _report_target(annotation, rules, target, findings)
        elif name in known:
            # A second `@key` has the code of two keys, in whichever form they are declared.
            code = "S009" if name == "key" else "S023"
            findings.add_error(code, annotation.span, f"`@{name}` is given twice", "keep one of them")
        elif _check_arguments(annotation, rules, findings):
            known[name] = annotation
    return AnnotationSet(known, tuple(unknown))


def get_argument_span(annotation: Annotation) -> Span:
    """Return the span of the argument, or of the whole annotation if it has none."""
    return annotation.span if annotation.argument is None else annotation.argument.span


def _report_target(
    annotation: Annotation, rules: AnnotationRules, target: AnnotationTarget, findings: DiagnosticCollector
) -> None:
    name = annotation.name.text
    if target is AnnotationTarget.INTERFACE_PROPERTY and name in ("key", "range", "check"):
        message = f"an interface can't have a `@{name}`"
        way_out = "declare it in each node type that implements the interface"
    else:
        message = f"`@{name}` means nothing on {target.value}"
        way_out = f"write it {rules.home}: `{rules.usage}`"
    findings.add_error("S022", annotation.span, message, way_out)


def _check_arguments(annotation: Annotation, rules: AnnotationRules, findings: DiagnosticCollector) -> bool:
    problem = _find_problem(annotation, rules)
    if problem is not None:
        findings.add_error("S021", *problem)
    return problem is None


def _find_problem(annotation: Annotation, rules: AnnotationRules) -> tuple[Span, str, str] | None:
    """Return span, message and help for the first wrong argument of a known annotation; None if all are right."""
    name = annotation.name.text
    argument = annotation.argument
    kind = rules.argument_kind
    usage = f"write `{rules.usage}`"
    if kind is ArgumentKind.NOTHING:
        if argument is None and not annotation.options:
            return None
        return annotation.span, f"`@{name}` after a property takes no arguments", usage
    if kind is ArgumentKind.INDEX:
        if argument is not None:
            return argument.span, "`@index` after a property takes options only", usage
        return _find_option_problem(annotation, rules)
    if kind is ArgumentKind.MORE or argument is None:
        return annotation.span, f"`@{name}` needs {_EXPECTED_ARGUMENTS[kind]}", usage
    if isinstance(argument, Name):
        message = f"`@{name}` takes {_EXPECTED_ARGUMENTS[kind]}, not the word `{argument.text}`"
        return argument.span, message, f'put it in quotes: `@{name}("{argument.text}")`'
    if kind is not ArgumentKind.LITERAL and not isinstance(argument, StringLiteral):
        return argument.span, f"`@{name}` takes {_EXPECTED_ARGUMENTS[kind]}, not {format_literal(argument)}", usage
    return _find_option_problem(annotation, rules)


# The options of annotations, and the literals that they take.
_NUMBER = (FloatLiteral, IntLiteral)
_OPTIONS: Mapping[ArgumentKind, Mapping[str, type | tuple[type, ...]]] = {
    ArgumentKind.EMBED: {"model": StringLiteral},
    ArgumentKind.INDEX: {"kind": StringLiteral, "recall": _NUMBER},
}


def _find_option_problem(annotation: Annotation, rules: AnnotationRules) -> tuple[Span, str, str] | None:
    options = _OPTIONS.get(rules.argument_kind, {})
    usage = f"write `{rules.usage}`"
    seen: set[str] = set()
    for option, value in annotation.options:
        message = None
        if option.text not in options:
            message = f"`@{annotation.name.text}` has no option `{option.text}`"
        elif option.text in seen:
            message = f"the option `{option.text}` is given twice"
        elif not isinstance(value, options[option.text]):
            expected = "a text in quotes" if options[option.text] is StringLiteral else "a number"
            message = f"the option `{option.text}` takes {expected}, not {format_literal(value)}"
        if message is not None:
            return option.span, message, suggest_closest(option.text, options) or usage
        seen.add(option.text)
    return None


# --- unknown annotations ---------------------------------------------------------------------------


def _build_annotation_value(annotation: Annotation) -> AnnotationValue:
    argument = annotation.argument
    return AnnotationValue(
        name=annotation.name.text,
        argument=argument.text if isinstance(argument, Name) else _read_untyped_literal(argument),
        options=tuple((name.text, _read_untyped_literal(value)) for name, value in annotation.options),
    )


def _read_untyped_literal(literal: Literal | None) -> Value:
    """Return the value of a literal without a declared type."""
    # An invalid date or time stays text: unknown annotations never fail.
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
