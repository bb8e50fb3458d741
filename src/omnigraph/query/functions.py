"""The functions of the query language: one table of what each takes and where it may stand."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import suggest_closest
from omnigraph.schema.findings import DiagnosticCollector, join_words


class FunctionFamily(Enum):
    """What a function is; the value is how a message calls it."""

    VALUE = "a value"
    AGGREGATE = "an aggregate"
    SEARCH = "a predicate"
    RANK = "a rank function"


class CallContext(Enum):
    """Where a call stands; the value is how a message calls it."""

    PREDICATE = "as a predicate"
    OPERAND = "in a predicate"
    OUTPUT = "in `return`"
    ORDER = "in `order`"
    AGGREGATE = "inside an aggregate"
    STORED = "as a value"


_RESULT_CONTEXTS = frozenset({CallContext.OUTPUT, CallContext.ORDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function: its name, where it may stand and which code its misuse has."""

    name: str
    family: FunctionFamily
    min_args: int
    max_args: int
    contexts: frozenset[CallContext]
    usage: str
    """How it is called, each way in backticks, for help lines."""
    misplaced_code: str
    """The code of a call in a wrong place."""
    misused_code: str
    """The code of a call with wrong arguments."""
    options: tuple[str, ...] = ()


def _build_aggregate(name: str, usage: str) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.AGGREGATE,
        min_args=1,
        max_args=1,
        contexts=_RESULT_CONTEXTS,
        usage=usage,
        misplaced_code="T8",
        misused_code="T8",
    )


def _build_search(name: str, most: int, usage: str, code: str) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.SEARCH,
        min_args=2,
        max_args=most,
        contexts=frozenset({CallContext.PREDICATE}),
        usage=usage,
        misplaced_code="T18",
        misused_code=code,
    )


def _build_rank(name: str, most: int, usage: str, code: str, options: tuple[str, ...] = ()) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.RANK,
        min_args=2,
        max_args=most,
        contexts=_RESULT_CONTEXTS,
        usage=usage,
        misplaced_code="T18",
        misused_code=code,
        options=options,
    )


_ALL_FUNCTIONS: tuple[Function, ...] = (
    Function(
        name="now",
        family=FunctionFamily.VALUE,
        min_args=0,
        max_args=0,
        contexts=frozenset(CallContext) - {CallContext.PREDICATE},
        usage="`now()`",
        misplaced_code="Q000",
        misused_code="Q000",
    ),
    _build_aggregate("count", "`count(*)`, `count($v)`, `count($v.property)` or `count(distinct $v.property)`"),
    _build_aggregate("sum", "`sum($v.property)`"),
    _build_aggregate("avg", "`avg($v.property)`"),
    _build_aggregate("min", "`min($v.property)`"),
    _build_aggregate("max", "`max($v.property)`"),
    _build_search("search", 2, "`search($v.property, text)`", "T19"),
    _build_search("match_text", 2, "`match_text($v.property, text)`", "T19"),
    _build_search("fuzzy", 3, "`fuzzy($v.property, text)` or `fuzzy($v.property, text, edits)`", "T20"),
    _build_rank("nearest", 2, "`nearest($v.property, vector or text)`", "T15"),
    _build_rank("bm25", 2, "`bm25($v.property, text)`", "T21"),
    _build_rank("rrf", 3, "`rrf(rank, rank)` or `rrf(rank, rank, k=60)`", "T21", ("k",)),
)
FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL_FUNCTIONS}


def resolve_function(call: ast.Call, place: CallContext, findings: DiagnosticCollector) -> Function | None:
    """The function that is called, or None when it is unknown, misplaced or has a wrong number of arguments.

    What is wrong is noted. The kinds of the arguments are not looked at.
    """
    name = call.function
    function = FUNCTIONS.get(name.text)
    if function is None:
        findings.add_error("Q000", name.span, f"unknown function `{name.text}`", _suggest_functions(name.text, place))
        return None
    if place not in function.contexts:
        span = name.span if function.family is FunctionFamily.SEARCH else call.span
        findings.add_error(function.misplaced_code, span, *_describe_misplaced(function, place))
        return None
    if problem := _find_misuse(call, function):
        findings.add_error(function.misused_code, *problem)
        return None
    return function


def list_functions(families: Iterable[FunctionFamily], place: CallContext | None = None) -> tuple[str, ...]:
    """The functions of these families that may stand there, in table order."""
    wanted = set(families)
    return tuple(f.name for f in _ALL_FUNCTIONS if f.family in wanted and (place is None or place in f.contexts))


def _suggest_functions(word: str, place: CallContext) -> str:
    return (
        suggest_closest(word, FUNCTIONS)
        or f"the functions {place.value} are {join_words(list_functions(FunctionFamily, place))}"
    )


def _describe_misplaced(function: Function, place: CallContext) -> tuple[str, str]:
    message = f"`{function.name}` can't stand {place.value}"
    match function.family:
        case FunctionFamily.VALUE:
            return message, "compare it with something: `$v.property < now()`"
        case FunctionFamily.SEARCH:
            return message, "it is a predicate: write it as a clause of `match`"
        case FunctionFamily.AGGREGATE:
            return message, "an aggregate stands in `return` or `order`, and not inside another one"
        case FunctionFamily.RANK:
            return message, "a rank function stands in `return`, or first in `order`"


def _find_misuse(call: ast.Call, function: Function) -> tuple[Span, str, str] | None:
    """The place, the problem and the way out, if there are too few or too many arguments, or unknown options."""
    count, help_ = len(call.arguments), f"write {function.usage}"
    if not function.min_args <= count <= function.max_args:
        wanted = (
            str(function.min_args)
            if function.min_args == function.max_args
            else f"{function.min_args} or {function.max_args}"
        )
        noun = "argument" if wanted == "1" else "arguments"
        span = call.arguments[0].span if wanted == "0" else call.span
        return span, f"`{function.name}` takes {'no' if wanted == '0' else wanted} {noun}, not {count}", help_
    if call.distinct and function.name != "count":
        return call.span, f"`distinct` goes with `count`, not with `{function.name}`", help_
    for option, _ in call.options:
        if option.text not in function.options:
            known = f"its option is {join_words(function.options)}: {help_}" if function.options else help_
            return option.span, f"`{function.name}` has no option `{option.text}`", known
    if len(call.options) > 1 or (call.options and count == function.max_args):
        option, _ = call.options[-1]
        return option.span, f"`{option.text}` of `{function.name}` is given twice", help_
    return None
