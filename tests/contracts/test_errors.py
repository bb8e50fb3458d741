"""Errors travel: out of a worker process, and into a JSON document."""

import json
import pickle
import re
from collections.abc import Callable

import pytest

import errors_reference
import omnigraph
from error_samples import SOURCE, sample
from omnigraph.bug_error import BugError
from omnigraph.errors import Kind, MissingError, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Span

SAMPLES = [sample(code, error) for code, error in errors_reference.cases() if error is not OmnigraphError]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_an_error_is_the_same_after_a_trip_through_pickle(error: OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, a line above

    assert type(copy) is type(error)
    assert copy.code == error.code
    assert str(copy) == str(error)
    assert copy.facts() == error.facts()


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_the_facts_of_an_error_are_json(error: OmnigraphError) -> None:
    facts = error.facts()

    assert json.loads(json.dumps(facts)) == facts
    assert not [value for value in facts.values() if isinstance(value, int) and value > 2**53]


@pytest.mark.parametrize("code, error", errors_reference.cases())
def test_every_error_says_what_it_is(code: str, error: type[OmnigraphError]) -> None:
    case = error.variants[code].format_message if code in error.variants else error

    assert isinstance(vars(error).get("kind"), Kind)
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", code)
    assert (error.__doc__ or "").strip()
    assert (case.__doc__ or "").strip()


def test_the_only_errors_that_are_bugs_are_the_root_and_the_guards() -> None:
    bugs = {error for error in errors_reference.errors() if error.kind is Kind.INTERNAL}

    assert bugs == {OmnigraphError, BugError}


MAX_CLASSES = 105
MAX_PUBLIC = 45


def test_a_new_error_is_a_variant_unless_callers_tell_it_apart() -> None:
    classes = errors_reference.errors()

    assert len(classes) <= MAX_CLASSES
    assert len([error for error in classes if error.__name__ in omnigraph.__all__]) <= MAX_PUBLIC


def test_a_variant_is_constructed_by_its_name() -> None:
    error = MissingError.row_not_found("Person", id="ada")

    assert str(error) == "there is no Person `ada`"
    assert error.code == "row_not_found"
    assert error.facts() == {"type": "Person", "id": "ada"}


@pytest.mark.parametrize(
    "construct",
    [
        MissingError,
        lambda: MissingError.row_not_found("Person"),  # type: ignore[call-arg]
        lambda: MissingError.row_not_found("Person", "ada", "bob"),  # type: ignore[call-arg]
        lambda: MissingError.row_not_found("Person", "ada", near="bob"),  # type: ignore[call-arg]
    ],
)
def test_a_variant_takes_its_own_fields(construct: Callable[[], OmnigraphError]) -> None:
    with pytest.raises(TypeError, match=r"has the variants query_not_found|row_not_found takes type, id"):
        construct()


def test_every_room_with_errors_is_in_the_reference() -> None:
    rooms = {error.__module__.split(".")[1] for error in errors_reference.errors()}

    assert rooms >= {"commit", "config", "errors", "faults", "lang", "ops", "query", "schema", "storage"}


def test_a_source_error_tells_the_way_out_of_its_first_error() -> None:
    found = [Diagnostic("S000", Span(0, 3), "expected a declaration", help=text) for text in ("write `node`", None)]

    assert str(SourceError(SOURCE, found[:1])) == "a.pg:1:1: S000: expected a declaration\nhelp: write `node`"
    assert str(SourceError(SOURCE, found[1:])) == "a.pg:1:1: S000: expected a declaration"
