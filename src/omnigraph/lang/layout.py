"""Printed lines, and the choice between one line and several.

The printers turn a tree into items; `lay_out` turns items into lines. Each line remembers where its first token stood
in the source, which is all the formatter needs to put the comments back.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

MAX_LINE_WIDTH = 100
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Anchor:
    """The position of a line's first token: `offset`, or where searching back from there for each of `words` ends.

    On canonical text it must be exact, so that comments between lines stay there when formatted again. Parentheses
    directly before the token are not in the spans of the tree; all but `skipped` of them belong to the line.
    """

    offset: int
    words: tuple[str, ...] = ()
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """One line of output. Without an anchor its tokens belong to the line before it.

    Comments before a line that `closes` a block are indented like the inside of the block.
    """

    depth: int
    text: str
    anchor: Anchor | None = None
    closes: bool = False
    blank_before: bool = False

    def __str__(self) -> str:
        return INDENT * self.depth + self.text


@dataclass(frozen=True, slots=True)
class LineGroup:
    """A construct that is printed on one line if it fits, and on several otherwise."""

    flat: PrintedLine
    broken: tuple["Item", ...]


Item: TypeAlias = PrintedLine | LineGroup
MustBreak: TypeAlias = Callable[[LineGroup, Anchor | None], bool]
"""A predicate: whether a group, with the anchor of what follows it, must be broken whatever its width."""


def never_break(_group: LineGroup, _following: Anchor | None) -> bool:
    """Return False: without comments no group must be broken."""
    return False


def lay_out(declarations: Sequence[Sequence[Item]], must_break: MustBreak = never_break) -> list[PrintedLine]:
    """Arrange the lines of a file; a declaration of several lines gets a blank line on each side."""
    lines: list[PrintedLine] = []
    was_long = False
    firsts = [_get_anchor(items[0]) if items else None for items in declarations]
    for items, following in zip(declarations, _find_following(firsts, None), strict=True):
        here = list(_choose_lines(items, must_break, following))
        is_long = len(here) > 1
        if lines and (is_long or was_long):
            here[0] = replace(here[0], blank_before=True)
        was_long = is_long
        lines += here
    return lines


def iter_leaf_lines(group: LineGroup) -> Iterator[PrintedLine]:
    """Yield the lines of a group that is broken completely."""
    for item in group.broken:
        if isinstance(item, PrintedLine):
            yield item
        else:
            yield from iter_leaf_lines(item)


def append_suffix(item: Item, suffix: str) -> Item:
    """Append `suffix` to the last line of the item."""
    if isinstance(item, PrintedLine):
        return replace(item, text=item.text + suffix)
    # The last line of the broken form is also the last one of the construct, so the suffix belongs there.
    *head, last = item.broken
    return LineGroup(replace(item.flat, text=item.flat.text + suffix), (*head, append_suffix(last, suffix)))


def _choose_lines(items: Sequence[Item], must_break: MustBreak, following: Anchor | None) -> Iterator[PrintedLine]:
    for item, next_anchor in zip(items, _find_following([_get_anchor(item) for item in items], following), strict=True):
        if isinstance(item, PrintedLine):
            yield item
        elif len(str(item.flat)) <= MAX_LINE_WIDTH and not must_break(item, next_anchor):
            yield item.flat
        else:
            yield from _choose_lines(item.broken, must_break, next_anchor)


def _get_anchor(item: Item) -> Anchor | None:
    return item.anchor if isinstance(item, PrintedLine) else item.flat.anchor


def _find_following(anchors: Sequence[Anchor | None], last: Anchor | None) -> list[Anchor | None]:
    """Find the next anchor after each position."""
    following: list[Anchor | None] = []
    for anchor in reversed(anchors):
        following.append(last)
        last = anchor or last
    return following[::-1]
