"""Random edits of a branch, made on a graph and on a model of dictionaries alike."""

from typing import Any

from hypothesis import strategies as st

import omnigraph as og
from merge_model import COLUMNS, ENDS, State, broken, ends_of
from merging import Contents, change, run

NODES, PAIRS = ("a", "b", "c", "e"), (("a", "b"), ("b", "c"), ("a", "a"), ("c", "e"))
CITIES, OWNED = ("x", "y", "z"), (("a", "x"), ("b", "x"), ("a", "y"), ("e", "z"))
EDGES = st.one_of(
    st.tuples(st.just("Knows"), st.sampled_from(PAIRS)),
    st.tuples(st.just("Owns"), st.sampled_from(OWNED)),
)
ROWS = st.one_of(
    st.tuples(st.just("P"), st.sampled_from(NODES)), st.tuples(st.just("C"), st.sampled_from(CITIES)), EDGES
)
EDIT = st.one_of(
    st.tuples(st.just("put"), ROWS, st.integers(0, 2), st.integers(2, 3)),
    st.tuples(st.just("drop"), ROWS),
)


def copied(state: State) -> State:
    """Return a copy of a state that can be edited."""
    return {kind: {key: dict(one) for key, one in rows.items()} for kind, rows in state.items()}


def apply_edit(graph: og.Graph, branch: str, state: State, edit: tuple[Any, ...]) -> None:
    """Make one edit of the branch and of the model; what is not there is inserted, what can't be is left out."""
    kind, named = edit[1]
    key = named if kind in "PC" else ">".join(named)
    where = {"name": named} if kind in "PC" else {"from_": named[0], "to": named[1]}
    match edit:
        case ("put", _, place, value):
            prop, known = COLUMNS[kind][place % len(COLUMNS[kind])], key in state[kind]
            found = {**state, kind: {**state[kind], key: {**state[kind].get(key, dict.fromkeys(COLUMNS[kind]))}}}
            found[kind][key][prop] = f"e{value}" if prop == "email" else value
            if broken(found):
                return
            state[kind] = found[kind]
            given = ", ".join(f'{name.rstrip("_")}: "{text}"' for name, text in where.items())
            said = f'"e{value}"' if prop == "email" else value
            fresh = f"insert {kind} {{ {given}, {prop}: {said} }}"
            run(graph, change(kind, prop, said, **where) if known else fresh, branch)
        case ("drop", _) if key in state[kind]:
            del state[kind][key]
            for edge in ENDS:
                state[edge] = {one: row for one, row in state[edge].items() if (kind, key) not in ends_of(edge, one)}
            chosen = " and ".join(f'{name.rstrip("_")} = "{text}"' for name, text in where.items())
            run(graph, f"delete {kind} where {chosen}", branch)
        case _:
            pass


def as_model(found: Contents) -> State:
    """Return the rows of a branch as the model has them."""
    return {
        kind: {
            one["name"] if kind in "PC" else f"{one['src']}>{one['dst']}": {name: one[name] for name in names}
            for one in found[kind].values()
        }
        for kind, names in COLUMNS.items()
    }
