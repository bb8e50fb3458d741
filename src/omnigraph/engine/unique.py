"""`@unique`: no two rows hold the same values, in the batch, in what is pending and in what is committed."""

import pyarrow.compute as pc

from omnigraph.commit.requirement import ValuesAbsent, normalised, rows_holding
from omnigraph.engine.pending import PendingTable
from omnigraph.engine.violations import Findings, listed_ids, quoted
from omnigraph.schema.arrow import ID

_MOST_HOLDERS = 3


def check_unique(table: PendingTable, findings: Findings) -> None:
    """Every unique group of a type with pending rows; the rows with a null in a member are exempt."""
    rows = table.rows
    if not rows.num_rows:
        return
    own = table.superseded()
    for columns in table.type.unique:
        group = normalised(rows.select(list(dict.fromkeys([ID, *columns]))))
        for name in columns:
            group = group.filter(pc.is_valid(group.column(name)))
        if not group.num_rows:
            continue
        values = group.select(list(columns))
        committed = rows_holding(table.table, columns, values)
        holders: dict[tuple[object, ...], list[str]] = {}
        for part in (committed, group):
            for row_id, *held in zip(*(part.column(name).to_pylist() for name in (ID, *columns)), strict=True):
                if part is group or row_id not in own:
                    holders.setdefault(tuple(held), []).append(row_id)
        for held_values, ids in holders.items():
            if len(ids) > 1:
                message = f"@unique violation on {_place(table, columns)}: {_shown(held_values)} is held by "
                findings.add("unique", table.type.name, ids[-1], message + listed_ids(ids[:_MOST_HOLDERS]))
        # Rows that can't have been committed before are no one's own yet, so they need no naming.
        known = tuple(sorted({*table.known_ids, *table.deleted}))
        findings.requirements.append(
            ValuesAbsent(table_key=table.type.table_key, columns=columns, values=values, own_ids=known)
        )


def _place(table: PendingTable, columns: tuple[str, ...]) -> str:
    return f"{table.type.name}.{columns[0]}" if len(columns) == 1 else f"{table.type.name}({', '.join(columns)})"


def _shown(values: tuple[object, ...]) -> str:
    texts = [quoted(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
