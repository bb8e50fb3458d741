"""Record requests with the SDK of OpenTelemetry. Only imported if the settings ask for it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from opentelemetry import context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from omnigraph import __version__
from omnigraph.server.metrics import Metrics
from omnigraph.server.traces import TracedExchange, find_error_code, run_briefly

T = TypeVar("T")

_SCOPE = "omnigraph"
# Names from requests are cut, so that a client can't make spans of any size.
_MAX_CHARACTERS = 256


class OpenTelemetry:
    """Traces and metrics of one server. See `Traces`."""

    def __init__(self, processor: SpanProcessor, reader: MetricReader) -> None:
        # `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` take precedence.
        resource = Resource({SERVICE_NAME: _SCOPE, SERVICE_VERSION: __version__}).merge(Resource.create())
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._spans.add_span_processor(processor)
        self._tracer = self._spans.get_tracer(_SCOPE, __version__)
        self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def trace_request(self, exchange: TracedExchange, headers: Mapping[str, str]) -> Iterator[None]:
        """See Traces."""
        parent = self._propagator.extract(headers)
        with self._record("request", parent, SpanKind.SERVER) as span:
            try:
                yield
            finally:
                _describe_request(span, exchange)

    def trace_work(self, exchange: TracedExchange, work: Callable[[], T]) -> Callable[[], T]:
        """See Traces."""
        current = context.get_current()
        name = exchange.action_name or "work"

        def run() -> T:
            with self._record(name, current) as span:
                _set_names(span, exchange)
                return work()

        return run

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """See Traces."""
        with self._record(name, None):
            yield

    def export(self, metrics: Metrics) -> None:
        """See Traces."""
        meter = self._meters.get_meter(_SCOPE, __version__)
        for name, (kind, help_) in metrics.list_kinds().items():
            observe = _build_callback(metrics, name)
            if kind == "gauge":
                meter.create_observable_gauge(name, [observe], description=help_)
            else:
                meter.create_observable_counter(name, [observe], description=help_)

    def close(self) -> None:
        """See Traces."""
        run_briefly(self._spans.shutdown, self._meters.shutdown)

    @contextmanager
    def _record(self, name: str, parent: context.Context | None, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, parent, kind, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_status(StatusCode.ERROR)
                span.set_attribute("error.type", find_error_code(error))
                raise


def start_telemetry() -> OpenTelemetry:
    """Return traces and metrics that are sent to the collector which the environment names."""
    # The queue of spans is bounded; what it can't hold is dropped.
    return OpenTelemetry(BatchSpanProcessor(OTLPSpanExporter()), PeriodicExportingMetricReader(OTLPMetricExporter()))


def _describe_request(span: Span, exchange: TracedExchange) -> None:
    # Known only now: the route is found, and the answer sent, after the span began.
    span.update_name(f"{exchange.method} {exchange.route}"[:_MAX_CHARACTERS])
    _set_names(span, exchange)
    span.set_attribute("http.request.method", exchange.method[:_MAX_CHARACTERS])
    span.set_attribute("http.route", exchange.route)
    span.set_attribute("http.response.status_code", exchange.status)
    if exchange.code is not None:
        span.set_attribute("error.type", exchange.code)
    if exchange.status >= 500:
        span.set_status(StatusCode.ERROR)


def _set_names(span: Span, exchange: TracedExchange) -> None:
    names = {"graph": exchange.graph, "branch": exchange.branch, "query": exchange.query, "commit": exchange.commit}
    span.set_attribute("omnigraph.request", exchange.id)
    for name, value in names.items():
        if value is not None:
            span.set_attribute(f"omnigraph.{name}", value[:_MAX_CHARACTERS])


def _build_callback(metrics: Metrics, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        # A bool can't be encoded, and the whole batch would be lost.
        return [Observation(float(value), dict(labels)) for labels, value in metrics.sample(name)]

    return observe
