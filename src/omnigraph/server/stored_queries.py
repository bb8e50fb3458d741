"""Stored queries: the `.gq` files of a directory, bound to the graph's schema and reloaded when either changes."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from omnigraph.clock import Clock
from omnigraph.config.settings_file import read_text
from omnigraph.engine.output.projection import build_output_schema
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.expr import Parameter
from omnigraph.query.mutation_plan import MutationQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.telemetry import log

SUFFIX = ".gq"
# The minimum time between two checks of the directory, which every request would list otherwise.
_POLL_SECONDS = 1.0


class StoredQueriesError(OmnigraphError):
    """Stored queries are invalid; `problems` lists the mistakes, each with its file."""

    kind = Kind.INVALID
    code = "bad_stored_queries"
    path: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"the stored queries of `{self.path}` can't be used:", *self.problems])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """A query that clients run by its name."""

    name: str
    source: Source
    is_mutation: bool
    params: tuple[Parameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    columns: pa.Schema | None = None
    """The columns of its rows; None for a mutation."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        params = [{"name": param.name, "type": str(param.type), "nullable": param.nullable} for param in self.params]
        return {
            "name": self.name,
            "kind": "mutation" if self.is_mutation else "read",
            "params": params,
            "description": self.description,
            "instruction": self.instruction,
        }


class StoredQueries:
    """The stored queries of a graph. Thread-safe.

    A change of the directory or of the schema takes effect once all queries are valid. Until then, the previous ones
    stay in use.
    """

    def __init__(self, directory: Path | None, load_catalog: Callable[[], Catalog], clock: Clock) -> None:
        self._directory = directory
        self._load_catalog = load_catalog
        self._clock = clock
        self._lock = threading.Lock()
        self._last_signature = _read_signature(directory)
        self._checked_at = clock.monotonic()
        self._queries: dict[str, StoredQuery] = {}
        self._bound_catalog: Catalog | None = None
        if directory is not None:
            self._bound_catalog = load_catalog()
            self._queries = load_stored_queries(directory, self._bound_catalog)

    @property
    def is_check_due(self) -> bool:
        """Whether `get` would look at the directory and at the schema, which may take a while."""
        return self._directory is not None and self._clock.monotonic() - self._checked_at >= _POLL_SECONDS

    def get(self, name: str) -> StoredQuery | None:
        """Return the query of that name, if there is one."""
        return self._load_current().get(name)

    def reload(self) -> None:
        """Read the files again if they or the schema changed, without waiting for the next check."""
        self._checked_at = -math.inf
        self._load_current()

    def list_all(self) -> list[StoredQuery]:
        """Return all queries, sorted by name."""
        return [query for _, query in sorted(self._load_current().items())]

    def _load_current(self) -> dict[str, StoredQuery]:
        now = self._clock.monotonic()
        if self._directory is None or now - self._checked_at < _POLL_SECONDS:
            return self._queries
        # One thread reloads; the others use the previous queries in the meantime instead of waiting.
        if self._lock.acquire(blocking=False):
            try:
                self._checked_at = now
                self._reload_if_changed(self._directory)
            finally:
                self._lock.release()
        return self._queries

    def _reload_if_changed(self, directory: Path) -> None:
        signature = _read_signature(directory)
        try:
            catalog = self._load_catalog()
        except OmnigraphError as error:
            log.warning("the schema can't be read; the previous stored queries stay in use: %s", error)
            return
        if signature == self._last_signature and catalog == self._bound_catalog:
            return
        # Recorded before loading: queries with a mistake are reported once per change, not with every check.
        self._last_signature, self._bound_catalog = signature, catalog
        try:
            self._queries = load_stored_queries(directory, catalog)
        except OmnigraphError as error:
            log.error("the changed stored queries can't be used; the previous ones stay in use: %s", error)
            return
        log.info("the stored queries were reloaded: %d", len(self._queries))


def load_stored_queries(directory: Path, catalog: Catalog) -> dict[str, StoredQuery]:
    """Load all queries of a directory, by name.

    Raises:
        StoredQueriesError: The directory is missing, or queries have mistakes; all of them are listed.
    """
    queries: dict[str, StoredQuery] = {}
    problems: list[str] = []
    if not directory.is_dir():
        raise StoredQueriesError(str(directory), ("there is no such directory",))
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        source = Source(read_text(path), path.name)
        try:
            for query in _bind_queries(source, catalog):
                other = queries.setdefault(query.name, query)
                if other is not query:
                    problems.append(f"{path.name}: {other.source.name} already has a query `{query.name}`")
        except SourceError as error:
            problems.append(str(error))
    if problems:
        raise StoredQueriesError(str(directory), tuple(problems))
    return queries


def _bind_queries(source: Source, catalog: Catalog) -> list[StoredQuery]:
    queries = []
    for query in parse_queries(source).require(source).complete_queries:
        bound = bind_query(query, catalog).require(source)
        assert bound is not None  # noqa: S101 - `require` has raised unless there is a query
        queries.append(
            StoredQuery(
                name=bound.name,
                source=source,
                is_mutation=isinstance(bound, MutationQuery),
                params=bound.params,
                description=bound.description,
                instruction=bound.instruction,
                columns=None if isinstance(bound, MutationQuery) else build_output_schema(bound, catalog),
            )
        )
    return queries


def _read_signature(directory: Path | None) -> tuple[tuple[str, int, int], ...]:
    if directory is None:
        return ()
    signatures = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            stat = path.stat()
        except OSError:  # removed since the directory was listed: the next check sees that
            continue
        signatures.append((path.name, stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(signatures))
