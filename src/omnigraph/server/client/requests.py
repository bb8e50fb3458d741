"""Build the requests to one graph on a server: paths, bodies, parameters, pages, rows."""

import base64
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import date, datetime
from http.client import HTTPResponse
from typing import Any, SupportsIndex

from omnigraph.clock import format_instant
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError
from omnigraph.graph.arguments import check_parameters
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import check_instant
from omnigraph.ops.session import ANONYMOUS
from omnigraph.query.params import JSON_SCALAR_TYPES, ParameterError, ParameterProblem, ParamText
from omnigraph.query.record_params import read_table_columns
from omnigraph.schema.python_values import NO_ZONE, to_items, to_python_value
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, format_value
from omnigraph.server.client.http_transport import Transport, quote_path
from omnigraph.server.client.query_stream import QueryStream
from omnigraph.server.http.request_bodies import ARROW, NDJSON

# The names by which the server's diagnostics refer to the query or schema of a request.
_QUERY_NAME = "query.gq"
_SCHEMA_NAME = "schema.pg"
# The routes of POST requests that only read. A stored query may write.
_READING_ROUTES = frozenset(
    {"query", "sql", "cypher", "explain", "complete", "lint", "neighbours", "search", "export", "schema/plan"}
)


class GraphCalls:
    """The requests to one graph on a server."""

    def __init__(self, transport: Transport, graph: str) -> None:
        self.transport = transport
        self.graph = graph

    def build_path(self, rest: str, *names: str) -> str:
        """Build a path below the graph; `names` are percent-encoded, `rest` is not."""
        return f"{quote_path('graphs', self.graph)}/{rest}{quote_path(*names)}"

    def get(self, rest: str, *names: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        """Send a GET and return its JSON."""
        return self.transport.request_json("GET", self.build_path(rest, *names), query=query)

    def post(
        self,
        rest: str,
        body: object,
        source: str | Source = "",
        *,
        query: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a POST and return its JSON.

        Errors may have positions in `source`; `seconds` is that of `Transport.stream`. A request that reads, or has an
        idempotency key, is sent again if the connection broke off.
        """
        sources = name_sources(source)
        options = query if query is not None else body
        has_key = isinstance(options, Mapping) and options.get("idempotency_key") is not None
        is_repeatable = has_key or rest in _READING_ROUTES
        return self.transport.request_json(
            "POST",
            self.build_path(rest),
            body,
            query=query,
            sources=sources,
            seconds=seconds,
            is_repeatable=is_repeatable,
        )

    def delete(self, rest: str, *names: str) -> Any:  # noqa: ANN401 - JSON
        """Send a DELETE and return its JSON."""
        return self.transport.request_json("DELETE", self.build_path(rest, *names))

    def stream(self, rest: str, body: object, accept: str) -> AbstractContextManager[HTTPResponse]:
        """Send a POST and open its response for streaming."""
        is_repeatable = rest in _READING_ROUTES
        return self.transport.stream("POST", self.build_path(rest), body, accept=accept, is_repeatable=is_repeatable)

    def iter_lines(self, rest: str, **query: object) -> Iterator[bytes]:
        """Send a GET and yield its lines as they arrive, in blocks of whole lines."""
        with self.transport.stream("GET", self.build_path(rest), query=query, accept=NDJSON) as response:
            rest_of_line = b""
            for chunk in self.transport.iter_chunks(response):
                lines, newline, rest_of_line = (rest_of_line + chunk).rpartition(b"\n")
                if newline:
                    yield lines + newline
            if rest_of_line:
                yield rest_of_line

    def iter_pages(self, rest: str, **query: object) -> Iterator[Any]:
        """Yield the pages of a GET, each fetched when it is consumed."""
        cursor: str | None = None
        while True:
            page = self.get(rest, **query, cursor=cursor)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def fetch_rows(self, rest: str, *names: str, body: object, source: str | Source = "") -> Result:
        """Send a POST and return all rows of its response."""
        with self.stream_rows(rest, *names, body=body, source=source) as rows:
            return rows.read_all()

    def stream_rows(self, rest: str, *names: str, body: object, source: str | Source = "") -> QueryStream:
        """Send a POST and open its rows for reading as they arrive."""
        with ExitStack() as stack:
            response = stack.enter_context(
                self.transport.stream(
                    "POST",
                    self.build_path(rest, *names),
                    body,
                    accept=ARROW,
                    sources=name_sources(source),
                    is_repeatable=rest in _READING_ROUTES,
                )
            )
            return QueryStream(stack, self.transport, response)


def build_query_body(
    source: str | Source,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    snapshot: str | None,
    at: datetime | None,
) -> dict[str, object]:
    """Build the body of a request that runs a query on one state of the graph."""
    return {
        "query": get_text(source),
        "name": name,
        **encode_params(params),
        **build_state(branch, snapshot, at),
    }


def build_state(branch: str, snapshot: str | None, at: datetime | None) -> dict[str, object]:
    """Build the fields of a request that name the state to read."""
    return {"branch": branch, "snapshot": snapshot, "at": format_optional_instant(at)}


def encode_params(params: Mapping[str, object] | None) -> dict[str, object]:
    """Encode parameters for a body: `params` are values, `texts` are parsed by the server by declared type."""
    checked = check_parameters(params)
    texts = {name: str(value) for name, value in checked.items() if isinstance(value, ParamText)}
    values = {name: _encode_param(name, value) for name, value in checked.items() if name not in texts}
    return {"params": values, "texts": texts}


def _encode_param(name: str, value: object) -> object:
    """Return the JSON form of a parameter's value.

    Raises:
        ParameterError: No type accepts the value; an embedded graph raises the same.
    """
    form = to_json_value(value)
    if isinstance(form, InvalidValue):
        problem = ParameterProblem(name, f"parameter `${name}`: {form.reason}", value=format_value(value))
        raise ParameterError([problem])
    return form


def check_actor(actor: str) -> None:
    """Check that a call names no actor: the server signs with the owner of the token.

    Raises:
        BadArgumentError: It names one.
    """
    if actor != ANONYMOUS:
        raise BadArgumentError("actor", f"`{actor}`", "the owner of the token signs; leave it out")


def get_text(source: str | Source) -> str:
    """Return the text of a query or schema."""
    return source.text if isinstance(source, Source) else source


def name_sources(source: str | Source) -> dict[str, Source]:
    """Return the text of a request by each name that the server may give it; empty if there is none."""
    if not get_text(source):
        return {}
    names = (_QUERY_NAME, _SCHEMA_NAME)
    return {name: source if isinstance(source, Source) else Source(source, name) for name in names}


def format_optional_instant(at: datetime | None) -> str | None:
    """Format a time for a request; None stays None.

    Raises:
        BadArgumentError: The time has no time zone; an embedded graph raises the same.
    """
    if at is None:
        return None
    check_instant("at", at)
    return format_instant(at)


def to_json_value(value: object) -> object:
    """Return the JSON form of a parameter's value, or an `InvalidValue` that says why it has none."""
    columns = read_table_columns(value)
    if columns is not None:
        # A data frame or table is a list of records.
        value = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    value = to_items(to_python_value(value))
    match value:
        case Mapping():
            fields = {str(name): to_json_value(item) for name, item in value.items()}
            return next((item for item in fields.values() if isinstance(item, InvalidValue)), fields)
        case datetime() if value.utcoffset() is None:
            return InvalidValue(NO_ZONE)
        case datetime():
            return format_instant(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return BASE64_PREFIX + base64.b64encode(value).decode()
        case str() | int() | float() | None:
            return value
        case Sequence():
            # A list may be long, such as a vector: one pass over the types is faster than a match for each item.
            if JSON_SCALAR_TYPES.issuperset(map(type, value)):
                return list(value)
            items = [to_json_value(item) for item in value]
            return next((item for item in items if isinstance(item, InvalidValue)), items)
        case SupportsIndex():
            return operator.index(value)
        case InvalidValue():
            return value
        case _:
            return InvalidValue(
                f"{format_value(value)} can't be a parameter's value; convert it to text, a number or a list first"
            )
