"""A typed, versioned property graph: the public names.

All but the base error classes are imported at their first use, so that `import omnigraph` is fast.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BadArgumentError,
    CorruptError,
    Kind,
    LibraryMissingError,
    MissingError,
    OmnigraphError,
    QueryError,
    SettingsError,
)
from omnigraph.extensions import Extension, register_extension

if TYPE_CHECKING:
    from omnigraph.api import (
        back_up_graph,
        check_graph,
        clone_graph,
        create_graph,
        list_backups,
        open_graph,
        repair_graph,
        restore_graph,
        verify_graph,
    )
    from omnigraph.commit.branch_errors import (
        BranchExistsError,
        BranchGoneError,
        BranchHasChildrenError,
        BranchMissingError,
        OutcomeUnknownError,
    )
    from omnigraph.commit.conflict import ConflictError
    from omnigraph.commit.gc_errors import SnapshotCollectedError
    from omnigraph.commit.gc_horizon import CommitCollectedError, TooSlowError
    from omnigraph.commit.idempotency import KeyReusedError
    from omnigraph.commit.manifest_log import NotAGraphError, UnfinishedCloneError
    from omnigraph.commit.manifest_types import Commit, Pin, PinChange, Snapshot
    from omnigraph.commit.place_errors import PlaceTakenError
    from omnigraph.commit.purges import DataDroppedError
    from omnigraph.commit.sidecar import FencedError
    from omnigraph.commit.tag_errors import TagExistsError
    from omnigraph.commit.time_travel import CommitMissingError
    from omnigraph.engine.bulk.load_batch import LoadMode, OnDuplicate
    from omnigraph.engine.bulk.load_errors import LoadError
    from omnigraph.engine.constraints.violations import ConstraintError
    from omnigraph.engine.decoding.record_error import RecordError
    from omnigraph.engine.importing.infer_schema import InferredSchema
    from omnigraph.engine.query_budget import QueryCancelledError, QueryMemoryError, QueryTimeoutError
    from omnigraph.engine.result import Result
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.diagnostics import SourceError
    from omnigraph.lsp.server import serve_lsp
    from omnigraph.ops.backup import BackupResult
    from omnigraph.ops.backup_repository import Backup
    from omnigraph.ops.backup_restore import RestoreResult
    from omnigraph.ops.branch import Branch
    from omnigraph.ops.change_feed import ChangeFeed
    from omnigraph.ops.check import CheckResult
    from omnigraph.ops.cleanup import CleanupResult
    from omnigraph.ops.clone import CloneResult
    from omnigraph.ops.commit_changes import ChangeSet
    from omnigraph.ops.diff import Diff
    from omnigraph.ops.entity_history import EntityHistory, EntityVersion
    from omnigraph.ops.export import Exported, ExportFormat, ExportTargetError
    from omnigraph.ops.history import CommitPage
    from omnigraph.ops.import_files import FileOptions, RecordStream, infer_schema, read_files
    from omnigraph.ops.load_call import LoadResult
    from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult
    from omnigraph.ops.mutate import MutationResult
    from omnigraph.ops.open_table import TypeMissingError
    from omnigraph.ops.operations import Operations
    from omnigraph.ops.recoveries import Recovery, TableOutcome
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.schema_apply import SchemaDropsDataError, SchemaResult, SchemaUnsupportedError
    from omnigraph.ops.session import ReadOnlyError
    from omnigraph.ops.tag import Tag
    from omnigraph.ops.verify import VerificationError, VerifyResult
    from omnigraph.options import Durability, Options
    from omnigraph.policy import Action, Actor, DeniedError
    from omnigraph.query.params import ParameterError
    from omnigraph.runtime import Runtime
    from omnigraph.server.cedar_policies import CedarPolicies
    from omnigraph.server.client.async_graph import AsyncRemoteGraph, connect_async
    from omnigraph.server.client.remote_graph import RemoteGraph, connect
    from omnigraph.server.client.server_graphs import ServerGraphs, connect_server
    from omnigraph.server.explore import explore
    from omnigraph.server.mcp.stdio import serve_mcp
    from omnigraph.server.serve import check_server, serve
    from omnigraph.storage.blob_sources import BlobSourceError
    from omnigraph.storage.object_store import StoreDeniedError, StoreFullError, StoreUnavailableError
    from omnigraph.storage.table_cache import PinUnreadableError

__all__ = [
    "Action",
    "Actor",
    "AsyncRemoteGraph",
    "Backup",
    "BackupResult",
    "BadArgumentError",
    "BlobSourceError",
    "Branch",
    "BranchExistsError",
    "BranchGoneError",
    "BranchHasChildrenError",
    "BranchMissingError",
    "CedarPolicies",
    "ChangeFeed",
    "ChangeSet",
    "CheckResult",
    "CleanupResult",
    "CloneResult",
    "Commit",
    "CommitCollectedError",
    "CommitMissingError",
    "CommitPage",
    "ConflictError",
    "ConstraintError",
    "CorruptError",
    "DataDroppedError",
    "DeniedError",
    "Diff",
    "Durability",
    "EntityHistory",
    "EntityVersion",
    "ExportFormat",
    "ExportTargetError",
    "Exported",
    "FencedError",
    "FileOptions",
    "Graph",
    "InferredSchema",
    "KeyReusedError",
    "Kind",
    "LibraryMissingError",
    "LoadError",
    "LoadMode",
    "LoadResult",
    "MergeConflictsError",
    "MergeOutcome",
    "MergeResult",
    "MissingError",
    "MutationResult",
    "NotAGraphError",
    "OmnigraphError",
    "OnDuplicate",
    "Operations",
    "Options",
    "OutcomeUnknownError",
    "ParameterError",
    "Pin",
    "PinChange",
    "PinUnreadableError",
    "PlaceTakenError",
    "QueryCancelledError",
    "QueryError",
    "QueryMemoryError",
    "QueryTimeoutError",
    "ReadOnlyError",
    "RecordError",
    "RecordStream",
    "Recovery",
    "RemoteGraph",
    "RepairResult",
    "RestoreResult",
    "Result",
    "Runtime",
    "SchemaDropsDataError",
    "SchemaResult",
    "SchemaUnsupportedError",
    "ServerGraphs",
    "SettingsError",
    "Snapshot",
    "SnapshotCollectedError",
    "SourceError",
    "StoreDeniedError",
    "StoreFullError",
    "StoreUnavailableError",
    "TableOutcome",
    "Tag",
    "TagExistsError",
    "TooSlowError",
    "TypeMissingError",
    "UnfinishedCloneError",
    "VerificationError",
    "VerifyResult",
    "__version__",
    "back_up_graph",
    "check_graph",
    "check_server",
    "clone_graph",
    "connect",
    "connect_async",
    "connect_server",
    "create_graph",
    "explore",
    "infer_schema",
    "list_backups",
    "open_graph",
    "read_files",
    "repair_graph",
    "restore_graph",
    "serve",
    "serve_lsp",
    "serve_mcp",
    "verify_graph",
]

__version__ = "0.1.0"

# The module of each public name. A test compares this with `__all__` and with the imports for type checkers above.
_EXPORTS_BY_MODULE = {
    "commit.place_errors": ("PlaceTakenError",),
    "commit.purges": ("DataDroppedError",),
    "commit.gc_horizon": ("CommitCollectedError", "TooSlowError"),
    "commit.tag_errors": ("TagExistsError",),
    "ops.cleanup": ("CleanupResult",),
    "ops.tag": ("Tag",),
    "ops.verify": ("VerificationError", "VerifyResult"),
    "commit.branch_errors": (
        "BranchExistsError",
        "BranchGoneError",
        "BranchHasChildrenError",
        "BranchMissingError",
        "OutcomeUnknownError",
    ),
    "commit.gc_errors": ("SnapshotCollectedError",),
    "commit.manifest_log": ("NotAGraphError", "UnfinishedCloneError"),
    "commit.conflict": ("ConflictError",),
    "commit.manifest_types": ("Commit", "Pin", "PinChange", "Snapshot"),
    "commit.time_travel": ("CommitMissingError",),
    "commit.idempotency": ("KeyReusedError",),
    "commit.sidecar": ("FencedError",),
    "api": (
        "back_up_graph",
        "check_graph",
        "clone_graph",
        "create_graph",
        "list_backups",
        "open_graph",
        "repair_graph",
        "restore_graph",
        "verify_graph",
    ),
    "engine.constraints.violations": ("ConstraintError",),
    "engine.bulk.load_batch": ("LoadMode", "OnDuplicate"),
    "engine.bulk.load_errors": ("LoadError",),
    "engine.query_budget": ("QueryCancelledError", "QueryMemoryError", "QueryTimeoutError"),
    "engine.result": ("Result",),
    "engine.decoding.record_error": ("RecordError",),
    "graph.graph": ("Graph",),
    "lang.diagnostics": ("SourceError",),
    "ops.backup": ("BackupResult",),
    "ops.backup_repository": ("Backup",),
    "ops.backup_restore": ("RestoreResult",),
    "ops.branch": ("Branch",),
    "ops.clone": ("CloneResult",),
    "ops.diff": ("Diff",),
    "ops.check": ("CheckResult",),
    "ops.commit_changes": ("ChangeSet",),
    "ops.change_feed": ("ChangeFeed",),
    "ops.entity_history": ("EntityHistory", "EntityVersion"),
    "ops.export": ("ExportFormat", "ExportTargetError", "Exported"),
    "ops.history": ("CommitPage",),
    "engine.importing.infer_schema": ("InferredSchema",),
    "ops.import_files": ("FileOptions", "RecordStream", "infer_schema", "read_files"),
    "ops.load_call": ("LoadResult",),
    "ops.merge_result": ("MergeConflictsError", "MergeOutcome", "MergeResult"),
    "ops.mutate": ("MutationResult",),
    "ops.operations": ("Operations",),
    "ops.recoveries": ("Recovery", "TableOutcome"),
    "ops.repair_result": ("RepairResult",),
    "ops.schema_apply": ("SchemaDropsDataError", "SchemaResult", "SchemaUnsupportedError"),
    "ops.session": ("ReadOnlyError",),
    "ops.open_table": ("TypeMissingError",),
    "query.params": ("ParameterError",),
    "lsp.server": ("serve_lsp",),
    "options": ("Durability", "Options"),
    "runtime": ("Runtime",),
    "policy": ("Action", "Actor", "DeniedError"),
    "server.client.async_graph": ("AsyncRemoteGraph", "connect_async"),
    "server.client.remote_graph": ("RemoteGraph", "connect"),
    "server.client.server_graphs": ("ServerGraphs", "connect_server"),
    "server.mcp.stdio": ("serve_mcp",),
    "server.cedar_policies": ("CedarPolicies",),
    "server.explore": ("explore",),
    "server.serve": ("check_server", "serve"),
    "storage.blob_sources": ("BlobSourceError",),
    "storage.table_cache": ("PinUnreadableError",),
    "storage.object_store": ("StoreDeniedError", "StoreFullError", "StoreUnavailableError"),
}

_MODULE_BY_EXPORT = {name: home for home, names in _EXPORTS_BY_MODULE.items() for name in names}

# The packages that `omnigraph[lsp]` installs.
_LSP_PACKAGES = frozenset({"lsprotocol", "pygls"})
# The packages that `omnigraph[server]` and `omnigraph[mcp]` install.
_SERVER_PACKAGES = frozenset(
    {"anyio", "cedarpy", "cryptography", "fastapi", "h11", "jwt", "mcp", "mcp_types", "starlette", "uvicorn"}
)


def __getattr__(name: str) -> object:
    """Import a public name at its first use, and keep it."""
    home = _MODULE_BY_EXPORT.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    value: object = getattr(_import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def _import_module(module: str) -> ModuleType:
    """Import a module of this package.

    Raises:
        LibraryMissingError: It needs a package of `omnigraph[server]`, `[mcp]` or `[lsp]` that is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _LSP_PACKAGES:
            raise LibraryMissingError.server_missing("pygls") from error
        if missing not in _SERVER_PACKAGES:
            raise
        raise LibraryMissingError.server_missing("mcp" if module.endswith(".mcp.stdio") else missing) from error


register_extension(Extension.ENGINE_CHOICE, lambda: import_module(f"{__name__}.spark.load.engine_choice").choose_engine)
register_extension(
    Extension.LOCAL_ENGINE, lambda: import_module(f"{__name__}.engine.duckdb.run_plan").build_local_engine
)
register_extension(Extension.SPARK, lambda: import_module(f"{__name__}.spark.spark_engine").PySparkEngine())
register_extension(Extension.TELEMETRY, lambda: import_module(f"{__name__}.server.open_telemetry").start_telemetry)
register_extension(Extension.MCP_RESPONSE, lambda: import_module(f"{__name__}.server.mcp.http_transport").McpResponse)


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
