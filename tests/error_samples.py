"""An error of every class, with a value for each fact."""

import inspect

from omnigraph.engine.bulk.load_errors import LoadError, Problem
from omnigraph.engine.constraints.violations import ConstraintError, ConstraintViolation
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.errors import OmnigraphError, QueryAmbiguousError
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
