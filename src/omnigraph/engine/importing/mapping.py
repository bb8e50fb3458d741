"""The mapping of files to types: which column is which property, and how its values are written. A TOML file."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omnigraph.engine.importing.source_tables import CsvDialect, SourceTable
from omnigraph.errors import BadArgumentError
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType

# The keys of a `[[source]]`, and the types of their values.
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "file": str,
    "table": str,
    "node": str,
    "edge": str,
    "columns": dict,
    "constants": dict,
    "formats": dict,
    "null": list,
    "true": list,
    "false": list,
    "decimal": str,
    "thousands": str,
    "delimiter": str,
    "encoding": str,
    "header": bool,
    "skip_rows_without_ends": bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueForms:
    """How values are written in cells of text."""

    nulls: tuple[str, ...] = ("",)
    trues: tuple[str, ...] = ("true",)
    falses: tuple[str, ...] = ("false",)
    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    datetime_format: str | None = None

    def __post_init__(self) -> None:
        for name, sign in (("decimal", self.decimal), ("thousands", self.thousands)):
            # A digit as a separator would take digits away from numbers.
            if len(sign) > 1 or sign.isalnum() or sign in {"-", "+"} or (name == "decimal" and not sign):
                expected = "it must be one character, and no letter, digit or sign"
                raise BadArgumentError(name, f"`{sign}`", expected)
        if self.decimal == self.thousands:
            raise BadArgumentError("thousands", f"`{self.thousands}`", "it must be different from the decimal point")
        both = set(self.trues) & set(self.falses)
        if both:
            raise BadArgumentError("true", f"`{min(both)}`", "it is also a text of false")
        for name, format_ in (("date_format", self.date_format), ("datetime_format", self.datetime_format)):
            if format_ is not None and not is_time_format(format_):
                raise BadArgumentError(name, f"`{format_}`", "it must be a format of `strptime`, such as %d.%m.%Y")

    def normalize_number(self, text: str) -> str:
        """Return a number with a decimal point and nothing between thousands; an empty text if it is not so written."""
        if self.decimal == "." and not self.thousands:
            return text
        whole, sign, rest = text.partition(self.decimal)
        if self.thousands and self.thousands in whole:
            first, *groups = whole.split(self.thousands)
            # `1.5` and `31.12.2020` are no numbers with a `.` between thousands.
            if not 1 <= len(first.removeprefix("-")) <= 3 or any(len(group) != 3 for group in groups):
                return ""
            whole = first + "".join(groups)
        if "." in whole + rest:
            return ""
        return f"{whole}.{rest}" if sign else whole


def is_time_format(text: object) -> bool:
    """Return whether a text is a format that `strptime` reads."""
    if not isinstance(text, str) or "%" not in text:
        return False
    try:
        datetime.strptime(datetime(2000, 12, 31, 23, 59, 58, tzinfo=UTC).strftime(text), text)  # noqa: DTZ007 - a test
    except (ValueError, re.error):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMapping:
    """What the rows of a file or table become."""

    file: str
    table: str | None = None
    type: str
    is_edge: bool = False
    columns: Mapping[str, str | None] = field(default_factory=dict)
    """By column, the property (or `id`, `from`, `to`); None for a column that is ignored."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    """By column, the format of its dates or times, as `strptime` reads it."""
    forms: ValueForms = field(default_factory=ValueForms)
    dialect: CsvDialect = field(default_factory=CsvDialect)
    skips_rows_without_ends: bool = False

    def find_property(self, column: str) -> str | None:
        """Return the property of a column: the mapped one, or that of the same name; None if it is ignored."""
        return self.columns.get(column, column)


def check_mapping(mapping: SourceMapping, table: SourceTable, catalog: Catalog) -> AnyType:
    """Return the type of the rows after checking the mapping against the schema and the header.

    Raises:
        BadArgumentError: It does not fit; the message lists all problems.
    """
    type_: AnyType | None = catalog.find_edge(mapping.type) if mapping.is_edge else catalog.nodes.get(mapping.type)
    if type_ is None:
        what = "edge" if mapping.is_edge else "node"
        raise BadArgumentError.bad_file_mapping(table.name, (f"the schema has no {what} type `{mapping.type}`",))
    targets = {"id", *type_.by_name, *(("from", "to") if isinstance(type_, EdgeType) else ())}
    problems = [f"there is no column `{column}`" for column in mapping.columns if column not in table.columns]
    problems += [
        f"there is no column `{column}`, which has a format"
        for column in mapping.formats
        if column not in table.columns
    ]
    unknown: list[str] = []
    used: dict[str, str] = {}
    for column in table.columns:
        target = mapping.find_property(column)
        if target is None:
            continue
        if target not in targets:
            unknown.append(column)
        elif target in used:
            problems.append(f"`{used[target]}` and `{column}` are both `{target}`")
        used.setdefault(target, column)
    for name in mapping.constants:
        if name not in targets:
            problems.append(f"`{type_.name}` has no property `{name}`, which has a constant")
        elif name in used:
            problems.append(f"`{name}` has a constant and the column `{used[name]}`")
    if unknown:
        near = find_closest(unknown[0], targets)
        hint = f"; did you mean `{near}`?" if near else ""
        names = ", ".join(f"`{column}`" for column in unknown)
        problems.append(
            f"`{type_.name}` has no property for {names}{hint}; map them, or leave them out with"
            f" {' '.join(f'--ignore {column!r}' for column in unknown[:3])}{' …' if len(unknown) > 3 else ''}"
        )
    if problems:
        raise BadArgumentError.bad_file_mapping(table.name, tuple(problems))
    return type_


# --- TOML --------------------------------------------------------------------------------------------


def parse_mapping(text: str, name: str) -> list[SourceMapping]:
    """Parse a mapping file.

    Raises:
        BadArgumentError: It is no mapping; the message names the source and the key.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadArgumentError.bad_file_mapping(name, (str(error),)) from error
    extra = document.keys() - {"source"}
    entries = document.get("source", [])
    if extra or not isinstance(entries, list) or not entries:
        raise BadArgumentError.bad_file_mapping(
            name, ("it has one `[[source]]` for each file and type, and nothing else",)
        )
    return [_parse_source(entry, f"{name}, source {number}") for number, entry in enumerate(entries, start=1)]


def _parse_source(entry: Mapping[str, Any], name: str) -> SourceMapping:
    problems: list[str] = []
    for key, value in entry.items():
        if key not in _KEYS:
            near = find_closest(key, _KEYS)
            problems.append(f"unknown key `{key}`" + (f"; did you mean `{near}`?" if near else ""))
        elif not isinstance(value, _KEYS[key]):
            problems.append(f"`{key}` has a wrong type")
    if "file" not in entry or ("node" in entry) == ("edge" in entry):
        problems.append("it needs `file`, and either `node` or `edge`")
    columns = entry.get("columns", {})
    if isinstance(columns, dict) and not all(value is False or isinstance(value, str) for value in columns.values()):
        problems.append("a column is the name of a property, or false to ignore it")
    problems += [
        f"`{key}` is a list of texts"
        for key in ("null", "true", "false")
        if not all(isinstance(value, str) for value in entry.get(key, ()))
    ]
    formats = entry.get("formats", {})
    problems += [
        f"the format of `{column}` must be one of `strptime`, such as %d.%m.%Y"
        for column, format_ in (formats.items() if isinstance(formats, dict) else ())
        if not is_time_format(format_)
    ]
    if problems:
        raise BadArgumentError.bad_file_mapping(name, tuple(problems))
    forms = ValueForms(
        nulls=tuple(entry.get("null", ("",))),
        trues=tuple(entry.get("true", ("true",))),
        falses=tuple(entry.get("false", ("false",))),
        decimal=entry.get("decimal", "."),
        thousands=entry.get("thousands", ""),
    )
    dialect = CsvDialect(
        delimiter=entry.get("delimiter"),
        encoding=entry.get("encoding", "utf-8"),
        has_header=entry.get("header", True),
    )
    return SourceMapping(
        file=entry["file"],
        table=entry.get("table"),
        type=entry.get("edge", entry.get("node", "")),
        is_edge="edge" in entry,
        columns={column: None if target is False else target for column, target in columns.items()},
        constants=entry.get("constants", {}),
        formats=formats,
        forms=forms,
        dialect=dialect,
        skips_rows_without_ends=entry.get("skip_rows_without_ends", False),
    )


def format_mapping(sources: Iterable[SourceMapping]) -> str:
    """Format mappings as the TOML that `parse_mapping` reads; what is as usual is left out."""
    usual = ValueForms()
    parts: list[str] = []
    for source in sources:
        lines = ["[[source]]", f"file = {_quote(source.file)}"]
        if source.table is not None:
            lines.append(f"table = {_quote(source.table)}")
        lines.append(f"{'edge' if source.is_edge else 'node'} = {_quote(source.type)}")
        for key, texts, usual_texts in (
            ("null", source.forms.nulls, usual.nulls),
            ("true", source.forms.trues, usual.trues),
            ("false", source.forms.falses, usual.falses),
        ):
            if texts != usual_texts:
                lines.append(f"{key} = [{', '.join(map(_quote, texts))}]")
        for key, text, usual_text in (
            ("decimal", source.forms.decimal, usual.decimal),
            ("thousands", source.forms.thousands, usual.thousands),
        ):
            if text != usual_text:
                lines.append(f"{key} = {_quote(text)}")
        if source.dialect.delimiter not in (None, ","):
            lines.append(f"delimiter = {_quote(source.dialect.delimiter or '')}")
        if source.dialect.encoding != "utf-8":
            lines.append(f"encoding = {_quote(source.dialect.encoding)}")
        if not source.dialect.has_header:
            lines.append("header = false")
        if source.skips_rows_without_ends:
            lines.append("skip_rows_without_ends = true")
        if source.columns:
            lines.append("[source.columns]")
            lines += [
                f"{_quote(column)} = {'false' if target is None else _quote(target)}"
                for column, target in source.columns.items()
            ]
        if source.formats:
            lines.append("[source.formats]")
            lines += [f"{_quote(column)} = {_quote(form)}" for column, form in source.formats.items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _quote(text: str) -> str:
    """Return a text as a basic string of TOML."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    inner = "".join(escapes.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text)
    return f'"{inner}"'


def select_mappings(mappings: Iterable[SourceMapping], table: SourceTable, base: Path) -> list[SourceMapping]:
    """Return the mappings of a table: those whose file is its path, relative to `base`, or has its name.

    Raises:
        BadArgumentError: Several files of its name are mapped, and none of them is its path.
    """
    path = table.path.resolve()
    matching = [mapping for mapping in mappings if mapping.table in (None, table.table)]
    exact = [mapping for mapping in matching if (base / mapping.file).resolve() == path]
    named = exact or [mapping for mapping in matching if Path(mapping.file).name == path.name]
    files = sorted({mapping.file for mapping in named})
    if not exact and len(files) > 1:
        told = ", ".join(f"`{file}`" for file in files)
        problem = (
            f"it maps {told}, and none is this file; name a file of the mapping, or its type with --node or --edge"
        )
        raise BadArgumentError.bad_file_mapping(table.name, (problem,))
    return named
