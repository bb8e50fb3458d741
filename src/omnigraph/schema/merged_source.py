"""The text of a merged schema, out of the texts that people wrote: with their comments, as far as these say the same.

A declaration is taken as it stands from a side whose type is the merged one. One that has something of both is written
anew, behind the comments that stood before it. Which side is which makes no difference.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.accept import load_schema
from omnigraph.schema.catalog import AnyType, Catalog, InterfaceType
from omnigraph.schema.catalog_printer import declaration_text, schema_text, type_declaration

_BEHIND = re.compile(r"[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*(?=[\r\n]|\Z))?", re.DOTALL)
"""A comment behind a declaration, on its last line."""
_HEADER = re.compile(r"\A(?:.*\n)?[ \t]*\r?\n", re.DOTALL)
"""What stands before the last empty line above the first declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A declaration as it stands: the white space and comments before it, itself, and a comment behind it."""

    before: str
    text: str
    behind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A schema and the text that it was bound from."""

    catalog: Catalog
    text: str


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A text in its parts."""

    header: str
    by_name: Mapping[str, _Piece]
    tail: str


def merged_text(merged: Catalog, states: tuple[Written, Written, Written], is_right: Callable[[Catalog], bool]) -> str:
    """The text of a merged catalog, with the comments of the base and both sides.

    Where putting the parts together gives something else, as `is_right` says of what it is bound to, it is the
    catalog's own text, without any comment.
    """
    try:
        text = _put_together(merged, states)
        if is_right(load_schema(Source(text, "merged.pg"))):
            return text
    except SourceError:
        pass  # a part of one text may make no sense beside those of another
    return schema_text(merged)


def _put_together(merged: Catalog, states: Sequence[Written]) -> str:
    pieces = [_pieces(state.text) for state in states]
    parts = [_chosen(*(one.header for one in pieces))]
    for type_ in _in_order(merged, states[0], pieces[0]):
        found = [_of(type_, state.catalog, one) for state, one in zip(states, pieces, strict=True)]
        parts.append(_declared(type_, found))
    text = ""
    for part in parts:
        is_apart = not text or text.endswith("\n") or part[:1] in "\r\n"  # an empty part is apart too
        text += part if is_apart else f"\n\n{part}"
    tail = _chosen(*(one.tail for one in pieces)).rstrip()
    return f"{text if parts[0] else text.lstrip()}{tail}\n"


def _in_order(merged: Catalog, base: Written, pieces: _Pieces) -> list[AnyType | InterfaceType]:
    """The merged types in the order of the base's text, then what came, in the merged catalog's own."""
    places = {name: place for place, name in enumerate(pieces.by_name)}
    known: dict[int | str, int] = {
        _identity(one): places[one.name] for one in _all_types(base.catalog) if one.name in places
    }
    types = _all_types(merged)
    return sorted(types, key=lambda one: known.get(_identity(one), len(places)))


def _all_types(catalog: Catalog) -> list[AnyType | InterfaceType]:
    return [*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values()]


def _identity(type_: AnyType | InterfaceType) -> int | str:
    return type_.name if isinstance(type_, InterfaceType) else type_.identity


def _of(
    type_: AnyType | InterfaceType, catalog: Catalog, pieces: _Pieces
) -> tuple[AnyType | InterfaceType, _Piece] | None:
    """A state's own version of a type, and how it is written there."""
    for one in _all_types(catalog):
        if _identity(one) == _identity(type_) and one.name in pieces.by_name:
            return one, pieces.by_name[one.name]
    return None


def _declared(type_: AnyType | InterfaceType, found: Sequence[tuple[AnyType | InterfaceType, _Piece] | None]) -> str:
    """One declaration, with what stands before and behind it."""
    base, *sides = found
    wanted = type_declaration(type_)
    before = _chosen(*("" if one is None else one[1].before for one in found))
    behind = _chosen(*("" if one is None else one[1].behind for one in found))
    fitting = sorted({one[1].text for one in sides if one is not None and type_declaration(one[0]) == wanted})
    old = None if base is None else base[1].text
    fresh = [text for text in fitting if text != old]  # if only its comments or its layout changed: that
    text = (fresh or fitting or [declaration_text(type_)])[0]
    return f"{before}{text}{behind}"


def _chosen(base: str, ours: str, theirs: str) -> str:
    """The side that changed it; of two different ones, the same whichever is which."""
    if ours == base:
        return theirs
    return ours if theirs == base else min(ours, theirs)


def _pieces(text: str) -> _Pieces:
    source = Source(text, "schema.pg")
    declarations = parse_schema(source).require(source).declarations
    by_name: dict[str, _Piece] = {}
    header, end = "", 0
    for one in declarations:
        before = text[end : one.span.start]
        if not by_name:
            match = _HEADER.match(before)
            header = before[: match.end()] if match and match[0].strip() else ""
            before = before[len(header) :]
        behind = _BEHIND.match(text, one.span.end)
        end = one.span.end if behind is None else behind.end()
        by_name[one.name.text] = _Piece(
            before=before, text=text[one.span.start : one.span.end], behind=text[one.span.end : end]
        )
    return _Pieces(header, by_name, text[end:])
