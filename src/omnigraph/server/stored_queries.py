"""Stored queries: the `.gq` files of a directory, checked against the graph's schema, read again when they change."""

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
_POLL_SECONDS = 1.0
"""How often a directory is looked at, at most."""


class StoredQueriesError(OmnigraphError):
    """Stored queries that can't be used; `problems` says what is wrong, each with its file."""

    kind = Kind.INVALID
    code = "bad_stored_queries"

    def __init__(self, path: str, problems: tuple[str, ...]) -> None:
        super().__init__(path, problems)
        self.path, self.problems = path, problems

    def facts(self) -> dict[str, object]:
        """The directory, and what is wrong in it."""
        return {"path": self.path, "problems": list(self.problems)}

    def __str__(self) -> str:
        return "\n".join([f"the stored queries of `{self.path}` can't be used:", *self.problems])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """A query that a server keeps under its name."""

    name: str
    source: Source
    is_mutation: bool
    params: tuple[Parameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    columns: pa.Schema | None = None
    """Those of its rows, if it reads."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "name": self.name,
            "kind": "mutation" if self.is_mutation else "read",
            "params": [{"name": one.name, "type": str(one.type), "nullable": one.nullable} for one in self.params],
            "description": self.description,
            "instruction": self.instruction,
        }


class StoredQueries:
    """The stored queries of a graph. Safe from several threads.

    What a changed directory, or an accepted schema, makes of them counts once all of it is right; until then, what they
    were last does.
    """

    def __init__(self, directory: Path | None, catalog: Callable[[], Catalog], clock: Clock) -> None:
        self._directory, self._load_catalog, self._clock = directory, catalog, clock
        self._lock = threading.Lock()
        self._last_signature = _read_signature(directory)
        self._checked_at = clock.monotonic()
        self._queries: dict[str, StoredQuery] = {}
        self._bound_catalog: Catalog | None = None
        if directory is not None:
            self._bound_catalog = catalog()
            self._queries = load_stored_queries(directory, self._bound_catalog)

    def get(self, name: str) -> StoredQuery | None:
        """The query of that name."""
        return self._load_current().get(name)

    def list_all(self) -> list[StoredQuery]:
        """All of them, by name."""
        return [query for _, query in sorted(self._load_current().items())]

    def _load_current(self) -> dict[str, StoredQuery]:
        now = self._clock.monotonic()
        if self._directory is None or now - self._checked_at < _POLL_SECONDS:
            return self._queries
        if self._lock.acquire(blocking=False):  # who comes meanwhile takes what is known
            try:
                self._checked_at = now
                self._reload_if_changed(self._directory)
            finally:
                self._lock.release()
        return self._queries

    def _reload_if_changed(self, directory: Path) -> None:
        seen = _read_signature(directory)
        try:
            catalog = self._load_catalog()
        except OmnigraphError as error:
            log.warning("the schema can't be read; stored queries stay as they were: %s", error)
            return
        if seen == self._last_signature and catalog == self._bound_catalog:
            return
        self._last_signature, self._bound_catalog = seen, catalog
        try:
            self._queries = load_stored_queries(directory, catalog)
        except OmnigraphError as error:
            log.error("changed stored queries can't be used; those from before are: %s", error)
            return
        log.info("the stored queries were read again: %d", len(self._queries))


def load_stored_queries(directory: Path, catalog: Catalog) -> dict[str, StoredQuery]:
    """All queries of a directory, by name; StoredQueriesError with everything that is wrong with them."""
    found: dict[str, StoredQuery] = {}
    problems: list[str] = []
    if not directory.is_dir():
        raise StoredQueriesError(str(directory), ("there is no such directory",))
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        source = Source(read_text(path), path.name)
        try:
            for query in _bind_queries(source, catalog):
                if query.name in found:
                    problems.append(f"{path.name}: the name `{query.name}` is taken in {found[query.name].source.name}")
                found.setdefault(query.name, query)
        except SourceError as error:
            problems.append(str(error))
    if problems:
        raise StoredQueriesError(str(directory), tuple(problems))
    return found


def _bind_queries(source: Source, catalog: Catalog) -> list[StoredQuery]:
    found = []
    for query in parse_queries(source).require(source).queries:
        bound = bind_query(query, catalog).require(source)
        assert bound is not None  # noqa: S101 - without a mistake there is a query
        found.append(
            StoredQuery(
                name=bound.name,
                source=source,
                is_mutation=isinstance(bound, MutationQuery),
                params=bound.params,
                description=bound.description,
                instruction=bound.instruction,
                columns=None if isinstance(bound, MutationQuery) else build_output_schema(bound),
            )
        )
    return found


def _read_signature(directory: Path | None) -> tuple[tuple[str, int, int], ...]:
    if directory is None:
        return ()
    found = []
    for path in directory.glob(f"*{SUFFIX}"):
        try:
            stat = path.stat()
        except OSError:  # it went away between the two looks: the next one sees that
            continue
        found.append((path.name, stat.st_mtime_ns, stat.st_size))
    return tuple(sorted(found))
