"""Create the table versions of a commit plan: durable once flushed, and invisible until a manifest pins them."""

from dataclasses import dataclass, replace

from omnigraph.commit.commit_plan import CommitPlan, Move, NewTable
from omnigraph.commit.manifest_types import MAINTENANCE, Pin
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.version_files import find_used_lists
from omnigraph.storage.versions import apply, create_table, list_detached_files


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """The pins of the detached versions that a plan creates; moved tables are under their old keys."""

    moved: dict[str, Pin]
    created: dict[str, Pin]
    new_tables: tuple[NewTable, ...]


def record_checksum(store: GraphStorage, path: str, version: int, rows: int) -> str | None:
    """Return the checksum of a version's file, and register it with the verifier.

    None if it is not known, or if the file does not exist: if cleanup has removed a file of a stalled writer, that is
    detected before the writer's commit is visible.
    """
    try:
        checksum = store.verifier.checksum_version(path, version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"read a version of {path}", str(error)) from error
    store.verifier.expect(path, version, checksum, rows)
    return checksum


class VersionBuilder:
    """Creates the table versions of a plan, and reuses those of an earlier round that still fit.

    Every file is appended to `files`.
    """

    def __init__(self, store: GraphStorage, handles: TableCache, branch: str, files: list[str]) -> None:
        self._store = store
        self._handles = handles
        self._branch = branch
        self._files = files
        # The files before this position are durable, or another process made them so.
        self._flushed = len(files)
        self._created: dict[str, Pin] = {}
        # By table key: the move, the version it was applied to, and the version that resulted.
        self._versions: dict[str, tuple[Move, int, int]] = {}

    def apply(self, plan: CommitPlan) -> AppliedPlan:
        """Create the new tables and the moved versions of a plan, and return their pins.

        They are invisible, and durable once the caller has flushed the files of `list_unflushed`.
        """
        for table in plan.new_tables:
            self._create(table)
        moved: dict[str, Pin] = {}
        for move in plan.moves:
            adopted = plan.adopted.get(move.table_key)
            base = plan.base.snapshot.pins[move.table_key] if adopted is None else adopted.pin
            version = self._build_version(move, base.version)
            lists = base.lists
            # Only maintenance rewrites existing files, so only there a checksum list may no longer be needed.
            if lists and plan.operation in MAINTENANCE:
                lists = find_used_lists(self._handles, base.path, version, lists)
            moved[move.table_key] = replace(
                base, version=version, rows=move.staged.rows_after, branch=self._branch, lists=lists
            )
        return AppliedPlan(moved, dict(self._created), plan.new_tables)

    def list_unflushed(self) -> list[str]:
        """Return the files that have to be flushed before the swap."""
        return list(dict.fromkeys(self._files[self._flushed :]))

    def mark_flushed(self) -> None:
        """Record that all files so far are durable."""
        self._flushed = len(self._files)

    def list_files(self, plan: CommitPlan) -> set[str]:
        """Return the files that a commit of this plan needs: those of its staged writes, and its versions."""
        staged = {file for move in plan.moves for file in move.staged.files}
        versions = {
            file
            for move in plan.moves
            for file in list_detached_files(move.staged.path, [self._versions[move.table_key][2]])
        }
        return staged | versions | set(plan.adopted_files)

    def _build_version(self, move: Move, base: int) -> int:
        built = self._versions.get(move.table_key)
        if built is not None and built[0].staged is move.staged and built[1] == base:
            return built[2]
        # Listed before the version is created, so that the files of a failed attempt are removed too.
        self._files += move.staged.files
        version = apply(self._handles, move.staged, base)
        record_checksum(self._store, move.staged.path, version, move.staged.rows_after)
        self._versions[move.table_key] = (move, base, version)
        self._files += list_detached_files(move.staged.path, [version])
        self._store.runtime.faults.reach("publish.applied")
        return version

    def _create(self, table: NewTable) -> None:
        record = table.record
        if record.table_key in self._created:
            return
        version = create_table(self._store, record.path, table.schema)
        record_checksum(self._store, record.path, version, 0)
        self._files.append(f"{record.path}/{format_version_name(version)}")
        self._created[record.table_key] = Pin(
            table_key=record.table_key, path=record.path, version=version, rows=0, branch=self._branch
        )
