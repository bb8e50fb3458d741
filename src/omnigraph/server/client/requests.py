"""What every call to a graph of a server is made of: paths, bodies, pages, rows."""

import base64
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from http.client import HTTPResponse
from typing import Any, SupportsIndex

import pyarrow as pa
import pyarrow.ipc as pa_ipc

from omnigraph.clock import format_instant
from omnigraph.engine.result import Result, Target
from omnigraph.graph.arguments import check_parameters
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import BadArgumentError, check_instant
from omnigraph.ops.session import ANONYMOUS
from omnigraph.query.params import JSON_SCALAR_TYPES, ParameterError, ParameterProblem, ParamText
from omnigraph.schema.python_values import NO_ZONE, to_items, to_python_value
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, format_value
from omnigraph.server.client.http_transport import Transport, quote_path
from omnigraph.server.http.request_bodies import ARROW, NDJSON

_QUERY_NAME, _SCHEMA_NAME = "query.gq", "schema.pg"


class GraphCalls:
    """Calls to one graph of a server."""

    def __init__(self, transport: Transport, graph: str) -> None:
        self.transport, self.graph = transport, graph

    def build_path(self, rest: str, *names: str) -> str:
        """A path below the graph; names may have anything in them."""
        return f"{quote_path('graphs', self.graph)}/{rest}{quote_path(*names)}"

    def get(self, rest: str, *names: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        """What a GET answers."""
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
        """What a POST answers; `source` is the text that errors may be about. `seconds` is as for `stream`."""
        sources = name_sources(source)
        return self.transport.request_json(
            "POST", self.build_path(rest), body, query=query, sources=sources, seconds=seconds
        )

    def delete(self, rest: str, *names: str) -> Any:  # noqa: ANN401 - JSON
        """What a DELETE answers."""
        return self.transport.request_json("DELETE", self.build_path(rest, *names))

    def stream(self, rest: str, body: object, accept: str) -> AbstractContextManager[HTTPResponse]:
        """What a POST answers, to be read as it comes."""
        return self.transport.stream("POST", self.build_path(rest), body, accept=accept)

    def iter_lines(self, rest: str, **query: object) -> Iterator[bytes]:
        """The lines that a GET answers, in blocks of whole ones, as they come."""
        with self.transport.stream("GET", self.build_path(rest), query=query, accept=NDJSON) as response:
            left = b""
            for piece in self.transport.iter_chunks(response):
                whole, sign, left = (left + piece).rpartition(b"\n")
                if sign:
                    yield whole + sign
            if left:
                yield left

    def iter_pages(self, rest: str, **query: object) -> Iterator[Any]:
        """All pages of a GET, each when it is asked for."""
        cursor: str | None = None
        while True:
            page = self.get(rest, **query, cursor=cursor)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def fetch_rows(self, rest: str, *names: str, body: object, source: str | Source = "") -> Result:
        """All rows that a POST answers."""
        opened = self.transport.stream(
            "POST", self.build_path(rest, *names), body, accept=ARROW, sources=name_sources(source)
        )
        with opened as response:
            data = b"".join(self.transport.iter_chunks(response))
            headers = response.headers
        table: pa.Table = pa_ipc.open_stream(data).read_all()
        target = Target(headers.get("Omnigraph-Branch", "main"), headers.get("Omnigraph-Snapshot"))
        return Result.of_table(
            table, commit_id=headers["Omnigraph-Commit"], target=target, query_name=headers["Omnigraph-Query"]
        )


def build_query_body(
    source: str | Source,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    snapshot: str | None,
    at: datetime | None,
) -> dict[str, object]:
    """The body of a request that asks a query of a state."""
    return {
        "query": get_text(source),
        "name": name,
        **encode_params(params),
        "branch": branch,
        "snapshot": snapshot,
        "at": format_optional_instant(at),
    }


def encode_params(params: Mapping[str, object] | None) -> dict[str, object]:
    """Parameters as a body has them: values, and apart from them texts that are yet to be read."""
    checked = check_parameters(params)
    texts = {name: str(value) for name, value in checked.items() if isinstance(value, ParamText)}
    return {
        "params": {name: _encode_param(name, one) for name, one in checked.items() if name not in texts},
        "texts": texts,
    }


def _encode_param(name: str, value: object) -> object:
    """Return the JSON form of a parameter's value; ParameterError for one that no type takes, as in this process."""
    form = to_json_value(value)
    if isinstance(form, InvalidValue):
        problem = ParameterProblem(name, f"parameter `${name}`: {form.reason}", value=format_value(value))
        raise ParameterError([problem])
    return form


def check_actor(actor: str) -> None:
    """BadArgumentError unless it is left open who signs."""
    if actor != ANONYMOUS:
        raise BadArgumentError("actor", f"`{actor}`", "the owner of the token signs, and nobody else")


def get_text(source: str | Source) -> str:
    """The text of a query or schema."""
    return source.text if isinstance(source, Source) else source


def name_sources(source: str | Source) -> dict[str, Source]:
    """The text that was sent, by the names that the server gives it."""
    if not get_text(source):
        return {}
    return {
        name: source if isinstance(source, Source) else Source(source, name) for name in (_QUERY_NAME, _SCHEMA_NAME)
    }


def format_optional_instant(at: datetime | None) -> str | None:
    """A time as it goes over the wire; BadArgumentError for one without a zone, as in this process."""
    if at is None:
        return None
    check_instant("at", at)
    return format_instant(at)


def to_json_value(value: object) -> object:
    """A parameter's value in its JSON form; a Misfit for a value that has none."""
    value = to_items(to_python_value(value))
    match value:
        case Mapping():
            return {str(name): to_json_value(one) for name, one in value.items()}
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
            if JSON_SCALAR_TYPES.issuperset(map(type, value)):
                return list(value)  # a list may be long, and asking each item takes a while
            items = [to_json_value(one) for one in value]
            return next((one for one in items if isinstance(one, InvalidValue)), items)
        case SupportsIndex():
            return operator.index(value)
        case InvalidValue():
            return value
        case _:
            return InvalidValue(
                f"{format_value(value)} is no value of a parameter; make it text, a number or a list first"
            )
