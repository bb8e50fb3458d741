"""Guess a schema from files: types, keys, edges, and the mapping that loads the same files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from omnigraph.engine.decoding.input_files import COMPRESSED
from omnigraph.engine.importing.column_types import ColumnEvidence, ColumnKind
from omnigraph.engine.importing.csv_dialect import Cell
from omnigraph.engine.importing.graph_records import format_text
from omnigraph.engine.importing.graph_spool import join_parts
from omnigraph.engine.importing.mapping import SourceMapping, ValueForms, format_mapping
from omnigraph.engine.importing.source_tables import SourceTable, is_null
from omnigraph.errors import BadArgumentError
from omnigraph.lang.cursor import capitalize_name, decapitalize_name
from omnigraph.lang.literals import BASE_TYPES
from omnigraph.lang.spelling import find_closest

_END_NAMES = (("from", "to"), ("src", "dst"), ("source", "target"))
_RESERVED = frozenset({"id", "src", "dst", "from", "to"})
_KEY_KINDS = frozenset({ColumnKind.TEXT, ColumnKind.WHOLE})
_MAX_NAME = 200
_NO_KEY = "// No column is a key: ids are made, and a merge adds the rows again."


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredSchema:
    """A schema, and the mapping that loads the files it was inferred from."""

    source: str
    mappings: tuple[SourceMapping, ...]
    findings: tuple[str, ...] = ()
    """What does not fit a typed graph as it is, with counts: several labels, values of two types, several ends."""
    headers: tuple[str, ...] = ()
    """Files that hold nothing but the header of others, with which they are loaded."""

    @property
    def mapping(self) -> str:
        """The mapping as a TOML file."""
        return format_mapping(self.mappings)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A table on its way to a type."""

    table: SourceTable
    forms: ValueForms
    type: str
    is_edge: bool | None
    """None until it is decided."""
    stated_key: tuple[str, ...] = ()
    """The columns that the call names as the key."""
    columns: list[ColumnEvidence] = field(default_factory=list)
    rows: int = 0
    key: str | None = None
    """The column of the key."""
    keys: set[str] = field(default_factory=set)
    """The texts of the key, which are the ids of the rows."""
    composite: tuple[str, ...] = ()
    """The columns of a primary key of several."""
    ends: tuple[tuple[str, "_Draft"], ...] = ()
    """The columns of the ends of an edge, and what they lead to."""
    links: list[tuple[str, "_Draft"]] = field(default_factory=list)
    """The columns that become edges from the row."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that are said to be the key, by a call or by the database."""
        return self.stated_key or self.table.primary_key


def infer_schema(
    tables: Sequence[SourceTable],
    forms: ValueForms,
    *,
    nodes: Mapping[str, str],
    edges: Mapping[str, str],
    keys: Mapping[str, Sequence[str]],
    has_enums: bool = False,
) -> InferredSchema:
    """Infer a schema from all rows of some tables; `nodes` and `edges` name types by the path of their file.

    `keys` are the columns of the keys of types whose key is not to be guessed.

    Raises:
        BadArgumentError: A file is said to hold edges, and its ends can't be found; or columns are no key.
    """
    taken: set[str] = set()
    drafts = [_start_draft(table, forms, nodes, edges, taken) for table in join_parts(tables, {**nodes, **edges})]
    _take_keys(drafts, keys)
    for draft in drafts:
        _read_columns(draft)
        _refuse_false_key(draft)
    for draft in drafts:
        _find_ends(draft, drafts)
    for draft in drafts:
        if not draft.is_edge and not draft.table.is_graph:
            _find_links(draft, drafts)
    texts: list[str] = []
    mappings: list[SourceMapping] = []
    for draft in sorted(drafts, key=lambda draft: bool(draft.is_edge)):
        names = _name_properties(draft)
        texts.append(_print_type(draft, names, has_enums=has_enums))
        mappings += [_map_columns(draft, names, part) for part in draft.table.parts or (draft.table,)]
    for draft in drafts:
        for column, other in draft.links:
            name = _claim(f"{draft.type}{capitalize_name(_clean(_strip_id(column)))}", taken)
            texts.append(
                f"// From the column `{column}` of {draft.type}, whose values are keys of {other.type}.\n"
                f"edge {name}: {draft.type} -> {other.type} {{\n    @key(src, dst)\n}}\n"
            )
            parts = draft.table.parts or (draft.table,)
            mappings += [_map_link(draft, column, name, part) for part in parts if column in part.columns]
    findings = dict.fromkeys(note for draft in drafts for note in (*draft.table.notes, *_describe_kinds(draft)))
    return InferredSchema(source="\n".join(texts), mappings=tuple(mappings), findings=tuple(findings))


def _describe_kinds(draft: _Draft) -> Iterator[str]:
    """Yield a line for each property of a graph whose values have several types."""
    for column in draft.columns if draft.table.is_graph else ():
        if len(column.kinds) > 1:
            yield f"{draft.type}.{column.name} has values of several types: {_count_kinds(column)}"


def _count_kinds(column: ColumnEvidence) -> str:
    return ", ".join(f"{kind.value} {count:,}" for kind, count in column.kinds.most_common())


def _start_draft(
    table: SourceTable, forms: ValueForms, nodes: Mapping[str, str], edges: Mapping[str, str], taken: set[str]
) -> _Draft:
    path = str(table.path)
    given = None if table.is_graph else edges.get(path) or nodes.get(path)
    stem = table.title or table.table or _strip_endings(table.path.name)
    name = _claim(given or capitalize_name(_clean(stem)), taken)
    is_edge = path in edges if path in edges or path in nodes else None
    if table.is_graph:
        is_edge = not table.primary_key
    return _Draft(table=table, forms=forms, type=name, is_edge=is_edge)


def _take_keys(drafts: Sequence[_Draft], keys: Mapping[str, Sequence[str]]) -> None:
    """Set the keys that the call names."""
    by_type = {draft.type: draft for draft in drafts}
    for type_, columns in keys.items():
        draft = by_type.get(type_)
        if draft is None:
            near = find_closest(type_, by_type)
            hint = f"did you mean `{near}`?" if near else f"the types are {', '.join(by_type)}"
            raise BadArgumentError("key", f"`{type_}`", f"no file has this type; {hint}")
        unknown = [column for column in columns if column not in draft.table.columns]
        if unknown or not columns:
            near = find_closest(unknown[0], draft.table.columns) if unknown else None
            hint = f"did you mean `{near}`?" if near else f"it has {', '.join(f'`{c}`' for c in draft.table.columns)}"
            raise BadArgumentError("key", f"`{', '.join(unknown)}`", f"{draft.table.name} has no such column; {hint}")
        draft.stated_key = tuple(columns)


def _refuse_false_key(draft: _Draft) -> None:
    """Refuse a key that the call names and that the rows do not have.

    Raises:
        BadArgumentError: Its values repeat, are missing, or are of a type that no key has.
    """
    if draft.stated_key and (draft.composite or (draft.key or "",)) != draft.stated_key:
        columns = ", ".join(f"`{column}`" for column in draft.stated_key)
        reason = "a key needs texts or whole numbers that every row has and no two rows share"
        raise BadArgumentError("key", columns, f"in {draft.table.name} it is no key: {reason}")


def _strip_endings(name: str) -> str:
    path = PurePath(name)
    return PurePath(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def _clean(text: str) -> str:
    """Return a text with only letters, digits and `_`, as names have them, starting with a letter."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_MAX_NAME] or "x"
    return name if name[0].isalpha() else f"x{name}"


def _claim(name: str, taken: set[str]) -> str:
    """Return a name for a type that no other one has in any case, nor a base type."""
    base = f"{name}Row" if name in BASE_TYPES or name in ("Vector", "Enum") else name
    free = base
    number = 1
    while free.lower() in taken:
        number += 1
        free = f"{base}{number}"
    taken.add(free.lower())
    return free


def _strip_id(column: str) -> str:
    return re.sub(r"(?i)[_ -]?ids?$", "", column) or column


# --- reading -----------------------------------------------------------------------------------------


def _read_columns(draft: _Draft) -> None:
    """Read all rows once: the kinds of the columns, and the values of those that could be a key."""
    draft.columns = [ColumnEvidence(name, draft.forms) for name in draft.table.columns]
    candidates = {column: set[str]() for column in _list_key_candidates(draft)}
    composite = draft.primary_key if len(draft.primary_key) > 1 else ()
    places = [draft.table.columns.index(column) for column in composite]
    # As texts they may be equal where the database tells a number from its text.
    combined: set[tuple[str, ...]] = set()
    for _, values in draft.table.read():
        draft.rows += 1
        for column, value in zip(draft.columns, values, strict=True):
            if is_missing(value, draft.forms):
                column.nulls += 1
                candidates.pop(column.name, None)
                continue
            column.add(value)
            texts = candidates.get(column.name)
            if texts is not None:
                text = get_text(value)
                # A value that comes twice, or an id that is empty, is no key.
                if text in texts or not text:
                    del candidates[column.name]
                else:
                    texts.add(text)
        combined.add(tuple(get_text(values[place]) for place in places))
    by_name = {column.name: column for column in draft.columns}
    for name in draft.table.primary_key if draft.table.is_graph else ():
        # Ids of nodes are keys, also those that look like dates.
        if by_name[name].resolved not in _KEY_KINDS:
            by_name[name].kind = ColumnKind.TEXT
    is_key = all(by_name[name].resolved in _KEY_KINDS and not by_name[name].nulls for name in composite)
    if composite and is_key and draft.rows and len(combined) == draft.rows:
        draft.composite = composite
        return
    for name, texts in candidates.items():
        # The id of `1.234` would be 1234, and what refers to it as it is written would find nothing.
        is_grouped = by_name[name].resolved is ColumnKind.WHOLE and any(
            draft.forms.normalize_number(text) != text for text in texts
        )
        if by_name[name].resolved in _KEY_KINDS and draft.rows and not is_grouped:
            draft.key, draft.keys = name, texts
            return


def get_text(value: object) -> str:
    """Return the text of a value, as the id of a row has it."""
    return value.text if isinstance(value, Cell) else format_text(value)


def is_missing(value: object, forms: ValueForms) -> bool:
    """Return whether a value is null."""
    return is_null(value, forms.nulls)


def _list_key_candidates(draft: _Draft) -> Iterator[str]:
    """Yield the columns that may be the key, likeliest first."""
    by_name = {_clean(column).lower(): column for column in reversed(draft.table.columns)}
    primary = draft.primary_key[0] if len(draft.primary_key) == 1 else None
    if primary is not None:
        yield primary
    if draft.stated_key:
        return
    type_ = draft.type.lower()
    for name in ("id", f"{type_}_id", f"{type_}id", "key", "uuid", "code", "name"):
        if name in by_name and by_name[name] != primary:
            yield by_name[name]


# --- edges -------------------------------------------------------------------------------------------


def _find_ends(draft: _Draft, drafts: Sequence[_Draft]) -> None:
    """Find out whether a table holds edges: by its foreign keys, or by columns whose names say so."""
    if draft.is_edge is False:
        return
    by_name = {column.lower(): column for column in draft.table.columns}
    foreign = draft.table.foreign_keys
    pairs = [(by_name[left], by_name[right]) for left, right in _END_NAMES if left in by_name and right in by_name]
    if len(foreign) == 2:
        pairs.insert(0, (foreign[0].column, foreign[1].column))
    for pair in pairs:
        ends = [(column, _find_target(draft, column, drafts)) for column in pair]
        if all(other is not None for _, other in ends):
            draft.ends = tuple((column, other) for column, other in ends if other is not None)
            draft.is_edge = True
            draft.key, draft.keys = None, set()
            return
    if draft.is_edge:
        names = ", ".join(f"`{column}`" for pair in pairs for column in pair) or "`from` and `to`"
        expected = f"an edge needs two columns, {names}, whose values are keys of the other files"
        raise BadArgumentError("edge", f"`{draft.table.name}`", expected)
    draft.is_edge = False


def _find_target(draft: _Draft, column: str, drafts: Sequence[_Draft]) -> _Draft | None:
    """Return the type whose keys all values of a column are; none may be missing."""
    named = {key.column: key.table for key in draft.table.foreign_keys}
    candidates = [other for other in drafts if other is not draft and other.keys]
    if column in named:
        candidates = [other for other in candidates if other.table.table == named[column]]
    stripped = _clean(_strip_id(column)).lower()
    # A type that the column is called after comes first.
    candidates.sort(key=lambda other: other.type.lower() != stripped)
    texts = _read_texts(draft, column)
    return None if None in texts or not texts else _first_with(candidates, texts)


def _first_with(candidates: Iterable[_Draft], texts: set[str | None]) -> _Draft | None:
    return next((other for other in candidates if texts <= other.keys), None)


def _read_texts(draft: _Draft, column: str) -> set[str | None]:
    index = draft.table.columns.index(column)
    return {
        None if is_missing(values[index], draft.forms) else get_text(values[index]) for _, values in draft.table.read()
    }


def _find_links(draft: _Draft, drafts: Sequence[_Draft]) -> None:
    """Find columns of a node that lead to other nodes: foreign keys, or columns called after a type or its key."""
    foreign = {key.column: key.table for key in draft.table.foreign_keys}
    for column in draft.table.columns:
        others = [other for other in drafts if other.keys and not other.is_edge]
        if column in foreign:
            targets = [other for other in others if other.table.table == foreign[column]]
        elif column == draft.key:
            continue
        else:
            name = _clean(_strip_id(column)).lower()
            targets = [other for other in others if other is not draft and other.type.lower() in (name, f"{name}s")]
            targets += [
                other
                for other in others
                if other is not draft and other.key == column and column.lower() not in ("id", "name", "code", "key")
            ]
        texts = _read_texts(draft, column) - {None} if targets and draft.key is not None else set()
        target = _first_with(targets, texts) if texts else None
        if target is not None:
            draft.links.append((column, target))


# --- writing -----------------------------------------------------------------------------------------


def _name_properties(draft: _Draft) -> dict[str, str | None]:
    """Return the property of each column; None for those that are edges."""
    links = {column for column, _ in draft.links}
    ends = dict(zip((column for column, _ in draft.ends), ("from", "to"), strict=False))
    used: set[str] = set()
    names: dict[str, str | None] = {}
    for column in draft.table.columns:
        if column in ends:
            names[column] = ends[column]
        elif column in links:
            names[column] = None
        else:
            names[column] = _name_property(draft, column, used)
    return names


def _name_property(draft: _Draft, column: str, used: set[str]) -> str:
    is_usual = re.fullmatch(r"[a-z][A-Za-z0-9_]*", column) is not None and len(column) <= _MAX_NAME
    cleaned = column if is_usual else _clean(column)
    # `First Name` is first_name; `FirstName` stays readable as firstName.
    name = cleaned.lower() if "_" in cleaned and not is_usual else cleaned
    name = name if is_usual else decapitalize_name(name)
    if name in _RESERVED:
        name = f"{draft.type[0].lower()}{draft.type[1:]}_{name}"
    free = name
    number = 1
    while free in used:
        number += 1
        free = f"{name}_{number}"
    used.add(free)
    return free


def _print_type(draft: _Draft, names: Mapping[str, str | None], *, has_enums: bool) -> str:
    rows = f"{draft.rows:,} row{'' if draft.rows == 1 else 's'}"
    files = ", ".join(part.path.name for part in draft.table.parts or (draft.table,))
    place = files if draft.table.table is None else f"{files}, {draft.table.table}"
    lines = [f"// From {_comment(place)}: {rows}.", *(f"// {_comment(note)}." for note in draft.table.notes)]
    if draft.is_edge:
        (_, source), (_, target) = draft.ends
        # The ends are the primary key of a table that only connects others.
        has_key = {column for column, _ in draft.ends} == set(draft.composite)
        if not has_key:
            lines.append(_NO_KEY)
        lines.append(f"edge {draft.type}: {source.type} -> {target.type} {{")
    else:
        has_key = draft.key is not None or bool(draft.composite)
        if not has_key:
            lines.append(_NO_KEY)
        lines.append(f"node {draft.type} {{")
    for column in draft.columns:
        name = names[column.name]
        if name is not None and name not in ("from", "to"):
            lines.append(_print_property(column, name, is_required=draft.rows > 0, has_enums=has_enums))
    if has_key:
        columns = draft.composite or (draft.key or "",)
        key = ("src", "dst") if draft.is_edge else (names[column] or "" for column in columns)
        lines.append(f"    @key({', '.join(key)})")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _print_property(column: ColumnEvidence, name: str, *, is_required: bool, has_enums: bool) -> str:
    kind = column.resolved
    values = column.enum_values if has_enums else None
    text = f"enum({', '.join(values)})" if values else kind.value
    optional = "" if is_required and not column.nulls else "?"
    notes = [f"from `{_comment(column.name)}`"] if name != column.name else []
    if len(column.kinds) > 1:
        notes.append(_count_kinds(column))
    if column.nulls:
        notes.append(f"{column.nulls:,} without a value")
    if kind is ColumnKind.TEXT and column.values and column.looks_like_dates:
        notes.append("dates? then declare it a Date, and load with --date-format")
    return f"    {name}: {text}{optional}" + (f"  // {'; '.join(notes)}" if notes else "")


def _comment(text: str) -> str:
    """Return a text that can stand in a comment."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _map_columns(draft: _Draft, names: Mapping[str, str | None], part: SourceTable) -> SourceMapping:
    return SourceMapping(
        file=str(part.path),
        table=draft.table.table,
        type=draft.type,
        is_edge=bool(draft.is_edge),
        columns={column: name for column, name in names.items() if name != column and column in part.columns},
        formats={
            column.name: column.format
            for column in draft.columns
            if column.format and names.get(column.name) and column.name in part.columns
        },
        # A format belongs to its columns: the times of others are in ISO form.
        forms=replace(draft.forms, date_format=None, datetime_format=None),
        dialect=part.dialect,
    )


def _map_link(draft: _Draft, column: str, name: str, part: SourceTable) -> SourceMapping:
    ignored: dict[str, str | None] = dict.fromkeys(part.columns)
    ends: dict[str, str | None] = {draft.key or "": "from", column: "to"}
    return replace(
        _map_columns(draft, {}, part),
        type=name,
        is_edge=True,
        columns={**ignored, **ends},
        skips_rows_without_ends=True,
    )
