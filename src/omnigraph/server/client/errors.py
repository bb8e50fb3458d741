"""The errors of a server's answers, as those that the embedded graph raises."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import omnigraph
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Source, Span
from omnigraph.ops.schema_apply import SchemaUnsupportedError
from omnigraph.server.http.request_bodies import BODY
from omnigraph.server.http_errors import StoredQueryMissingError

NOT_PUBLIC = (SchemaUnsupportedError, StoredQueryMissingError)
"""Of modules that have no public error, so that they are known here."""
_LINE = re.compile(rf"^{BODY}, line (\d+)", re.MULTILINE)
_TOLD = frozenset({"error", "code", "kind", "request_id", "manifest_conflict"})


class _Told:
    """An error that a server told of: its message and facts are what the server said."""

    _body: Mapping[str, Any]

    def __init__(self, body: Mapping[str, Any]) -> None:
        Exception.__init__(self, body.get("error", ""))  # type: ignore[arg-type]  # it is one, see `_class_of`
        self._body = body
        for name, value in self.facts().items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def facts(self) -> dict[str, object]:
        """What the server said beside the message."""
        return {name: value for name, value in self._body.items() if name not in _TOLD}

    @property
    def request_id(self) -> str | None:
        """The id under which the server's log tells of it."""
        return self._body.get("request_id")

    def __str__(self) -> str:
        return str(self._body.get("error", ""))

    def __reduce__(self) -> tuple[object, ...]:
        return told, (dict(self._body),)


def raised(data: bytes, status: int, sources: Mapping[str, Source]) -> OmnigraphError:
    """The error of an answer. `sources` are the texts that were sent, by the names that the server gives them."""
    try:
        body = json.loads(data)
        body = body if isinstance(body, dict) and "code" in body else None
    except ValueError:
        body = None
    if body is None:
        body = {"error": f"the server answered {status}, and nothing that can be understood", "code": "internal"}
        body["kind"] = Kind.UNAVAILABLE.value
    source = sources.get(str(body.get("source")))
    if source is not None:
        if body["code"] == SourceError.code and body.get("diagnostics"):
            return _source_error(body, source)
        body["error"] = str(body.get("error", "")).replace(f"`{body['source']}`", f"`{source.name}`")
        body["source"] = source.name
    return told(body)


def placed(error: OmnigraphError, place: Callable[[int], tuple[str, int]]) -> OmnigraphError:
    """An error about lines of the body that was sent, as one about those of the files it was made from."""
    if not isinstance(error, _Told):
        return error
    body = dict(error._body)  # noqa: SLF001 - of this very module
    body["error"] = _LINE.sub(lambda found: "{}, line {}".format(*place(int(found[1]))), str(body.get("error")))
    body |= _moved(body, place)
    if isinstance(body.get("problems"), list):
        body["problems"] = [{**one, **_moved(one, place)} for one in body["problems"]]
    return told(body)


def _moved(said: Mapping[str, Any], place: Callable[[int], tuple[str, int]]) -> dict[str, object]:
    if said.get("file") != BODY or not isinstance(said.get("line"), int):
        return {}
    file, line = place(said["line"])
    return {"file": file, "line": line}


def told(body: dict[str, Any]) -> OmnigraphError:
    """An error of the class that the embedded graph raises, where there is one of that code."""
    made: OmnigraphError = _class_of(str(body["code"]), str(body.get("kind")))(body)
    return made


def _source_error(body: Mapping[str, Any], source: Source) -> SourceError:
    found = [
        Diagnostic(one["code"], Span(one["start"]["offset"], one["end"]["offset"]), one["message"], one["help"])
        for one in body["diagnostics"]
    ]
    return SourceError(source, found)


@cache
def _class_of(code: str, kind: str) -> type[Any]:
    base = _known().get(code, OmnigraphError)
    of_kind = Kind(kind) if kind in {one.value for one in Kind} else Kind.INTERNAL
    # No module of ours: it is none of the errors that the reference lists.
    return type(base.__name__, (_Told, base), {"kind": of_kind, "code": code, "__module__": "a server", **_DOC})


_DOC = {"__doc__": "An error that a server told of."}


@cache
def _known() -> dict[str, type[OmnigraphError]]:
    """By their codes, the public errors, and all others of verbs that a client has."""
    for name in omnigraph.__all__:
        if name.endswith("Error"):
            getattr(omnigraph, name)  # imports its module, and with it the errors that are not public
    found = {one.code: one for one in _below(OmnigraphError) if one.__module__.startswith("omnigraph.")}
    return {code: one for code, one in found.items() if one not in (OmnigraphError, SourceError)}


def _below(error: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)
