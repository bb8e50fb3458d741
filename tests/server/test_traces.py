"""Traces and metrics by OpenTelemetry: the parts of a request, and nothing that anybody wrote."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from omnigraph.config.server import build_server_config
from omnigraph.server import service as service_module
from omnigraph.server.open_telemetry import OpenTelemetry
from serving import ADD, ALL, Served, serving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Traced:
    """A server, and what it would send to a collector."""

    served: Served
    spans: InMemorySpanExporter
    metrics: InMemoryMetricReader

    def ask(self, path: str, body: object, *, role: str = "admin", headers: dict[str, str] | None = None) -> int:
        """The status of an answer."""
        self.spans.clear()
        sent = {**self.served.as_role(role), **(headers or {})}
        return self.served.client.post(path, json=body, headers=sent).status_code

    def names(self) -> list[tuple[str, str | None]]:
        """Each span with its parent, by when they began."""
        found = sorted(self.spans.get_finished_spans(), key=lambda span: span.start_time or 0)
        by_id = {span.context.span_id: span.name for span in found if span.context}
        return [(span.name, None if span.parent is None else by_id.get(span.parent.span_id)) for span in found]

    def find(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = [span for span in self.spans.get_finished_spans() if span.name == name]
        return found


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    monkeypatch.setattr(service_module, "load_traces", lambda: OpenTelemetry(SimpleSpanProcessor(spans), metrics))
    served = serving(tmp_path, config={"has_telemetry": True})
    yield Traced(served, spans, metrics)
    served.service.close()


def test_a_mutation_is_a_request_with_its_work_and_its_commit(traced: Traced) -> None:
    assert traced.ask("/graphs/people/mutate", {"query": ADD, "params": {"n": "Eve"}}) == 200

    route = "POST /graphs/{graph}/mutate"
    assert traced.names() == [(route, None), ("change", route), ("commit", "change")]
    request = traced.find(route)
    assert request.attributes is not None
    commit = traced.served.graph.commits(limit=1)[0].id
    assert request.attributes["omnigraph.commit"] == commit
    assert request.attributes["omnigraph.graph"] == "people"
    assert request.attributes["http.response.status_code"] == 200


def test_a_query_is_a_part_of_its_clients_trace(traced: Traced) -> None:
    assert traced.ask("/graphs/people/query", {"query": ALL}, headers={"traceparent": PARENT}) == 200

    request = traced.find("POST /graphs/{graph}/query")
    assert request.context is not None
    assert f"{request.context.trace_id:032x}" == PARENT.split("-")[1]
    assert [name for name, _ in traced.names()] == ["POST /graphs/{graph}/query", "read"]


def test_no_value_text_or_message_is_in_a_trace(traced: Traced) -> None:
    """Neither a parameter, nor a literal, a row, a token or the message of an error, which may quote them."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("/graphs/people/mutate", {"query": ADD, "params": {"n": "s3cret-parameter"}, "message": "s3cret-message"}),
        ("/graphs/people/mutate", {"query": 'query q() { insert Person { name: "s3cret-literal" } }'}),
        ("/graphs/people/query", {"query": 'match { $p: Person { name: "s3cret-parameter" } } return { $p.name }'}),
        ("/graphs/people/query", {"query": "match { $p: S3cret } return { $p.name }"}),
        ("/graphs/people/queries/friends", {"params": {"n": 5, "s3cret": "x"}}),
        ("/graphs/people/commits/s3cret", {}),
    ]
    text = ""
    for path, body in calls:
        traced.ask(path, body)
        text += "".join(span.to_json() for span in traced.spans.get_finished_spans())

    assert "s3cret" not in text.lower()
    assert traced.served.as_role("admin")["Authorization"].split()[1] not in text
    assert "invalid_source" in text


def test_a_stranger_makes_no_spans(traced: Traced) -> None:
    traced.spans.clear()
    for headers in ({}, {"Authorization": "Bearer wrong", "traceparent": PARENT}):
        assert traced.served.client.post("/graphs/people/query", json={}, headers=headers).status_code == 401
    assert traced.served.client.get("/healthz").status_code == 200

    assert traced.spans.get_finished_spans() == ()


def test_names_in_spans_are_cut(traced: Traced) -> None:
    traced.ask("/graphs/people/query", {"query": ALL, "branch": "b" * 100_000})

    assert all(len(span.to_json()) < 10_000 for span in traced.spans.get_finished_spans())


def test_metrics_are_those_of_the_text(traced: Traced) -> None:
    traced.ask("/graphs/people/mutate", {"query": ADD, "params": {"n": "Eve"}})

    sent = traced.metrics.get_metrics_data()
    assert sent is not None
    document = json.loads(sent.to_json())
    points = {
        metric["name"]: metric["data"]["data_points"]
        for resource in document["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    }
    (commits,) = points["omnigraph_commits_total"]
    assert (commits["value"], commits["attributes"]) == (1, {"graph": "people", "operation": "mutate"})
    assert points["omnigraph_graph_open"][0]["value"] == 1
    assert points["omnigraph_request_seconds"][0]["value"] > 0
    # A bool can't be sent, and would lose all others with it.
    values = [point["value"] for series in points.values() for point in series]
    assert not [value for value in values if isinstance(value, bool)]


def test_it_is_off_unless_the_settings_say_so(tmp_path: Path) -> None:
    served = serving(tmp_path)

    assert served.service.traces is None
    served.service.close()
    file = tmp_path / "omnigraph.toml"
    file.write_text("[telemetry]\nopentelemetry = true\n", encoding="utf-8")
    assert build_server_config(file, {}, ["a=x"]).has_telemetry
