"""The state that all requests of a server share, and the record of a single request."""

import asyncio
import os
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Receive

from omnigraph.config.server import ServerConfig, ServerLimits
from omnigraph.engine.parallel import count_cores
from omnigraph.engine.query_budget import Budget, QueryCancelledError, QueryTimeoutError
from omnigraph.graph import Graph
from omnigraph.ops.scrub import ScrubReport
from omnigraph.policy import Action, Actor, DeniedError
from omnigraph.runtime import Runtime
from omnigraph.server.admission import Admission
from omnigraph.server.auth import Tokens
from omnigraph.server.background_maintenance import Healer, MaintenanceWorker
from omnigraph.server.backup_worker import BackupReport, BackupWorker
from omnigraph.server.branch_watchers import BranchWatchers
from omnigraph.server.fleet import LONG_SECONDS, Fleet
from omnigraph.server.graph_registry import GraphRegistry, ServedGraph
from omnigraph.server.graph_root import GraphRoot
from omnigraph.server.http_errors import RequestLimitError, UnauthenticatedError
from omnigraph.server.jwt_tokens import JwtTokens
from omnigraph.server.login_codes import LoginCodes
from omnigraph.server.metrics import GRAPH_LABEL, Metrics, Samples
from omnigraph.server.running_queries import RunningQueries
from omnigraph.server.scrubber import Scrubber
from omnigraph.server.traces import Traces, load_traces
from omnigraph.storage.io_counters import count_process_requests
from omnigraph.telemetry import RECOVERIES, Telemetry, log

# The actor of all requests to a server without authentication.
ANONYMOUS_ACTOR = Actor(name="anonymous")

T = TypeVar("T")

# A read is watched for its client's leaving after this time.
_WATCH_SECONDS = 0.02
# Clients choose these names, so a log line must not grow with them.
_MAX_LOGGED_NAME = 256


@dataclass
class Exchange:
    """The record of one request for the log: its actor, action and outcome, filled in as they become known."""

    id: str
    method: str
    began: float
    client: str | None = None
    """The address of the client, which is all that is known of one that fails to authenticate."""
    actor: Actor = ANONYMOUS_ACTOR
    is_authenticated: bool = False
    rejected: str | None = None
    """Why the client failed to authenticate."""
    route: str = "-"
    query: str | None = None
    """The name of the stored query that the request runs."""
    action: Action | None = None
    graph: str | None = None
    branch: str | None = None
    commit: str | None = None
    is_relayed: bool = False
    """Whether another worker was asked, which checks, counts and logs the request."""
    next_commit: str | None = None
    """The id that the commit of a mutation gets, if that worker chose it."""
    done_commit: str | None = None
    """The commit of a mutation whose worker died after it, which is not to be run again."""
    rules: str | None = None
    """What identifies the rules about rows under which a stream was begun."""
    status: int = 0
    code: str | None = None
    """The error code, if the request failed."""
    has_more_body: bool = False
    """Whether the client still sends a body, which is too large."""

    @property
    def action_name(self) -> str | None:
        """The action of the policy, if the request has one."""
        return None if self.action is None else self.action.value

    def to_log_fields(self) -> dict[str, object]:
        """Return the fields of the request's log line."""
        fields: dict[str, object] = {
            "request_id": self.id,
            "client": self.client,
            "actor": self.actor.name if self.is_authenticated else None,
            "method": self.method,
            "route": self.route,
            "action": None if self.action is None else self.action.value,
            "graph": _truncate(self.graph),
            "branch": _truncate(self.branch),
            "query": _truncate(self.query),
            "commit": self.commit,
            "status": self.status,
            "error": self.code,
        }
        return fields if self.rejected is None else {**fields, "rejected": self.rejected}


class HandedOverError(Exception):
    """A request takes long: a worker for long requests answers it."""


@dataclass
class Service:
    """The graphs, tokens, limits, metrics and background threads of a server."""

    config: ServerConfig
    runtime: Runtime
    registry: GraphRegistry
    tokens: Tokens | None
    """The valid tokens; None if the server needs no authentication."""
    admission: Admission
    fleet: Fleet | None = None
    """The workers of the server; None if this process is the only one."""
    metrics: Metrics = field(default_factory=Metrics)
    is_draining: bool = False
    maintenance_worker: MaintenanceWorker | None = None
    """Optimizes the graphs in the background, if configured."""
    healer: Healer | None = None
    """Recovers interrupted operations."""
    backup_worker: BackupWorker | None = None
    """Backs the graphs up on a schedule, if configured."""
    scrubber: Scrubber | None = None
    """Verifies files in the background, unless disabled in the settings."""
    graph_root: GraphRoot = field(init=False)
    """The graphs that clients create and delete."""
    running: RunningQueries = field(init=False)
    """The requests that can be cancelled by their names."""
    codes: LoginCodes = field(init=False)
    """The codes by which pages get their tokens."""
    watchers: BranchWatchers = field(default_factory=BranchWatchers, init=False)
    """The branches whose next commits requests wait for."""
    traces: Traces | None = None
    """Where requests are recorded, if the settings say so."""
    _threads: int = field(default_factory=count_cores, init=False, repr=False)
    """The threads of one query by default; the system is asked once, not with each request."""
    _budgets: WeakSet[Budget] = field(default_factory=WeakSet, init=False, repr=False)
    """The budgets of operations in progress, which a shutdown cancels."""

    def __post_init__(self) -> None:
        self.graph_root = GraphRoot(self.config, self.runtime, self.registry)
        self.running = RunningQueries(self.runtime.clock)
        self.codes = LoginCodes(self.runtime.clock)

    @classmethod
    def start(
        cls,
        config: ServerConfig,
        runtime: Runtime,
        *,
        is_open_to_all: bool = False,
        grants_all: bool = False,
        fleet: Fleet | None = None,
    ) -> "Service":
        """Open all graphs, load tokens, policies and stored queries, and start the background threads.

        A server that is open to all needs no token. One that `grants_all` does, and any token may do everything.
        Of several workers, only one maintains, recovers and verifies the graphs.

        Raises:
            OmnigraphError: One of them can't be used.
        """
        tokens = None
        if not is_open_to_all:
            jwts = JwtTokens(config.jwt_issuers, runtime.clock)
            jwts.start()
            tokens = Tokens(config.tokens_file, config.given_tokens, runtime.clock, jwts)
        traces = None
        if config.has_telemetry:
            traces = load_traces()
            runtime = replace(runtime, telemetry=Telemetry(parent=runtime.telemetry, spans=traces))
        registry = GraphRegistry(config, runtime, is_open_to_all=is_open_to_all or grants_all)
        registry.open_all()
        admission = Admission(config.limits, fleet)
        service = cls(
            config=config, runtime=runtime, registry=registry, tokens=tokens, admission=admission, fleet=fleet
        )
        _declare_metrics(service)
        registry.listeners.append(_MetricsListener(service.metrics))
        if fleet is None or fleet.is_home:
            _start_background(service)
        service.traces = traces
        if traces is not None:
            traces.export(service.metrics)
        service.graph_root.start()
        return service

    @property
    def limits(self) -> ServerLimits:
        """The limits of a request."""
        return self.config.limits

    @property
    def is_saturated(self) -> bool:
        """Whether a further request would be refused, or wait for long; of several workers, by each of them."""
        return self.admission.is_saturated and (self.fleet is None or self.fleet.is_saturated)

    def reload(self) -> None:
        """Read tokens, policies and stored queries again where their files changed."""
        if self.tokens is not None:
            self.tokens.reload()
        self.registry.reload()
        log.info("reloaded")

    def find_graph(
        self, request: Request, graph: str, action: Action, branch: str | None, *, read: str | None = None
    ) -> ServedGraph:
        """Return the graph of a request, and record it for the log.

        `read` is the branch that the operation reads first, if it is not `branch`.

        Raises:
            ResourceMissingError: There is no such graph.
            DeniedError: There is no such graph, and the policy would not let the actor read it.
        """
        exchange = get_exchange(request)
        exchange.action = action
        exchange.graph = graph
        exchange.branch = branch
        # A graph that does not exist must give the same error as one whose branch the actor may not read.
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
        """Return a handle on the graph of a request that acts for its actor; each operation checks the policy.

        `budget` is for operations that take none themselves: they end when it is cancelled, or with RequestLimitError
        when its time is over.
        """
        hosted = self.find_graph(request, graph, action, branch, read=read)
        actor = get_exchange(request).actor
        if budget is None:
            return hosted.bind_actor(actor, next_commit=get_exchange(request).next_commit)
        return hosted.bind_actor(actor, check_cancelled=partial(_check_time, budget))

    def check_access(self, request: Request) -> None:
        """Check again, while a stream is sent, that its token is valid and that the policy allows its action.

        Raises:
            UnauthenticatedError: The token was revoked, or has expired.
            DeniedError: The policy changed.
        """
        exchange = get_exchange(request)
        if self.tokens is not None and self.tokens.authenticate(request.headers.get("authorization")) != exchange.actor:
            raise UnauthenticatedError
        hosted = None if exchange.graph is None else self.registry.graphs.get(exchange.graph)
        if hosted is not None and exchange.action is not None and exchange.branch is not None:
            hosted.require(exchange.actor, exchange.action, exchange.branch, query=exchange.query)
            # Rows that are hidden since then must not be sent any more.
            rules = hosted.find_rules_key(exchange.actor, exchange.branch, query=exchange.query)
            if exchange.rules is not None and exchange.rules != rules:
                raise DeniedError(exchange.actor.name, exchange.action.value, exchange.branch)
            exchange.rules = rules

    async def run(self, request: Request, work: Callable[[], T]) -> T:
        """Run `work` in a thread, to its end."""
        exchange = get_exchange(request)
        return await self.admission.run(exchange.actor.name, _trace(self, exchange, work))

    async def write(self, request: Request, work: Callable[[], T]) -> T:
        """Run `work` in a thread, counted as one of the actor's writes."""
        exchange = get_exchange(request)
        with self.admission.admit_write(exchange.actor.name):
            return await self.admission.run_write(exchange.actor.name, _trace(self, exchange, work))

    async def mutate(self, request: Request, work: Callable[[], T]) -> T:
        """Run a mutation like `write`; while it waits for its commit, it leaves its place to others."""
        exchange = get_exchange(request)
        work = _trace(self, exchange, work)
        if exchange.is_relayed:
            return await self.admission.run_mutation(work)
        with self.admission.admit_write(exchange.actor.name):
            return await self.admission.run_mutation(work)

    async def read(
        self,
        request: Request,
        budget: Budget,
        work: Callable[[], T],
        *,
        is_long: bool = False,
        key: Hashable | None = None,
        query_id: str | None = None,
    ) -> T:
        """Run `work` in a thread, and cancel its budget if the client disconnects, or cancels `query_id`.

        Long work queues with the writes, so that it leaves threads to short reads. If there are workers for long
        requests, they do it; and also work that is not done after a while, which is known by its `key` from then on.

        Raises:
            HandedOverError: One of them is to answer this request.
        """
        # The last part of the path names what runs, as in `/graphs/{graph}/query`.
        exchange = get_exchange(request)
        route = getattr(request.scope.get("route"), "path", "").rpartition("/")[2]
        with self.running.track(exchange.graph or "", exchange.actor.name, query_id, route, budget):
            return await self._read_watched(request, budget, work, is_long=is_long, key=key)

    async def _read_watched(
        self, request: Request, budget: Budget, work: Callable[[], T], *, is_long: bool, key: Hashable | None
    ) -> T:
        exchange = get_exchange(request)
        fleet = None if exchange.is_relayed or exchange.action is Action.CHANGE else self.fleet
        if fleet is not None and fleet.find_long_worker() is None:
            fleet = None
        # A digest, as texts are long and clients choose them.
        kind = b"" if fleet is None or key is None else _digest(f"{request.scope['path']} {key}")
        if fleet is not None and (is_long or fleet.is_known_long(kind)):
            raise HandedOverError
        watcher: asyncio.Task[None] | None = None
        is_late = False

        def watch() -> None:
            nonlocal watcher
            watcher = asyncio.ensure_future(_cancel_on_disconnect(request.receive, budget))

        def hand_over() -> None:
            nonlocal is_late
            is_late = True
            budget.cancel()

        # Most reads end before it pays to watch their client: a task for each took 0.05 ms.
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(_WATCH_SECONDS, watch)]
        if fleet is not None:
            timers.append(loop.call_later(LONG_SECONDS, hand_over))
        try:
            done = await (self.write(request, work) if is_long else self.run(request, work))
        except QueryCancelledError:
            if fleet is None or not is_late:
                raise
            if kind:
                fleet.note_long(kind)
            raise HandedOverError from None
        else:
            if fleet is not None:
                fleet.note_short(kind)
            return done
        finally:
            for timer in timers:
                timer.cancel()
            if watcher is not None:
                watcher.cancel()
                with suppress(asyncio.CancelledError):
                    await watcher

    def build_read_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """Return the budget of a read: the requested limits, capped by those of the server."""
        return self._build_budget(self.limits.seconds, seconds, memory_bytes)

    def build_write_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """Return the budget of a write until it is published, or of another long operation until it ends."""
        return self._build_budget(self.limits.write_seconds, seconds, memory_bytes)

    def build_stream_budget(self, seconds: float | None = None, memory_bytes: int | None = None) -> Budget:
        """Return the budget of a response that is computed while it is sent.

        The server's own time limit is not part of it: `start_stream` applies it.
        """
        return self._build_budget(None, seconds, memory_bytes)

    def _build_budget(self, max_seconds: float | None, seconds: float | None, memory_bytes: int | None) -> Budget:
        """Return a budget with the requested limits, capped by those of the server."""
        # A client may lower the limits of the server, but not raise them.
        max_bytes = self.limits.memory_bytes
        budget = Budget(
            self.runtime.clock,
            seconds=min((limit for limit in (seconds, max_seconds) if limit is not None), default=None),
            memory_bytes=max_bytes if memory_bytes is None else min(memory_bytes, max_bytes),
            threads=self.runtime.options.threads or self._threads,
        )
        self._budgets.add(budget)
        return budget

    def cancel_all(self) -> None:
        """Cancel every operation that has a budget, as if its client had disconnected."""
        for budget in list(self._budgets):
            budget.cancel()

    def record_commit(self, request: Request, operation: str, commit_id: str | None) -> None:
        """Record the commit of a write, if it created one, for the log and the metrics."""
        exchange = get_exchange(request)
        exchange.commit = commit_id
        if commit_id is not None and exchange.graph is not None:
            self.metrics.count("omnigraph_commits_total", graph=exchange.graph, operation=operation)

    def close(self) -> None:
        """Stop the background threads, and wait for running work."""
        if self.traces is not None:
            self.traces.close()
        self.graph_root.stop()
        if self.backup_worker is not None:
            self.backup_worker.stop()
        if self.scrubber is not None:
            self.scrubber.stop()
        if self.maintenance_worker is not None:
            self.maintenance_worker.stop()
        if self.healer is not None:
            self.healer.stop()
        if self.tokens is not None:
            self.tokens.stop()
        self.admission.close()


class _MetricsListener:
    """Removes the series of graphs that are no longer served."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def add(self, hosted: ServedGraph) -> None:
        """See GraphListener."""

    def remove(self, hosted: ServedGraph) -> None:
        """See GraphListener."""
        self._metrics.forget(GRAPH_LABEL, hosted.id)


def _start_background(service: Service) -> None:
    """Start the threads that maintain, recover and verify the graphs."""
    config, graphs = service.config, service.registry.graphs
    if config.maintenance is not None:
        service.maintenance_worker = MaintenanceWorker(graphs.values(), config.maintenance)
        service.maintenance_worker.start()
        service.registry.listeners.append(service.maintenance_worker)
    service.healer = Healer(graphs.values(), config.recovery_seconds)
    service.healer.start()
    if config.scrub_days:  # 0 disables scrubbing
        service.scrubber = Scrubber(graphs.values(), config.scrub_days, lambda: service.admission.working > 0)
        service.scrubber.start()
        service.registry.listeners.append(service.scrubber)
    if config.backup is not None:
        service.backup_worker = BackupWorker(graphs, config.backup)
        service.backup_worker.start()


def _trace(service: Service, exchange: Exchange, work: Callable[[], T]) -> Callable[[], T]:
    """Return work that is recorded as a part of its request, if traces are collected."""
    return work if service.traces is None else service.traces.trace_work(exchange, work)


async def poll_head(service: Service, graph: str, branch: str) -> str:
    """Return the newest commit of a branch, in a thread, for requests that may read it."""
    session = service.registry.graphs[graph].session
    assert session is not None  # noqa: S101 - a request has read from it
    return await run_in_threadpool(lambda: session.checkout(branch).head().snapshot.commit.id)


def collect_scrub_reports(service: Service) -> dict[str, ScrubReport]:
    """Return the progress of each graph's scrub; empty if scrubbing is disabled."""
    return {} if service.scrubber is None else service.scrubber.collect_reports()


def summarize_damage(service: Service) -> tuple[bool, int, int]:
    """Return whether files are verified, and the numbers of damaged graphs and files; of the whole server."""
    if service.fleet is not None and not service.fleet.is_home:
        home = service.fleet.home
        return bool(home.is_verified), home.damaged_graphs, home.damaged_files
    counts = [len(report.damaged) for report in collect_scrub_reports(service).values()]
    return service.scrubber is not None, sum(map(bool, counts)), sum(counts)


def hand_over_long(service: Service, request: Request) -> None:
    """Leave a request that takes long to a worker for such requests, if there is one.

    Raises:
        HandedOverError: There is one.
    """
    is_relayed = get_exchange(request).is_relayed
    if service.fleet is not None and not is_relayed and service.fleet.find_long_worker() is not None:
        raise HandedOverError


def has_requests(service: Service) -> bool:
    """Return whether requests are in progress; of several workers, in any of them."""
    return (service.admission.in_flight if service.fleet is None else service.fleet.in_flight) > 0


def _truncate(text: str | None) -> str | None:
    """Return a name in the length that is logged."""
    return text if text is None or len(text) <= _MAX_LOGGED_NAME else f"{text[:_MAX_LOGGED_NAME]}…"


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def get_exchange(request: Request) -> Exchange:
    """Return the record of a request."""
    exchange: Exchange = request.scope["state"]["exchange"]
    return exchange


def get_service(request: Request) -> Service:
    """Return the service that a request was sent to."""
    service: Service = request.app.state.service
    return service


def _check_time(budget: Budget) -> None:
    """Check a budget like `Budget.check`, for operations that are not queries.

    Raises:
        RequestLimitError: Its time is over.
    """
    try:
        budget.check()
    except QueryTimeoutError as error:
        raise RequestLimitError.request_too_long(error.seconds) from None


async def _cancel_on_disconnect(receive: Receive, budget: Budget) -> None:
    # A route that reads no body has not received its end yet, so other messages may come first.
    while (await receive())["type"] != "http.disconnect":
        pass
    budget.cancel()


def _sample_arrow_bytes() -> Samples:
    pool = pa.default_memory_pool()
    return [({"allocator": pool.backend_name}, pool.bytes_allocated())]


def _sample_resident_bytes() -> Samples:
    # Where the system does not report it, there is no sample.
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return [({}, pages * os.sysconf("SC_PAGE_SIZE"))]
    return []


def _declare_metrics(service: Service) -> None:
    # Callbacks read `session` with every scrape: a graph that could not be opened may be opened later.
    metrics, graphs = service.metrics, service.registry.graphs
    count_process_requests()  # the first call starts the counting
    metrics.declare_counter("omnigraph_requests_total", "Completed requests, by route and status.")
    metrics.declare_counter("omnigraph_commits_total", "Commits created, by graph and operation.")
    metrics.declare_counter("omnigraph_conflicts_total", "Writes rejected by a conflict, by graph.")
    metrics.declare_counter("omnigraph_tool_calls_total", "Tool calls of agents, by graph, tool and outcome.")
    metrics.declare_counter("omnigraph_refusals_total", "Requests rejected as too many, too large or too slow.")
    metrics.declare_histogram("omnigraph_request_seconds", "Duration of requests, by route.")
    metrics.declare_callback(
        "omnigraph_requests_in_flight", "Requests in progress.", lambda: [({}, service.admission.in_flight)]
    )
    metrics.declare_callback(
        "omnigraph_requests_working", "Calls in a thread or waiting for one.", lambda: [({}, service.admission.working)]
    )
    metrics.declare_callback(
        "omnigraph_draining", "1 while the server is shutting down.", lambda: [({}, service.is_draining)]
    )
    metrics.declare_callback(
        "omnigraph_graph_open",
        "1 for a graph that is open.",
        lambda: [({"graph": hosted.id}, hosted.is_open) for hosted in graphs.values()],
    )
    metrics.declare_callback(
        "omnigraph_cache_bytes",
        "Memory of the read cache, by graph.",
        lambda: [
            ({"graph": hosted.id}, hosted.session.reads.lru.get_stats().nbytes)
            for hosted in graphs.values()
            if hosted.session is not None
        ],
    )
    metrics.declare_callback(
        "omnigraph_table_cache_bytes",
        "Memory of Lance's cache of files and indexes, by graph.",
        lambda: [
            ({"graph": hosted.id}, hosted.session.store.session.size_bytes())
            for hosted in graphs.values()
            if hosted.session is not None
        ],
    )
    metrics.declare_callback(
        "omnigraph_arrow_bytes", "Memory of Arrow arrays in use, by allocator.", _sample_arrow_bytes
    )
    metrics.declare_callback("omnigraph_resident_bytes", "Resident memory of the process.", _sample_resident_bytes)
    metrics.declare_callback(
        "omnigraph_recoveries_total",
        "Interrupted operations recovered by this process, by graph and outcome.",
        lambda: [
            ({"graph": hosted.id, "outcome": outcome}, count)
            for hosted in graphs.values()
            if hosted.session is not None
            for outcome, count in sorted(RECOVERIES.get_counts(hosted.session.uri).items())
        ],
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_store_requests_total",
        "Requests of Lance to object stores, by operation.",
        lambda: [({"operation": name}, count) for name, count in sorted(count_process_requests().items())],
        type="counter",
    )
    _declare_scrub_metrics(service)
    _declare_backup_metrics(service)


def _declare_backup_metrics(service: Service) -> None:
    """Declare the metrics of scheduled backups, by graph; a graph without a backup has no time of one."""

    def sample_reports(read: Callable[[BackupReport], float | None]) -> Callable[[], Samples]:
        def sample() -> Samples:
            reports = {} if service.backup_worker is None else service.backup_worker.collect_reports()
            values = ((name, read(report)) for name, report in reports.items())
            return [({GRAPH_LABEL: name}, value) for name, value in values if value is not None]

        return sample

    service.metrics.declare_callback(
        "omnigraph_backup_last_timestamp_seconds",
        "Time of the newest backup of a graph.",
        sample_reports(lambda report: None if report.newest is None else report.newest.timestamp()),
    )
    service.metrics.declare_callback(
        "omnigraph_backup_failures_total",
        "Backups that failed, by graph.",
        sample_reports(lambda report: report.failures),
        type="counter",
    )


def _declare_scrub_metrics(service: Service) -> None:
    """Declare the metrics of the scrub, by graph; a graph without a complete pass has no time of one."""

    def sample_reports(read: Callable[[ScrubReport], float | None]) -> Callable[[], Samples]:
        def sample() -> Samples:
            values = ((name, read(report)) for name, report in collect_scrub_reports(service).items())
            return [({"graph": name}, value) for name, value in values if value is not None]

        return sample

    metrics = service.metrics
    metrics.declare_callback(
        "omnigraph_scrub_files_total",
        "Files compared with their recorded checksums, by graph.",
        sample_reports(lambda report: report.files),
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_scrub_bytes_total",
        "Bytes read to verify files, by graph.",
        sample_reports(lambda report: report.nbytes),
        type="counter",
    )
    metrics.declare_callback(
        "omnigraph_scrub_damaged_files",
        "Files that differ from their recorded checksums, by graph.",
        sample_reports(lambda report: len(report.damaged)),
    )
    metrics.declare_callback(
        "omnigraph_scrub_last_pass_timestamp_seconds",
        "Time at which all files of a graph were last verified.",
        sample_reports(lambda report: None if report.last_pass is None else report.last_pass.timestamp()),
    )
