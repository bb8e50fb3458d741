"""What the ledger of a load reads: what is staged, and what is committed and matters, in pieces for tasks."""

from collections.abc import Mapping, Sequence

from omnigraph.engine.view import View
from omnigraph.spark.load.key_shuffle import Ledger, Rules, Unit
from omnigraph.spark.load.load_state import StagedLoad
from omnigraph.storage.fragment_writer import fragment_rows

COMMITTED_ROWS = 4_000_000
"""How many committed rows one task reads the keys of."""


def ledger_units(view: View, rules: Rules, staged: StagedLoad) -> tuple[list[Unit], int]:
    """What the ledger of an append or overwrite reads, and about how many keys that are."""
    return merge_units(view, rules, {name: staged.fragments(name) for name in rules.loaded}, [])


def merge_units(
    view: View, rules: Rules, staged: Mapping[str, Sequence[str]], gone: Sequence[Unit]
) -> tuple[list[Unit], int]:
    """What the ledger reads of these fragments by type, and about how many keys that are; `gone` go with them."""
    plan = Ledger(view.catalog, rules).plan()
    units: list[Unit] = [*gone]
    keys = 0
    for name, roles in plan.staged.items():
        texts = staged[name]
        units += [Unit(type=name, roles=tuple(sorted(roles)), staged=text) for text in texts]
        keys += len(roles) * sum(map(fragment_rows, texts))
    for name, roles in plan.committed.items():
        table = view.table(view.type(name))
        group: list[int] = []
        held = 0
        for fragment in table.fragments():
            if group and held + fragment.rows > COMMITTED_ROWS:
                units.append(Unit(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
                group, held = [], 0
            group.append(fragment.number)
            held += fragment.rows
            keys += len(roles) * (fragment.rows - fragment.deleted)
        if group:
            units.append(Unit(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
    return units, keys
