"""Write docs/reference/http.md from the OpenAPI. Run by `make docs`; a test fails when the page is stale."""

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

The HTTP API of `omnigraph serve`. [Run the server](../how-to/run-the-server.md) describes how to set it up, and
[write a policy](../how-to/write-a-policy.md) how to grant permissions. `GET /openapi.json` returns the same API as an
OpenAPI document.

- **Authentication** is the header `Authorization: Bearer TOKEN`; no other credentials are accepted. Only `/healthz` and
  `/readyz` need none.
- **Bodies** are JSON in UTF-8. An unknown field, a duplicate name or a value of another type is rejected with 400.
- **Responses** are one JSON document, up to the server's limits of rows and bytes. Where a route can stream, request it
  with `Accept: application/x-ndjson` (one JSON object per line) or `Accept: application/vnd.apache.arrow.stream`; a
  stream that fails is cut off, without its end marker.
- **Values** are those of [result JSON](query-language.md): nulls are included, an integer beyond ±(2^53 − 1) is a
  string, and a DateTime ends with `Z`.
- **Pages** have at most `limit` items. Pass `next_cursor` with the same other parameters to get the next page; it is
  null on the last page.
- **Every response** has `X-Request-Id`, which is in the server's log, too.

## Errors

An error is a document with `error` (the message), `code`, `kind`, `request_id` and the facts of that error. For the
meaning of each code, see [errors](errors.md). In addition to its own statuses, every route may return:

| status | meaning |
|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    document = api()
    errors = next(iter(document["paths"].values()))["get"]["responses"]
    statuses = [f"| {status} | {errors[status]['description']} |" for status in COMMON_STATUSES]
    shapes = [_format_shape(name, shape) for name, shape in sorted(document["components"]["schemas"].items())]
    parts = [INTRODUCTION + "\n".join(statuses), *_format_routes(document), "## Shapes", *shapes]
    return "\n\n".join(parts) + "\n"


def api() -> dict[str, Any]:
    """Return the OpenAPI document of a server; it does not depend on the graphs that are served."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for router in ROUTERS:
        app.include_router(router)
    return build_document(app)


def routes() -> Iterator[tuple[str, str, str]]:
    """Yield the group, method and path of every route, with the path as in the OpenAPI document."""
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in sorted(route.methods or ()):
                    yield _find_group(route), method, route.path_format


def _find_group(route: APIRoute) -> str:
    """Return the first line of the docstring of a route's module, up to the first colon or full stop."""
    title = (sys.modules[route.endpoint.__module__].__doc__ or "").partition("\n")[0]
    return title.partition(":")[0].partition(".")[0]


def _format_routes(document: Mapping[str, Any]) -> Iterator[str]:
    group = ""
    for title, method, path in routes():
        if title != group:
            group = title
            yield f"## {group}"
        yield _format_route(method, path, document["paths"][path][method.lower()])


def _format_route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method} {path}", operation["description"]]
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [_format_parameter(parameter) for parameter in parameters]
        parts.append("\n".join(["| parameter | in | type | |", "|---|---|---|---|", *rows]))
    if "requestBody" in operation:
        parts.append(f"Takes {_format_content(operation['requestBody']['content'])}.")
    # The common statuses are listed once above, unless the route has another document for one of them.
    responses = {
        status: response
        for status, response in operation["responses"].items()
        if status not in COMMON_STATUSES or "anyOf" in str(response)
    }
    parts.append("\n".join(_format_response(status, response) for status, response in sorted(responses.items())))
    return "\n\n".join(parts)


def _format_parameter(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    sentences = [parameter.get("description", "")]
    if parameter.get("required") and parameter["in"] != "path":
        sentences.append("Required.")
    if schema.get("default") is not None:
        sentences.append(f"Default: `{_format_json(schema['default'])}`.")
    text = " ".join(filter(None, sentences))
    return f"| `{parameter['name']}` | {parameter['in']} | {_format_type(schema)} | {text} |"


def _format_response(status: str, response: Mapping[str, Any]) -> str:
    content = _format_content(response.get("content", {}))
    return f"- **{status}** {response['description']}" + (f" {content[0].upper()}{content[1:]}." if content else "")


def _format_content(content: Mapping[str, Any]) -> str:
    texts = []
    for media, body in content.items():
        types = [_format_type(part) for part in body["schema"].get("anyOf", [body["schema"]])]
        is_json = media == "application/json"
        texts.append(" or ".join(types) if is_json else f"`{media}`")
    return ", or ".join(texts)


def _format_shape(name: str, schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = []
    # What has to be given comes first, whatever a body shares with others.
    fields = sorted(schema["properties"].items(), key=lambda item: item[0] not in required)
    for field_name, field in fields:
        is_required = field_name in required
        has_default = not is_required and field.get("default") not in (None, {}, [])
        default = f"Default: `{_format_json(field['default'])}`." if has_default else ""
        rows.append(f"| `{field_name}` | {_format_type(field)} | {'yes' if is_required else ''} | {default} |")
    word = "required" if name.endswith("Body") else "always"
    table = "\n".join([f"| field | type | {word} | |", "|---|---|---|---|", *rows])
    description = " ".join(schema.get("description", "").split())
    return f"### {name}\n\n{description}\n\n{table}"


def _format_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_format_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_format_type(schema.get('items', {}))}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_format_type(values)}" if isinstance(values, dict) and values else "object"
        case None:
            return "anything"
        case str(type_):
            return type_
        case several:
            return " or ".join(map(str, several))


def _format_json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}: {len(list(routes()))} routes")
