"""What the languages make of a text, and how that differs from what a case expects."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from corpus_format import Case, Finding
from corpus_reading import failure_of_answers, failure_of_statement, schema_of_graph
from corpus_writing import LoadEngine, failure_of_writes, local_engine
from omnigraph.errors import OmnigraphError
from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.cypher.tree import Statement
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json, render_text
from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language
from omnigraph.lang.printer import print_queries, print_schema
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import BoundQuery, bind_file
from omnigraph.query.cypher.bind import bind_cypher
from omnigraph.query.explain import explain
from omnigraph.query.lint import lint_file
from omnigraph.query.params import check_params
from omnigraph.query.rules import rewrite
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.lint import lint_schema
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import Step, StepKind, format_rule

SCHEMAS = Path(__file__).parent / "corpus" / "schemas"


class CaseFailedError(AssertionError):
    """A case's expectations and the findings differ."""


def _fail(story: str) -> NoReturn:
    raise CaseFailedError(story)


@dataclass(frozen=True)
class Outcome:
    """A text, what was found about it, and, if nothing stopped it, its tree and meaning."""

    source: Source
    language: Language
    findings: tuple[Diagnostic, ...]
    tree: SchemaFile | QueryFile | Statement
    catalog: Catalog | None = None
    queries: tuple[BoundQuery, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(found.is_error for found in self.findings)


def check_schema(text: str, *, lint: bool = False) -> Outcome:
    """Parse, bind and (if asked, and if there are no errors) lint a schema."""
    source = Source(text, "schema.pg")
    parsed = parse_schema(source)
    if not parsed.ok:
        return Outcome(source, Language.SCHEMA, sort_diagnostics(parsed.diagnostics), parsed.tree)
    bound = bind_schema(parsed.tree)
    warnings = lint_schema(parsed.tree, bound.value) if bound.ok and lint else ()
    found = sort_diagnostics((*parsed.diagnostics, *bound.diagnostics, *warnings))
    return Outcome(source, Language.SCHEMA, found, parsed.tree, catalog=bound.value)


def check_queries(text: str, catalog: Catalog, *, lint: bool = False) -> Outcome:
    """Parse, bind and (if asked, and if there are no errors) lint queries."""
    source = Source(text, "queries.gq")
    parsed = parse_queries(source)
    if not parsed.ok:
        return Outcome(source, Language.QUERY, sort_diagnostics(parsed.diagnostics), parsed.tree)
    bound = bind_file(parsed.tree, catalog)
    warnings = lint_file(parsed.tree, bound.value, catalog, source) if bound.ok and lint else ()
    found = sort_diagnostics((*parsed.diagnostics, *bound.diagnostics, *warnings))
    return Outcome(source, Language.QUERY, found, parsed.tree, queries=bound.value)


def failure_of(case: Case, engine: LoadEngine = local_engine) -> str | None:
    """What is not as the case expects, for people to read; None if all is. Loads are run by the engine."""
    try:
        _run(case, engine)
    except CaseFailedError as failure:
        return str(failure)
    return None


def _run(case: Case, engine: LoadEngine) -> None:
    if "old" in case.blocks:
        _run_migration(case)
        return
    if case.writes:
        accepted_catalog(schema_of_case(case), "the schema of the case")
        if problem := failure_of_writes(case, schema_of_case(case), engine):
            _fail(problem)
        return
    if "cypher" in case.blocks:
        if not case.reads:
            _compare_findings(case, _check_cypher(case))
        elif problem := failure_of_statement(case, schema_of_case(case)):
            _fail(problem)
        return
    outcome = _check_subject(case)
    if case.reads:
        case = replace(case, verdict="ok")
    _compare_findings(case, outcome)
    if not outcome.ok:
        return
    _check_print_and_format(case, outcome)
    if outcome.catalog is not None:
        _check_catalog(outcome.source, outcome.catalog)
    else:
        _check_plans(case, outcome.queries)
        _check_params(case, outcome.queries)
    if case.reads and (problem := failure_of_answers(case, schema_of_case(case))):
        _fail(problem)


def _check_cypher(case: Case) -> Outcome:
    catalog = accepted_catalog(schema_of_case(case), "the schema of the case")
    text = case.blocks["cypher"]
    source = Source(text, "statement.cypher")
    parsed = parse_cypher(source)
    if not parsed.ok:
        return Outcome(source, Language.QUERY, parsed.diagnostics, parsed.tree)
    # `/* strict */` in the text of a case asks for strict names.
    bound = bind_cypher(parsed.tree, source, catalog, {}, is_strict="/* strict */" in text)
    return Outcome(source, Language.QUERY, bound.diagnostics, parsed.tree)


def accepted_catalog(text: str, what: str) -> Catalog:
    """The catalog of a schema that has to be accepted for the case to mean anything."""
    outcome = check_schema(text)
    if not outcome.ok or outcome.catalog is None:
        shown = render_text(outcome.source, outcome.findings)
        _fail(f"{what} is not accepted:\n{shown}")
    return outcome.catalog


def _check_subject(case: Case) -> Outcome:
    lint = case.verdict == "clean" or (bool(case.findings) and not case.expects_errors)
    if "query" not in case.blocks:
        return check_schema(case.blocks["schema"], lint=lint)
    catalog = accepted_catalog(schema_of_case(case), "the schema of the case")
    return check_queries(case.blocks["query"], catalog, lint=lint)


def schema_of_case(case: Case) -> str:
    """The schema that a case is about: its own, or a shared one."""
    if case.graph is not None:
        return schema_of_graph(case.graph)
    if case.uses is None:
        return case.blocks["schema"]
    path = SCHEMAS / f"{case.uses}.pg"
    if not path.is_file():
        _fail(f"there is no shared schema `{case.uses}` ({path})")
    return path.read_text(encoding="utf-8")


# --- findings ------------------------------------------------------------------------------------


def _compare_findings(case: Case, outcome: Outcome) -> None:
    found = [d for d in outcome.findings if d.is_error or case.verdict != "ok"]
    for diagnostic in found:
        _check_shows(outcome.source, diagnostic)
    pairs = [(wanted, found[place] if place < len(found) else None) for place, wanted in enumerate(case.findings)]
    if len(found) == len(pairs) and all(_agree(outcome.source, wanted, got) for wanted, got in pairs):
        return
    listed = [
        line
        for wanted, got in pairs
        for line in (
            _shown(outcome.source, got)
            if got is not None and _agree(outcome.source, wanted, got)
            else _as_written(wanted)
        )
    ] or [case.verdict or "ok"]
    shown = [line for got in found for line in _shown(outcome.source, got)] or ["ok"]
    _fail(_difference("the findings differ", listed, shown) + "\n\n" + _numbered(outcome.source.text))


def _agree(source: Source, wanted: Finding, got: Diagnostic | None) -> bool:
    if got is None:
        return False
    place = source.position(got.span.start)
    return (
        (wanted.severity, wanted.code) == (got.severity.value, got.code)
        and (wanted.line, wanted.column) == (place.line, place.column)
        and wanted.marked in (None, source.slice(got.span))
        and wanted.fragment in got.message
        and (wanted.help is None or wanted.help in (got.help or ""))
    )


def _check_shows(source: Source, diagnostic: Diagnostic) -> None:
    """A finding marks a part of its source, and both forms of showing it work."""
    span = diagnostic.span
    if not 0 <= span.start <= span.end <= len(source.text):
        _fail(f"{diagnostic} marks a place outside of its source")
    if diagnostic.message not in render_text(source, [diagnostic]):
        _fail(f"{diagnostic} is rendered without its message")
    diagnostic_to_json(source, diagnostic)


def _as_written(wanted: Finding) -> list[str]:
    marked = "" if wanted.marked is None else f" on `{wanted.marked}`"
    line = f"{wanted.severity} {wanted.code} at {wanted.line}:{wanted.column}{marked}: {wanted.fragment}"
    return [line] if wanted.help is None else [line, f"help: {wanted.help}"]


def _shown(source: Source, got: Diagnostic) -> list[str]:
    place, marked = source.position(got.span.start), source.slice(got.span)
    shown = f" on `{marked}`" if "\n" not in marked and "`" not in marked else ""
    line = f"{got.severity.value} {got.code} at {place.line}:{place.column}{shown}: {got.message}"
    return [line] if got.help is None else [line, f"help: {got.help}"]


# --- accepted texts ------------------------------------------------------------------------------


def _check_print_and_format(case: Case, outcome: Outcome) -> None:
    assert not isinstance(outcome.tree, Statement)
    printed = _print(outcome.tree)
    _same_tree("its print", _parse(outcome.language, printed), outcome.tree, printed)
    _same_text("printing what was printed", printed, _print(_parse(outcome.language, printed)))

    formatted = format_source(outcome.source, outcome.language).require(outcome.source)
    again = format_source(Source(formatted), outcome.language).require(Source(formatted))
    _same_text("formatting what was formatted", formatted, again)
    _same_tree("its formatted text", _parse(outcome.language, formatted), outcome.tree, formatted)

    if "prints" in case.blocks:
        _same_text("`prints:`", case.blocks["prints"], printed)
    if "formats" in case.blocks:
        _same_text("`formats:`", case.blocks["formats"], formatted)


def _check_catalog(source: Source, catalog: Catalog) -> None:
    """A catalog survives being printed, stored and compared with itself."""
    printed = accepted_catalog(print_schema(parse_schema(source).tree), "the printed schema")
    stored = assign_identities(catalog, None)
    if printed != catalog:
        _fail(_difference("the printed schema has another catalog", [repr(catalog)], [repr(printed)]))
    if decode_catalog(encode_catalog(stored)) != stored:
        _fail("the catalog is not the same after it was encoded and decoded")
    if steps := plan_migration(stored, catalog).steps:
        _fail(_difference("the schema differs from itself", [], [step_line(step) for step in steps]))


def _print(tree: SchemaFile | QueryFile) -> str:
    return print_schema(tree) if isinstance(tree, SchemaFile) else print_queries(tree)


def _parse(language: Language, text: str) -> SchemaFile | QueryFile:
    source = Source(text)
    if language is Language.SCHEMA:
        return parse_schema(source).require(source)
    return parse_queries(source).require(source)


def _same_tree(what: str, found: object, expected: object, text: str) -> None:
    if found != expected:
        _fail(_difference(f"{what} has another tree", [repr(expected)], [repr(found)]) + "\n\n" + _numbered(text))


def _same_text(what: str, expected: str, found: str) -> None:
    if expected != found:
        _fail(_difference(f"{what} differs", expected.splitlines(), found.splitlines()))


def _check_plans(case: Case, queries: Iterable[BoundQuery]) -> None:
    plans = [explain(query).rstrip("\n") for query in queries]
    optimized = [explain(rewrite(query)).rstrip("\n") for query in queries]
    for name, texts in (("plan", plans), ("optimized", optimized)):
        if name in case.blocks:
            _same_text(f"`{name}:`", case.blocks[name], "\n\n".join(texts) + "\n")


def _check_params(case: Case, queries: tuple[BoundQuery, ...]) -> None:
    if case.params and len(queries) != 1:
        _fail(f"parameters are checked for one query, but the case has {len(queries)}")
    for check in case.params:
        place = f"{case.path.name}:{check.line}: the parameters {check.given}"
        try:
            check_params(queries[0].params, check.given)
        except OmnigraphError as refusal:
            message = str(refusal)
            if not check.fragments:
                _fail(f"{place} are refused: {message}")
            missing = [fragment for fragment in check.fragments if fragment not in message]
            if missing:
                _fail(_difference(f"{place} are refused in other words", missing, message.splitlines()))
        else:
            if check.fragments:
                _fail(f"{place} are accepted, not refused with: {', '.join(check.fragments)}")


# --- migrations ----------------------------------------------------------------------------------


def _run_migration(case: Case) -> None:
    old = assign_identities(accepted_catalog(case.blocks["old"], "the old schema"), None)
    new = accepted_catalog(case.blocks["new"], "the new schema")
    plan = plan_migration(old, new)
    found = [step_line(step) for step in plan.steps]
    expected = case.blocks.get("steps", "").splitlines()
    if found != expected:
        _fail(_difference("the steps differ", expected or ["unchanged"], found or ["unchanged"]))
    json.dumps(plan.to_json(), allow_nan=False)
    accepted = assign_identities(new, old)
    if rest := plan_migration(accepted, new).steps:
        _fail(_difference("something is left to do after the migration", [], [step_line(step) for step in rest]))
    _check_identities(old, accepted, plan.steps)


def _check_identities(old: Catalog, accepted: Catalog, steps: Iterable[Step]) -> None:
    """Numbers are given once: a rename keeps its number, everything that is added gets a fresh one."""
    before, after = _identities(old), _identities(accepted)
    if len(set(after.values())) != len(after) or not all(0 < n < accepted.next_identity for n in after.values()):
        _fail(f"identities are not distinct numbers from 1 to below {accepted.next_identity}: {after}")
    for step in steps:
        name, earlier = (step.type, step.property_name), (step.type, step.previous)
        if step.kind is StepKind.RENAME_TYPE and after[name] != before[(step.previous or "", None)]:
            _fail(f"`{step_line(step)}` gives the type another identity")
        if step.kind is StepKind.RENAME_PROPERTY and earlier in before and after[name] != before[earlier]:
            _fail(f"`{step_line(step)}` gives the property another identity")
        if step.kind in (StepKind.ADD_TYPE, StepKind.ADD_PROPERTY) and after[name] < old.next_identity:
            _fail(f"`{step_line(step)}` takes an identity that was given before")


def _identities(catalog: Catalog) -> dict[tuple[str, str | None], int]:
    types = (*catalog.nodes.values(), *catalog.edges.values())
    return {(t.name, None): t.identity for t in types} | {
        (t.name, p.name): p.identity for t in types for p in t.properties
    }


def step_line(step: Step) -> str:
    """A migration step as a case writes it: kind, subject, verdict, code."""
    subject = step.type if step.property_name is None or step.rule is not None else f"{step.type}.{step.property_name}"
    if step.kind is StepKind.RENAME_TYPE:
        subject = f"{step.previous} to {step.type}"
    elif step.kind is StepKind.RENAME_PROPERTY:
        subject = f"{step.type}.{step.previous} to {step.property_name}"
    elif step.rule is not None:
        subject = f"{step.type} {format_rule(step.rule)}"
    elif step.changes:
        subject = f"{subject} ({', '.join(change.aspect for change in step.changes)})"
    words = (step.kind.value, subject, _verdict(step), step.code)
    return " ".join(word for word in words if word is not None)


def _verdict(step: Step) -> str:
    if not step.is_supported:
        return "unsupported"
    if step.kind.drops_data:
        return "drops"
    return "validates" if step.validates else "safe"


# --- showing -------------------------------------------------------------------------------------


def _difference(what: str, expected: list[str], found: list[str]) -> str:
    lines = (line for line in difflib.ndiff(expected, found) if not line.startswith("?"))
    return f"{what} (- expected, + found):\n" + "\n".join(f"  {line}" for line in lines)


def _numbered(text: str) -> str:
    return "\n".join(f"  {number:3} | {line}" for number, line in enumerate(text.splitlines(), 1))
