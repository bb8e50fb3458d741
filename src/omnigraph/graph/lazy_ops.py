"""Import the modules of `ops` lazily, each on first use: a process that only reads does not import merging.

`lazy_ops.merge` is the module `omnigraph.ops.merge`, so a method calls `lazy_ops.merge.merge(self._session, call)`. A
new operation needs its module in both lists below. Type checkers and import-linter read the first one, which is never
executed. Types of such modules in signatures are quoted, and imported for type checkers only.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.ops import (
        auto_maintenance,
        backup,
        backup_restore,
        blob,
        branch,
        catalog_report,
        change_feed,
        check,
        cleanup,
        clone,
        complete,
        create,
        cypher,
        damage_diagnosis,
        diff,
        embed,
        entity_history,
        explain,
        export,
        export_stream,
        find_entities,
        graph_algorithms,
        graph_views,
        history,
        indexes,
        lint,
        load,
        load_arguments,
        load_branch,
        load_local,
        merge,
        merge_result,
        mutate,
        neighbours,
        open_table,
        operations,
        optimize,
        optimize_table,
        permissions,
        query_window,
        recoveries,
        repair,
        reset,
        revision,
        schema_apply,
        snapshot_reader,
        sql,
        tag,
        undo,
        verify,
    )

__all__ = [
    "auto_maintenance",
    "backup",
    "backup_restore",
    "blob",
    "branch",
    "catalog_report",
    "change_feed",
    "check",
    "cleanup",
    "clone",
    "complete",
    "create",
    "cypher",
    "damage_diagnosis",
    "diff",
    "embed",
    "entity_history",
    "explain",
    "export",
    "export_stream",
    "find_entities",
    "graph_algorithms",
    "graph_views",
    "history",
    "indexes",
    "lint",
    "load",
    "load_arguments",
    "load_branch",
    "load_local",
    "merge",
    "merge_result",
    "mutate",
    "neighbours",
    "open_table",
    "operations",
    "optimize",
    "optimize_table",
    "permissions",
    "query_window",
    "recoveries",
    "repair",
    "reset",
    "revision",
    "schema_apply",
    "snapshot_reader",
    "sql",
    "tag",
    "undo",
    "verify",
]


# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        """Import a module of `ops`."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
        # From now on the name is found without this function.
        module = globals()[name] = import_module(f"omnigraph.ops.{name}")
        return module
