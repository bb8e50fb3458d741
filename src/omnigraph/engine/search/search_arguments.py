"""What a search or rank is asked for: its text, vector or number, known before a row is read; and what it may use."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.execution_context import Reading
from omnigraph.engine.predicate_eval import Inputs
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Bm25, Const, Expr, Input, Nearest, Rrf, TextMatch, walk
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.catalog import Value


def check_asked(exprs: Iterable[Expr], inputs: Inputs) -> None:
    """ParameterError when a search or rank in any of these is given nothing to look for, or a number it can't have."""
    problems: dict[ParameterProblem, None] = {}
    for part in (part for expr in exprs for part in walk(expr)):
        try:
            _check(part, inputs)
        except ParameterError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ParameterError(problems)


def _check(part: Expr, inputs: Inputs) -> None:
    match part:
        case TextMatch():
            asked_text(inputs, part.query, part.mode.value)
            asked_edits(inputs, part)
        case Bm25():
            asked_text(inputs, part.query, "bm25")
        case Nearest():
            _given_vector(inputs, part)
        case Rrf():
            asked_k(inputs, part)
        case _:
            pass


def asked_text(inputs: Inputs, query: Input, function: str) -> str:
    """The text that is looked for; ParameterError for a parameter that is null."""
    value = inputs.value(query)
    if not isinstance(value, str):
        raise _refused(query, f"`{function}` has nothing to look for: give a text")
    return value


def asked_edits(inputs: Inputs, match: TextMatch) -> int | None:
    """How far a word may be, None when that is the default; ParameterError for less than 0."""
    return None if match.edits is None else _number(inputs, match.edits, match.mode.value, at_least=0)


def asked_k(inputs: Inputs, rank: Rrf) -> int:
    """The `k` of a fusion; ParameterError for less than 1."""
    return _number(inputs, rank.k, "rrf", at_least=1)


def _number(inputs: Inputs, number: Input, function: str, *, at_least: int) -> int:
    value = inputs.value(number)
    if not isinstance(value, int) or value < at_least:
        raise _refused(number, f"`{function}` needs a whole number of at least {at_least}")
    return value


def asked_vector(reading: Reading, rank: Nearest, type_name: str) -> NDArray[np.float64]:
    """The vector that is looked for, embedded now when it is given as a text.

    Raises:
        ParameterError: The parameter is null.
        NoProviderError, ModelDiffersError, VectorSizeError: A text can't become a vector of this property.
        ProviderRefusedError, ProviderFailedError: The provider gave none.
    """
    value = _given_vector(reading.inputs, rank)
    if isinstance(value, str):
        prop = reading.view.type(type_name).by_name[rank.prop.name]
        return np.asarray(reading.embed(value, prop), np.float64)
    return np.asarray(value, np.float64)


def _given_vector(inputs: Inputs, rank: Nearest) -> Value:
    value = inputs.value(rank.query)
    if value is None:
        raise _refused(rank.query, "`nearest` has nothing to look for: give a vector or a text")
    return value


def _refused(given: Input, problem: str) -> ParameterError:
    name = "a literal" if isinstance(given, Const) else given.name
    return ParameterError([ParameterProblem(name, f"the parameter `${name}`: {problem}")])


@contextmanager
def claimed(budget: Budget, nbytes: int, what: str) -> Iterator[None]:
    """Memory for a while; QueryMemoryError when there is not so much left."""
    budget.claim(nbytes, what)
    try:
        yield
    finally:
        budget.release(nbytes)
