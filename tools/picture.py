"""Draw docs/images/branches.svg: the history of a small graph with a branch and a merge, written by the engine.

The picture shows what `commits` returns for each branch: the operation, the actor and the parents of each commit. No
part is drawn by hand, and the output is the same on each run, so that a test can detect a stale file.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import omnigraph as og
from omnigraph.commit.manifest_types import Commit

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "branches.svg"
BRANCH = "review/ages"
STEP, LANE, LEFT, TOP = 150, 92, 90, 62
COLORS = ("#2b6cb0", "#b7791f")


@dataclass(frozen=True)
class Dot:
    """A commit and its position in the picture."""

    commit: Commit
    lane: int
    column: int

    @property
    def x(self) -> int:
        """The distance from the left edge."""
        return LEFT + STEP * self.column

    @property
    def y(self) -> int:
        """The distance from the top edge."""
        return TOP + LANE * self.lane


def build_history() -> list[Dot]:
    """Build a graph with a branch that is merged, and return its commits in the order of their creation."""
    people = ROOT / "examples" / "people"
    with tempfile.TemporaryDirectory() as directory:
        schema = (people / "schema.pg").read_text("utf-8")
        graph = og.create_graph(str(Path(directory) / "people.omni"), schema, actor="ada")
        graph.load(str(people / "people.jsonl"), mode="append", actor="ada")
        graph.branches.create(BRANCH, actor="agent")
        ages = 'query q() { update Person set { age: 36 } where name = "Ada" }'
        roles = 'query q() { update Person set { role: "manager" } where name = "Alan" }'
        graph.mutate(ages, branch=BRANCH, actor="agent")
        graph.mutate(roles, actor="grace")
        graph.mutate(ages.replace("36", "37"), branch=BRANCH, actor="agent")
        graph.merge(BRANCH, actor="grace")
        main, side = graph.commits(), graph.commits(branch=BRANCH)
    main_ids = {commit.id for commit in main}
    lanes = [*((commit, 0) for commit in main), *((commit, 1) for commit in side if commit.id not in main_ids)]
    lanes.sort(key=lambda pair: pair[0].id)  # ids are ULIDs, which sort by time
    return [Dot(commit, lane, column) for column, (commit, lane) in enumerate(lanes)]


def draw(dots: list[Dot]) -> str:
    """Return the picture as SVG."""
    at = {dot.commit.id: dot for dot in dots}
    width, height = LEFT + STEP * (len(dots) - 1) + 90, TOP + LANE + 70
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="system-ui, sans-serif" font-size="13" role="img">'
        ),
        "<title>Four commits on main and two on a branch that was taken from main and merged back</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *(
            f'<text x="16" y="{TOP + LANE * lane - 26}" fill="{COLORS[lane]}" font-weight="600">{escape(name)}</text>'
            for lane, name in enumerate(("main", BRANCH))
        ),
    ]
    for dot in dots:
        parents = (dot.commit.parent, dot.commit.merged_parent)
        parts += [_draw_line(at[parent], dot) for parent in parents if parent in at]
    for dot in dots:
        shape = 'stroke="#ffffff" stroke-width="3"'
        parts.append(f'<circle cx="{dot.x}" cy="{dot.y}" r="11" fill="{COLORS[dot.lane]}" {shape}/>')
        parts.append(_draw_label(dot, 30, dot.commit.operation, "600", "#1a202c"))
        parts.append(_draw_label(dot, 46, f"by {dot.commit.actor}", "400", "#4a5568"))
    parts.append("</svg>\n")
    return "\n".join(parts)


def _draw_line(start: Dot, end: Dot) -> str:
    color = COLORS[max(start.lane, end.lane)]
    middle = (start.x + end.x) // 2
    bend = f"M{start.x},{start.y} C{middle},{start.y} {middle},{end.y} {end.x},{end.y}"
    return f'<path d="{bend}" fill="none" stroke="{color}" stroke-width="3"/>'


def _draw_label(dot: Dot, below: int, text: str, weight: str, color: str) -> str:
    return (
        f'<text x="{dot.x}" y="{dot.y + below}" text-anchor="middle" font-weight="{weight}" fill="{color}">'
        f"{escape(text)}</text>"
    )


def picture() -> str:
    """Return the expected content of the file."""
    return draw(build_history())


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    if not PICTURE.exists() or PICTURE.read_text("utf-8") != picture():
        PICTURE.write_text(picture(), encoding="utf-8")
        print(f"refreshed {PICTURE.relative_to(ROOT)}")
