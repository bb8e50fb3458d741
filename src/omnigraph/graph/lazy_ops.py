"""The verbs of a graph, each imported when it is first called: a process that reads does not load how to merge.

`verbs.merge` is the module `omnigraph.ops.merge`, so a method says `verbs.merge.merge(self._session, call)`. A new verb
needs its module in the list below, which is what type checkers and import-linter read; nothing here is imported for it.
What a signature names of such a module is imported for type checkers only, and quoted.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.ops import (
        auto_optimize,
        blob,
        branch,
        change_feed,
        check,
        cleanup,
        clone,
        create,
        damage_diagnosis,
        diff,
        embed,
        entity_history,
        explain,
        export,
        export_stream,
        graph_algorithms,
        history,
        indexes,
        load,
        load_arguments,
        load_branch,
        load_local,
        merge,
        merge_result,
        mutate,
        open_table,
        operations,
        optimize,
        optimize_table,
        recoveries,
        repair,
        revision,
        schema_apply,
        tag,
        verify,
    )

__all__ = [
    "auto_optimize",
    "blob",
    "branch",
    "change_feed",
    "check",
    "cleanup",
    "clone",
    "create",
    "damage_diagnosis",
    "diff",
    "embed",
    "entity_history",
    "explain",
    "export",
    "export_stream",
    "graph_algorithms",
    "history",
    "indexes",
    "load",
    "load_arguments",
    "load_branch",
    "load_local",
    "merge",
    "merge_result",
    "mutate",
    "open_table",
    "operations",
    "optimize",
    "optimize_table",
    "recoveries",
    "repair",
    "revision",
    "schema_apply",
    "tag",
    "verify",
]


if not TYPE_CHECKING:  # a type checker that saw this would take any name for a verb

    def __getattr__(name: str) -> ModuleType:
        """The module of a verb, imported now and kept."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
        module = globals()[name] = import_module(f"omnigraph.ops.{name}")
        return module
