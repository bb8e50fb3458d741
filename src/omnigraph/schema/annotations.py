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
from omnigraph.lang.spelling import did_you_mean
from omnigraph.schema.catalog import AnnotationValue, Value
from omnigraph.schema.findings import Findings
from omnigraph.schema.misfit import Misfit
from omnigraph.schema.temporal import parse_date, parse_datetime
from omnigraph.schema.values import literal_text


class Place(Enum):
    """Where an annotation stands."""

    NODE = "a node type"
    EDGE = "an edge type"
    PROPERTY = "a property"
    INTERFACE_PROPERTY = "an interface's property"


class Takes(Enum):
    """What a known annotation wants between its parentheses."""

    NOTHING = "nothing"
    TEXT = "text"
    LITERAL = "literal"
    EMBED = "embed"
    MORE = "more"
    """Arguments that only the grammar of a constraint or `@card` gives, so a plain annotation never has them."""


_WANTED = {
    Takes.TEXT: "a text in quotes",
    Takes.EMBED: "the name of a String in quotes",
    Takes.LITERAL: "a literal",
    Takes.MORE: "arguments",
}


@dataclass(frozen=True, slots=True)
class Known:
    """The rules of one annotation; `usage` shows how it is written, `home` where."""

    places: frozenset[Place]
    takes: Takes
    usage: str
    home: str


_TYPES = frozenset({Place.NODE, Place.EDGE})
_PROPERTIES = frozenset({Place.PROPERTY, Place.INTERFACE_PROPERTY})
_IN_BODY = "inside the braces of a node or edge type"

KNOWN: Mapping[str, Known] = {
    "default": Known(_PROPERTIES, Takes.LITERAL, "@default(literal)", "behind a property"),
    "embed": Known(_PROPERTIES, Takes.EMBED, '@embed("source", model="…")', "behind a Vector of a node type"),
    "description": Known(_TYPES | _PROPERTIES, Takes.TEXT, '@description("…")', "on a type or property"),
    "instruction": Known(_TYPES, Takes.TEXT, '@instruction("…")', "on a node or edge type"),
    "rename_from": Known(_TYPES | _PROPERTIES, Takes.TEXT, '@rename_from("old name")', "on a type or property"),
    "card": Known(frozenset({Place.EDGE}), Takes.MORE, "@card(min..max)", "on an edge type"),
    "key": Known(frozenset({Place.PROPERTY}), Takes.NOTHING, "@key", _IN_BODY),
    "unique": Known(_PROPERTIES, Takes.NOTHING, "@unique", _IN_BODY),
    "index": Known(_PROPERTIES, Takes.NOTHING, "@index", _IN_BODY),
    "range": Known(frozenset({Place.PROPERTY}), Takes.MORE, "@range(property, low..high)", _IN_BODY),
    "check": Known(frozenset({Place.PROPERTY}), Takes.MORE, '@check(property, "pattern")', _IN_BODY),
}


@dataclass(frozen=True, slots=True)
class Notes:
    """The annotations of one property or type: known ones that keep the rules, by name, and all others."""

    known: Mapping[str, Annotation] = field(default_factory=dict)
    kept: tuple[AnnotationValue, ...] = ()

    def text(self, name: str) -> str | None:
        """The text that a known annotation gives, or None without it."""
        annotation = self.known.get(name)
        argument = None if annotation is None else annotation.argument
        return argument.value if isinstance(argument, StringLiteral) else None


def read_annotations(annotations: tuple[Annotation, ...], place: Place, findings: Findings) -> Notes:
    """Sort annotations into known and kept; a known one that breaks a rule is reported and left out."""
    known: dict[str, Annotation] = {}
    kept: list[AnnotationValue] = []
    for annotation in annotations:
        name = annotation.name.text
        rules = KNOWN.get(name)
        if rules is None:
            kept.append(_kept(annotation))
        elif place not in rules.places:
            _report_place(annotation, rules, place, findings)
        elif name in known:
            code = "S009" if name == "key" else "S023"
            findings.error(code, annotation.span, f"`@{name}` is given twice", "keep one of them")
        elif _arguments_fit(annotation, rules, findings):
            known[name] = annotation
    return Notes(known, tuple(kept))


def argument_span(annotation: Annotation) -> Span:
    """The place of the argument, or of the whole annotation if it has none."""
    return annotation.span if annotation.argument is None else annotation.argument.span


def _report_place(annotation: Annotation, rules: Known, place: Place, findings: Findings) -> None:
    name = annotation.name.text
    if place is Place.INTERFACE_PROPERTY and name in ("key", "range", "check"):
        message = f"an interface can't have a `@{name}`"
        way_out = "declare it in each node type that implements the interface"
    else:
        message = f"`@{name}` means nothing on {place.value}"
        way_out = f"it stands {rules.home}: `{rules.usage}`"
    findings.error("S022", annotation.span, message, way_out)


def _arguments_fit(annotation: Annotation, rules: Known, findings: Findings) -> bool:
    problem = _problem(annotation, rules)
    if problem is not None:
        findings.error("S021", *problem)
    return problem is None


def _problem(annotation: Annotation, rules: Known) -> tuple[Span, str, str] | None:
    """Where the arguments of a known annotation go wrong, why, and the way out; None if they don't."""
    name, argument, takes = annotation.name.text, annotation.argument, rules.takes
    usage = f"write `{rules.usage}`"
    if takes is Takes.NOTHING:
        if argument is None and not annotation.options:
            return None
        return annotation.span, f"`@{name}` behind a property takes no arguments", usage
    if takes is Takes.MORE or argument is None:
        return annotation.span, f"`@{name}` needs {_WANTED[takes]}", usage
    if isinstance(argument, Name):
        message = f"`@{name}` takes {_WANTED[takes]}, not the word `{argument.text}`"
        return argument.span, message, f'put it in quotes: `@{name}("{argument.text}")`'
    if takes is not Takes.LITERAL and not isinstance(argument, StringLiteral):
        return argument.span, f"`@{name}` takes {_WANTED[takes]}, not {literal_text(argument)}", usage
    return _option_problem(annotation, rules)


def _option_problem(annotation: Annotation, rules: Known) -> tuple[Span, str, str] | None:
    known = ("model",) if rules.takes is Takes.EMBED else ()
    usage = f"write `{rules.usage}`"
    seen: set[str] = set()
    for option, value in annotation.options:
        message = None
        if option.text not in known:
            message = f"`@{annotation.name.text}` has no option `{option.text}`"
        elif option.text in seen:
            message = f"the option `{option.text}` is given twice"
        elif not isinstance(value, StringLiteral):
            message = f"the option `{option.text}` takes a text in quotes, not {literal_text(value)}"
        if message is not None:
            return option.span, message, did_you_mean(option.text, known) or usage
        seen.add(option.text)
    return None


# --- the ones we don't know ------------------------------------------------------------------------


def _kept(annotation: Annotation) -> AnnotationValue:
    argument = annotation.argument
    return AnnotationValue(
        name=annotation.name.text,
        argument=argument.text if isinstance(argument, Name) else _loose(argument),
        options=tuple((name.text, _loose(value)) for name, value in annotation.options),
    )


def _loose(literal: Literal | None) -> Value:
    """The value of a literal that no type checks; a date that is none stays text, because unknown names never fail."""
    match literal:
        case None | NullLiteral():
            return None
        case DateLiteral(text=text):
            day = parse_date(text)
            return text if isinstance(day, Misfit) else day
        case DateTimeLiteral(text=text):
            time = parse_datetime(text)
            return text if isinstance(time, Misfit) else time
        case ListLiteral(items=items):
            return tuple(_loose(item) for item in items)
        case _:
            return literal.value
