"""Edges that a repair would leave without a node: told before it is done, and never removed by it."""

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.checking.edge_integrity import check_ends
from omnigraph.engine.view import View
from omnigraph.ops.repair_plan import Remedy, TableRepairPlan
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.integrity_check import translate_damage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.salvage import PartialTable

_MOVING_REMEDIES = (Remedy.EARLIER_VERSION, Remedy.WITHOUT_ROWS, Remedy.EMPTY_TABLE)


def find_dangling_edges(
    session: Session, snapshot: Snapshot, catalog: Catalog, plans: Mapping[str, TableRepairPlan]
) -> dict[str, tuple[str, ...]]:
    """By the key of a table that is repaired, what is said of edges whose ends are missing once all of that is done.

    A table that can't be read and is not repaired has no edges to speak of.
    """
    after = dict(snapshot.manifest.pins)
    after |= {key: plan.target for key, plan in plans.items() if plan.target is not None}
    emptied = {key for key, plan in plans.items() if plan.target is None}
    planned = replace(snapshot, manifest=replace(snapshot.manifest, pins=after))
    view = View(catalog, _PlannedTables(session, planned, plans))
    found: dict[str, list[str]] = {}
    for edge in catalog.edges.values():
        moving = [key for key in _list_table_keys(edge) if key in plans and plans[key].remedy in _MOVING_REMEDIES]
        if not moving or edge.table_key in emptied:
            continue
        for message in _find_broken(view, edge, emptied, session):
            found.setdefault(moving[0], []).append(message)
    return {key: tuple(messages) for key, messages in found.items()}


class _PlannedTables(SnapshotTables):
    """The tables of a snapshot as they will be, without the rows that are left out."""

    def __init__(self, session: Session, snapshot: Snapshot, plans: Mapping[str, TableRepairPlan]) -> None:
        super().__init__(session.handles, snapshot, session.watch)
        self._lost = {key: plan.lost_fragments for key, plan in plans.items() if plan.lost_fragments}

    def open_table(self, table_key: str) -> LanceTable:
        """Return the table as it will be."""
        found = super().open_table(table_key)
        lost = self._lost.get(table_key)
        return found if lost is None else PartialTable(found.handles, found.path, found.version, lost)


def _list_table_keys(edge: EdgeType) -> tuple[str, ...]:
    return f"node:{edge.source}", f"node:{edge.target}", edge.table_key


def _find_broken(view: View, edge: EdgeType, emptied: set[str], session: Session) -> list[str]:
    table = view.get_table(edge)
    try:
        with translate_damage(table.path):
            if emptied & set(_list_table_keys(edge)):
                rows = table.count()
                return [f"every edge of {edge.name} ({rows:,}) without a node"] if rows else []
            found = check_ends(view, edge, on_progress=lambda _: session.check_cancelled())
            broken = [one for one in found if one.rule == "end_missing"]
    except DamagedError:
        return []  # it is not repaired, so nothing of it can be read either way
    return [
        f"{one.count:,} ends of {edge.name} without a node, such as {'; '.join(one.examples[:2])}" for one in broken
    ]
