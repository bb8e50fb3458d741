"""A typed, versioned property graph: the public names.

All but the root of the errors are imported when they are first used, so that `import omnigraph` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.errors import Kind, OmnigraphError

if TYPE_CHECKING:
    from omnigraph.commit.ancestry import MergeBaseGoneError
    from omnigraph.commit.branch_errors import (
        BadBranchNameError,
        BranchExistsError,
        BranchGoneError,
        BranchHasChildrenError,
        BranchMissingError,
        BranchOutcomeUnknownError,
    )
    from omnigraph.commit.manifest import FormatRefusedError, ManifestCorruptError
    from omnigraph.commit.manifest_log import NotAGraphError, OutcomeUnknownError
    from omnigraph.commit.plan import ConflictError
    from omnigraph.commit.records import Commit, Pin, PinChange, Snapshot
    from omnigraph.commit.refs import CommitMissingError
    from omnigraph.commit.repeats import KeyReusedError
    from omnigraph.commit.sidecar import FencedError
    from omnigraph.config.environment import BadVariableError
    from omnigraph.config.opening import create_graph, open_graph
    from omnigraph.engine.budget import QueryCancelledError, QueryMemoryError, QueryTimeoutError
    from omnigraph.engine.bulk.incoming import LoadMode
    from omnigraph.engine.bulk.refusals import LoadError
    from omnigraph.engine.decoding.record_error import RecordError
    from omnigraph.engine.output.grouping import AggregateOverflowError
    from omnigraph.engine.result import LibraryMissingError, Result
    from omnigraph.engine.writing.violations import ConstraintError
    from omnigraph.errors import NotAMutationError, NotAReadError, QueryAmbiguousError, QueryMissingError
    from omnigraph.graph import Graph
    from omnigraph.lang.diagnostics import SourceError
    from omnigraph.ops.arguments import BadArgumentError
    from omnigraph.ops.blob import BlobPropertyMissingError, RowMissingError
    from omnigraph.ops.branch import Branch
    from omnigraph.ops.create import PlaceTakenError
    from omnigraph.ops.diff import Diff
    from omnigraph.ops.export import Exported, ExportFormat, ExportTargetError
    from omnigraph.ops.history import BadFilterError
    from omnigraph.ops.load_call import LoadResult
    from omnigraph.ops.load_inputs import TypeKindError
    from omnigraph.ops.merge_result import MergeOutcome, MergeResult
    from omnigraph.ops.mutate import MutationResult
    from omnigraph.ops.operations import Operations
    from omnigraph.ops.query import TargetAmbiguousError
    from omnigraph.ops.session import ReadOnlyError
    from omnigraph.ops.table import TypeMissingError
    from omnigraph.options import Durability, Options
    from omnigraph.query.params import ParameterError
    from omnigraph.runtime import Runtime
    from omnigraph.storage.blob_sources import BlobSourceError
    from omnigraph.storage.handles import PinUnreadableError
    from omnigraph.storage.objects import StoreDeniedError, StoreUnavailableError
    from omnigraph.storage.swap_errors import NewestVersionDamagedError
    from omnigraph.storage.uri import BadUriError

__all__ = [
    "AggregateOverflowError",
    "BadArgumentError",
    "BadBranchNameError",
    "BadFilterError",
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
    "Commit",
    "CommitMissingError",
    "ConflictError",
    "ConstraintError",
    "Diff",
    "Durability",
    "ExportFormat",
    "ExportTargetError",
    "Exported",
    "FencedError",
    "FormatRefusedError",
    "Graph",
    "KeyReusedError",
    "Kind",
    "LibraryMissingError",
    "LoadError",
    "LoadMode",
    "LoadResult",
    "ManifestCorruptError",
    "MergeBaseGoneError",
    "MergeOutcome",
    "MergeResult",
    "MutationResult",
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
    "Result",
    "RowMissingError",
    "Runtime",
    "Snapshot",
    "SourceError",
    "StoreDeniedError",
    "StoreUnavailableError",
    "TargetAmbiguousError",
    "TypeKindError",
    "TypeMissingError",
    "__version__",
    "create_graph",
    "open_graph",
]

__version__ = "0.1.0"

_HOMES = {
    "commit.ancestry": ("MergeBaseGoneError",),
    "commit.branch_errors": (
        "BadBranchNameError",
        "BranchExistsError",
        "BranchGoneError",
        "BranchHasChildrenError",
        "BranchMissingError",
        "BranchOutcomeUnknownError",
    ),
    "commit.manifest": ("FormatRefusedError", "ManifestCorruptError"),
    "commit.manifest_log": ("NotAGraphError", "OutcomeUnknownError"),
    "commit.plan": ("ConflictError",),
    "commit.records": ("Commit", "Pin", "PinChange", "Snapshot"),
    "commit.refs": ("CommitMissingError",),
    "commit.repeats": ("KeyReusedError",),
    "commit.sidecar": ("FencedError",),
    "config.environment": ("BadVariableError",),
    "config.opening": ("create_graph", "open_graph"),
    "engine.writing.violations": ("ConstraintError",),
    "engine.bulk.incoming": ("LoadMode",),
    "engine.bulk.refusals": ("LoadError",),
    "engine.budget": ("QueryCancelledError", "QueryMemoryError", "QueryTimeoutError"),
    "engine.output.grouping": ("AggregateOverflowError",),
    "engine.result": ("LibraryMissingError", "Result"),
    "errors": ("NotAMutationError", "NotAReadError", "QueryAmbiguousError", "QueryMissingError"),
    "engine.decoding.record_error": ("RecordError",),
    "graph": ("Graph",),
    "lang.diagnostics": ("SourceError",),
    "ops.arguments": ("BadArgumentError",),
    "ops.blob": ("BlobPropertyMissingError", "RowMissingError"),
    "ops.branch": ("Branch",),
    "ops.diff": ("Diff",),
    "ops.create": ("PlaceTakenError",),
    "ops.export": ("ExportFormat", "ExportTargetError", "Exported"),
    "ops.history": ("BadFilterError",),
    "ops.load_call": ("LoadResult",),
    "ops.load_inputs": ("TypeKindError",),
    "ops.merge_result": ("MergeOutcome", "MergeResult"),
    "ops.mutate": ("MutationResult",),
    "ops.operations": ("Operations",),
    "ops.query": ("TargetAmbiguousError",),
    "ops.session": ("ReadOnlyError",),
    "ops.table": ("TypeMissingError",),
    "query.params": ("ParameterError",),
    "options": ("Durability", "Options"),
    "runtime": ("Runtime",),
    "storage.blob_sources": ("BlobSourceError",),
    "storage.handles": ("PinUnreadableError",),
    "storage.objects": ("StoreDeniedError", "StoreUnavailableError"),
    "storage.swap_errors": ("NewestVersionDamagedError",),
    "storage.uri": ("BadUriError",),
}
"""Where each name is at home; a test holds this to `__all__` and to the imports for type checkers above."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """A public name, imported now and kept."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
