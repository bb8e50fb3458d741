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
from omnigraph.server.http.request_bodies import BODY_NAME
from omnigraph.server.http_errors import StoredQueryMissingError

PRIVATE_ERRORS = (SchemaUnsupportedError, StoredQueryMissingError)
"""Of modules that have no public error, so that they are known here."""
_BODY_LINE = re.compile(rf"^{BODY_NAME}, line (\d+)", re.MULTILINE)
_ENVELOPE_FIELDS = frozenset({"error", "code", "kind", "request_id", "manifest_conflict"})


class _RemoteErrorMixin:
    """An error that a server told of: its message and facts are what the server said."""

    _body: Mapping[str, Any]

    def __init__(self, body: Mapping[str, Any]) -> None:
        Exception.__init__(self, body.get("error", ""))  # type: ignore[arg-type]  # it is one, see `_build_error_class`
        self._body = body
        for name, value in self.facts().items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def facts(self) -> dict[str, object]:
        """What the server said beside the message."""
        return {name: value for name, value in self._body.items() if name not in _ENVELOPE_FIELDS}

    @property
    def request_id(self) -> str | None:
        """The id under which the server's log tells of it."""
        return self._body.get("request_id")

    def __str__(self) -> str:
        return str(self._body.get("error", ""))

    def __reduce__(self) -> tuple[object, ...]:
        return build_error, (dict(self._body),)


def decode_error(data: bytes, status: int, sources: Mapping[str, Source]) -> OmnigraphError:
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
            return _build_source_error(body, source)
        body["error"] = str(body.get("error", "")).replace(f"`{body['source']}`", f"`{source.name}`")
        body["source"] = source.name
    return build_error(body)


def relocate_error(error: OmnigraphError, place: Callable[[int], tuple[str, int]]) -> OmnigraphError:
    """An error about lines of the body that was sent, as one about those of the files it was made from."""
    if not isinstance(error, _RemoteErrorMixin):
        return error
    body = dict(error._body)  # noqa: SLF001 - of this very module
    body["error"] = _BODY_LINE.sub(lambda found: "{}, line {}".format(*place(int(found[1]))), str(body.get("error")))
    body |= _relocate_fields(body, place)
    if isinstance(body.get("problems"), list):
        body["problems"] = [{**one, **_relocate_fields(one, place)} for one in body["problems"]]
    return build_error(body)


def _relocate_fields(said: Mapping[str, Any], place: Callable[[int], tuple[str, int]]) -> dict[str, object]:
    if said.get("file") != BODY_NAME or not isinstance(said.get("line"), int):
        return {}
    file, line = place(said["line"])
    return {"file": file, "line": line}


def build_error(body: dict[str, Any]) -> OmnigraphError:
    """An error of the class that the embedded graph raises, where there is one of that code."""
    made: OmnigraphError = _build_error_class(str(body["code"]), str(body.get("kind")))(body)
    return made


def _build_source_error(body: Mapping[str, Any], source: Source) -> SourceError:
    found = [
        Diagnostic(one["code"], Span(one["start"]["offset"], one["end"]["offset"]), one["message"], one["help"])
        for one in body["diagnostics"]
    ]
    return SourceError(source, found)


@cache
def _build_error_class(code: str, kind: str) -> type[Any]:
    base = _find_error_classes().get(code, OmnigraphError)
    of_kind = Kind(kind) if kind in {one.value for one in Kind} else Kind.INTERNAL
    # No module of ours: it is none of the errors that the reference lists.
    return type(
        base.__name__, (_RemoteErrorMixin, base), {"kind": of_kind, "code": code, "__module__": "a server", **_DOC}
    )


_DOC = {"__doc__": "An error that a server told of."}


@cache
def _find_error_classes() -> dict[str, type[OmnigraphError]]:
    """By their codes, the public errors, and all others of verbs that a client has."""
    for name in omnigraph.__all__:
        if name.endswith("Error"):
            getattr(omnigraph, name)  # imports its module, and with it the errors that are not public
    found = {one.code: one for one in _iter_subclasses(OmnigraphError) if one.__module__.startswith("omnigraph.")}
    return {code: one for code, one in found.items() if one not in (OmnigraphError, SourceError)}


def _iter_subclasses(error: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
    yield error
    for child in error.__subclasses__():
        yield from _iter_subclasses(child)
