"""What the children of the crash tests of clones do."""

from dataclasses import replace

import omnigraph as og
from crash.jobs import armed

SLOWLY = {"concurrency": 1}
"""One file after the other, so that the n-th is always the same."""


def clone(source: str, target: str) -> None:
    """Clone, with faults."""
    runtime = armed()
    options = replace(runtime.options, upkeep=replace(runtime.options.upkeep, **SLOWLY))
    og.clone_graph(source, target, runtime=replace(runtime, options=options))


def back_up(source: str, target: str) -> None:
    """Back up with one backup to keep, with faults."""
    runtime = armed()
    options = replace(runtime.options, upkeep=replace(runtime.options.upkeep, **SLOWLY))
    og.back_up_graph(source, target, keep=1, runtime=replace(runtime, options=options))


def restore(source: str, target: str) -> None:
    """Restore the newest backup, with faults."""
    runtime = armed()
    options = replace(runtime.options, upkeep=replace(runtime.options.upkeep, **SLOWLY))
    og.restore_graph(source, target, runtime=replace(runtime, options=options))
