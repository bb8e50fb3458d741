"""Errors travel: out of a worker process, and into a JSON document."""

import json
import pickle
import re

import pytest

import errors_reference
from error_samples import SOURCE, sample
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Span

SAMPLES = [sample(error) for error in errors_reference.errors() if error is not OmnigraphError]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_an_error_is_the_same_after_a_trip_through_pickle(error: OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, a line above

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.facts() == error.facts()


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_the_facts_of_an_error_are_json(error: OmnigraphError) -> None:
    facts = error.facts()

    assert json.loads(json.dumps(facts)) == facts
    assert not [value for value in facts.values() if isinstance(value, int) and value > 2**53]


@pytest.mark.parametrize("error", errors_reference.errors(), ids=lambda error: error.__name__)
def test_every_error_says_what_it_is(error: type[OmnigraphError]) -> None:
    own = vars(error)

    assert isinstance(own.get("kind"), Kind)
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", own.get("code", ""))
    assert (own.get("__doc__") or "").strip()


def test_the_only_errors_that_are_bugs_are_the_root_and_the_guards() -> None:
    bugs = {error.__name__ for error in errors_reference.errors() if error.kind is Kind.INTERNAL}

    guards = {
        "DemoFailedError",
        "PurgeMismatchError",
        "RewriteMismatchError",
        "SearchNotHereError",
        "StaleBaseError",
        "TaskBrokenError",
    }
    assert bugs == {"OmnigraphError", *guards}


def test_every_room_with_errors_is_in_the_reference() -> None:
    rooms = {error.__module__.split(".")[1] for error in errors_reference.errors()}

    assert rooms >= {"commit", "config", "errors", "faults", "lang", "ops", "query", "schema", "storage"}


def test_a_source_error_tells_the_way_out_of_its_first_error() -> None:
    found = [Diagnostic("S000", Span(0, 3), "expected a declaration", help=text) for text in ("write `node`", None)]

    assert str(SourceError(SOURCE, found[:1])) == "a.pg:1:1: S000: expected a declaration\nhelp: write `node`"
    assert str(SourceError(SOURCE, found[1:])) == "a.pg:1:1: S000: expected a declaration"
