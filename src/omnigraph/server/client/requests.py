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

from omnigraph.clock import instant_text
from omnigraph.engine.result import Result, Target
from omnigraph.graph.arguments import parameters
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import BadArgumentError, check_instant
from omnigraph.ops.session import ANONYMOUS
from omnigraph.query.params import PLAIN, ParameterError, ParameterProblem, ParamText
from omnigraph.schema.misfit import Misfit, shown
from omnigraph.schema.python_values import NO_ZONE, to_items, to_own_value
from omnigraph.schema.values import BASE64_PREFIX
from omnigraph.server.client.http_transport import Transport, path_of
from omnigraph.server.http.request_bodies import ARROW, NDJSON

_QUERY, _SCHEMA = "query.gq", "schema.pg"


class GraphCalls:
    """Calls to one graph of a server."""

    def __init__(self, transport: Transport, graph: str) -> None:
        self.transport, self.graph = transport, graph

    def path(self, rest: str, *names: str) -> str:
        """A path below the graph; names may have anything in them."""
        return f"{path_of('graphs', self.graph)}/{rest}{path_of(*names)}"

    def get(self, rest: str, *names: str, **query: object) -> Any:  # noqa: ANN401 - JSON
        """What a GET answers."""
        return self.transport.document("GET", self.path(rest, *names), query=query)

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
        sources = named(source)
        return self.transport.document("POST", self.path(rest), body, query=query, sources=sources, seconds=seconds)

    def delete(self, rest: str, *names: str) -> Any:  # noqa: ANN401 - JSON
        """What a DELETE answers."""
        return self.transport.document("DELETE", self.path(rest, *names))

    def stream(self, rest: str, body: object, accept: str) -> AbstractContextManager[HTTPResponse]:
        """What a POST answers, to be read as it comes."""
        return self.transport.stream("POST", self.path(rest), body, accept=accept)

    def lines(self, rest: str, **query: object) -> Iterator[bytes]:
        """The lines that a GET answers, in blocks of whole ones, as they come."""
        with self.transport.stream("GET", self.path(rest), query=query, accept=NDJSON) as response:
            left = b""
            for piece in self.transport.pieces(response):
                whole, sign, left = (left + piece).rpartition(b"\n")
                if sign:
                    yield whole + sign
            if left:
                yield left

    def pages(self, rest: str, **query: object) -> Iterator[Any]:
        """All pages of a GET, each when it is asked for."""
        cursor: str | None = None
        while True:
            page = self.get(rest, **query, cursor=cursor)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def rows(self, rest: str, *names: str, body: object, source: str | Source = "") -> Result:
        """All rows that a POST answers."""
        opened = self.transport.stream("POST", self.path(rest, *names), body, accept=ARROW, sources=named(source))
        with opened as response:
            data = b"".join(self.transport.pieces(response))
            headers = response.headers
        table: pa.Table = pa_ipc.open_stream(data).read_all()
        target = Target(headers.get("Omnigraph-Branch", "main"), headers.get("Omnigraph-Snapshot"))
        return Result.of_table(
            table, commit_id=headers["Omnigraph-Commit"], target=target, query_name=headers["Omnigraph-Query"]
        )


def asked(
    source: str | Source,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    snapshot: str | None,
    at: datetime | None,
) -> dict[str, object]:
    """The body of a request that asks a query of a state."""
    return {
        "query": text_of(source),
        "name": name,
        **given(params),
        "branch": branch,
        "snapshot": snapshot,
        "at": time_text(at),
    }


def given(params: Mapping[str, object] | None) -> dict[str, object]:
    """Parameters as a body has them: values, and apart from them texts that are yet to be read."""
    checked = parameters(params)
    texts = {name: str(value) for name, value in checked.items() if isinstance(value, ParamText)}
    return {"params": {name: _sent(name, one) for name, one in checked.items() if name not in texts}, "texts": texts}


def _sent(name: str, value: object) -> object:
    """Return the JSON form of a parameter's value; ParameterError for one that no type takes, as in this process."""
    form = plain(value)
    if isinstance(form, Misfit):
        problem = ParameterProblem(name, f"parameter `${name}`: {form.reason}", value=shown(value))
        raise ParameterError([problem])
    return form


def check_actor(actor: str) -> None:
    """BadArgumentError unless it is left open who signs."""
    if actor != ANONYMOUS:
        raise BadArgumentError("actor", f"`{actor}`", "the owner of the token signs, and nobody else")


def text_of(source: str | Source) -> str:
    """The text of a query or schema."""
    return source.text if isinstance(source, Source) else source


def named(source: str | Source) -> dict[str, Source]:
    """The text that was sent, by the names that the server gives it."""
    if not text_of(source):
        return {}
    return {name: source if isinstance(source, Source) else Source(source, name) for name in (_QUERY, _SCHEMA)}


def time_text(at: datetime | None) -> str | None:
    """A time as it goes over the wire; BadArgumentError for one without a zone, as in this process."""
    if at is None:
        return None
    check_instant("at", at)
    return instant_text(at)


def plain(value: object) -> object:
    """A parameter's value in its JSON form; a Misfit for a value that has none."""
    value = to_items(to_own_value(value))
    match value:
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case datetime() if value.utcoffset() is None:
            return Misfit(NO_ZONE)
        case datetime():
            return instant_text(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return BASE64_PREFIX + base64.b64encode(value).decode()
        case str() | int() | float() | None:
            return value
        case Sequence():
            if PLAIN.issuperset(map(type, value)):
                return list(value)  # a list may be long, and asking each item takes a while
            items = [plain(one) for one in value]
            return next((one for one in items if isinstance(one, Misfit)), items)
        case SupportsIndex():
            return operator.index(value)
        case Misfit():
            return value
        case _:
            return Misfit(f"{shown(value)} is no value of a parameter; make it text, a number or a list first")
