"""Draw a small graph as a static SVG: no scripts, no addresses, and every value is text, never markup."""

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Readable on light and on dark; a type has the same colour in every picture.
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b6992d", "#b07aa1", "#9c755f")
_LABEL_CHARACTERS = 24
_TITLE_CHARACTERS = 400
_ROUNDS = 120
_MARGIN = 60
_RADIUS = 14
_LINE_HEIGHT = 15
_CHARACTER_WIDTH = 7
# What SVG 1.1, as XML, can't hold even as a reference.
_INVALID = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535, *range(55296, 57344)), "�")
# Marks that reorder the text around them are shown, so that a label can't pose as another.
_INVALID |= dict.fromkeys((8206, 8207, *range(8234, 8239), *range(8294, 8298)), "�")


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a picture: what it is called, what decides its colour, what a pointer shows, lines in a box."""

    label: str
    type: str
    title: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a picture, between nodes by their numbers."""

    source: int
    target: int
    label: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of nodes and edges; a notebook shows it."""

    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]
    caption: str = ""
    svg: str = field(init=False, repr=False)
    """The picture, as a document of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "svg", _render(self.nodes, self.edges, self.caption))

    def __str__(self) -> str:
        return self.svg

    def _repr_svg_(self) -> str:
        """Return the picture for notebooks."""
        return self.svg

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def _render(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], caption: str) -> str:
    has_boxes = any(node.lines for node in nodes)
    places = _place(len(nodes), edges, 190.0 if has_boxes else 90.0)
    size = places.max(axis=0) + _MARGIN + (90 if has_boxes else 0) if len(nodes) else np.array([120.0, 40.0])
    width, height = (int(side) for side in size)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 24}" width="{width}"'
        f' height="{height + 24}" font-family="sans-serif" font-size="12" fill="currentColor" role="img">'
    )
    arrow = (
        '<defs><marker id="og-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#888888"/></marker></defs>'
    )
    drawn = [_draw_edge(edge, nodes, places) for edge in edges]
    drawn += [_draw_node(node, places[number]) for number, node in enumerate(nodes)]
    foot = f'<text x="8" y="{height + 16}" opacity="0.7">{_quote(caption, _TITLE_CHARACTERS)}</text>'
    return "\n".join([head, f"<title>{_quote(caption, _TITLE_CHARACTERS)}</title>", arrow, *drawn, foot, "</svg>"])


def _draw_node(node: DrawnNode, place: NDArray[np.float64]) -> str:
    x, y = place
    colour = _COLOURS[zlib.crc32(node.type.encode(errors="replace")) % len(_COLOURS)]
    title = f"<title>{_quote(node.title or node.label, _TITLE_CHARACTERS)}</title>"
    label = _quote(node.label, _LABEL_CHARACTERS)
    if not node.lines:
        text = f'<text x="{x:.1f}" y="{y + _RADIUS + 13:.1f}" text-anchor="middle">{label}</text>'
        return f'<g>{title}<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{colour}"/>{text}</g>'
    box_width, box_height = _measure_box(node)
    left, top = x - box_width / 2, y - box_height / 2
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{box_width}" height="{box_height}" rx="4"'
    texts = "".join(
        f'<text x="{left + 8:.1f}" y="{top + 30 + _LINE_HEIGHT * number:.1f}">{_quote(line, _LABEL_CHARACTERS)}</text>'
        for number, line in enumerate(node.lines)
    )
    heading = f'<text x="{left + 8:.1f}" y="{top + 15:.1f}" font-weight="bold">{label}</text>'
    box = f'<rect {shape} fill="{colour}" fill-opacity="0.15" stroke="{colour}"/>'
    return f"<g>{title}{box}{heading}{texts}</g>"


def _draw_edge(edge: DrawnEdge, nodes: Sequence[DrawnNode], places: NDArray[np.float64]) -> str:
    title = f"<title>{_quote(edge.title or edge.label, _TITLE_CHARACTERS)}</title>"
    label = _quote(edge.label, _LABEL_CHARACTERS)
    (x0, y0), (x1, y1) = places[edge.source], places[edge.target]
    style = 'fill="none" stroke="#888888" marker-end="url(#og-arrow)"'
    if edge.source == edge.target:
        reach = _measure_reach(nodes[edge.source], 0.0, -1.0)
        y = y0 - reach
        path = f"M{x0 - 8:.1f} {y:.1f}c-24 -34 40 -34 16 0"
        text = f'<text x="{x0:.1f}" y="{y - 28:.1f}" text-anchor="middle" opacity="0.8">{label}</text>'
        return f'<g>{title}<path d="{path}" {style}/>{text}</g>'
    distance = max(float(np.hypot(x1 - x0, y1 - y0)), 1.0)
    dx, dy = (x1 - x0) / distance, (y1 - y0) / distance
    near, far = _measure_reach(nodes[edge.source], dx, dy), _measure_reach(nodes[edge.target], dx, dy)
    start, end = (x0 + dx * near, y0 + dy * near), (x1 - dx * far, y1 - dy * far)
    # Bent a little to its left, so that an edge back does not cover it.
    bend = min(24.0, distance / 8)
    middle = ((start[0] + end[0]) / 2 + dy * bend, (start[1] + end[1]) / 2 - dx * bend)
    path = f"M{start[0]:.1f} {start[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
    text = f'<text x="{middle[0]:.1f}" y="{middle[1]:.1f}" text-anchor="middle" opacity="0.8">{label}</text>'
    return f'<g>{title}<path d="{path}" {style}/>{text}</g>'


def _measure_box(node: DrawnNode) -> tuple[int, int]:
    longest = max(min(len(line), _LABEL_CHARACTERS + 1) for line in (node.label, *node.lines))
    return longest * _CHARACTER_WIDTH + 16, 24 + _LINE_HEIGHT * len(node.lines)


def _measure_reach(node: DrawnNode, dx: float, dy: float) -> float:
    """Return how far a node reaches from its middle in a direction."""
    if not node.lines:
        return _RADIUS + 2.0
    width, height = _measure_box(node)
    sides = [half / abs(part) for half, part in ((width / 2, dx), (height / 2, dy)) if abs(part) > 1e-9]
    return min(sides, default=0.0) + 2.0


def _quote(text: str, limit: int) -> str:
    """Return a text as character data: shortened, escaped, and without characters that XML can't hold."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return escape(shown.translate(_INVALID))


def _place(count: int, edges: Sequence[DrawnEdge], distance: float) -> NDArray[np.float64]:
    """Return the places of nodes, by forces: all push each other away, edges pull. The same graph is placed alike."""
    if not count:
        return np.zeros((0, 2))
    angles = np.arange(count) * (np.pi * (3 - np.sqrt(5)))
    places = np.sqrt(np.arange(count) + 0.5)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1) * distance
    ends = np.array([(edge.source, edge.target) for edge in edges if edge.source != edge.target], np.int64)
    for number in range(_ROUNDS if count > 1 else 0):
        apart = places[:, None] - places[None]
        lengths = np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-3)
        moves = (apart / lengths[..., None] * (distance**2 / lengths)[..., None]).sum(axis=1)
        # Parts without an edge between them would drift away from each other without end.
        moves -= places * 0.6
        if len(ends):
            pull = places[ends[:, 0]] - places[ends[:, 1]]
            pull *= (np.hypot(pull[:, 0], pull[:, 1]) / distance)[:, None]
            np.subtract.at(moves, ends[:, 0], pull)
            np.add.at(moves, ends[:, 1], pull)
        steps = np.maximum(np.hypot(moves[:, 0], moves[:, 1]), 1e-9)
        most = distance * (1 - number / _ROUNDS) * 0.5
        places += moves / steps[:, None] * np.minimum(steps, most)[:, None]
    margin = _MARGIN + (90 if distance > 100 else 0)
    return np.asarray(places - places.min(axis=0) + margin)


def describe(values: Mapping[str, object]) -> str:
    """Return the fields of an object as lines, for the text that a pointer shows."""
    return "\n".join(f"{name}: {value}" for name, value in values.items())
