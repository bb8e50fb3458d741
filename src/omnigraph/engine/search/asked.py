"""What a search or rank is asked for: its text, vector or number, known before a row is read; and what it may use."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.budget import Budget
from omnigraph.engine.reading import Reading
from omnigraph.query.expr import Const, Input, Nearest
from omnigraph.query.params import ParameterError, ParameterProblem


def asked_text(reading: Reading, query: Input, function: str) -> str:
    """The text that is looked for; ParameterError for a parameter that is null."""
    value = reading.inputs.value(query)
    if not isinstance(value, str):
        raise _refused(query, f"`{function}` has nothing to look for: give a text")
    return value


def asked_number(reading: Reading, number: Input, function: str, *, at_least: int) -> int:
    """A number such as `edits` or `k`; ParameterError for one that is too small."""
    value = reading.inputs.value(number)
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
    value = reading.inputs.value(rank.query)
    if isinstance(value, str):
        prop = reading.view.type(type_name).by_name[rank.prop.name]
        return np.asarray(reading.embed(value, prop), np.float64)
    if value is None:
        raise _refused(rank.query, "`nearest` has nothing to look for: give a vector or a text")
    return np.asarray(value, np.float64)


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
