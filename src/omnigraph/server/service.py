"""What all requests of a server share, and what is known of one of them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
from starlette.requests import Request
from starlette.types import Receive

from omnigraph.config.server import ServerConfig, ServerLimits
from omnigraph.engine.query_budget import Budget, QueryTimeoutError
from omnigraph.graph import Graph
from omnigraph.ops.scrub import ScrubReport
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.server.admission import Admission
from omnigraph.server.allocators import read_resident_bytes
from omnigraph.server.auth import Tokens
from omnigraph.server.background_maintenance import Healer, MaintenanceWorker
from omnigraph.server.graph_registry import GraphRegistry, ServedGraph
from omnigraph.server.http_errors import RequestTooLongError
from omnigraph.server.metrics import Metrics, Samples
from omnigraph.server.scrubber import Scrubber
from omnigraph.storage.io_counters import count_process_requests
from omnigraph.telemetry import RECOVERIES

ANONYMOUS_ACTOR = Actor(name="anonymous")
"""Who asks a server that lets everybody in."""

T = TypeVar("T")

_MAX_LOGGED_NAME = 256


@dataclass
class Exchange:
    """One request: who asks for what, as far as it is known, and what became of it. It is what the log tells."""

    id: str
    method: str
    began: float
    actor: Actor = ANONYMOUS_ACTOR
    route: str = "-"
    action: Action | None = None
    graph: str | None = None
    branch: str | None = None
    commit: str | None = None
    status: int = 0
    code: str | None = None
    """Of the error, if it was one."""

    def to_log_fields(self) -> dict[str, object]:
        """What a line of the log has of it."""
        return {
            "request_id": self.id,
            "actor": self.actor.name,
            "method": self.method,
            "route": self.route,
            "action": None if self.action is None else self.action.value,
            "graph": _truncate(self.graph),
            "branch": _truncate(self.branch),
            "commit": self.commit,
            "status": self.status,
            "error": self.code,
        }


@dataclass
class Service:
    """A server's graphs, tokens, limits and counters."""

    config: ServerConfig
    runtime: Runtime
    registry: GraphRegistry
    tokens: Tokens | None
    """Who may ask; None: everybody."""
    admission: Admission
    metrics: Metrics = field(default_factory=Metrics)
    is_draining: bool = False
    maintenance_worker: MaintenanceWorker | None = None
    """Who optimises the graphs meanwhile, if anybody does."""
    healer: Healer | None = None
    """Who settles operations that died."""
    scrubber: Scrubber | None = None
    """Who verifies files, unless the settings say that nobody does."""

    @classmethod
    def start(cls, config: ServerConfig, runtime: Runtime, *, is_open_to_all: bool = False) -> "Service":
        """Open all graphs and read tokens, policies and stored queries; whatever is wrong with them is raised."""
        tokens = None if is_open_to_all else Tokens(config.tokens_file, config.given_tokens, runtime.clock)
        hosting = GraphRegistry(config, runtime, is_open_to_all=is_open_to_all)
        hosting.open_all()
        service = cls(
            config=config, runtime=runtime, registry=hosting, tokens=tokens, admission=Admission(config.limits)
        )
        if config.maintenance is not None:
            service.maintenance_worker = MaintenanceWorker(hosting.graphs.values(), config.maintenance)
            service.maintenance_worker.start()
        service.healer = Healer(hosting.graphs.values(), config.recovery_seconds)
        service.healer.start()
        if config.scrub_days:
            admission = service.admission
            service.scrubber = Scrubber(hosting.graphs.values(), config.scrub_days, lambda: admission.working > 0)
            service.scrubber.start()
        _declare_metrics(service)
        return service

    @property
    def limits(self) -> ServerLimits:
        """How much a request may have."""
        return self.config.limits

    def find_graph(
        self, request: Request, graph: str, action: Action, branch: str | None, *, read: str | None = None
    ) -> ServedGraph:
        """The graph that a request is about; it is noted for the log, too. GraphMissingError, DeniedError.

        `read` is the branch that the verb wants to read first, if it is another one.
        """
        exchange = get_exchange(request)
        exchange.action, exchange.graph, exchange.branch = action, graph, branch
        return self.registry.get(graph, exchange.actor, read or branch)

    def bind_graph(
        self,
        request: Request,
        graph: str,
        action: Action,
        branch: str | None,
        *,
        read: str | None = None,
        budget: Budget | None = None,
    ) -> Graph:
        """The same, in the hands of whoever asks. What they may do is up to the verb that is called.

        `within` is for verbs that take no budget: RequestTooLongError ends them behind its time, as does its `cancel`.
        """
        hosted = self.find_graph(request, graph, action, branch, read=read)
        actor = get_exchange(request).actor
        return (
            hosted.bind_actor(actor)
            if budget is None
            else hosted.bind_actor(actor, check_cancelled=partial(_check_time, budget))
        )

    async def run(self, request: Request, work: Callable[[], T]) -> T:
        """Do something in a thread, to its end."""
        return await self.admission.run(get_exchange(request).actor.name, work)

    async def write(self, request: Request, work: Callable[[], T]) -> T:
        """Likewise, counted as one of the actor's writes."""
        actor = get_exchange(request).actor.name
        with self.admission.admit_write(actor):
            return await self.admission.run_write(actor, work)

    async def read(self, request: Request, budget: Budget, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Likewise; when the client goes away, the budget is cancelled, and with it the work.

        What is long has its turn among the writes.
        """
        watcher = asyncio.ensure_future(_cancel_on_disconnect(request.receive, budget))
        try:
            return await (self.write(request, work) if is_long else self.run(request, work))
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    def build_read_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What a read may use: what it asks for, but no more than the server allows."""
        return self._build_budget(self.limits.seconds, seconds, memory_bytes)

    def build_write_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What a write may use until it is published, or another verb that takes long until it is done."""
        return self._build_budget(self.limits.write_seconds, seconds, memory_bytes)

    def build_stream_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What an answer may use that is made while it is sent; the server's own limit holds beside it."""
        return self._build_budget(None, seconds, memory_bytes)

    def _build_budget(self, most_seconds: float | None, seconds: float | None, memory_bytes: int | None) -> Budget:
        """What is asked for, but no more than the server allows."""
        most_bytes = self.limits.memory_bytes
        return Budget(
            self.runtime.clock,
            seconds=min((one for one in (seconds, most_seconds) if one is not None), default=None),
            memory_bytes=most_bytes if memory_bytes is None else min(memory_bytes, most_bytes),
        )

    def record_commit(self, request: Request, operation: str, commit_id: str | None) -> None:
        """A write was done: note its commit, if it made one."""
        exchange = get_exchange(request)
        exchange.commit = commit_id
        if commit_id is not None and exchange.graph is not None:
            self.metrics.count("omnigraph_commits_total", graph=exchange.graph, operation=operation)

    def collect_scrub_reports(self) -> dict[str, ScrubReport]:
        """Return how far the scrub of each graph is; none where there is no scrub."""
        return {} if self.scrubber is None else self.scrubber.collect_reports()

    def close(self) -> None:
        """Wait for what runs."""
        if self.scrubber is not None:
            self.scrubber.stop()
        if self.maintenance_worker is not None:
            self.maintenance_worker.stop()
        if self.healer is not None:
            self.healer.stop()
        self.admission.close()


def _truncate(text: str | None) -> str | None:
    """A name as it is logged: whoever asks has chosen it, and no line gets long by it."""
    return text if text is None or len(text) <= _MAX_LOGGED_NAME else f"{text[:_MAX_LOGGED_NAME]}…"


def get_exchange(request: Request) -> Exchange:
    """What is known of a request."""
    found: Exchange = request.scope["state"]["exchange"]
    return found


def get_service(request: Request) -> Service:
    """The server that a request came to."""
    found: Service = request.app.state.service
    return found


def _check_time(budget: Budget) -> None:
    """As `Budget.check`, for what is no query."""
    try:
        budget.check()
    except QueryTimeoutError as error:
        raise RequestTooLongError(error.seconds) from None


async def _cancel_on_disconnect(receive: Receive, budget: Budget) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    budget.cancel()


def _sample_arrow_bytes() -> Samples:
    pool = pa.default_memory_pool()
    return [({"allocator": pool.backend_name}, pool.bytes_allocated())]


def _sample_resident_bytes() -> Samples:
    found = read_resident_bytes()
    return [] if found is None else [({}, found)]


def _declare_metrics(service: Service) -> None:
    metrics, graphs = service.metrics, service.registry.graphs
    count_process_requests()  # counts begin now
    metrics.declare_counter("omnigraph_requests_total", "Requests answered, by route and status.")
    metrics.declare_counter("omnigraph_commits_total", "Commits made, by graph and operation.")
    metrics.declare_counter("omnigraph_conflicts_total", "Writes that gave way to others, by graph.")
    metrics.declare_counter("omnigraph_tool_calls_total", "Calls of agents, by graph, tool and outcome.")
    metrics.declare_counter("omnigraph_refusals_total", "Requests refused for being too many, too large or too slow.")
    metrics.declare_histogram("omnigraph_request_seconds", "How long requests took, by route.")
    metrics.declare_callback(
        "omnigraph_requests_in_flight", "Requests under way.", lambda: [({}, service.admission.in_flight)]
    )
    metrics.declare_callback(
        "omnigraph_requests_working", "Those at work or waiting.", lambda: [({}, service.admission.working)]
    )
    metrics.declare_callback(
        "omnigraph_draining", "1 while the server is about to stop.", lambda: [({}, service.is_draining)]
    )
    metrics.declare_callback(
        "omnigraph_graph_open",
        "1 for a graph that can be asked.",
        lambda: [({"graph": one.id}, one.is_open) for one in graphs.values()],
    )
    metrics.declare_callback(
        "omnigraph_cache_bytes",
        "Memory that reads keep, by graph.",
        lambda: [
            ({"graph": one.id}, one.session.reads.lru.get_stats().nbytes)
            for one in graphs.values()
            if one.session is not None
        ],
    )
    metrics.declare_callback(
        "omnigraph_table_cache_bytes",
        "Memory that Lance keeps of files and indexes, by graph.",
        lambda: [
            ({"graph": one.id}, one.session.store.session.size_bytes())
            for one in graphs.values()
            if one.session is not None
        ],
    )
    metrics.declare_callback(
        "omnigraph_arrow_bytes", "Memory of arrays that are in use, by allocator.", _sample_arrow_bytes
    )
    metrics.declare_callback("omnigraph_resident_bytes", "Memory of the process.", _sample_resident_bytes)
    metrics.declare_callback(
        "omnigraph_recoveries_total",
        "Operations that died and were settled by this process, by graph and outcome.",
        lambda: [
            ({"graph": one.id, "outcome": outcome}, count)
            for one in graphs.values()
            if one.session is not None
            for outcome, count in sorted(RECOVERIES.get_counts(one.session.uri).items())
        ],
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_store_requests_total",
        "Requests that Lance made of object stores, by operation.",
        lambda: [({"operation": name}, count) for name, count in sorted(count_process_requests().items())],
        type="counter",
    )
    _declare_scrub_metrics(service)


def _declare_scrub_metrics(service: Service) -> None:
    """Declare what is read of the scrub, by graph; a graph without a complete pass has no time of one."""

    def read(value: Callable[[ScrubReport], float | None]) -> Callable[[], Samples]:
        def values() -> Samples:
            found = ((name, value(report)) for name, report in service.collect_scrub_reports().items())
            return [({"graph": name}, number) for name, number in found if number is not None]

        return values

    metrics = service.metrics
    metrics.declare_callback(
        "omnigraph_scrub_files_total",
        "Files that were compared with what is recorded of them, by graph.",
        read(lambda report: report.files),
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_scrub_bytes_total",
        "Bytes that were read for that, by graph.",
        read(lambda report: report.nbytes),
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_scrub_damaged_files",
        "Files that are not what was recorded of them, by graph.",
        read(lambda report: len(report.damaged)),
    )
    metrics.declare_callback(
        "omnigraph_scrub_last_pass_timestamp_seconds",
        "When all files of a graph were last verified.",
        read(lambda report: None if report.last_pass is None else report.last_pass.timestamp()),
    )
