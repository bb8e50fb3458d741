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

from omnigraph.config.server import Limits, ServerConfig
from omnigraph.engine.query_budget import Budget, QueryTimeoutError
from omnigraph.graph import Graph
from omnigraph.ops.scrub import ScrubReport
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.server.admission import Admission
from omnigraph.server.allocators import resident_bytes
from omnigraph.server.auth import Tokens
from omnigraph.server.background_maintenance import Caretaker, Healer
from omnigraph.server.graph_registry import Hosted, Hosting
from omnigraph.server.http_errors import RequestTooLongError
from omnigraph.server.metrics import Metrics, Reading
from omnigraph.server.scrubber import Scrubber
from omnigraph.storage.io_counters import process_requests
from omnigraph.telemetry import RECOVERIES

ANYBODY = Actor(name="anonymous")
"""Who asks a server that lets everybody in."""

T = TypeVar("T")

_LONGEST_NAME = 256


@dataclass
class Exchange:
    """One request: who asks for what, as far as it is known, and what became of it. It is what the log tells."""

    id: str
    method: str
    began: float
    actor: Actor = ANYBODY
    route: str = "-"
    action: Action | None = None
    graph: str | None = None
    branch: str | None = None
    commit: str | None = None
    status: int = 0
    code: str | None = None
    """Of the error, if it was one."""

    def fields(self) -> dict[str, object]:
        """What a line of the log has of it."""
        return {
            "request_id": self.id,
            "actor": self.actor.name,
            "method": self.method,
            "route": self.route,
            "action": None if self.action is None else self.action.value,
            "graph": _short(self.graph),
            "branch": _short(self.branch),
            "commit": self.commit,
            "status": self.status,
            "error": self.code,
        }


@dataclass
class Service:
    """A server's graphs, tokens, limits and counters."""

    config: ServerConfig
    runtime: Runtime
    hosting: Hosting
    tokens: Tokens | None
    """Who may ask; None: everybody."""
    admission: Admission
    metrics: Metrics = field(default_factory=Metrics)
    is_draining: bool = False
    caretaker: Caretaker | None = None
    """Who optimises the graphs meanwhile, if anybody does."""
    healer: Healer | None = None
    """Who settles operations that died."""
    scrubber: Scrubber | None = None
    """Who verifies files, unless the settings say that nobody does."""

    @classmethod
    def start(cls, config: ServerConfig, runtime: Runtime, *, is_open_to_all: bool = False) -> "Service":
        """Open all graphs and read tokens, policies and stored queries; whatever is wrong with them is raised."""
        tokens = None if is_open_to_all else Tokens(config.tokens_file, config.given_tokens, runtime.clock)
        hosting = Hosting(config, runtime, is_open_to_all=is_open_to_all)
        hosting.open_all()
        service = cls(
            config=config, runtime=runtime, hosting=hosting, tokens=tokens, admission=Admission(config.limits)
        )
        if config.maintenance is not None:
            service.caretaker = Caretaker(hosting.graphs.values(), config.maintenance)
            service.caretaker.start()
        service.healer = Healer(hosting.graphs.values(), config.recovery_seconds)
        service.healer.start()
        if config.scrub_days:
            admission = service.admission
            service.scrubber = Scrubber(hosting.graphs.values(), config.scrub_days, lambda: admission.working > 0)
            service.scrubber.start()
        _declare(service)
        return service

    @property
    def limits(self) -> Limits:
        """How much a request may have."""
        return self.config.limits

    def hosted(
        self, request: Request, graph: str, action: Action, branch: str | None, *, read: str | None = None
    ) -> Hosted:
        """The graph that a request is about; it is noted for the log, too. GraphMissingError, DeniedError.

        `read` is the branch that the verb wants to read first, if it is another one.
        """
        exchange = exchange_of(request)
        exchange.action, exchange.graph, exchange.branch = action, graph, branch
        return self.hosting.get(graph, exchange.actor, read or branch)

    def graph(
        self,
        request: Request,
        graph: str,
        action: Action,
        branch: str | None,
        *,
        read: str | None = None,
        within: Budget | None = None,
    ) -> Graph:
        """The same, in the hands of whoever asks. What they may do is up to the verb that is called.

        `within` is for verbs that take no budget: RequestTooLongError ends them behind its time, as does its `cancel`.
        """
        hosted = self.hosted(request, graph, action, branch, read=read)
        actor = exchange_of(request).actor
        return hosted.graph(actor) if within is None else hosted.graph(actor, go_on=partial(_require_time, within))

    async def run(self, request: Request, work: Callable[[], T]) -> T:
        """Do something in a thread, to its end."""
        return await self.admission.run(exchange_of(request).actor.name, work)

    async def write(self, request: Request, work: Callable[[], T]) -> T:
        """Likewise, counted as one of the actor's writes."""
        actor = exchange_of(request).actor.name
        with self.admission.write(actor):
            return await self.admission.run_write(actor, work)

    async def read(self, request: Request, budget: Budget, work: Callable[[], T], *, is_long: bool = False) -> T:
        """Likewise; when the client goes away, the budget is cancelled, and with it the work.

        What is long has its turn among the writes.
        """
        watcher = asyncio.ensure_future(_cancel_when_gone(request.receive, budget))
        try:
            return await (self.write(request, work) if is_long else self.run(request, work))
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    def budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What a read may use: what it asks for, but no more than the server allows."""
        return self._budget(self.limits.seconds, seconds, memory_bytes)

    def write_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What a write may use until it is published, or another verb that takes long until it is done."""
        return self._budget(self.limits.write_seconds, seconds, memory_bytes)

    def stream_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """What an answer may use that is made while it is sent; the server's own limit holds beside it."""
        return self._budget(None, seconds, memory_bytes)

    def _budget(self, most_seconds: float | None, seconds: float | None, memory_bytes: int | None) -> Budget:
        """What is asked for, but no more than the server allows."""
        most_bytes = self.limits.memory_bytes
        return Budget(
            self.runtime.clock,
            seconds=min((one for one in (seconds, most_seconds) if one is not None), default=None),
            memory_bytes=most_bytes if memory_bytes is None else min(memory_bytes, most_bytes),
        )

    def committed(self, request: Request, operation: str, commit_id: str | None) -> None:
        """A write was done: note its commit, if it made one."""
        exchange = exchange_of(request)
        exchange.commit = commit_id
        if commit_id is not None and exchange.graph is not None:
            self.metrics.count("omnigraph_commits_total", graph=exchange.graph, operation=operation)

    def scrub_reports(self) -> dict[str, ScrubReport]:
        """Return how far the scrub of each graph is; none where there is no scrub."""
        return {} if self.scrubber is None else self.scrubber.reports()

    def close(self) -> None:
        """Wait for what runs."""
        if self.scrubber is not None:
            self.scrubber.stop()
        if self.caretaker is not None:
            self.caretaker.stop()
        if self.healer is not None:
            self.healer.stop()
        self.admission.close()


def _short(text: str | None) -> str | None:
    """A name as it is logged: whoever asks has chosen it, and no line gets long by it."""
    return text if text is None or len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def exchange_of(request: Request) -> Exchange:
    """What is known of a request."""
    found: Exchange = request.scope["state"]["exchange"]
    return found


def service_of(request: Request) -> Service:
    """The server that a request came to."""
    found: Service = request.app.state.service
    return found


def _require_time(budget: Budget) -> None:
    """As `Budget.check`, for what is no query."""
    try:
        budget.check()
    except QueryTimeoutError as error:
        raise RequestTooLongError(error.seconds) from None


async def _cancel_when_gone(receive: Receive, budget: Budget) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    budget.cancel()


def _arrow_bytes() -> Reading:
    pool = pa.default_memory_pool()
    return [({"allocator": pool.backend_name}, pool.bytes_allocated())]


def _resident_bytes() -> Reading:
    found = resident_bytes()
    return [] if found is None else [({}, found)]


def _declare(service: Service) -> None:
    metrics, graphs = service.metrics, service.hosting.graphs
    process_requests()  # counts begin now
    metrics.counter("omnigraph_requests_total", "Requests answered, by route and status.")
    metrics.counter("omnigraph_commits_total", "Commits made, by graph and operation.")
    metrics.counter("omnigraph_conflicts_total", "Writes that gave way to others, by graph.")
    metrics.counter("omnigraph_tool_calls_total", "Calls of agents, by graph, tool and outcome.")
    metrics.counter("omnigraph_refusals_total", "Requests refused for being too many, too large or too slow.")
    metrics.histogram("omnigraph_request_seconds", "How long requests took, by route.")
    metrics.read("omnigraph_requests_in_flight", "Requests under way.", lambda: [({}, service.admission.in_flight)])
    metrics.read("omnigraph_requests_working", "Those at work or waiting.", lambda: [({}, service.admission.working)])
    metrics.read("omnigraph_draining", "1 while the server is about to stop.", lambda: [({}, service.is_draining)])
    metrics.read(
        "omnigraph_graph_open",
        "1 for a graph that can be asked.",
        lambda: [({"graph": one.id}, one.is_open) for one in graphs.values()],
    )
    metrics.read(
        "omnigraph_cache_bytes",
        "Memory that reads keep, by graph.",
        lambda: [
            ({"graph": one.id}, one.session.reads.kept.stats().nbytes)
            for one in graphs.values()
            if one.session is not None
        ],
    )
    metrics.read(
        "omnigraph_table_cache_bytes",
        "Memory that Lance keeps of files and indexes, by graph.",
        lambda: [
            ({"graph": one.id}, one.session.store.session.size_bytes())
            for one in graphs.values()
            if one.session is not None
        ],
    )
    metrics.read("omnigraph_arrow_bytes", "Memory of arrays that are in use, by allocator.", _arrow_bytes)
    metrics.read("omnigraph_resident_bytes", "Memory of the process.", _resident_bytes)
    metrics.read(
        "omnigraph_recoveries_total",
        "Operations that died and were settled by this process, by graph and outcome.",
        lambda: [
            ({"graph": one.id, "outcome": outcome}, count)
            for one in graphs.values()
            if one.session is not None
            for outcome, count in sorted(RECOVERIES.of(one.session.uri).items())
        ],
        type="counter",
    )
    metrics.read(
        "omnigraph_store_requests_total",
        "Requests that Lance made of object stores, by operation.",
        lambda: [({"operation": name}, count) for name, count in sorted(process_requests().items())],
        type="counter",
    )
    _declare_scrub(service)


def _declare_scrub(service: Service) -> None:
    """Declare what is read of the scrub, by graph; a graph without a complete pass has no time of one."""

    def read(value: Callable[[ScrubReport], float | None]) -> Callable[[], Reading]:
        def values() -> Reading:
            found = ((name, value(report)) for name, report in service.scrub_reports().items())
            return [({"graph": name}, number) for name, number in found if number is not None]

        return values

    metrics = service.metrics
    metrics.read(
        "omnigraph_scrub_files_total",
        "Files that were compared with what is recorded of them, by graph.",
        read(lambda report: report.files),
        type="counter",
    )
    metrics.read(
        "omnigraph_scrub_bytes_total",
        "Bytes that were read for that, by graph.",
        read(lambda report: report.nbytes),
        type="counter",
    )
    metrics.read(
        "omnigraph_scrub_damaged_files",
        "Files that are not what was recorded of them, by graph.",
        read(lambda report: len(report.damaged)),
    )
    metrics.read(
        "omnigraph_scrub_last_pass_timestamp_seconds",
        "When all files of a graph were last verified.",
        read(lambda report: None if report.last_pass is None else report.last_pass.timestamp()),
    )
