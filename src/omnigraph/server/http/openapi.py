"""The OpenAPI document: every route with the bodies it takes and gives, made from the same types that are used."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from omnigraph import __version__
from omnigraph.server.http import maintenance_bodies, request_bodies
from omnigraph.server.http.request_bodies import ARROW, JSON, NDJSON

_REF = "#/components/schemas/{name}"
_BYTES = {"type": "string", "format": "binary"}
_STATUS_TEXTS = {
    "400": "The request can't be understood, or a query or schema in it has mistakes.",
    "401": "There is no valid token.",
    "403": "The policy does not allow it.",
    "404": "There is no such thing.",
    "405": "The path does not take the method.",
    "406": "The request does not accept what would be answered.",
    "408": "The body came too slowly.",
    "409": "Somebody else was first: read again and retry.",
    "413": "The body, or a JSON document of the answer, would be too large.",
    "415": "The body is not of the type that is taken.",
    "422": "It is understood, and what is stored or may be used speaks against it.",
    "429": "Too much of the actor's is under way.",
    "500": "The server failed, or what is stored is damaged; the log tells more under the id.",
    "503": "The server or its storage can't do it now.",
}
_PARAMETER_TEXTS = {
    "branch": "The branch's name; slashes in it stay as they are.",
    "commit": "The commit's id.",
    "dry_run": "Only check, and write nothing.",
    "idempotency_key": (
        "A key of your choice: the same request with the same key is done only once within 7 days; another request"
        " with it is refused."
    ),
    "message": "What the commit says it is for.",
    "name": "The stored query's name.",
    "tag": "The tag's name.",
}
"""What is said of parameters whose routes say nothing more special."""
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
    """How a route is described: what a decorator of FastAPI takes by name. `also` are statuses that only it has."""
    content: dict[str, Any] = {}
    if answers:
        content[JSON] = {
            "schema": {"anyOf": [_build_ref(one) for one in answers]} if len(answers) > 1 else _build_ref(answers[0])
        }
    content |= {stream: {"schema": _BYTES} for stream in streams}
    errors = (*COMMON_STATUSES, "409") if can_conflict else COMMON_STATUSES
    extra: dict[str, Any] = {
        "responses": {
            str(status): {"description": "Done.", "content": content},
            **{one: _build_error(one) for one in sorted(errors)},
            **{one: _build_extra_response(one, said, content) for one, said in extra_statuses.items()},
        }
    }
    if is_open:
        extra["security"] = []
    if is_rpc:
        _add_rpc(extra["responses"])
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": _build_ref(body)}}}
    if takes_ndjson:
        extra["requestBody"] = {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}
    return {"openapi_extra": {"x-described": extra}, "status_code": status}


def build_document(app: FastAPI) -> dict[str, Any]:
    """The whole document; made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title="omnigraph",
            version=__version__,
            summary="A typed, versioned property graph over HTTP.",
            routes=app.routes,
        )
        for operations in made["paths"].values():
            for operation in operations.values():
                extra = operation.pop("x-described", {})
                operation.pop("responses", None)
                operation.update(extra)
                _describe_parameters(operation.get("parameters", []))
        made["components"] = {
            "schemas": _build_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        }
        made["security"] = [{"token": []}]
        app.openapi_schema = made
    return app.openapi_schema


def _describe_parameters(parameters: list[dict[str, Any]]) -> None:
    """Describe the parameters that say no more than their names."""
    for one in parameters:
        one.setdefault("description", _PARAMETER_TEXTS.get(one["name"], ""))


def _build_ref(type_: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=type_.__name__)}


def _build_error(status: str) -> dict[str, Any]:
    return {"description": _STATUS_TEXTS[status], "content": {JSON: {"schema": _build_ref(request_bodies.ErrorAnswer)}}}


def _build_extra_response(status: str, said: str, content: dict[str, Any]) -> dict[str, Any]:
    if int(status) >= 400:
        return {"description": said, "content": {JSON: {"schema": _build_ref(request_bodies.ErrorAnswer)}}}
    return {"description": said} if status == "204" else {"description": said, "content": content}


def _add_rpc(responses: dict[str, Any]) -> None:
    """What a route of MCP answers beside what every route does: errors of the protocol, and nothing at all."""
    either = {"anyOf": [_build_ref(request_bodies.ErrorAnswer), _build_ref(request_bodies.RpcAnswer)]}
    for status in ("400", "404", "406", "415", "500"):
        responses[status] = {"description": _STATUS_TEXTS[status], "content": {JSON: {"schema": either}}}
    responses["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    responses["202"] = {"description": "A notification was taken."}


def _build_schemas() -> dict[str, Any]:
    named = {**vars(request_bodies), **vars(maintenance_bodies)}
    types = [one for one in named.values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    return dict(components)


__all__ = ["ARROW", "build_document", "describe_route"]
