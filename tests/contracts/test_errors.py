"""Errors travel: out of a worker process, and into a JSON document."""

import json
import pickle

import pytest

import errors_reference
from omnigraph import errors
from omnigraph.errors import Kind, OmnigraphError

SAMPLES: list[OmnigraphError] = [
    errors.FileMissingError("a.gq"),
    errors.NotAFileError("a"),
    errors.FileDeniedError("a.gq", "read"),
    errors.FileUnreadableError("a.gq", "Input/output error"),
    errors.TextEncodingError("a.gq", 7, 0xFF),
    errors.TextTooLargeError("a.gq", 10),
    errors.QueryMissingError("qurey", "a.gq", "query"),
    errors.QueryMissingError("", "a.gq", None),
    errors.OutputError("No space left on device"),
]


def test_every_error_of_the_base_has_a_sample_here() -> None:
    base = {error for error in errors_reference.errors() if error.__module__ == "omnigraph.errors"}

    assert {type(sample) for sample in SAMPLES} == base - {OmnigraphError}


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_an_error_is_the_same_after_a_trip_through_pickle(error: OmnigraphError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, a line above

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.facts() == error.facts()


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{error.code}")
def test_the_facts_of_an_error_are_json(error: OmnigraphError) -> None:
    assert json.loads(json.dumps(error.facts())) == error.facts()


def test_every_error_says_what_to_do() -> None:
    careless = [error.__name__ for error in errors_reference.errors() if error.kind is Kind.INTERNAL]

    assert careless == ["OmnigraphError"]
