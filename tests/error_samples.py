"""An error of every class, with a value for each fact."""

import inspect

from omnigraph.engine.bulk.load_errors import LoadError, Problem
from omnigraph.engine.constraints.violations import ConstraintError, ConstraintViolation
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Source, Span
from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult
from omnigraph.ops.schema_apply import SchemaDropsDataError, SchemaUnfitError, SchemaUnsupportedError
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.migration_steps import Step, StepKind

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
    into_commit="3",
    base_commit="1",
    conflicts=(Conflict(kind=ConflictKind.DIVERGENT_UPDATE, table="node:T", id="a", message="it is both"),),
    conflict_counts={"DivergentUpdate": 1},
)
MADE_BY_HAND: dict[str, OmnigraphError] = {
    error.code: error
    for error in (
        SourceError(SOURCE, [Diagnostic("S000", Span(0, 3), "expected a declaration")]),
        ParameterError([ParameterProblem(name="n", type="I64", value="x", reason="it is no number")]),
        ConstraintError([VIOLATION], 2),
        SchemaUnfitError([VIOLATION], 2),
        SchemaUnsupportedError([STEP]),
        SchemaDropsDataError([STEP]),
        BadArgumentError.query_ambiguous("a.gq", ("one", "two")),
        LoadError([PROBLEM], 2, "bad"),
        MergeConflictsError(CONFLICTS),
    )
}
LARGE = 2**63 + 7
"""A version of a table."""


def sample(code: str, error: type[OmnigraphError]) -> OmnigraphError:
    """An error of a class, or of one of its variants, with a value for each fact."""
    if code in MADE_BY_HAND:
        return MADE_BY_HAND[code]
    texts: dict[object, object] = {str: "it", str | None: None, tuple[str, ...]: ("it",)}
    values: dict[object, object] = {**texts, int: LARGE, float: 1.5, bool: True}
    takes = error.variants[code].format_message if code in error.variants else error
    facts = [fact for fact in inspect.signature(takes).parameters.values() if fact.name != "self"]
    construct = getattr(error, code) if code in error.variants else error
    example: OmnigraphError = construct(*(values[fact.annotation] for fact in facts))
    return example
