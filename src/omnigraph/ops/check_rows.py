"""Check rows against the schema, and indexes against rows. Tables that several branches share are read once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from omnigraph.engine.checking.edge_integrity import check_ends
from omnigraph.engine.checking.index_integrity import check_lookups
from omnigraph.engine.checking.row_integrity import check_rows, find_differing_columns
from omnigraph.engine.checking.rule_violations import RuleViolation
from omnigraph.engine.view import View
from omnigraph.ops.check_files import FileCheckResult
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.check_manifests import BranchState
from omnigraph.ops.indexes import map_types
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable

# The finding codes of constraints; a rule that is missing here has the same name as its code.
_CODES = {
    "unique": "unique_broken",
    "card": "card_broken",
    "required": "value_broken",
    "enum": "value_broken",
    "range": "value_broken",
    "check": "value_broken",
    "size": "value_broken",
    "finite": "value_broken",
}


@dataclass(frozen=True, slots=True)
class _RowCheckJob:
    """One type of one branch, to be checked at its pinned version."""

    view: View
    type: AnyType
    sharing_key: tuple[object, ...]
    """Equal for jobs of several branches that would read the same data with the same schema."""


@dataclass(slots=True)
class RowCheckResult:
    """The findings, the number of rows read, and the versions that could not be read."""

    findings: list[Finding] = field(default_factory=list)
    rows: int = 0
    unread: set[tuple[str, int]] = field(default_factory=set)


class RowChecker:
    """A check of all tables of some branches: columns, rows, indexes, then the ends of edges."""

    def __init__(
        self, session: Session, files: FileCheckResult, *, is_deep: bool, watch: Callable[[str, int, int, int], None]
    ) -> None:
        self._session = session
        self._files = files
        self._is_deep = is_deep
        self._watch = watch
        self._result = RowCheckResult(unread=set(files.unreadable))

    def run(self, states: Sequence[BranchState]) -> RowCheckResult:
        """Check all tables that can be read; each finding lists the branches it applies to."""
        jobs = _group_shared([job for state in states for job in self._build_jobs(state)])
        for done, (job, branches) in enumerate(jobs):
            self._watch(job.type.table_key, done, len(jobs), self._result.rows)
            self._check_table(job, branches)
        # After all tables, because it is only now known which of them can't be read.
        for done, (job, branches) in enumerate(jobs):
            if isinstance(job.type, EdgeType):
                self._watch(f"the ends of {job.type.table_key}", done, len(jobs), self._result.rows)
                self._check_ends(job, job.type, branches)
        return self._result

    def _build_jobs(self, state: BranchState) -> Iterator[tuple[str, _RowCheckJob]]:
        if state.catalog is None:
            return
        snapshot = state.head.snapshot
        view = View(state.catalog, open_whole_tables(self._session, snapshot))
        for key, type_ in map_types(state.catalog).items():
            # A type without a table is reported by the check of the manifests.
            if key in snapshot.pins:
                # Edges are checked against their end nodes, so branches share the job only if those are equal too.
                ends = [f"node:{type_.source}", f"node:{type_.target}"] if isinstance(type_, EdgeType) else []
                pins = [snapshot.pins[name] for name in (key, *ends) if name in snapshot.pins]
                versions = tuple((pin.path, pin.version) for pin in pins)
                yield state.name, _RowCheckJob(view, type_, (key, versions, snapshot.manifest.schema.id))

    def _check_table(self, job: _RowCheckJob, branches: tuple[str, ...]) -> None:
        table = job.view.get_table(job.type)
        if _build_version_key(table) in self._result.unread:
            return
        try:
            with translate_damage(table.path):
                self._result.findings += _check_columns(table, job.type, branches)
                checked = check_rows(table, job.type, is_deep=self._is_deep, on_progress=self._count)
                expected = table.count()
        except DamagedError as error:
            self._add_unreadable(table, job.type, branches, error.reason)
            return
        if checked.rows != expected:
            reason = f"{checked.rows:,} of {expected:,} rows were returned"
            self._add_unreadable(table, job.type, branches, reason)
        self._add_violations(checked.violations, table, job.type, branches)
        self._check_indexes(table, job.type, branches)

    def _check_indexes(self, table: LanceTable, type_: AnyType, branches: tuple[str, ...]) -> None:
        bad = self._files.bad_indexes.get(_build_version_key(table), set())
        try:
            with translate_damage(f"{table.path}/_indices"):
                indexes = list_stored_indexes(table)
        except DamagedError as error:
            self._add_unreadable(table, type_, branches, error.reason)
            return
        for index in indexes:
            # The check of the files has already reported it.
            if index.name in bad:
                continue
            try:
                with translate_damage(f"{table.path}/_indices"):
                    difference = check_lookups(table, index)
            except DamagedError as error:
                code, reason = "index_damaged", error.reason
            else:
                if difference is None:
                    continue
                code, reason = "index_disagrees", str(difference)
            message = f"the index {index.name} of {type_.table_key}: {reason}"
            place = f"{table.path}/_indices/{index.segments[0].uuid}" if index.segments else table.path
            self._result.findings.append(
                Finding(code=code, thing=type_.table_key, place=place, message=message, branches=branches)
            )

    def _check_ends(self, job: _RowCheckJob, edge: EdgeType, branches: tuple[str, ...]) -> None:
        view = job.view
        types: list[AnyType] = [edge, view.catalog.nodes[edge.source], view.catalog.nodes[edge.target]]
        tables = [view.get_table(type_) for type_ in types]
        # With unreadable nodes, their edges would look dangling.
        if any(_build_version_key(table) in self._result.unread for table in tables):
            return
        try:
            with translate_damage(tables[0].path):
                violations = check_ends(view, edge, on_progress=self._count)
        except DamagedError as error:
            self._add_unreadable(tables[0], edge, branches, error.reason)
            return
        self._add_violations(violations, tables[0], edge, branches)

    def _add_unreadable(self, table: LanceTable, type_: AnyType, branches: tuple[str, ...], reason: str) -> None:
        self._result.unread.add(_build_version_key(table))
        message = f"the rows of {type_.table_key} can't be read: {reason}"
        self._result.findings.append(
            Finding(code="rows_unreadable", thing=type_.table_key, place=table.path, message=message, branches=branches)
        )

    def _add_violations(
        self, violations: Iterable[RuleViolation], table: LanceTable, type_: AnyType, branches: tuple[str, ...]
    ) -> None:
        for violation in violations:
            hidden = violation.count - len(violation.examples)
            more = f" and {hidden:,} more" if hidden > 0 else ""
            self._result.findings.append(
                Finding(
                    code=_CODES.get(violation.rule, violation.rule),
                    thing=type_.table_key,
                    place=table.path,
                    message=f"{'; '.join(violation.examples)}{more}",
                    branches=branches,
                    count=violation.count,
                )
            )

    def _count(self, rows: int) -> None:
        self._session.check_cancelled()
        self._result.rows += rows


def _group_shared(jobs: Sequence[tuple[str, _RowCheckJob]]) -> list[tuple[_RowCheckJob, tuple[str, ...]]]:
    """Return each distinct job once, with all branches that share it."""
    shared: dict[tuple[object, ...], tuple[_RowCheckJob, list[str]]] = {}
    for branch, job in jobs:
        shared.setdefault(job.sharing_key, (job, []))[1].append(branch)
    return [(job, tuple(branches)) for job, branches in shared.values()]


def _build_version_key(table: LanceTable) -> tuple[str, int]:
    return table.path, table.version


def _check_columns(table: LanceTable, type_: AnyType, branches: tuple[str, ...]) -> Iterator[Finding]:
    for message in find_differing_columns(table, type_):
        yield Finding(
            code="columns_differ", thing=type_.table_key, place=table.path, message=message, branches=branches
        )
