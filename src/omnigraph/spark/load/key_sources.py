"""What the ledger of a load reads: what is staged, and what is committed and matters, in pieces for tasks."""

from collections.abc import Mapping, Sequence

from omnigraph.engine.view import View
from omnigraph.spark.load.key_shuffle import KeyRules, KeyShufflePlan, KeySource
from omnigraph.spark.load.load_state import StagedLoad
from omnigraph.storage.fragment_writer import count_fragment_rows

MAX_COMMITTED_ROWS = 4_000_000
"""How many committed rows one task reads the keys of."""


def plan_key_sources(view: View, rules: KeyRules, staged: StagedLoad) -> tuple[list[KeySource], int]:
    """What the ledger of an append or overwrite reads, and about how many keys that are."""
    return plan_merge_key_sources(view, rules, {name: staged.list_fragments(name) for name in rules.loaded}, [])


def plan_merge_key_sources(
    view: View, rules: KeyRules, staged: Mapping[str, Sequence[str]], gone: Sequence[KeySource]
) -> tuple[list[KeySource], int]:
    """What the ledger reads of these fragments by type, and about how many keys that are; `gone` go with them."""
    plan = KeyShufflePlan(view.catalog, rules).plan()
    units: list[KeySource] = [*gone]
    keys = 0
    for name, roles in plan.staged.items():
        texts = staged[name]
        units += [KeySource(type=name, roles=tuple(sorted(roles)), staged=text) for text in texts]
        keys += len(roles) * sum(map(count_fragment_rows, texts))
    for name, roles in plan.committed.items():
        table = view.get_table(view.get_type(name))
        group: list[int] = []
        held = 0
        for fragment in table.list_fragments():
            if group and held + fragment.rows > MAX_COMMITTED_ROWS:
                units.append(KeySource(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
                group, held = [], 0
            group.append(fragment.number)
            held += fragment.rows
            keys += len(roles) * (fragment.rows - fragment.deleted)
        if group:
            units.append(KeySource(type=name, roles=tuple(sorted(roles)), committed=tuple(group)))
    return units, keys
