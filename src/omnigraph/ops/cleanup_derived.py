"""Which objects that were derived from tables are of no more use: those of tables that no branch has."""

import re
from collections.abc import Iterable

from omnigraph.commit.collection import Journals
from omnigraph.ops.session import Session
from omnigraph.storage.collector import Rules, Sorted
from omnigraph.storage.layout import DERIVED, derived_key
from omnigraph.storage.objects import ObjectInfo

_NAME = re.compile(rf"{DERIVED}/(?:topology|words)-[0-9a-f]{{16}}")
"""How the kinds that are known here are called; others are left alone."""
MOST_FIELDS = 1_024
"""How many fields of a table may have words of their own; with more, some are derived again when they are asked for."""


def sort_derived(session: Session, journals: Journals, files: Iterable[ObjectInfo], rules: Rules) -> Sorted:
    """The objects of tables that are gone. One that is of use after all is derived again: nothing can be lost here."""
    used = _used(session, journals)
    garbage = (
        info for info in files if _NAME.fullmatch(info.key) and info.modified < rules.before and info.key not in used
    )
    return Sorted(tuple(garbage))


def _used(session: Session, journals: Journals) -> set[str]:
    """What may be derived from the newest state of every branch."""
    found: set[str] = set()
    for line in journals.live:
        snapshot = line.head.snapshot
        paths = {key: pin.path for key, pin in snapshot.pins.items()}
        found |= {derived_key("words", [path, str(number)]) for path in paths.values() for number in range(MOST_FIELDS)}
        catalog = session.catalog(snapshot)
        for edge in catalog.edges.values():
            tables = [edge.table_key, *(catalog.nodes[name].table_key for name in (edge.source, edge.target))]
            found.add(derived_key("topology", [paths[key] for key in tables if key in paths]))
    return found
