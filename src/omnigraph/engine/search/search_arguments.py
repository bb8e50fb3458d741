"""What a search or rank is asked for: its text, vector or number, known before a row is read; and what it may use."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Bm25, Const, Expr, Input, Nearest, Rrf, TextMatch, walk
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.catalog import Value


def check_search_arguments(exprs: Iterable[Expr], inputs: QueryInputs) -> None:
    """ParameterError when a search or rank in any of these is given nothing to look for, or a number it can't have."""
    problems: dict[ParameterProblem, None] = {}
    for part in (part for expr in exprs for part in walk(expr)):
        try:
            _check(part, inputs)
        except ParameterError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ParameterError(problems)


def _check(part: Expr, inputs: QueryInputs) -> None:
    match part:
        case TextMatch():
            resolve_text(inputs, part.query, part.mode.value)
            resolve_edits(inputs, part)
        case Bm25():
            resolve_text(inputs, part.query, "bm25")
        case Nearest():
            _resolve_vector_input(inputs, part)
        case Rrf():
            resolve_k(inputs, part)
        case _:
            pass


def resolve_text(inputs: QueryInputs, query: Input, function: str) -> str:
    """The text that is looked for; ParameterError for a parameter that is null."""
    value = inputs.resolve(query)
    if not isinstance(value, str):
        raise _build_error(query, f"`{function}` has nothing to look for: give a text")
    return value


def resolve_edits(inputs: QueryInputs, match: TextMatch) -> int | None:
    """How far a word may be, None when that is the default; ParameterError for less than 0."""
    return None if match.edits is None else _resolve_number(inputs, match.edits, match.mode.value, minimum=0)


def resolve_k(inputs: QueryInputs, rank: Rrf) -> int:
    """The `k` of a fusion; ParameterError for less than 1."""
    return _resolve_number(inputs, rank.k, "rrf", minimum=1)


def _resolve_number(inputs: QueryInputs, number: Input, function: str, *, minimum: int) -> int:
    value = inputs.resolve(number)
    if not isinstance(value, int) or value < minimum:
        raise _build_error(number, f"`{function}` needs a whole number of at least {minimum}")
    return value


def resolve_vector(reading: ExecutionContext, rank: Nearest, type_name: str) -> NDArray[np.float64]:
    """The vector that is looked for, embedded now when it is given as a text.

    Raises:
        ParameterError: The parameter is null.
        NoProviderError, ModelDiffersError, VectorSizeError: A text can't become a vector of this property.
        ProviderRefusedError, ProviderFailedError: The provider gave none.
    """
    value = _resolve_vector_input(reading.inputs, rank)
    if isinstance(value, str):
        prop = reading.view.get_type(type_name).by_name[rank.prop.name]
        return np.asarray(reading.embed(value, prop), np.float64)
    return np.asarray(value, np.float64)


def _resolve_vector_input(inputs: QueryInputs, rank: Nearest) -> Value:
    value = inputs.resolve(rank.query)
    if value is None:
        raise _build_error(rank.query, "`nearest` has nothing to look for: give a vector or a text")
    return value


def _build_error(given: Input, problem: str) -> ParameterError:
    name = "a literal" if isinstance(given, Const) else given.name
    return ParameterError([ParameterProblem(name, f"the parameter `${name}`: {problem}")])


@contextmanager
def reserve(budget: Budget, nbytes: int, what: str) -> Iterator[None]:
    """Memory for a while; QueryMemoryError when there is not so much left."""
    budget.claim(nbytes, what)
    try:
        yield
    finally:
        budget.release(nbytes)
