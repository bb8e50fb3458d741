"""Decode the errors in a server's responses into the classes that an embedded graph raises."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import omnigraph
from omnigraph.commit.merge_base import MergeBaseGoneError
from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.embed import EmbeddingError
from omnigraph.engine.result_files import ResultFormatError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic, SourceError
from omnigraph.lang.source import Source, Span
from omnigraph.ops.create import StoreUnfitError
from omnigraph.server.http.request_bodies import BODY_NAME
from omnigraph.server.http_errors import ResourceMissingError

# Error classes are found as subclasses of `OmnigraphError`, once their modules are imported. The modules of these have
# no public error, which would import them; the reference here does.
PRIVATE_ERRORS = (
    EmbeddingError,
    FileDamagedError,
    MergeBaseGoneError,
    ResourceMissingError,
    ResultFormatError,
    StoreUnfitError,
)
_BODY_LINE = re.compile(rf"^{BODY_NAME}, line (\d+)", re.MULTILINE)
_ENVELOPE_FIELDS = frozenset({"error", "code", "kind", "request_id", "manifest_conflict"})


class _RemoteErrorMixin:
    """An error reported by a server: its message and facts are those of the response."""

    _body: Mapping[str, Any]

    def __init__(self, body: Mapping[str, Any]) -> None:
        Exception.__init__(self, body.get("error", ""))  # type: ignore[arg-type]  # an Exception, see `_build_error_class`
        self._body = body
        for name, value in self.facts().items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def facts(self) -> dict[str, object]:
        """Return the fields of the response other than the message, code, kind and request id."""
        return {name: value for name, value in self._body.items() if name not in _ENVELOPE_FIELDS}

    @property
    def request_id(self) -> str | None:
        """The id of the request in the server's log."""
        return self._body.get("request_id")

    def __str__(self) -> str:
        return str(self._body.get("error", ""))

    def __reduce__(self) -> tuple[object, ...]:
        return build_error, (dict(self._body),)


def decode_error(data: bytes, status: int, sources: Mapping[str, Source]) -> OmnigraphError:
    """Return the error of a response. `sources` are the texts that were sent, by the names the server gives them."""
    try:
        body = json.loads(data)
        body = body if isinstance(body, dict) and "code" in body else None
    except ValueError:
        body = None
    if body is None:
        # Not the JSON of an omnigraph error: only the status can be reported.
        body = {"error": f"the server returned status {status} without an error that can be read", "code": "internal"}
        body["kind"] = Kind.UNAVAILABLE.value
    source = sources.get(str(body.get("source")))
    if source is not None:
        if body["code"] == SourceError.code and body.get("diagnostics"):
            return _build_source_error(body, source)
        # The caller knows the text by the name of its file, not by the name it has on the server.
        body["error"] = str(body.get("error", "")).replace(f"`{body['source']}`", f"`{source.name}`")
        body["source"] = source.name
    return build_error(body)


def relocate_error(error: OmnigraphError, locate: Callable[[int], tuple[str, int]]) -> OmnigraphError:
    """Return the error with lines of the request body replaced by the file and line that `locate` returns for them."""
    if not isinstance(error, _RemoteErrorMixin):
        return error
    body = dict(error._body)  # noqa: SLF001 - a class of this module
    body["error"] = _BODY_LINE.sub(lambda match: "{}, line {}".format(*locate(int(match[1]))), str(body.get("error")))
    body |= _relocate_fields(body, locate)
    if isinstance(body.get("problems"), list):
        body["problems"] = [{**problem, **_relocate_fields(problem, locate)} for problem in body["problems"]]
    return build_error(body)


def _relocate_fields(document: Mapping[str, Any], locate: Callable[[int], tuple[str, int]]) -> dict[str, object]:
    if document.get("file") != BODY_NAME or not isinstance(document.get("line"), int):
        return {}
    file, line = locate(document["line"])
    return {"file": file, "line": line}


def build_error(body: dict[str, Any]) -> OmnigraphError:
    """Build an error of the class with the code of the response, or an `OmnigraphError` for an unknown code."""
    error: OmnigraphError = _build_error_class(str(body["code"]), str(body.get("kind")))(body)
    return error


def _build_source_error(body: Mapping[str, Any], source: Source) -> SourceError:
    diagnostics = [
        Diagnostic(item["code"], Span(item["start"]["offset"], item["end"]["offset"]), item["message"], item["help"])
        for item in body["diagnostics"]
    ]
    return SourceError(source, diagnostics)


@cache
def _build_error_class(code: str, kind: str) -> type[Any]:
    base = _find_error_classes().get(code, OmnigraphError)
    # The kind is text from the wire: one that this version does not know must not hide the error itself.
    known_kind = Kind(kind) if kind in {member.value for member in Kind} else Kind.INTERNAL
    # Not in a module of omnigraph: `_find_error_classes` and the error reference skip these classes.
    attributes = {
        "kind": known_kind,
        "code": code,
        "__module__": "a server",
        "__doc__": "An error reported by a server.",
    }
    return type(base.__name__, (_RemoteErrorMixin, base), attributes)


@cache
def _find_error_classes() -> dict[str, type[OmnigraphError]]:
    """Return the error classes by code: the public ones, and all others of the modules that these import."""
    for name in omnigraph.__all__:
        if name.endswith("Error"):
            # Public names are lazy: this imports the module, and with it the errors that are not public.
            getattr(omnigraph, name)
    subclasses = _iter_subclasses(OmnigraphError)
    ours = [error for error in subclasses if error.__module__.startswith("omnigraph.")]
    by_code = {code: error for error in ours for code in error.codes()}
    return {code: error for code, error in by_code.items() if error not in (OmnigraphError, SourceError)}


def _iter_subclasses(error: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
    yield error
    for child in error.__subclasses__():
        yield from _iter_subclasses(child)
