"""The rows of every table against the schema, indexes against the rows. What several branches share is read once."""

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
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.index_staging import list_stored_indexes
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable

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
"""What findings call the rules; the others have the rule's own name."""


@dataclass(frozen=True, slots=True)
class _RowCheckJob:
    """One type of one branch, at its pin."""

    view: View
    type: AnyType
    sharing_key: tuple[object, ...]
    """What it has in common with the same job of another branch."""


@dataclass(slots=True)
class RowCheckResult:
    """What was found, and how many rows were read for it."""

    findings: list[Finding] = field(default_factory=list)
    rows: int = 0
    unread: set[tuple[str, int]] = field(default_factory=set)


class RowChecker:
    """Goes through the tables of some branches: columns, rows, indexes, then what edges lead to."""

    def __init__(
        self, session: Session, files: FileCheckResult, *, is_deep: bool, watch: Callable[[str, int, int, int], None]
    ) -> None:
        self._session, self._files, self._is_deep, self._watch = session, files, is_deep, watch
        self._result = RowCheckResult(unread=set(files.unreadable))

    def run(self, states: Sequence[BranchState]) -> RowCheckResult:
        """Check everything that can be read; every finding says which branches it is true of."""
        jobs = _group_shared([job for state in states for job in self._build_jobs(state)])
        for done, (job, branches) in enumerate(jobs):
            self._watch(job.type.table_key, done, len(jobs), self._result.rows)
            self._check_table(job, branches)
        for done, (job, branches) in enumerate(jobs):
            if isinstance(job.type, EdgeType):
                self._watch(f"the ends of {job.type.table_key}", done, len(jobs), self._result.rows)
                self._check_ends(job, job.type, branches)
        return self._result

    def _build_jobs(self, state: BranchState) -> Iterator[tuple[str, _RowCheckJob]]:
        if state.catalog is None:
            return
        snapshot = state.head.snapshot
        view = View(state.catalog, self._session.open_tables(snapshot))
        for key, type_ in map_types(state.catalog).items():
            if key in snapshot.pins:
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
            reason = f"{checked.rows:,} rows came, and {expected:,} are there"
            self._add_unreadable(table, job.type, branches, reason)
        self._add_broken(checked.violations, table, job.type, branches)
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
            if index.name in bad:
                continue
            try:
                with translate_damage(f"{table.path}/_indices"):
                    differs = check_lookups(table, index)
            except DamagedError as error:
                code, message = "index_damaged", f"the index {index.name} of {type_.table_key}: {error.reason}"
            else:
                if differs is None:
                    continue
                code, message = "index_disagrees", f"the index {index.name} of {type_.table_key}: {differs}"
            place = f"{table.path}/_indices/{index.segments[0].uuid}" if index.segments else table.path
            self._result.findings.append(
                Finding(code=code, thing=type_.table_key, place=place, message=message, branches=branches)
            )

    def _check_ends(self, job: _RowCheckJob, edge: EdgeType, branches: tuple[str, ...]) -> None:
        view = job.view
        tables = [
            view.get_table(edge),
            *(view.get_table(view.catalog.nodes[name]) for name in (edge.source, edge.target)),
        ]
        if any(_build_version_key(table) in self._result.unread for table in tables):
            return
        try:
            with translate_damage(tables[0].path):
                broken = check_ends(view, edge, on_progress=self._count)
        except DamagedError as error:
            self._add_unreadable(tables[0], edge, branches, error.reason)
            return
        self._add_broken(broken, tables[0], edge, branches)

    def _add_unreadable(self, table: LanceTable, type_: AnyType, branches: tuple[str, ...], reason: str) -> None:
        self._result.unread.add(_build_version_key(table))
        message = f"the rows of {type_.table_key} can't be read: {reason}"
        self._result.findings.append(
            Finding(code="rows_unreadable", thing=type_.table_key, place=table.path, message=message, branches=branches)
        )

    def _add_broken(
        self, broken: Iterable[RuleViolation], table: LanceTable, type_: AnyType, branches: tuple[str, ...]
    ) -> None:
        for one in broken:
            more = f" and {one.count - len(one.examples):,} more" if one.count > len(one.examples) else ""
            self._result.findings.append(
                Finding(
                    code=_CODES.get(one.rule, one.rule),
                    thing=type_.table_key,
                    place=table.path,
                    message=f"{'; '.join(one.examples)}{more}",
                    branches=branches,
                    count=one.count,
                )
            )

    def _count(self, rows: int) -> None:
        self._session.check_cancelled()
        self._result.rows += rows


def _group_shared(jobs: Sequence[tuple[str, _RowCheckJob]]) -> list[tuple[_RowCheckJob, tuple[str, ...]]]:
    """Each job once, with all branches that it is the same for."""
    found: dict[tuple[object, ...], tuple[_RowCheckJob, list[str]]] = {}
    for branch, job in jobs:
        found.setdefault(job.sharing_key, (job, []))[1].append(branch)
    return [(job, tuple(branches)) for job, branches in found.values()]


def _build_version_key(table: LanceTable) -> tuple[str, int]:
    return table.path, table.version


def _check_columns(table: LanceTable, type_: AnyType, branches: tuple[str, ...]) -> Iterator[Finding]:
    for message in find_differing_columns(table, type_):
        yield Finding(
            code="columns_differ", thing=type_.table_key, place=table.path, message=message, branches=branches
        )
