"""Resolve and check the arguments of searches and ranks before any row is read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.query.expr import Bm25, Const, Expr, Input, Nearest, Rerank, Rrf, Snippet, TextMatch
from omnigraph.query.expr_tree import walk
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.catalog import Value

# The expressions whose arguments are checked.
SEARCHES: frozenset[type[Expr]] = frozenset({TextMatch, Bm25, Snippet, Nearest, Rrf, Rerank})


def check_search_arguments(exprs: Iterable[Expr], inputs: QueryInputs) -> None:
    """Check the arguments of every search and rank in these expressions.

    Raises:
        ParameterError: Some have nothing to search for, or a number out of range; it lists all of them.
    """
    # All problems are reported together, each once, in the order of the query.
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
        case Snippet():
            resolve_text(inputs, part.query, "snippet")
        case Nearest():
            _resolve_vector_input(inputs, part)
        case Rerank():
            resolve_text(inputs, part.query, "rerank")
        case Rrf():
            resolve_k(inputs, part)
        case _:
            pass


def resolve_text(inputs: QueryInputs, query: Input, function: str) -> str:
    """Return the text to search for.

    Raises:
        ParameterError: The parameter is null.
    """
    value = inputs.resolve(query)
    # The binder checked the type of literals and parameters, so only null is left.
    if not isinstance(value, str):
        raise _build_error(query, f"`{function}` has nothing to look for: give a text")
    return value


def resolve_edits(inputs: QueryInputs, match: TextMatch) -> int | None:
    """Return the number of edits of a fuzzy match, or None for the default.

    Raises:
        ParameterError: It is less than 0.
    """
    return None if match.edits is None else _resolve_number(inputs, match.edits, match.mode.value, minimum=0)


def resolve_k(inputs: QueryInputs, rank: Rrf) -> int:
    """Return the `k` of a reciprocal rank fusion.

    Raises:
        ParameterError: It is less than 1.
    """
    return _resolve_number(inputs, rank.k, "rrf", minimum=1)


def _resolve_number(inputs: QueryInputs, number: Input, function: str, *, minimum: int) -> int:
    value = inputs.resolve(number)
    if not isinstance(value, int) or value < minimum:
        raise _build_error(number, f"`{function}` needs a whole number of at least {minimum}")
    return value


def resolve_vector(context: ExecutionContext, rank: Nearest, type_name: str) -> NDArray[np.float64]:
    """Return the vector to search for; a text is embedded now.

    Raises:
        ParameterError: The parameter is null.
        SettingsError, EmbeddingError, ProviderFailedError: A text can't be embedded for this property.
    """
    value = _resolve_vector_input(context.inputs, rank)
    if isinstance(value, str):
        # The property states which model embedded its vectors: the query must use the same one.
        prop = context.view.get_type(type_name).by_name[rank.prop.name]
        return np.asarray(context.embed(value, prop), np.float64)
    return np.asarray(value, np.float64)


def _resolve_vector_input(inputs: QueryInputs, rank: Nearest) -> Value:
    value = inputs.resolve(rank.query)
    if value is None:
        raise _build_error(rank.query, "`nearest` has nothing to look for: give a vector or a text")
    return value


def _build_error(argument: Input, problem: str) -> ParameterError:
    name = "a literal" if isinstance(argument, Const) else argument.name
    return ParameterError([ParameterProblem(name, f"the parameter `${name}`: {problem}")])


@contextmanager
def reserve(budget: Budget, nbytes: int, what: str) -> Iterator[None]:
    """Reserve memory of the budget within a `with` block.

    Raises:
        QueryMemoryError: The budget has less memory left.
    """
    budget.claim(nbytes, what)
    try:
        yield
    finally:
        budget.release(nbytes)
