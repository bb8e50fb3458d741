"""Prepare statements of Cypher as reads, so that they are run, explained, limited and paged as any other query."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from omnigraph.errors import LimitError
from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.source import Source
from omnigraph.ops.query import PreparedRead, QueryCall
from omnigraph.ops.query_cache import PreparedText
from omnigraph.ops.session import Session
from omnigraph.query.cypher.bind import bind_cypher, flatten_parameters, infer_parameters
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.params import ParamText
from omnigraph.query.rules import rewrite_read
from omnigraph.schema.catalog import Catalog


def build_cypher_call(call: QueryCall, *, is_strict: bool = False) -> QueryCall:
    """Return the call of a query whose text is a statement of Cypher.

    If `is_strict`, unknown labels and properties are errors instead of notes of the result.
    """
    params = {name: _read_value(value) for name, value in call.params.items()}

    def prepare(session: Session, schema_id: str, catalog: Catalog, check: Callable[[], None]) -> PreparedRead:
        given = infer_parameters(params, call.source.text)
        key = (call.source.text, f"cypher {is_strict} {given!r}", schema_id)

        def build() -> PreparedText:
            return _prepare(session, call.source, catalog, params, check, is_strict=is_strict)

        text = session.prepared.get_or_build(key, call.source, build)
        values = flatten_parameters(params)
        used = {each.name: values[each.name] for each in text.read.params}
        return PreparedRead(read=text.read, params=used, notes=text.notes)

    return replace(call, prepare=prepare)


def _prepare(
    session: Session,
    source: Source,
    catalog: Catalog,
    params: Mapping[str, object],
    check: Callable[[], None],
    *,
    is_strict: bool,
) -> PreparedText:
    limit = session.runtime.options.query_text_characters
    if len(source.text) > limit:
        raise LimitError.text_too_large(source.name, limit)
    statement = parse_cypher(source).require(source)
    check()
    bound = bind_cypher(statement, source, catalog, infer_parameters(params, source.text), is_strict=is_strict)
    read = bound.require(source)
    assert isinstance(read, ReadQuery)  # noqa: S101 - `require` raises if binding failed
    check()
    return PreparedText(rewrite_read(read), tuple(_format_note(source, each) for each in bound.diagnostics))


def _read_value(value: object) -> object:
    """Return a value from a command line, which is text, as JSON if it is that."""
    if not isinstance(value, ParamText):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return str(value)


def _format_note(source: Source, warning: Diagnostic) -> str:
    place = source.position(warning.span.start)
    help_ = f"; {warning.help}" if warning.help else ""
    return f"{warning.code} at {place.line}:{place.column}: {warning.message}{help_}"
