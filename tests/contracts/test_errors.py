"""Errors travel: out of a worker process, and into a JSON document."""

import inspect
import json
import pickle
import re

import pytest

import errors_reference
from omnigraph.engine.bulk.refusals import LoadError, Problem
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.engine.writing.violations import ConstraintError, ConstraintViolation
from omnigraph.errors import Kind, OmnigraphError, QueryAmbiguousError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Source, Span
from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult
from omnigraph.ops.schema_apply import SchemaDropsDataError, SchemaUnfitError, SchemaUnsupportedError
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.steps import Step, StepKind

SOURCE = Source("nod Person {}", "a.pg")
PROBLEM = Problem(
    rule="unique", file="in.jsonl", line=3, unit="line", type="T", property="p", value="1", message="it is taken"
)
VIOLATION = ConstraintViolation(rule="enum", type="T", id="a", message="it is none")
STEP = Step(
    kind=StepKind.UNSUPPORTED_CHANGE,
    type="T",
    table="node:T",
    message="it can't be",
    property_name="p",
    code="OG-MF-106",
)
CONFLICTS = MergeResult(
    outcome=MergeOutcome.CONFLICTS,
    source="dev",
    into="main",
    source_commit="2",
    base_commit="1",
    conflicts=(Conflict(kind=ConflictKind.DIVERGENT_UPDATE, table="node:T", id="a", message="it is both"),),
    conflict_counts={"DivergentUpdate": 1},
)
MADE_BY_HAND: dict[type[OmnigraphError], OmnigraphError] = {
    SourceError: SourceError(SOURCE, [Diagnostic("S000", Span(0, 3), "expected a declaration")]),
    ParameterError: ParameterError([ParameterProblem(name="n", type="I64", value="x", reason="it is no number")]),
    ConstraintError: ConstraintError([VIOLATION], 2),
    SchemaUnfitError: SchemaUnfitError([VIOLATION], 2),
    SchemaUnsupportedError: SchemaUnsupportedError([STEP]),
    SchemaDropsDataError: SchemaDropsDataError([STEP]),
    QueryAmbiguousError: QueryAmbiguousError("a.gq", ("one", "two")),
    LoadError: LoadError([PROBLEM], 2, "bad"),
    MergeConflictsError: MergeConflictsError(CONFLICTS),
}
LARGE = 2**63 + 7
"""A version of a table."""


def sample(error: type[OmnigraphError]) -> OmnigraphError:
    """An error of a class, with a value for each fact."""
    if error in MADE_BY_HAND:
        return MADE_BY_HAND[error]
    texts: dict[object, object] = {str: "it", str | None: None, tuple[str, ...]: ("it",)}
    values: dict[object, object] = {**texts, int: LARGE, float: 1.5, bool: True}
    has_facts = inspect.isfunction(error.__init__)  # else it is the one of Exception, which takes anything
    facts = list(inspect.signature(error).parameters.values()) if has_facts else []
    return error(*(values[fact.annotation] for fact in facts))


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
