"""The functions of the query language: one table of what each takes and where it may stand."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import did_you_mean
from omnigraph.schema.findings import Findings, listed


class Family(Enum):
    """What a function is; the value is how a message calls it."""

    VALUE = "a value"
    AGGREGATE = "an aggregate"
    SEARCH = "a predicate"
    RANK = "a rank function"


class Place(Enum):
    """Where a call stands; the value is how a message calls it."""

    PREDICATE = "as a predicate"
    OPERAND = "in a predicate"
    OUTPUT = "in `return`"
    ORDER = "in `order`"
    AGGREGATE = "inside an aggregate"
    STORED = "as a value"


_RESULTS = frozenset({Place.OUTPUT, Place.ORDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function: its name, where it may stand and which code its misuse has."""

    name: str
    family: Family
    least: int
    most: int
    places: frozenset[Place]
    usage: str
    """How it is called, each way in backticks, for help lines."""
    misplaced: str
    """The code of a call in a wrong place."""
    misused: str
    """The code of a call with wrong arguments."""
    options: tuple[str, ...] = ()


def _aggregate(name: str, usage: str) -> Function:
    return Function(
        name=name,
        family=Family.AGGREGATE,
        least=1,
        most=1,
        places=_RESULTS,
        usage=usage,
        misplaced="T8",
        misused="T8",
    )


def _search(name: str, most: int, usage: str, code: str) -> Function:
    return Function(
        name=name,
        family=Family.SEARCH,
        least=2,
        most=most,
        places=frozenset({Place.PREDICATE}),
        usage=usage,
        misplaced="T18",
        misused=code,
    )


def _rank(name: str, most: int, usage: str, code: str, options: tuple[str, ...] = ()) -> Function:
    return Function(
        name=name,
        family=Family.RANK,
        least=2,
        most=most,
        places=_RESULTS,
        usage=usage,
        misplaced="T18",
        misused=code,
        options=options,
    )


_ALL: tuple[Function, ...] = (
    Function(
        name="now",
        family=Family.VALUE,
        least=0,
        most=0,
        places=frozenset(Place) - {Place.PREDICATE},
        usage="`now()`",
        misplaced="Q000",
        misused="Q000",
    ),
    _aggregate("count", "`count(*)`, `count($v)`, `count($v.property)` or `count(distinct $v.property)`"),
    _aggregate("sum", "`sum($v.property)`"),
    _aggregate("avg", "`avg($v.property)`"),
    _aggregate("min", "`min($v.property)`"),
    _aggregate("max", "`max($v.property)`"),
    _search("search", 2, "`search($v.property, text)`", "T19"),
    _search("match_text", 2, "`match_text($v.property, text)`", "T19"),
    _search("fuzzy", 3, "`fuzzy($v.property, text)` or `fuzzy($v.property, text, edits)`", "T20"),
    _rank("nearest", 2, "`nearest($v.property, vector or text)`", "T15"),
    _rank("bm25", 2, "`bm25($v.property, text)`", "T21"),
    _rank("rrf", 3, "`rrf(rank, rank)` or `rrf(rank, rank, k=60)`", "T21", ("k",)),
)
FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}


def look_up(call: ast.Call, place: Place, findings: Findings) -> Function | None:
    """The function that is called, or None when it is unknown, misplaced or has a wrong number of arguments.

    What is wrong is noted. The kinds of the arguments are not looked at.
    """
    name = call.function
    function = FUNCTIONS.get(name.text)
    if function is None:
        findings.error("Q000", name.span, f"unknown function `{name.text}`", _known(name.text, place))
        return None
    if place not in function.places:
        span = name.span if function.family is Family.SEARCH else call.span
        findings.error(function.misplaced, span, *_misplaced(function, place))
        return None
    if problem := _misuse(call, function):
        findings.error(function.misused, *problem)
        return None
    return function


def names(families: Iterable[Family], place: Place | None = None) -> tuple[str, ...]:
    """The functions of these families that may stand there, in table order."""
    wanted = set(families)
    return tuple(f.name for f in _ALL if f.family in wanted and (place is None or place in f.places))


def _known(word: str, place: Place) -> str:
    return did_you_mean(word, FUNCTIONS) or f"the functions {place.value} are {listed(names(Family, place))}"


def _misplaced(function: Function, place: Place) -> tuple[str, str]:
    message = f"`{function.name}` can't stand {place.value}"
    match function.family:
        case Family.VALUE:
            return message, "compare it with something: `$v.property < now()`"
        case Family.SEARCH:
            return message, "it is a predicate: write it as a clause of `match`"
        case Family.AGGREGATE:
            return message, "an aggregate stands in `return` or `order`, and not inside another one"
        case Family.RANK:
            return message, "a rank function stands in `return`, or first in `order`"


def _misuse(call: ast.Call, function: Function) -> tuple[Span, str, str] | None:
    """The place, the problem and the way out, if there are too few or too many arguments, or unknown options."""
    count, help_ = len(call.arguments), f"write {function.usage}"
    if not function.least <= count <= function.most:
        wanted = str(function.least) if function.least == function.most else f"{function.least} or {function.most}"
        noun = "argument" if wanted == "1" else "arguments"
        span = call.arguments[0].span if wanted == "0" else call.span
        return span, f"`{function.name}` takes {'no' if wanted == '0' else wanted} {noun}, not {count}", help_
    if call.distinct and function.name != "count":
        return call.span, f"`distinct` goes with `count`, not with `{function.name}`", help_
    for option, _ in call.options:
        if option.text not in function.options:
            known = f"its option is {listed(function.options)}: {help_}" if function.options else help_
            return option.span, f"`{function.name}` has no option `{option.text}`", known
    if len(call.options) > 1 or (call.options and count == function.most):
        option, _ = call.options[-1]
        return option.span, f"`{option.text}` of `{function.name}` is given twice", help_
    return None
