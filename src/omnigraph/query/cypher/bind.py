"""Bind the tree of a Cypher statement to a schema: a typed logical plan, or its errors, and warnings about names."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

from omnigraph.lang.cypher import tree
from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.source import Source
from omnigraph.query.cypher.context import CypherContext, ParameterForm
from omnigraph.query.cypher.findings import CypherFindings, RefusedError
from omnigraph.query.cypher.names import CypherNames
from omnigraph.query.cypher.statements import StatementBinder
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import ListOf, Scalar

# A list of one parameter looks the same, and is none the worse for being known.
_KEY: Final = re.compile(r"\[\s*\$(\w+)\s*\]")


def bind_cypher(
    statement: tree.Statement,
    source: Source,
    catalog: Catalog,
    given: Mapping[str, ParameterForm],
    *,
    is_strict: bool = False,
) -> StageResult[ReadQuery | None]:
    """Bind a statement; the value is None if it has an error.

    `given` are the types of the parameters' values, see `infer_parameters`. If `is_strict`, unknown labels and
    properties are errors instead of warnings.
    """
    findings = CypherFindings(is_strict=is_strict)
    names = CypherNames(catalog, findings)
    context = CypherContext(catalog=catalog, names=names, findings=findings, text=source.text, given=given)
    bound: ReadQuery | None = None
    try:
        bound = StatementBinder(context).bind(statement)
    except RefusedError:
        bound = None
    return StageResult(None if findings.has_errors else bound, findings.finalize())


def infer_parameters(params: Mapping[str, object], text: str = "") -> dict[str, ParameterForm]:
    """Return the types of the values of parameters, and the values of those that name a property in a statement."""
    keys = set(_KEY.findall(text))
    return {name: _infer_parameter(value, is_key=name in keys) for name, value in params.items()}


def flatten_parameters(params: Mapping[str, object]) -> dict[str, object]:
    """Return the values by the names of the plan's parameters: maps and lists of other than values have several."""
    flat: dict[str, object] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            parts = value
        elif isinstance(value, list | tuple) and _has_parts(value):
            parts = {str(index): item for index, item in enumerate(value)}
        else:
            flat[name] = value
            continue
        flat |= {f"{name}.{key}": each for key, each in flatten_parameters(parts).items()}
    return flat


def _has_parts(items: Sequence[object]) -> bool:
    """Return whether a list is no parameter of the plan, whose lists hold values of one type."""
    return any(item is None or isinstance(item, Mapping | list | tuple) for item in items)


def _infer_parameter(value: object, *, is_key: bool = False) -> ParameterForm:
    match value:
        case str() if is_key:
            return ParameterForm(type=Scalar.STRING, key=value)
        case None:
            return ParameterForm()
        case Mapping():
            return ParameterForm(fields=infer_parameters(value))
        case list() | tuple() if _has_parts(value):
            return ParameterForm(items=tuple(map(_infer_parameter, value)))
        case list() | tuple():
            types = [_infer_scalar(each) for each in value]
            # JSON writes `[1, 2.5]` for a list of fractions.
            is_mixed = Scalar.F64 in types and Scalar.I64 in types
            first = types[0] if types else Scalar.STRING
            return ParameterForm(type=ListOf(Scalar.F64 if is_mixed else first))
        case _:
            return ParameterForm(type=_infer_scalar(value))


def _infer_scalar(value: object) -> Scalar:
    match value:
        case bool():
            return Scalar.BOOL
        case int():
            return Scalar.I64
        case float():
            return Scalar.F64
        case datetime():
            return Scalar.DATETIME
        case date():
            return Scalar.DATE
        case _:
            return Scalar.STRING
