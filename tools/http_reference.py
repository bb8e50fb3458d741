"""Writes docs/reference/http.md from the OpenAPI. Run by `make docs`; a test fails when the page is stale."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from omnigraph.server.http.app import ROUTERS
from omnigraph.server.http.openapi import COMMON_STATUSES, build_document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http.md"

INTRODUCTION = """\
# HTTP

<!-- Written by tools/http_reference.py (`make docs`). Don't edit by hand. -->

What `omnigraph serve` answers. [Run the server](../how-to/run-the-server.md) tells how to set it up, and
[write a policy](../how-to/write-a-policy.md) who may do what. `GET /openapi.json` is the same as an OpenAPI document.

- **Who asks** is told by `Authorization: Bearer TOKEN`, and by nothing else. Only `/healthz` and `/readyz` need none.
- **Bodies** are JSON in UTF-8. A field that there is not, a name that is there twice, a value of another type: 400.
- **Answers** are one JSON document, up to the server's limits of rows and bytes. Where a route can stream, ask with
  `Accept: application/x-ndjson` (a JSON object a line) or `Accept: application/vnd.apache.arrow.stream`; a stream that
  fails on its way is cut without its end.
- **Values** are those of [result JSON](query-language.md): nulls are there, an integer beyond ±(2^53 − 1) is a text, a
  DateTime ends with `Z`.
- **Pages** have at most `limit` items. `next_cursor` leads to the next one, with the same other parameters; null: there
  is none.
- **Every answer** has `X-Request-Id`, which is in the server's log, too.

## Errors

An error is a document with `error` (the story), `code`, `kind`, `request_id` and the facts of that error. What each
code means: [errors](errors.md). Beside its own statuses, every route may answer:

| status | meaning |
|---|---|
"""


def page() -> str:
    """The whole page."""
    made = api()
    errors = next(iter(made["paths"].values()))["get"]["responses"]
    statuses = [f"| {status} | {errors[status]['description']} |" for status in COMMON_STATUSES]
    shapes = made["components"]["schemas"]
    told = [_shape(name, shape) for name, shape in sorted(shapes.items())]
    parts = [INTRODUCTION + "\n".join(statuses), *_routes(made), "## Shapes", *told]
    return "\n\n".join(parts) + "\n"


def api() -> dict[str, Any]:
    """The OpenAPI document of a server, whatever it serves."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for router in ROUTERS:
        app.include_router(router)
    return build_document(app)


def routes() -> Iterator[tuple[str, str, str]]:
    """Every route that there is: its group, method and path as the document has it."""
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in sorted(route.methods or ()):
                    yield _group(route), method, route.path_format


def _group(route: APIRoute) -> str:
    """What a module of routes says of itself, up to the first colon or full stop."""
    told = (sys.modules[route.endpoint.__module__].__doc__ or "").partition("\n")[0]
    return told.partition(":")[0].partition(".")[0]


def _routes(made: Mapping[str, Any]) -> Iterator[str]:
    group = ""
    for title, method, path in routes():
        if title != group:
            group = title
            yield f"## {group}"
        yield _route(method, path, made["paths"][path][method.lower()])


def _route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method} {path}", operation["description"]]
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [_parameter(one) for one in parameters]
        parts.append("\n".join(["| parameter | in | type | |", "|---|---|---|---|", *rows]))
    if "requestBody" in operation:
        parts.append(f"Takes {_content(operation['requestBody']['content'])}.")
    own = {
        status: one
        for status, one in operation["responses"].items()
        if status not in COMMON_STATUSES or "anyOf" in str(one)
    }
    parts.append("\n".join(_answer(status, one) for status, one in sorted(own.items())))
    return "\n\n".join(parts)


def _parameter(one: Mapping[str, Any]) -> str:
    schema = one["schema"]
    told = [one.get("description", "")]
    if one.get("required") and one["in"] != "path":
        told.append("Required.")
    if schema.get("default") is not None:
        told.append(f"Without it: `{_json(schema['default'])}`.")
    return f"| `{one['name']}` | {one['in']} | {_type(schema)} | {' '.join(filter(None, told))} |"


def _answer(status: str, one: Mapping[str, Any]) -> str:
    content = _content(one.get("content", {}))
    return f"- **{status}** {one['description']}" + (f" {content[0].upper()}{content[1:]}." if content else "")


def _content(content: Mapping[str, Any]) -> str:
    found = []
    for media, one in content.items():
        kinds = [_type(part) for part in one["schema"].get("anyOf", [one["schema"]])]
        is_json = media == "application/json"
        found.append(" or ".join(kinds) if is_json else f"`{media}`")
    return ", or ".join(found)


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = []
    for field, one in schema.get("properties", {}).items():
        default = (
            ""
            if field in required or one.get("default") in (None, {}, [])
            else f"Without it: `{_json(one['default'])}`."
        )
        rows.append(f"| `{field}` | {_type(one)} | {'yes' if field in required else ''} | {default} |")
    word = "required" if name.endswith("Body") else "always"
    table = "\n".join([f"| field | type | {word} | |", "|---|---|---|---|", *rows])
    told = " ".join(schema.get("description", "").split())
    return f"### {name}\n\n{told}\n\n{table}"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_type(values)}" if isinstance(values, dict) and values else "object"
        case None:
            return "anything"
        case str(type_):
            return type_
        case several:
            return " or ".join(map(str, several))


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}: {len(list(routes()))} routes")
