"""Errors are declared once: constructor, message, facts and signature follow from their fields."""

import inspect
from typing import Any

import pytest

from omnigraph.errors import Kind, OmnigraphError


class DeclaredError(OmnigraphError):
    """An error with a field that has a default."""

    kind = Kind.INVALID
    code = "declared"
    path: str
    line: int = 1
    message = "{path}:{line} has a {{brace}}"


def test_the_message_of_a_declared_error_is_its_template() -> None:
    assert str(DeclaredError("{a}.gq", line=3)) == "{a}.gq:3 has a {brace}"


def test_the_fields_of_a_declared_error_are_its_facts_and_its_arguments() -> None:
    error = DeclaredError(path="a.gq")

    assert error.facts() == {"path": "a.gq", "line": 1}
    assert error.args == ("a.gq", 1)


@pytest.mark.parametrize("arguments, named", [((), {}), (("a", 1, 2), {}), (("a",), {"path": "b"}), (("a",), {"x": 1})])
def test_a_declared_error_takes_its_fields_and_nothing_else(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="DeclaredError takes path, line"):
        DeclaredError(*arguments, **named)


def test_the_signature_of_a_declared_error_names_its_fields() -> None:
    assert str(inspect.signature(DeclaredError)) == "(path: str, line: int = 1)"


class UndeclaredError(OmnigraphError):
    """An error without fields or a template, as other packages may define one."""


def test_an_error_without_a_template_shows_its_argument() -> None:
    assert str(UndeclaredError("it is broken")) == "it is broken"
