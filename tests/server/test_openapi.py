"""The OpenAPI document is complete and true: made-up requests never break the server, and answers are as it says."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import errors_reference
from omnigraph.server.http.error_responses import _STATUS_BY_CODE
from serving import TOKENS, Served, serving

EXAMPLES, MANY = 3, 60
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    """A body of lines: whatever was made up, as it is."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serving(tmp_path_factory.mktemp("openapi"))
    yield found
    found.service.close()


@pytest.fixture(scope="module")
def document(served: Served) -> Any:
    return served.client.get("/openapi.json", headers=served.as_role("nobody")).json()


def test_every_reference_leads_somewhere(document: Any) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (value[key] for key in value if key == "$ref")
            for one in value.values():
                yield from references(one)
        elif isinstance(value, list):
            for one in value:
                yield from references(one)

    found = set(references(document))

    assert {name.rpartition("/")[2] for name in found} <= set(document["components"]["schemas"])


def test_every_operation_says_what_it_takes_and_gives(document: Any) -> None:
    operations = [one for path in document["paths"].values() for one in path.values()]

    assert len(operations) > 20
    assert all(one["description"] and one["responses"] for one in operations)
    assert all(any(status.startswith("2") for status in one["responses"]) for one in operations)


def test_every_parameter_says_what_it_is(document: Any) -> None:
    silent = [
        f"{method} {path}: {one['name']}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for one in operation.get("parameters", [])
        if not one.get("description")
    ]

    assert silent == []


def test_only_health_is_open_to_everybody(document: Any) -> None:
    is_open = {path for path, one in document["paths"].items() for how in one.values() if how.get("security") == []}

    assert document["security"] == [{"token": []}]
    assert is_open == {"/healthz", "/readyz", "/explorer/token"}


def test_operations_have_readable_ids_and_a_group(document: Any) -> None:
    operations = [one for path in document["paths"].values() for one in path.values()]
    ids = [one["operationId"] for one in operations]

    assert len(set(ids)) == len(ids)
    assert {"query", "get_branches", "create_branch", "invoke", "get_commit_changes"} <= set(ids)
    assert all(id_.isidentifier() and "graph__" not in id_ for id_ in ids)
    assert all(len(one["tags"]) == 1 for one in operations)


def test_every_status_is_of_a_code_that_there_is() -> None:
    codes = {code for code, _ in errors_reference.cases()}

    assert set(_STATUS_BY_CODE) <= codes


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(MANY, marks=pytest.mark.soak)])
def test_made_up_requests_never_break_the_server(examples: int, served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['admin']}", "Host": "localhost"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", served.client.app, headers=headers)
    tried = set()

    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        for mode in GenerationMode:
            probe(operation.as_strategy(generation_mode=mode), headers, examples)
        tried.add(operation.label)

    assert len(tried) > 20


def probe(cases: Any, headers: dict[str, str], examples: int) -> None:
    """Some requests of one operation, most of them nonsense."""

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def send(case: Any) -> None:
        if "graph" in (case.path_parameters or {}):
            case.path_parameters["graph"] = "people"
        case.call_and_validate(headers=headers, checks=CHECKS)

    with suppress(Unsatisfiable):  # an operation without parameters has no wrong ones
        send()
