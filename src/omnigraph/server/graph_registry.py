"""The registry of a server's graphs: opened once and shared by all requests, each under the policy of its actor."""

import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from omnigraph.commit.manifest_types import Commit
from omnigraph.config.server import HostedGraph, ServerConfig
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.mutate import MutationResult, build_result
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session, with_cancellation, with_next_commit
from omnigraph.options import Maintenance
from omnigraph.policy import Access, Action, Actor, DeniedError, Policy, require
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Catalog
from omnigraph.server.auth import ReadOnlyPolicy
from omnigraph.server.cedar_policies import GraphPolicy
from omnigraph.server.http_errors import ResourceMissingError, ServerUnavailableError
from omnigraph.server.policy_reload import ReloadingPolicies
from omnigraph.server.stored_queries import StoredQueries
from omnigraph.telemetry import log

# The minimum time between two attempts to open a graph that could not be opened.
_RETRY_SECONDS = 5.0
# A commit of a process that just ended is among these.
_MAX_RECENT_COMMITS = 10_000
# Errors of one graph that don't keep a server from starting; any other error is a mistake in the settings.
_TOLERATED_KINDS = frozenset({Kind.UNAVAILABLE, Kind.CORRUPT, Kind.DENIED})


@dataclass
class ServedGraph:
    """A graph of the server, with its session while it is open."""

    config: HostedGraph
    runtime: Runtime
    session: Session | None = None
    stored_queries: StoredQueries | None = None
    policies: ReloadingPolicies | None = None
    """The policies of the server, if it has any."""
    tried_at: float = field(default=0.0)
    is_removed: bool = False
    """Whether it is no longer served."""

    @property
    def id(self) -> str:
        """The name under which the graph is served."""
        return self.config.id

    @property
    def is_open(self) -> bool:
        """Whether the graph can be read."""
        return self.session is not None

    def open(self) -> None:
        """Open the graph and load its stored queries.

        Raises:
            OmnigraphError: The graph can't be opened, or a stored query has a mistake.
        """
        self.tried_at = self.runtime.clock.monotonic()
        session = open_session(
            self.config.uri,
            is_read_only=self.config.is_read_only,
            runtime=self.runtime,
            keep_derived=None if self.config.keep_derived else False,
        )
        # The session comes last: a graph whose stored queries can't be used does not count as open.
        self.stored_queries = StoredQueries(self.config.queries, lambda: _read_catalog(session), self.runtime.clock)
        self.session = session

    def bind_actor(
        self,
        actor: Actor,
        *,
        through: str | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
        next_commit: str | None = None,
    ) -> Graph:
        """Return a handle on the graph that acts for an actor.

        Operations that may take long call `check_cancelled`, and end with the error it raises. The commit of a mutation
        gets the id `next_commit`, if there is one.

        Raises:
            ServerUnavailableError: The graph could not be opened; opening it is retried in the background.
        """
        session = with_cancellation(self.bind_session(actor, through=through), check_cancelled)
        return Graph(session if next_commit is None else with_next_commit(session, next_commit))

    def bind_session(self, actor: Actor, *, through: str | None = None) -> Session:
        """Return a session that acts for an actor; raises what `bind_actor` raises."""
        if self.session is None:
            # Retried in a separate thread, so that no request waits for a store that does not respond.
            now = self.runtime.clock.monotonic()
            if now - self.tried_at > _RETRY_SECONDS:
                self.tried_at = now
                threading.Thread(target=self._retry_open, name=f"open {self.id}", daemon=True).start()
            raise ServerUnavailableError.graph_unavailable(self.id)
        return self.session.acting_as(actor, through=through)

    @property
    def is_local(self) -> bool:
        """Whether the graph is on local disk, where nothing arrives after the process that sent it has ended."""
        return self.session is not None and self.session.store.location.is_local

    def find_mutation(self, source: Source, name: str | None, *, branch: str, commit_id: str) -> MutationResult | None:
        """Return the result of a mutation by the id that its commit would have; None if there is no such commit.

        Raises:
            OmnigraphError: The graph can't be read.
        """
        commit = self.find_recent_commit(branch, commit_id)
        if commit is None or self.session is None:
            return None
        return build_result(self.session.prepared.get_or_choose(source, name).name.text, branch, commit)

    def find_recent_commit(self, branch: str, commit_id: str) -> Commit | None:
        """Return a commit of a branch that a process made which has just ended; None if there is none.

        Raises:
            OmnigraphError: The graph can't be read.
        """
        if self.session is None:
            raise ServerUnavailableError.graph_unavailable(self.id)
        session = self.session.checkout(branch)
        recent = islice(session.log.iter_history(session.head()), _MAX_RECENT_COMMITS)
        return next((commit for commit in recent if commit.id == commit_id), None)

    def _retry_open(self) -> None:
        try:
            self.open()
        except OmnigraphError as error:
            log.error("graph %s can't be opened: %s", self.id, error)

    def require(self, actor: Actor, action: Action, branch: str, *, query: str | None = None) -> None:
        """Check that the policy allows an action, before work that precedes the operation's own check.

        Raises:
            DeniedError: The policy does not allow it.
        """
        if self.runtime.policy is not None:
            require(self.runtime.policy, actor, action, branch, query)

    def find_rules_key(self, actor: Actor, branch: str | None, *, query: str | None = None) -> str:
        """Return what identifies the rules that decide which rows an actor sees; empty if it sees all."""
        policy = self.runtime.policy
        rules = None if policy is None else policy.find_row_rules(actor, branch, query)
        return "" if rules is None else rules.key

    def allows(self, actor: Actor, action: Action, *, branch: str | None = None, query: str | None = None) -> bool:
        """Return whether the policy allows an actor an action on the graph, or on one of its branches."""
        policy = self.runtime.policy
        access = Access(actor=actor, action=action, branch=branch, query=query)
        return policy is None or policy.decide(access).is_allowed

    def is_allowed_somewhere(
        self, actor: Actor, action: Action, *, query: str | None = None, branches: Iterable[str] = ()
    ) -> bool:
        """Return whether an actor may perform an action on the graph or on some branch.

        Tries main, a branch with the actor's name, `branches`, and the branches that the policies mention.
        """
        examples = () if self.policies is None else self.policies.examples
        candidates = (None, "main", actor.name, *branches, *examples)
        return any(self.allows(actor, action, branch=branch, query=query) for branch in candidates)


class GraphTable(Mapping[str, ServedGraph]):
    """The graphs of a server by name. Its views can be iterated while other threads add and remove graphs."""

    def __init__(self) -> None:
        # Replaced, never changed: whoever iterates has one state of it.
        self._graphs: dict[str, ServedGraph] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> ServedGraph:
        return self._graphs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._graphs)

    def __len__(self) -> int:
        return len(self._graphs)

    def values(self) -> ValuesView[ServedGraph]:
        """Return a live view of the graphs."""
        return _LiveValues(self)

    def items(self) -> ItemsView[str, ServedGraph]:
        """Return the graphs at this moment, with their names."""
        return self._graphs.items()

    def put(self, hosted: ServedGraph) -> None:
        """Add a graph."""
        with self._lock:
            self._graphs = {**self._graphs, hosted.id: hosted}

    def pop(self, name: str) -> ServedGraph | None:
        """Remove a graph if it is there, and return it."""
        with self._lock:
            graphs = dict(self._graphs)
            found = graphs.pop(name, None)
            self._graphs = graphs
        return found


class _LiveValues(ValuesView[ServedGraph]):
    """The values of a table at the moment when an iteration begins."""

    def __init__(self, table: GraphTable) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[ServedGraph]:
        return iter(self._table._graphs.values())  # noqa: SLF001 - its own view


class GraphListener(Protocol):
    """Background work that follows the graphs of a server."""

    def add(self, hosted: ServedGraph) -> None:
        """Begin to work for a graph."""
        ...

    def remove(self, hosted: ServedGraph) -> None:
        """End the work for a graph."""
        ...


class GraphRegistry:
    """The graphs of a server by name, and the policies that apply to them."""

    def __init__(self, config: ServerConfig, runtime: Runtime, *, is_open_to_all: bool) -> None:
        """Load the policies; graphs are opened by `open_all`.

        Raises:
            SettingsError: The policies can't be used.
        """
        self._policies = None if config.policies is None else ReloadingPolicies(config.policies, runtime.clock)
        self._is_open_to_all = is_open_to_all
        options = replace(
            runtime.options,
            query_seconds=config.limits.seconds,
            query_memory_bytes=config.limits.memory_bytes,
            query_text_characters=config.limits.query_characters,
            embedding=config.embedding or runtime.options.embedding,
            maintenance=runtime.options.maintenance if config.compacts_tails else Maintenance.OFF,
        )
        self._runtime = replace(runtime, options=options)
        self.graphs = GraphTable()
        self.listeners: list[GraphListener] = []
        """What is notified of graphs that are added and removed after the start."""
        for graph in config.graphs:
            self.graphs.put(self._build(graph))

    def find_policy(self, graph: str) -> Policy | None:
        """Return the policy of a graph name, whether such a graph exists or not; None allows everything."""
        if self._policies is not None:
            return GraphPolicy(self._policies, graph)
        return None if self._is_open_to_all else ReadOnlyPolicy()

    def add(self, graph: HostedGraph) -> None:
        """Open a graph and serve it from now on.

        Raises:
            OmnigraphError: It can't be opened.
        """
        hosted = self._build(graph)
        hosted.open()
        self.graphs.put(hosted)
        for listener in self.listeners:
            listener.add(hosted)

    def remove(self, name: str) -> None:
        """Serve a graph no longer; requests in progress may end with errors."""
        hosted = self.graphs.pop(name)
        if hosted is not None:
            hosted.is_removed = True
            for listener in self.listeners:
                listener.remove(hosted)

    def _build(self, graph: HostedGraph) -> ServedGraph:
        runtime = replace(self._runtime, policy=self.find_policy(graph.id))
        return ServedGraph(config=graph, runtime=runtime, policies=self._policies)

    def open_all(self, *, is_strict: bool = False) -> None:
        """Open all graphs; unless strict, only log a graph whose store does not respond or that is damaged.

        Raises:
            NotAGraphError, StoredQueriesError, BadArgumentError: The settings name something that can't be served.
        """
        for hosted in self.graphs.values():
            try:
                hosted.open()
            except OmnigraphError as error:
                if is_strict or error.kind not in _TOLERATED_KINDS:
                    raise
                log.error("graph %s can't be opened: %s", hosted.id, error)

    def reload(self) -> None:
        """Read policies and stored queries again where their files changed."""
        if self._policies is not None:
            self._policies.reload()
        for hosted in self.graphs.values():
            if hosted.stored_queries is not None:
                hosted.stored_queries.reload()

    def get(self, graph: str, actor: Actor, branch: str | None) -> ServedGraph:
        """Return a graph by name, for an operation on a branch, or on the whole graph if `branch` is None.

        Raises:
            ResourceMissingError: There is no such graph.
            DeniedError: There is no such graph, and the policy would not let the actor read it.
        """
        hosted = self.graphs.get(graph)
        if hosted is not None:
            return hosted
        # An actor that may not read the graph must not learn from the error whether it exists.
        policy = self.find_policy(graph)
        access = Access(actor=actor, action=Action.READ, branch=branch)
        if policy is not None and not policy.decide(access).is_allowed:
            raise DeniedError(actor.name, Action.READ.value, branch)
        raise ResourceMissingError.graph_not_found(graph)

    @property
    def redactions(self) -> dict[str, str]:
        """The addresses that responses must not show, each with its replacement."""
        names_by_uri = {}
        for hosted in self.graphs.values():
            names_by_uri[hosted.config.uri] = hosted.id
            if hosted.session is not None:
                names_by_uri[hosted.session.uri] = hosted.id
        # Longest first: an address may begin with another one, whose replacement would leave the rest of it.
        return dict(sorted(names_by_uri.items(), key=lambda pair: -len(pair[0])))


def _read_catalog(session: Session) -> Catalog:
    """Read the current schema of main."""
    return session.load_catalog(session.resolve_snapshot())
