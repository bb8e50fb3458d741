"""The graphs of a server: opened once, handed out to actors, each under the policy."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from omnigraph.config.server import HostedGraph, ServerConfig
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session, with_cancellation
from omnigraph.policy import Access, Action, Actor, DeniedError, Policy, require
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Catalog
from omnigraph.server.auth import ReadOnlyPolicy
from omnigraph.server.http_errors import GraphMissingError, GraphUnavailableError
from omnigraph.server.policy_reload import ReloadingPolicies
from omnigraph.server.stored_queries import StoredQueries
from omnigraph.telemetry import log

_RETRY_SECONDS = 5.0
_TOLERATED_KINDS = frozenset({Kind.UNAVAILABLE, Kind.CORRUPT, Kind.DENIED})
"""What may be wrong with one graph while the others are served; anything else is a mistake of the settings."""


@dataclass
class ServedGraph:
    """A graph of the server, open or not."""

    config: HostedGraph
    runtime: Runtime
    session: Session | None = None
    stored_queries: StoredQueries | None = None
    policies: ReloadingPolicies | None = None
    """Those of the server, if it has any."""
    tried_at: float = field(default=0.0)

    @property
    def id(self) -> str:
        """The name that it is served as."""
        return self.config.id

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self.session is not None

    def open(self) -> None:
        """Open it, and check its stored queries. Raises what is wrong."""
        self.tried_at = self.runtime.clock.monotonic()
        session = open_session(
            self.config.uri,
            is_read_only=self.config.is_read_only,
            runtime=self.runtime,
            keep_derived=None if self.config.keep_derived else False,
        )
        self.stored_queries = StoredQueries(self.config.queries, lambda: _read_catalog(session), self.runtime.clock)
        self.session = session

    def bind_actor(
        self, actor: Actor, *, through: str | None = None, check_cancelled: Callable[[], None] = lambda: None
    ) -> Graph:
        """The graph in the hands of an actor; GraphUnavailableError when it could not be opened.

        Verbs that may take long ask `check_cancelled`, which ends them by what it raises.
        That is tried again now and then, in a thread of its own: a store that does not answer keeps nobody waiting.
        """
        if self.session is None:
            now = self.runtime.clock.monotonic()
            if now - self.tried_at > _RETRY_SECONDS:
                self.tried_at = now
                threading.Thread(target=self._retry_open, name=f"open {self.id}", daemon=True).start()
            raise GraphUnavailableError(self.id)
        return Graph(with_cancellation(self.session.acting_as(actor, through=through), check_cancelled))

    def _retry_open(self) -> None:
        try:
            self.open()
        except OmnigraphError as error:
            log.error("the graph %s can't be opened: %s", self.id, error)

    def require(self, actor: Actor, action: Action, branch: str, *, query: str | None = None) -> None:
        """DeniedError unless the policy allows it: for what costs something before a verb could ask."""
        if self.runtime.policy is not None:
            require(self.runtime.policy, actor, action, branch, query)

    def allows(self, actor: Actor, action: Action, *, branch: str | None = None, query: str | None = None) -> bool:
        """Whether the policy lets an actor do something here."""
        policy = self.runtime.policy
        access = Access(actor=actor, action=action, branch=branch, query=query)
        return policy is None or policy.decide(access).is_allowed

    def is_allowed_somewhere(
        self, actor: Actor, action: Action, *, query: str | None = None, branches: Iterable[str] = ()
    ) -> bool:
        """Whether an actor may do something to the graph, to main, to one of `also`, or where a policy says so."""
        examples = () if self.policies is None else self.policies.examples
        places = (None, "main", actor.name, *branches, *examples)
        return any(self.allows(actor, action, branch=place, query=query) for place in places)


class GraphRegistry:
    """All graphs of a server."""

    def __init__(self, config: ServerConfig, runtime: Runtime, *, is_open_to_all: bool) -> None:
        """Opens nothing yet. PoliciesError when the policies can't be used."""
        self._policies = None if config.policies is None else ReloadingPolicies(config.policies, runtime.clock)
        self._is_open_to_all = is_open_to_all
        options = replace(
            runtime.options,
            query_seconds=config.limits.seconds,
            query_memory_bytes=config.limits.memory_bytes,
            query_text_characters=config.limits.query_characters,
            embedding=config.embedding or runtime.options.embedding,
        )
        self.graphs = {
            one.id: ServedGraph(
                config=one,
                runtime=replace(runtime, options=options, policy=self.find_policy(one.id)),
                policies=self._policies,
            )
            for one in config.graphs
        }

    def find_policy(self, graph: str) -> Policy | None:
        """What holds for a graph of that name, whether there is one or not; None: everybody may everything."""
        if self._policies is not None:
            return self._policies.of_graph(graph)
        return None if self._is_open_to_all else ReadOnlyPolicy()

    def open_all(self, *, is_strict: bool = False) -> None:
        """Open every graph. One whose store does not answer, or that is damaged, is only logged, unless it is strict.

        Raises:
            NotAGraphError, StoredQueriesError, BadUriError: The settings name something that can't be served.
        """
        for hosted in self.graphs.values():
            try:
                hosted.open()
            except OmnigraphError as error:
                if is_strict or error.kind not in _TOLERATED_KINDS:
                    raise
                log.error("the graph %s can't be opened: %s", hosted.id, error)

    def get(self, graph: str, actor: Actor, branch: str | None) -> ServedGraph:
        """A graph by its name, for something that is about a branch, or (None) the graph as a whole.

        Raises:
            GraphMissingError: There is none.
            DeniedError: There is none either, and the actor could not read it if there were: they don't learn which.
        """
        found = self.graphs.get(graph)
        if found is not None:
            return found
        policy = self.find_policy(graph)
        access = Access(actor=actor, action=Action.READ, branch=branch)
        if policy is not None and not policy.decide(access).is_allowed:
            raise DeniedError(actor.name, Action.READ.value, branch)
        raise GraphMissingError(graph)

    @property
    def redactions(self) -> dict[str, str]:
        """Addresses that no answer shows, with what it shows instead."""
        found = {}
        for hosted in self.graphs.values():
            found[hosted.config.uri] = hosted.id
            if hosted.session is not None:
                found[hosted.session.uri] = hosted.id
        return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _read_catalog(session: Session) -> Catalog:
    """The schema of main as it is now."""
    return session.load_catalog(session.resolve_snapshot())
