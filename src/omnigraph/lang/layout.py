"""Printed lines, and the choice between one line and several.

The printers turn a tree into items; `lay_out` turns items into lines. Each line remembers where its first token stood
in the source, which is all the formatter needs to put the comments back.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

WIDTH = 100
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a line's first token stands: at `offset`, or where stepping back from there to each of `words` leads.

    On canonical text this has to be exact: then comments, once put between lines, stay there. Parentheses directly
    before the token are not in the spans of the tree; with `skipped`, all but so many of them belong to the line.
    """

    offset: int
    words: tuple[str, ...] = ()
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output. Without an anchor its tokens count to the line before it.

    A line that `closes` a block lets comments before it stand inside the block.
    """

    depth: int
    text: str
    anchor: Anchor | None = None
    closes: bool = False
    blank_before: bool = False

    def __str__(self) -> str:
        return INDENT * self.depth + self.text


@dataclass(frozen=True, slots=True)
class Group:
    """Something that stands on one line if it can, and is broken into several otherwise."""

    flat: Line
    broken: tuple["Item", ...]


Item: TypeAlias = Line | Group
MustBreak: TypeAlias = Callable[[Group, Anchor | None], bool]
"""Whether a group, with the anchor of what follows it, may not be flat whatever its width."""


def never(_group: Group, _following: Anchor | None) -> bool:
    """No group has to be broken: there are no comments."""
    return False


def lay_out(declarations: Sequence[Sequence[Item]], must_break: MustBreak = never) -> list[Line]:
    """The lines of a file; a declaration of several lines has a blank line on each side."""
    lines: list[Line] = []
    was_long = False
    firsts = [_anchor(items[0]) if items else None for items in declarations]
    for items, following in zip(declarations, _following(firsts, None), strict=True):
        here = list(_choose(items, must_break, following))
        is_long = len(here) > 1
        if lines and (is_long or was_long):
            here[0] = replace(here[0], blank_before=True)
        was_long = is_long
        lines += here
    return lines


def leaves(group: Group) -> Iterator[Line]:
    """The lines of a group when all of it is broken."""
    for item in group.broken:
        if isinstance(item, Line):
            yield item
        else:
            yield from leaves(item)


def ending(item: Item, suffix: str) -> Item:
    """The item with `suffix` behind its last line."""
    if isinstance(item, Line):
        return replace(item, text=item.text + suffix)
    *head, last = item.broken
    return Group(replace(item.flat, text=item.flat.text + suffix), (*head, ending(last, suffix)))


def _choose(items: Sequence[Item], must_break: MustBreak, following: Anchor | None) -> Iterator[Line]:
    for item, behind in zip(items, _following([_anchor(item) for item in items], following), strict=True):
        if isinstance(item, Line):
            yield item
        elif len(str(item.flat)) <= WIDTH and not must_break(item, behind):
            yield item.flat
        else:
            yield from _choose(item.broken, must_break, behind)


def _anchor(item: Item) -> Anchor | None:
    return item.anchor if isinstance(item, Line) else item.flat.anchor


def _following(anchors: Sequence[Anchor | None], last: Anchor | None) -> list[Anchor | None]:
    """For each place, the next anchor behind it."""
    found: list[Anchor | None] = []
    for anchor in reversed(anchors):
        found.append(last)
        last = anchor or last
    return found[::-1]
