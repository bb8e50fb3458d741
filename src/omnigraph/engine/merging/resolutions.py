"""Read what a caller decided about each conflict of a merge, and check it against the conflicts that there are.

A list of resolutions is what `write_conflicts` returns, with each `take` filled in: first the three commits, then one
document for each conflict.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind
from omnigraph.errors import BadArgumentError
from omnigraph.schema.arrow import DST, END_NAMES, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import InvalidValue, from_json

BASE, VALUE = "base", "value"
DROP_EDGE, KEEP_NODE, DROP = "drop_edge", "keep_node", "drop"
STATES = ("base", "ours", "theirs")
_END_COLUMNS = {name: column for column, name in END_NAMES.items()}
_ABOUT = ("kind", "type", "id", "property")
_ROW_TAKES = ("ours", "theirs", BASE)
_Key = tuple[str, str, str | None, str | None]


@dataclass(slots=True)
class TypeChoices:
    """What was decided about the rows of one type. Keys are ids; a property is named by its column."""

    properties: dict[str, dict[str, tuple[str, object]]] = field(default_factory=dict)
    """By property and id, the state to take its value from, or `value` and the value."""
    rows: dict[str, tuple[str, Mapping[str, object]]] = field(default_factory=dict)
    """For rows that one side deleted, the state to take, or `value` and the properties to set."""
    kept: set[str] = field(default_factory=set)
    """Nodes to keep although one side deleted them."""
    dropped: set[str] = field(default_factory=set)
    """Rows to delete from the merged state."""
    edges: dict[str, frozenset[str]] = field(default_factory=dict)
    """For edges, by source, the only ones to keep."""
    values: dict[str, dict[str, object]] = field(default_factory=dict)
    """By id, properties to set in the merged state."""

    @property
    def has_edits(self) -> bool:
        """Whether rows of the merged state are changed or deleted."""
        return bool(self.dropped or self.edges or self.values)


def write_conflicts(states: Mapping[str, str], conflicts: Iterable[Conflict]) -> list[dict[str, Any]]:
    """Return the documents to decide about: the three commits, then each conflict with an empty `take`."""
    documents: list[dict[str, Any]] = [dict(states)]
    for conflict in conflicts:
        about = {"kind": conflict.kind.value, "type": _get_type_name(conflict), "id": conflict.id}
        values = {name: getattr(conflict, name) for name in STATES}
        documents.append({**about, "property": conflict.property, **values, "take": None})
    return documents


def read_states(documents: Sequence[object]) -> dict[str, str]:
    """Return the three commits that resolutions were made for.

    Raises:
        BadArgumentError: The first document does not name them.
    """
    first: object = documents[0] if documents else None
    states = dict(first) if isinstance(first, Mapping) else {}
    if set(states) != set(STATES) or not all(isinstance(commit, str) for commit in states.values()):
        raise BadArgumentError.bad_resolutions("line 1 has to name the three commits: base, ours and theirs")
    return {name: str(commit) for name, commit in states.items()}


def read_choices(
    documents: Sequence[object], conflicts: Sequence[Conflict], catalog: Catalog
) -> dict[str, TypeChoices]:
    """Return by type what was decided; each conflict must have exactly one resolution, which fits it.

    Raises:
        BadArgumentError: Resolutions are unknown, missing, contradict each other, or have a value that does not fit.
    """
    reader = _Reader(catalog)
    # One row may break two rules in the same properties.
    unresolved: dict[_Key, list[Conflict]] = {}
    for conflict in conflicts:
        unresolved.setdefault(_build_key(conflict), []).append(conflict)
    seen: dict[_Key, int] = {}
    for line, document in enumerate(documents[1:], start=2):
        read = reader.read_key(line, document)
        if read is None:
            continue
        key, resolution = read
        if key not in unresolved:
            reader.reject(line, f"there is no such conflict: {_format_key(key)}")
        # Resolved conflicts leave an empty list, which tells a second line about one from a line about none.
        elif not unresolved[key]:
            reader.reject(line, f"line {seen[key]} is about the same conflict")
        else:
            shown = [number for number, conflict in enumerate(unresolved[key]) if not _list_stale(conflict, resolution)]
            reader.read_take(line, unresolved[key].pop(shown[0] if shown else 0), resolution)
        seen.setdefault(key, line)
    missing = [key for key, conflicts_left in unresolved.items() for _ in conflicts_left]
    reader.problems += [f"no line resolves {_format_key(key)}" for key in missing]
    reader.check_contradictions()
    if reader.problems:
        texts = reader.problems[:MAX_REPORTED_PROBLEMS]
        more = len(reader.problems) - len(texts)
        raise BadArgumentError.bad_resolutions("\n".join([*texts, *([f"and {more} more"] if more else [])]))
    return reader.types


def _build_key(conflict: Conflict) -> _Key:
    return conflict.kind.value, _get_type_name(conflict), conflict.id, conflict.property


def _get_type_name(conflict: Conflict) -> str:
    return conflict.table.partition(":")[2]


def _format_key(key: _Key) -> str:
    kind, type_name, row_id, name = key
    prop = "" if name is None else f".{name}"
    return f"{kind} of {type_name}{prop}" + ("" if row_id is None else f" `{row_id}`")


class _Reader:
    """Collects the choices, and what is wrong with them."""

    def __init__(self, catalog: Catalog) -> None:
        self.types: dict[str, TypeChoices] = {}
        self.problems: list[str] = []
        self._catalog = catalog
        # By row, the lines that delete it, and those that keep it.
        self._drops: dict[tuple[str, str], int] = {}
        self._keeps: dict[tuple[str, str], int] = {}
        self._set: dict[tuple[str, str, str], tuple[int, object]] = {}

    def reject(self, line: int, problem: str) -> None:
        """Record what is wrong with a line."""
        self.problems.append(f"line {line}: {problem}")

    def read_key(self, line: int, document: object) -> tuple[_Key, Mapping[str, Any]] | None:
        """Return which conflict a document is about, and the document; None, after noting why, if it does not say."""
        if not isinstance(document, Mapping) or not {*_ABOUT, "take"} <= set(document):
            self.reject(line, "a resolution has kind, type, id, property and take")
            return None
        kind, type_name, row_id, name = (document[key] for key in _ABOUT)
        for value in (row_id, name):
            if value is not None and not isinstance(value, str):
                self.reject(line, f"{value!r} is no id or property")
                return None
        return (str(kind), str(type_name), row_id, name), document

    def read_take(self, line: int, conflict: Conflict, document: Mapping[str, Any]) -> None:
        """Record what a document decides about a conflict."""
        # Branches may have moved since the conflicts were written: a decision holds for the values that were shown.
        stale = _list_stale(conflict, document)
        if stale:
            self.reject(
                line, f"`{stale[0]}` is not the value of that state, so this was decided about another conflict"
            )
            return
        given = document["take"]
        has_value = isinstance(given, Mapping) and set(given) == {VALUE}
        take, value = (VALUE, given[VALUE]) if has_value else (given, None)
        allowed = _list_takes(conflict)
        if not isinstance(take, str) or take not in allowed:
            problem = "nothing is taken yet" if take is None else f"`{take}` can't be taken"
            self.reject(line, f"{problem}: {_format_key(_build_key(conflict))} takes {_format_takes(allowed)}")
            return
        type_ = self._catalog.find_type(_get_type_name(conflict))
        assert type_ is not None  # noqa: S101 - what can be taken excludes schemas
        choices = self.types.setdefault(type_.name, TypeChoices())
        if conflict.kind.is_of_rows:
            self._read_row_take(line, conflict, type_, choices, take, value)
        else:
            self._read_rule_take(line, conflict, type_, choices, take, value)

    def _read_row_take(
        self, line: int, conflict: Conflict, type_: AnyType, choices: TypeChoices, take: str, value: object
    ) -> None:
        """Record a choice about a row that both sides changed."""
        row_id = str(conflict.id)
        if conflict.property is not None:
            column = _to_column(type_, conflict.property)
            if take == BASE and (conflict.kind is ConflictKind.DIVERGENT_INSERT or _is_blob(type_, column)):
                self.reject(line, "the base has no value to take")
            elif take != VALUE or self._check_value(line, type_, column, value):
                choices.properties.setdefault(column, {})[row_id] = take, value
                if take == VALUE:
                    self._note_value(line, type_, row_id, column, value)
            return
        deleter = "ours" if conflict.ours is None else "theirs"
        changed = conflict.theirs if deleter == "ours" else conflict.ours
        columns = [_to_column(type_, name) for name in (changed if isinstance(changed, Mapping) else {})]
        properties: dict[str, object] = {}
        if take == VALUE:
            read = self._read_properties(line, type_, value)
            if read is None:
                return
            properties = read
        if take == BASE and (conflict.base is None or any(_is_blob(type_, column) for column in columns)):
            self.reject(line, "what the base had is not known here: take one of the sides, or a value")
            return
        (self._drops if take == deleter else self._keeps).setdefault((type_.name, row_id), line)
        choices.rows[row_id] = take, properties

    def _read_rule_take(
        self, line: int, conflict: Conflict, type_: AnyType, choices: TypeChoices, take: str, value: object
    ) -> None:
        """Record a choice about a row that breaks a rule of the merged state."""
        row_id = str(conflict.id)
        if take == KEEP_NODE:
            assert isinstance(type_, EdgeType)  # noqa: S101 - only edges have ends
            node = type_.source if conflict.property == END_NAMES[SRC] else type_.target
            self.types.setdefault(node, TypeChoices()).kept.add(str(conflict.other_id))
            self._keeps.setdefault((node, str(conflict.other_id)), line)
            self._keeps.setdefault((type_.name, row_id), line)
        elif conflict.kind is ConflictKind.CARDINALITY_VIOLATION:
            kept = [] if take == DROP else value
            if not isinstance(kept, list) or not all(isinstance(edge_id, str) for edge_id in kept):
                self.reject(line, "the value of a CardinalityViolation is the list of ids of the edges to keep")
                return
            choices.edges[row_id] = frozenset(kept)
        elif take == VALUE:
            document = value if conflict.property is None else {conflict.property: value}
            properties = self._read_properties(line, type_, document)
            for name, item in (properties or {}).items():
                choices.values.setdefault(row_id, {})[name] = item
                self._note_value(line, type_, row_id, name, item)
            self._keeps.setdefault((type_.name, row_id), line)
        else:
            choices.dropped.add(row_id)
            self._drops.setdefault((type_.name, row_id), line)

    def _read_properties(self, line: int, type_: AnyType, value: object) -> dict[str, object] | None:
        """Return the properties of a value that is an object; None, after noting why, if one does not fit."""
        if not isinstance(value, Mapping) or not value:
            self.reject(line, "the value is an object of properties here")
            return None
        columns = {_to_column(type_, str(name)): item for name, item in value.items()}
        # Every value is checked, so that all problems of the line are noted.
        checked = [self._check_value(line, type_, column, item) for column, item in columns.items()]
        return columns if all(checked) else None

    def _check_value(self, line: int, type_: AnyType, column: str, value: object) -> bool:
        """Return whether a property can take a value; note why not."""
        name = END_NAMES.get(column, column)
        if isinstance(type_, EdgeType) and column in (SRC, DST):
            is_valid = isinstance(value, str) and column not in type_.key
            if not is_valid:
                self.reject(line, f"`{name}` takes the id of a node, and can't be changed where it is part of the key")
            return is_valid
        prop = type_.find_property(column)
        if prop is None or column in type_.key or prop.type is Scalar.BLOB:
            reason = "is part of the key" if column in type_.key else "is a Blob"
            reason = f"{type_.name} has no property `{name}`" if prop is None else f"`{name}` {reason}"
            self.reject(line, f"{reason}, so that it can't be set here")
            return False
        fitting = from_json(prop.type, value, nullable=prop.nullable)
        if isinstance(fitting, InvalidValue):
            self.reject(line, f"`{name}` of {type_.name} can't have this value: {fitting.reason}")
            return False
        return True

    def _note_value(self, line: int, type_: AnyType, row_id: str, column: str, value: object) -> None:
        earlier = self._set.setdefault((type_.name, row_id, column), (line, value))
        if earlier[1] != value:
            self.reject(line, f"line {earlier[0]} gives `{column}` of the same row another value")

    def check_contradictions(self) -> None:
        """Record the rows that one line keeps and another one deletes."""
        for row, line in self._drops.items():
            if row in self._keeps:
                self.reject(line, f"it deletes {row[0]} `{row[1]}`, which line {self._keeps[row]} keeps")


def _is_blob(type_: AnyType, column: str) -> bool:
    prop = type_.find_property(column)
    return prop is not None and prop.type is Scalar.BLOB


def _to_column(type_: AnyType, name: str) -> str:
    return _END_COLUMNS.get(name, name) if isinstance(type_, EdgeType) else name


def _list_stale(conflict: Conflict, document: Mapping[str, Any]) -> list[str]:
    """Return the states of which a document shows other values than the conflict."""
    return [name for name in STATES if name in document and not _is_same(document[name], getattr(conflict, name))]


def _is_same(given: object, value: object) -> bool:
    """Return whether two values have the same JSON, but for how a number is written: some tools make 1 of 1.0."""
    # As JSON, and with sorted keys: a document that was edited and saved may have them in another order.
    encode = msgspec.json.Encoder(order="deterministic").encode
    try:
        return given == value or encode(given) == encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        # JSON can hold a lone surrogate or a number of any size, and a caller any object; a conflict has none.
        return False


def _list_takes(conflict: Conflict) -> tuple[str, ...]:
    """Return what can be taken for a conflict; nothing resolves a difference of schemas."""
    if conflict.kind.is_of_rows:
        return (*_ROW_TAKES, VALUE)
    if conflict.kind is ConflictKind.ORPHAN_EDGE:
        return (DROP_EDGE, KEEP_NODE)
    return () if conflict.kind is ConflictKind.SCHEMA_DIVERGENCE else (DROP, VALUE)


def _format_takes(allowed: Iterable[str]) -> str:
    texts = ['{"value": …}' if take == VALUE else f'"{take}"' for take in allowed]
    return " or ".join(texts) if texts else "nothing: apply one side's schema to the other"
