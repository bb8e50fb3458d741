"""The OpenAPI document, built from the routes and from the types that encode and decode their bodies."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from omnigraph import __version__
from omnigraph.server.http import browse_bodies, maintenance_bodies, request_bodies
from omnigraph.server.http.answer_types import NAMES, define_answer, get_schema_name
from omnigraph.server.http.request_bodies import ARROW, JSON, NDJSON

_REF = "#/components/schemas/{name}"
_BYTES = {"type": "string", "format": "binary"}
_STATUS_TEXTS = {
    "400": "The request is malformed, or a query or schema in it has mistakes.",
    "401": "The request has no valid token.",
    "403": "The policy does not allow it.",
    "404": "The graph, or an object in it, does not exist.",
    "405": "The path does not support the method.",
    "406": "The request does not accept the media type of the response.",
    "408": "The body arrived too slowly.",
    "409": "Another writer was first: read again and retry.",
    "413": "The body, or the JSON document of the response, is too large.",
    "415": "The media type of the body is not supported.",
    "422": "The request is well-formed, but conflicts with the stored data or exceeds its budget.",
    "429": "The actor has too many requests in progress.",
    "500": "The server failed, or the stored data is damaged; see `request_id` in the log for details.",
    "503": "The server or its storage is unavailable.",
}
# Descriptions of parameters whose routes give none.
_PARAMETER_TEXTS = {
    "branch": "The branch's name; slashes in it are not escaped.",
    "commit": "The commit's id.",
    "dry_run": "Only check, and write nothing.",
    "idempotency_key": (
        "A key of your choice: the same request with the same key is executed only once within 7 days; another request"
        " with it is rejected."
    ),
    "message": "The commit message.",
    "name": "The stored query's name.",
    "tag": "The tag's name.",
}
# The error statuses that every route may respond with.
COMMON_STATUSES = ("400", "401", "403", "404", "405", "408", "413", "422", "429", "500", "503")


def describe_route(
    *answers: type[msgspec.Struct],
    body: type[msgspec.Struct] | None = None,
    takes_ndjson: bool = False,
    streams: Sequence[str] = (),
    status: int = 200,
    can_conflict: bool = False,
    is_open: bool = False,
    is_rpc: bool = False,
    extra_statuses: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the description of a route, as keyword arguments of a FastAPI decorator.

    `answers` are the types of its JSON responses, `extra_statuses` the statuses that only this route has.
    """
    content: dict[str, Any] = {}
    if answers:
        refs = [_build_ref(answer) for answer in answers]
        content[JSON] = {"schema": {"anyOf": refs} if len(refs) > 1 else refs[0]}
    content |= {stream: {"schema": _BYTES} for stream in streams}
    errors = (*COMMON_STATUSES, "409") if can_conflict else COMMON_STATUSES
    responses: dict[str, Any] = {str(status): {"description": "Done.", "content": content}}
    responses |= {error: _build_error(error) for error in sorted(errors)}
    responses |= {code: _build_extra_response(code, text, content) for code, text in extra_statuses.items()}
    extra: dict[str, Any] = {"responses": responses}
    # An empty list overrides the document's default, which requires a token.
    if is_open:
        extra["security"] = []
    if is_rpc:
        _add_rpc(responses)
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": _build_ref(body)}}}
    if takes_ndjson:
        extra["requestBody"] = {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
    # Under a key of its own: FastAPI would merge it with the responses that it derives, which `build_document` drops.
    return {"openapi_extra": {"x-described": extra}, "status_code": status}


def name_operation(route: APIRoute) -> str:
    """Return the operation id of a route, after which generated clients name their methods: `get_branches`, `merge`."""
    return f"get_{route.name}" if "GET" in (route.methods or ()) else route.name


def build_document(app: FastAPI) -> dict[str, Any]:
    """Return the whole document, which is built once and cached in the application."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="omnigraph",
            version=__version__,
            summary="A typed, versioned property graph over HTTP.",
            routes=app.routes,
        )
        for operations in document["paths"].values():
            for operation in operations.values():
                extra = operation.pop("x-described", {})
                operation.pop("responses", None)
                operation.update(extra)
                _describe_parameters(operation.get("parameters", []))
        document["components"] = {
            "schemas": _build_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        }
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


def _describe_parameters(parameters: list[dict[str, Any]]) -> None:
    """Add a description to the parameters that have none."""
    for parameter in parameters:
        parameter.setdefault("description", _PARAMETER_TEXTS.get(parameter["name"], ""))


def _build_ref(type_: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=get_schema_name(type_))}


def _build_error(status: str) -> dict[str, Any]:
    return {"description": _STATUS_TEXTS[status], "content": {JSON: {"schema": _build_ref(request_bodies.ErrorAnswer)}}}


def _build_extra_response(status: str, description: str, content: dict[str, Any]) -> dict[str, Any]:
    if int(status) >= 400:
        return {"description": description, "content": {JSON: {"schema": _build_ref(request_bodies.ErrorAnswer)}}}
    # 204 is a response without a body.
    return {"description": description} if status == "204" else {"description": description, "content": content}


def _add_rpc(responses: dict[str, Any]) -> None:
    """Add the responses that only MCP routes have: errors of the protocol, event streams, and empty responses."""
    either = {"anyOf": [_build_ref(request_bodies.ErrorAnswer), _build_ref(request_bodies.RpcAnswer)]}
    for status in ("400", "404", "406", "415", "500"):
        responses[status] = {"description": _STATUS_TEXTS[status], "content": {JSON: {"schema": either}}}
    responses["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    responses["202"] = {"description": "A notification was accepted."}


def _build_schemas() -> dict[str, Any]:
    names = {**vars(request_bodies), **vars(maintenance_bodies), **vars(browse_bodies)}
    types = {value for value in names.values() if isinstance(value, type) and issubclass(value, msgspec.Struct)}
    # What bodies have in common is described where they are.
    types -= {request_bodies.StateBody, request_bodies.LimitedBody}
    requests = {type_ for type_ in types if type_.__struct_config__.forbid_unknown_fields}
    answers = {define_answer(type_) for type_ in (types - requests) | NAMES.keys()}
    _, components = msgspec.json.schema_components(requests | answers, ref_template=_REF)
    return dict(sorted(components.items()))


__all__ = ["ARROW", "build_document", "describe_route"]
