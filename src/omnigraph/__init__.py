"""A typed, versioned property graph: the public names.

All but the base error classes are imported at their first use, so that `import omnigraph` is fast.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.errors import Kind, OmnigraphError, ServerMissingError
from omnigraph.extensions import Extension, register_extension

if TYPE_CHECKING:
    from omnigraph.api import check_graph, clone_graph, create_graph, open_graph, repair_graph, verify_graph
    from omnigraph.commit.branch_errors import (
        BadBranchNameError,
        BranchExistsError,
        BranchGoneError,
        BranchHasChildrenError,
        BranchMissingError,
        BranchOutcomeUnknownError,
    )
    from omnigraph.commit.clone_lock import CloneBusyError
    from omnigraph.commit.commit_references import ManifestRolledBackError
    from omnigraph.commit.conflict import ConflictError
    from omnigraph.commit.gc_errors import SnapshotCollectedError
    from omnigraph.commit.gc_horizon import CommitCollectedError, TooSlowError
    from omnigraph.commit.idempotency import KeyReusedError
    from omnigraph.commit.manifest_codec import FormatRefusedError, ManifestCorruptError
    from omnigraph.commit.manifest_log import NotAGraphError, OutcomeUnknownError, UnfinishedCloneError
    from omnigraph.commit.manifest_types import Commit, Pin, PinChange, Snapshot
    from omnigraph.commit.merge_base import MergeBaseGoneError
    from omnigraph.commit.purges import DataDroppedError, MergeBaseDroppedError
    from omnigraph.commit.sidecar import FencedError
    from omnigraph.commit.tag_errors import BadTagNameError, TagExistsError, TagMissingError, TagOutcomeUnknownError
    from omnigraph.commit.time_travel import CommitMissingError
    from omnigraph.config.environment import BadVariableError
    from omnigraph.engine.bulk.load_batch import LoadMode
    from omnigraph.engine.bulk.load_errors import LoadError
    from omnigraph.engine.decoding.record_error import RecordError
    from omnigraph.engine.output.aggregate import AggregateOverflowError
    from omnigraph.engine.query_budget import QueryCancelledError, QueryMemoryError, QueryTimeoutError
    from omnigraph.engine.result import LibraryMissingError, Result
    from omnigraph.engine.writing.violations import ConstraintError
    from omnigraph.errors import NotAMutationError, NotAReadError, QueryAmbiguousError, QueryMissingError
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.diagnostics import SourceError
    from omnigraph.locations import BadPlaceError
    from omnigraph.ops.argument_checks import BadArgumentError
    from omnigraph.ops.blob import BlobPropertyMissingError, RowMissingError
    from omnigraph.ops.branch import Branch
    from omnigraph.ops.change_feed import ChangeFeed
    from omnigraph.ops.check import CheckResult
    from omnigraph.ops.cleanup import CleanupResult
    from omnigraph.ops.clone import CloneResult, NestedPlacesError
    from omnigraph.ops.commit_changes import ChangeSet, ChangeUnreadableError
    from omnigraph.ops.create import PlaceTakenError
    from omnigraph.ops.diff import Diff
    from omnigraph.ops.entity_history import EntityHistory, EntityMissingError, EntityVersion
    from omnigraph.ops.export import Exported, ExportFormat, ExportTargetError
    from omnigraph.ops.history import BadFilterError, CommitPage
    from omnigraph.ops.load_call import LoadResult
    from omnigraph.ops.load_inputs import TypeKindError
    from omnigraph.ops.merge_result import MergeConflictsError, MergeOutcome, MergeResult
    from omnigraph.ops.mutate import MutationResult
    from omnigraph.ops.open_table import TypeMissingError
    from omnigraph.ops.operations import Operations
    from omnigraph.ops.query import TargetAmbiguousError
    from omnigraph.ops.recoveries import Recovery, TableOutcome
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.schema_apply import (
        SchemaDropsDataError,
        SchemaResult,
        SchemaUnfitError,
        SchemaUnsupportedError,
    )
    from omnigraph.ops.session import ReadOnlyError
    from omnigraph.ops.tag import Tag
    from omnigraph.ops.verify import (
        CommitAlteredError,
        DigestUnknownError,
        FilesDamagedError,
        HistoryUnrecordedError,
        VerifyResult,
    )
    from omnigraph.options import Durability, Options
    from omnigraph.policy import Action, Actor, DeniedError
    from omnigraph.query.params import ParameterError
    from omnigraph.runtime import Runtime
    from omnigraph.server.cedar_policies import CedarPolicies
    from omnigraph.server.client.remote_graph import RemoteGraph, connect
    from omnigraph.server.mcp.stdio import serve_mcp
    from omnigraph.server.serve import check_server, serve
    from omnigraph.storage.blob_sources import BlobSourceError
    from omnigraph.storage.cas_table_errors import NewestVersionDamagedError
    from omnigraph.storage.object_store import StoreDeniedError, StoreFullError, StoreUnavailableError
    from omnigraph.storage.table_cache import PinUnreadableError
    from omnigraph.storage.uri import BadUriError

__all__ = [
    "Action",
    "Actor",
    "AggregateOverflowError",
    "BadArgumentError",
    "BadBranchNameError",
    "BadFilterError",
    "BadPlaceError",
    "BadTagNameError",
    "BadUriError",
    "BadVariableError",
    "BlobPropertyMissingError",
    "BlobSourceError",
    "Branch",
    "BranchExistsError",
    "BranchGoneError",
    "BranchHasChildrenError",
    "BranchMissingError",
    "BranchOutcomeUnknownError",
    "CedarPolicies",
    "ChangeFeed",
    "ChangeSet",
    "ChangeUnreadableError",
    "CheckResult",
    "CleanupResult",
    "CloneBusyError",
    "CloneResult",
    "Commit",
    "CommitAlteredError",
    "CommitCollectedError",
    "CommitMissingError",
    "CommitPage",
    "ConflictError",
    "ConstraintError",
    "DataDroppedError",
    "DeniedError",
    "Diff",
    "DigestUnknownError",
    "Durability",
    "EntityHistory",
    "EntityMissingError",
    "EntityVersion",
    "ExportFormat",
    "ExportTargetError",
    "Exported",
    "FencedError",
    "FilesDamagedError",
    "FormatRefusedError",
    "Graph",
    "HistoryUnrecordedError",
    "KeyReusedError",
    "Kind",
    "LibraryMissingError",
    "LoadError",
    "LoadMode",
    "LoadResult",
    "ManifestCorruptError",
    "ManifestRolledBackError",
    "MergeBaseDroppedError",
    "MergeBaseGoneError",
    "MergeConflictsError",
    "MergeOutcome",
    "MergeResult",
    "MutationResult",
    "NestedPlacesError",
    "NewestVersionDamagedError",
    "NotAGraphError",
    "NotAMutationError",
    "NotAReadError",
    "OmnigraphError",
    "Operations",
    "Options",
    "OutcomeUnknownError",
    "ParameterError",
    "Pin",
    "PinChange",
    "PinUnreadableError",
    "PlaceTakenError",
    "QueryAmbiguousError",
    "QueryCancelledError",
    "QueryMemoryError",
    "QueryMissingError",
    "QueryTimeoutError",
    "ReadOnlyError",
    "RecordError",
    "Recovery",
    "RemoteGraph",
    "RepairResult",
    "Result",
    "RowMissingError",
    "Runtime",
    "SchemaDropsDataError",
    "SchemaResult",
    "SchemaUnfitError",
    "SchemaUnsupportedError",
    "Snapshot",
    "SnapshotCollectedError",
    "SourceError",
    "StoreDeniedError",
    "StoreFullError",
    "StoreUnavailableError",
    "TableOutcome",
    "Tag",
    "TagExistsError",
    "TagMissingError",
    "TagOutcomeUnknownError",
    "TargetAmbiguousError",
    "TooSlowError",
    "TypeKindError",
    "TypeMissingError",
    "UnfinishedCloneError",
    "VerifyResult",
    "__version__",
    "check_graph",
    "check_server",
    "clone_graph",
    "connect",
    "create_graph",
    "open_graph",
    "repair_graph",
    "serve",
    "serve_mcp",
    "verify_graph",
]

__version__ = "0.1.0"

# The module of each public name. A test compares this with `__all__` and with the imports for type checkers above.
_EXPORTS_BY_MODULE = {
    "commit.purges": ("DataDroppedError", "MergeBaseDroppedError"),
    "commit.gc_horizon": ("CommitCollectedError", "TooSlowError"),
    "commit.tag_errors": ("BadTagNameError", "TagExistsError", "TagMissingError", "TagOutcomeUnknownError"),
    "ops.cleanup": ("CleanupResult",),
    "ops.tag": ("Tag",),
    "ops.verify": (
        "CommitAlteredError",
        "DigestUnknownError",
        "FilesDamagedError",
        "HistoryUnrecordedError",
        "VerifyResult",
    ),
    "commit.merge_base": ("MergeBaseGoneError",),
    "commit.branch_errors": (
        "BadBranchNameError",
        "BranchExistsError",
        "BranchGoneError",
        "BranchHasChildrenError",
        "BranchMissingError",
        "BranchOutcomeUnknownError",
    ),
    "commit.clone_lock": ("CloneBusyError",),
    "commit.gc_errors": ("SnapshotCollectedError",),
    "commit.manifest_codec": ("FormatRefusedError", "ManifestCorruptError"),
    "commit.manifest_log": ("NotAGraphError", "OutcomeUnknownError", "UnfinishedCloneError"),
    "commit.commit_references": ("ManifestRolledBackError",),
    "commit.conflict": ("ConflictError",),
    "commit.manifest_types": ("Commit", "Pin", "PinChange", "Snapshot"),
    "commit.time_travel": ("CommitMissingError",),
    "commit.idempotency": ("KeyReusedError",),
    "commit.sidecar": ("FencedError",),
    "config.environment": ("BadVariableError",),
    "api": ("check_graph", "clone_graph", "create_graph", "open_graph", "repair_graph", "verify_graph"),
    "engine.writing.violations": ("ConstraintError",),
    "engine.bulk.load_batch": ("LoadMode",),
    "engine.bulk.load_errors": ("LoadError",),
    "engine.query_budget": ("QueryCancelledError", "QueryMemoryError", "QueryTimeoutError"),
    "engine.output.aggregate": ("AggregateOverflowError",),
    "engine.result": ("LibraryMissingError", "Result"),
    "errors": ("NotAMutationError", "NotAReadError", "QueryAmbiguousError", "QueryMissingError"),
    "engine.decoding.record_error": ("RecordError",),
    "graph.graph": ("Graph",),
    "lang.diagnostics": ("SourceError",),
    "ops.argument_checks": ("BadArgumentError",),
    "ops.blob": ("BlobPropertyMissingError", "RowMissingError"),
    "ops.branch": ("Branch",),
    "ops.clone": ("CloneResult", "NestedPlacesError"),
    "ops.diff": ("Diff",),
    "ops.check": ("CheckResult",),
    "ops.commit_changes": ("ChangeSet", "ChangeUnreadableError"),
    "ops.change_feed": ("ChangeFeed",),
    "ops.create": ("PlaceTakenError",),
    "ops.entity_history": ("EntityHistory", "EntityMissingError", "EntityVersion"),
    "ops.export": ("ExportFormat", "ExportTargetError", "Exported"),
    "ops.history": ("BadFilterError", "CommitPage"),
    "ops.load_call": ("LoadResult",),
    "ops.load_inputs": ("TypeKindError",),
    "ops.merge_result": ("MergeConflictsError", "MergeOutcome", "MergeResult"),
    "ops.mutate": ("MutationResult",),
    "ops.operations": ("Operations",),
    "ops.recoveries": ("Recovery", "TableOutcome"),
    "ops.query": ("TargetAmbiguousError",),
    "ops.repair_result": ("RepairResult",),
    "ops.schema_apply": ("SchemaDropsDataError", "SchemaResult", "SchemaUnfitError", "SchemaUnsupportedError"),
    "ops.session": ("ReadOnlyError",),
    "ops.open_table": ("TypeMissingError",),
    "query.params": ("ParameterError",),
    "options": ("Durability", "Options"),
    "runtime": ("Runtime",),
    "locations": ("BadPlaceError",),
    "policy": ("Action", "Actor", "DeniedError"),
    "server.client.remote_graph": ("RemoteGraph", "connect"),
    "server.mcp.stdio": ("serve_mcp",),
    "server.cedar_policies": ("CedarPolicies",),
    "server.serve": ("check_server", "serve"),
    "storage.blob_sources": ("BlobSourceError",),
    "storage.table_cache": ("PinUnreadableError",),
    "storage.object_store": ("StoreDeniedError", "StoreFullError", "StoreUnavailableError"),
    "storage.cas_table_errors": ("NewestVersionDamagedError",),
    "storage.uri": ("BadUriError",),
}

_MODULE_BY_EXPORT = {name: home for home, names in _EXPORTS_BY_MODULE.items() for name in names}

# The packages that `omnigraph[server]` and `omnigraph[mcp]` install.
_SERVER_PACKAGES = frozenset({"anyio", "cedarpy", "fastapi", "h11", "mcp", "mcp_types", "starlette", "uvicorn"})


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
        ServerMissingError: It needs a package of `omnigraph[server]` or `omnigraph[mcp]` that is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SERVER_PACKAGES:
            raise
        raise ServerMissingError("mcp" if module.endswith(".mcp.stdio") else missing) from error


register_extension(Extension.ENGINE_CHOICE, lambda: import_module(f"{__name__}.spark.load.engine_choice").choose_engine)
register_extension(Extension.SPARK, lambda: import_module(f"{__name__}.spark.spark_engine").PySparkEngine())
register_extension(Extension.MCP_RESPONSE, lambda: import_module(f"{__name__}.server.mcp.http_transport").McpResponse)


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
