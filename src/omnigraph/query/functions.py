"""The registry of functions of the query language: their arguments, and the contexts where they may be called."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from omnigraph.lang import query_ast as ast
from omnigraph.lang.foreign_words import RANGE_FORM
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import suggest_closest
from omnigraph.query.scalar_functions import SIGNATURES
from omnigraph.schema.findings import DiagnosticCollector, join_words


class FunctionFamily(Enum):
    """The family of a function; the value describes it in messages."""

    VALUE = "a value"
    AGGREGATE = "an aggregate"
    WINDOW = "a window function"
    SEARCH = "a predicate"
    RANK = "a rank function"
    TEXT_VALUE = "a value of a text"
    SCALAR = "a function"
    WALK = "a function of a walk"


class CallContext(Enum):
    """The context of a call; the value describes it in messages."""

    PREDICATE = "as a predicate"
    OPERAND = "in a predicate"
    OUTPUT = "in `return`"
    ORDER = "in `order`"
    HAVING = "in `having`"
    AGGREGATE = "inside an aggregate"
    STORED = "as a value"


# Functions of other query languages, and how it is written here.
_FOREIGN_HELP = {
    "if": "a choice is written `case { $p.age < 18 => 1, else => 2 }`",
    "iif": "a choice is written `case { $p.age < 18 => 1, else => 2 }`",
    **dict.fromkeys(("int", "integer", "bigint"), "write `to_int(value)`"),
    **dict.fromkeys(("str", "string", "text", "varchar"), "write `to_string(value)`"),
    **dict.fromkeys(("float", "double", "real"), "write `to_float(value)`"),
    **dict.fromkeys(
        ("degree", "indegree", "outdegree"), "the edges of a node are counted in a block: `count { $p knows $q }`"
    ),
    "mode": "the most frequent value is that of the largest group: `order { count(*) desc } limit 1`",
    "keys": "all properties are columns with `$p.*`; their names are those of the schema",
    "ifnull": "write `coalesce($p.age, 0)`",
    "isnull": "write `coalesce($p.age, 0)`, or test it: `$p.age is null`",
    "isnotnull": "write `$p.age is not null`",
    "nvl": "write `coalesce($p.age, 0)`",
    "len": "write `length(text)`, or `size(list)`",
    "char_length": "write `length(text)`",
    "substr": "write `substring(text, from, length)`",
    "concat": "texts are joined with `+`, and a list of them with `join(list, separator)`",
    "group_concat": "write `join(collect($q.name), separator)`",
    "string_agg": "write `join(collect($q.name), separator)`",
    "array_agg": "write `collect($q.name)`",
    "mean": "write `avg($p.age)`",
    "total": "write `sum($p.age)`",
    "list": "write `collect($q.name)`",
    "earliest": "write `min($p.born)`",
    "latest": "write `max($p.born)`",
    "average": "write `avg($p.age)`",
    "std": "write `stddev($p.age)`",
    "stdev": "write `stddev($p.age)`",
    "stddev_samp": "write `stddev($p.age)`",
    "var_samp": "write `variance($p.age)`",
    "percentile_cont": "write `percentile($p.age, 0.5)`",
    "percentilecont": "write `percentile($p.age, 0.5)`",
    "cast": "write `to_string`, `to_int`, `to_float`, `to_date` or `to_datetime`",
    "datediff": "write `days_between(from, to)` or `seconds_between(from, to)`",
    "date_diff": "write `days_between(from, to)` or `seconds_between(from, to)`",
    "dateadd": "a duration is added: `$p.born + days(3)`",
    "date_add": "a duration is added: `$p.born + days(3)`",
    "date_trunc": 'write `trunc(moment, "month")`',
    "mod": "write `a % b`",
    "power": "write `pow(base, exponent)`",
    "id": "an id is written `$p.@id`",
    "type": "the type of a node or edge is written `$p.@type`",
    "labels": "the type of a node or edge is written `$p.@type`",
    "exists": "a property that is set is `$p.age is not null`, and a block that matches `exists { $p knows $q }`",
    "tostring": "write `to_string(value)`",
    "tointeger": "write `to_int(value)`",
    "tofloat": "write `to_float(value)`",
    "head": "write `first(list)`",
    "tail": "write `slice(list, 1)`",
    "left": "write `substring(text, 0, length)`",
    "right": "write `substring(text, length(text) - 3)`",
    "ltrim": "write `trim(text)`",
    "rtrim": "write `trim(text)`",
    "startnode": "the ids of the ends of an edge are `$e.@src` and `$e.@dst`",
    "endnode": "the ids of the ends of an edge are `$e.@src` and `$e.@dst`",
    "elementid": "an id is written `$p.@id`",
    "properties": "a whole node is `$p`, and all its properties as columns `$p.*`",
    "relationships": "the edges of a path are `edges($w)`",
    "rels": "the edges of a path are `edges($w)`",
    "isempty": "write `size(list) = 0` or `length(text) = 0`",
    "regexp_matches": "write `matches(text, expression)`",
    "regexp_like": "write `matches(text, expression)`",
    "regexp_extract": "write `extract(text, expression)`",
    "log": "write `ln(x)` or `log10(x)`",
    "over": "a window is written `sum($n) over { per { $c } order { $d } }`",
    "reduce": "a list is folded in a block: `sum { each $x in $p.tags return length($x) }`",
    "getdate": "this instant is `now()`, and its date `today()`",
    "curdate": "this instant is `now()`, and its date `today()`",
    "date_format": "write `to_string(…)`, or parts such as `year($p.born)`",
    "strftime": "write `to_string(…)`, or parts such as `year($p.born)`",
    "to_char": "write `to_string(…)`, or parts such as `year($p.born)`",
    "date_part": "a part of a date is written `year($p.born)`, `month($p.born)` or `day($p.born)`",
    "datepart": "a part of a date is written `year($p.born)`, `month($p.born)` or `day($p.born)`",
    "count_if": "write `count($p where $p.age > 3)`",
    "countif": "write `count($p where $p.age > 3)`",
    "sumif": "write `sum($p.age where $p.age > 3)`",
    **dict.fromkeys(("position", "strpos", "instr", "charindex", "locate"), "write `index_of(text, part)`"),
    **dict.fromkeys(("array_length", "cardinality", "list_length"), "write `size(list)`"),
    **dict.fromkeys(("list_contains", "array_contains"), "write `list contains value`"),
    **dict.fromkeys(("unnest", "explode"), "the elements of a list are rows of a match: `match { each $x in $list }`"),
    **dict.fromkeys(("range", "generate_series"), RANGE_FORM),
    **dict.fromkeys(
        ("dense_rank", "ntile", "percent_rank", "first_value", "last_value"),
        "windows are `row_number()`, `rank()`, `lag(e)`, `lead(e)` and aggregates: `rank() over { order { $p.age } }`",
    ),
    **dict.fromkeys(
        ("seconds", "minutes", "hours", "days", "weeks", "months", "years"),
        "a duration stands after `+` or `-` of a Date or DateTime: `$p.born + days(3)`",
    ),
}

_RESULT_CONTEXTS = frozenset({CallContext.OUTPUT, CallContext.ORDER, CallContext.HAVING})
_VALUE_CONTEXTS = frozenset({CallContext.OPERAND, CallContext.AGGREGATE})
_BLOCK_NAMES = ("sum", "min", "max", "avg")
_LIST_RANKS = ("rrf", "mmr", "rerank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function: its arguments, its contexts, and the codes of diagnostics about wrong calls."""

    name: str
    family: FunctionFamily
    min_args: int
    max_args: int | None
    contexts: frozenset[CallContext]
    # Each form of a call in backticks, for help lines.
    usage: str
    # The code for a call in a wrong context.
    misplaced_code: str
    # The code for a call with wrong arguments.
    misused_code: str
    options: tuple[str, ...] = ()


def _build_aggregate(name: str, usage: str, args: int = 1) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.AGGREGATE,
        min_args=args,
        max_args=args,
        contexts=_RESULT_CONTEXTS,
        usage=usage,
        misplaced_code="T8",
        misused_code="T8",
    )


def _build_window(name: str, usage: str, args: int) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.WINDOW,
        min_args=args,
        max_args=args,
        contexts=_RESULT_CONTEXTS,
        usage=usage,
        misplaced_code="T8",
        misused_code="T8",
    )


def _build_search(name: str, max_args: int, usage: str, code: str) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.SEARCH,
        min_args=2,
        max_args=max_args,
        contexts=frozenset({CallContext.PREDICATE}),
        usage=usage,
        misplaced_code="T18",
        misused_code=code,
    )


def _build_text_value(name: str, max_args: int, usage: str, code: str, *contexts: CallContext) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.TEXT_VALUE,
        min_args=2,
        max_args=max_args,
        contexts=frozenset({CallContext.OUTPUT, CallContext.AGGREGATE, *contexts}),
        usage=usage,
        misplaced_code="T18",
        misused_code=code,
    )


def _build_rank(
    name: str, max_args: int | None, usage: str, code: str, options: tuple[str, ...] = (), min_args: int = 2
) -> Function:
    return Function(
        name=name,
        family=FunctionFamily.RANK,
        min_args=min_args,
        max_args=max_args,
        # A score is a value too, but some ranks depend on all rows of a result.
        contexts=_RESULT_CONTEXTS if name in _LIST_RANKS else _RESULT_CONTEXTS | _VALUE_CONTEXTS,
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
    _build_aggregate("stddev", "`stddev($v.property)`"),
    _build_aggregate("variance", "`variance($v.property)`"),
    _build_aggregate("median", "`median($v.property)`"),
    _build_aggregate("percentile", "`percentile($v.property, 0.95)`", args=2),
    _build_aggregate("product", "`product($v.property)`"),
    _build_aggregate("any", "`any($v.property > 3)`"),
    _build_aggregate("all", "`all($v.property > 3)`"),
    _build_aggregate("collect", "`collect($v.property)` or `collect(distinct $v.property)`"),
    _build_window("row_number", "`row_number() over { order { $v.property } }`", 0),
    _build_window("rank", "`rank() over { order { $v.property } }`", 0),
    _build_window("lag", "`lag($v.property) over { order { $v.property } }`", 1),
    _build_window("lead", "`lead($v.property) over { order { $v.property } }`", 1),
    _build_search("search", 2, "`search($v.property, text)`", "T19"),
    _build_search("match_text", 2, "`match_text($v.property, text)`", "T19"),
    _build_search("fuzzy", 3, "`fuzzy($v.property, text)` or `fuzzy($v.property, text, edits)`", "T20"),
    _build_rank(
        "nearest",
        2,
        "`nearest($v.property, vector or text)`, also with `exact=true`, or `nearest($v.property, $w.property)`",
        "T15",
        ("exact",),
    ),
    _build_rank("bm25", 2, "`bm25($v.property, text)`", "T21"),
    _build_rank(
        "rrf",
        None,
        "`rrf(rank, rank)`, also with more ranks, `k=60` and `weights=[2, 1]`",
        "T21",
        ("k", "weights"),
    ),
    _build_rank(
        "mmr",
        2,
        "`mmr(rank, $v.property)` with a Vector property, also with `lambda=0.5`",
        "T21",
        ("lambda",),
    ),
    _build_rank("rerank", 3, "`rerank(rank, $v.property, text)`", "T21", min_args=3),
    _build_text_value("snippet", 2, "`snippet($v.property, text)`", "T19"),
    _build_text_value(
        "fuzzy_score",
        3,
        "`fuzzy_score($v.property, text)` or `fuzzy_score($v.property, text, edits)`",
        "T20",
        CallContext.ORDER,
    ),
)
_WALK_FUNCTIONS = tuple(
    Function(
        name=name,
        family=FunctionFamily.WALK,
        min_args=1,
        max_args=1,
        contexts=frozenset(CallContext),
        usage=f"`{name}($w)` of a path `$w`",
        misplaced_code="T27",
        misused_code="T27",
    )
    # `length` is a function of texts too, and listed with these.
    for name in ("cost", "nodes", "edges")
)
_SCALAR_FUNCTIONS = tuple(
    Function(
        name=signature.name,
        family=FunctionFamily.SCALAR,
        min_args=signature.min_args,
        max_args=signature.max_args,
        contexts=frozenset(CallContext),
        usage=signature.usage,
        misplaced_code="T27",
        misused_code="T27",
    )
    for signature in SIGNATURES.values()
)
FUNCTIONS: dict[str, Function] = {
    function.name: function for function in (*_ALL_FUNCTIONS, *_WALK_FUNCTIONS, *_SCALAR_FUNCTIONS)
}


def resolve_function(call: ast.Call, context: CallContext, findings: DiagnosticCollector) -> Function | None:
    """Return the called function; None if it is unknown, misplaced or has a wrong number of arguments.

    These errors are reported. The types of the arguments are not checked.
    """
    name = call.function
    function = FUNCTIONS.get(name.text)
    if function is None:
        findings.add_error("Q000", name.span, f"unknown function `{name.text}`", _suggest_functions(name.text, context))
        return None
    if context not in function.contexts:
        span = name.span if function.family is FunctionFamily.SEARCH else call.span
        findings.add_error(function.misplaced_code, span, *_describe_misplaced(function, context))
        return None
    if problem := _find_misuse(call, function):
        findings.add_error(function.misused_code, *problem)
        return None
    return function


def list_functions(families: Iterable[FunctionFamily], context: CallContext | None = None) -> tuple[str, ...]:
    """Return the names of the functions of these families that may be called in a context, in table order."""
    included = set(families)
    return tuple(
        f.name for f in FUNCTIONS.values() if f.family in included and (context is None or context in f.contexts)
    )


def _suggest_functions(word: str, context: CallContext) -> str:
    # The scalar functions are too many for a line: the reference lists them.
    families = (family for family in FunctionFamily if family not in (FunctionFamily.SCALAR, FunctionFamily.WALK))
    allowed = join_words(list_functions(families, context))
    return (
        _FOREIGN_HELP.get(word.lower())
        or suggest_closest(word, FUNCTIONS)
        or f"beside the scalar functions, those {context.value} are {allowed}"
    )


def _describe_misplaced(function: Function, context: CallContext) -> tuple[str, str]:
    message = f"`{function.name}` can't be used {context.value}"
    match function.family:
        case FunctionFamily.VALUE | FunctionFamily.SCALAR | FunctionFamily.WALK:
            return message, "compare it with something: `$v.property < now()`"
        case FunctionFamily.SEARCH:
            return message, "it is a predicate: write it as a clause of `match`"
        case FunctionFamily.AGGREGATE:
            if context in (CallContext.PREDICATE, CallContext.OPERAND):
                # As SQL and Cypher users write it: a match has no groups to aggregate over.
                if function.name == "count":
                    help_ = (
                        "count in a block, `count { $p knows $q } > 3`, or after `return`: `having { count(*) > 3 }`"
                    )
                elif function.name in _BLOCK_NAMES:
                    help_ = f"aggregate in a block: `{function.name} {{ $q: Person return $q.age }}`"
                else:
                    help_ = f"compute it in a stage before: `with {{ {function.usage.strip('`')} as n }} match {{ … }}`"
                return message, help_
            if context is CallContext.STORED:
                return message, "compute it in a stage: `match { … } with { $p, count($q) as n } update $p set { … }`"
            return message, "group in a stage before: `with { …, count(*) as n } return { sum($n) as total }`"
        case FunctionFamily.WINDOW:
            return message, "use a window function in `return` or `order`, and not inside an aggregate"
        case FunctionFamily.TEXT_VALUE:
            if function.name == "fuzzy_score":
                words = "$v.property, text"
                bound = f"`return {{ $v, fuzzy_score({words}) as s }} having {{ s < 2 }}`"
                return message, f"`fuzzy({words})` in `match` finds the rows, and a bound follows: {bound}"
            return message, "return it as a column"
        case FunctionFamily.RANK:
            return message, "use a rank function in `return`, or as the first key of `order`"


def _find_misuse(call: ast.Call, function: Function) -> tuple[Span, str, str] | None:
    """Return the span, message and help if there are too few or too many arguments, or unknown options; else None."""
    count = len(call.arguments)
    help_ = f"write {function.usage}"
    low, high = function.min_args, function.max_args
    if count < low or (high is not None and count > high):
        # No function takes a range wider than two numbers, unless it takes any number.
        most = "more" if high is None else str(high)
        expected = str(low) if low == high else f"{low} or {most}"
        noun = "argument" if expected == "1" else "arguments"
        span = call.arguments[0].span if expected == "0" else call.span
        return span, f"`{function.name}` takes {'no' if expected == '0' else expected} {noun}, not {count}", help_
    if call.distinct and function.name not in ("count", "collect"):
        return call.span, f"`distinct` can be used in `count` and `collect`, not in `{function.name}`", help_
    if problem := _find_misused_parts(call, function):
        return call.span, problem, help_
    for option, _ in call.options:
        if option.text not in function.options:
            options_help = f"its option is {join_words(function.options)}: {help_}" if function.options else help_
            return option.span, f"`{function.name}` has no option `{option.text}`", options_help
    seen: set[str] = set()
    for option, _ in call.options:
        if option.text in seen:
            return option.span, f"`{option.text}` of `{function.name}` is given twice", help_
        seen.add(option.text)
    return None


def _find_misused_parts(call: ast.Call, function: Function) -> str | None:
    """Return what is wrong with the filter, order, limit or window of a call; None if nothing is."""
    is_aggregate = function.family is FunctionFamily.AGGREGATE
    if call.where is not None and not is_aggregate:
        return f"`where` filters the rows of an aggregate, and `{function.name}` is {function.family.value}"
    if (call.order or call.limit is not None) and function.name != "collect":
        return f"`order` and `limit` can be used in `collect`, not in `{function.name}`"
    if call.order and call.distinct:
        return "`collect(distinct …)` is ascending, so it has no `order`"
    if call.window is not None and not (is_aggregate or function.family is FunctionFamily.WINDOW):
        return f"`over` needs an aggregate or a window function, and `{function.name}` is {function.family.value}"
    if call.window is None and function.family is FunctionFamily.WINDOW:
        return f"`{function.name}` needs a window: `over {{ … }}`"
    return None
