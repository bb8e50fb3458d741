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
    """Where a line's first token stands: at `offset`, or found by stepping back from there to each of `words` in turn."""

    offset: int
    words: tuple[str, ...] = ()


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
    for index, items in enumerate(declarations):
        following = next((_first_anchor(later) for later in declarations[index + 1 :] if later), None)
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
    for index, item in enumerate(items):
        behind = _first_anchor(items[index + 1 :]) or following
        if isinstance(item, Line):
            yield item
        elif len(str(item.flat)) <= WIDTH and not must_break(item, behind):
            yield item.flat
        else:
            yield from _choose(item.broken, must_break, behind)


def _first_anchor(items: Sequence[Item]) -> Anchor | None:
    for item in items:
        anchor = item.anchor if isinstance(item, Line) else item.flat.anchor
        if anchor is not None:
            return anchor
    return None
