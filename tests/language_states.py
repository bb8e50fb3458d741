"""A graph that the newer forms of the language have written, and questions in these forms about any of its states."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import omnigraph as og

SCHEMA = """
interface Named { name: String }
node Package implements Named {
    name: String @key
    size: I64 @default(0)
    tags: [String]?
    released: Date?
}
node Person implements Named { name: String @key }
node Note { text: String }
edge Depends: Package -> Package { weight: F64 @default(1.0) }
edge Maintains: Person -> Package
edge About: Note -> Package
"""
PACKAGES = [
    {"name": "app", "size": 30, "tags": ["gui", "x11"], "needs": ["lib", "net"]},
    {"name": "lib", "size": 20, "tags": ["core"], "needs": ["base"]},
    {"name": "net", "size": 10, "tags": [], "needs": ["base", "lib"]},
    {"name": "base", "size": 5, "tags": None, "needs": []},
    {"name": "odd", "size": 1, "tags": ["x11"], "needs": ["odd"]},
]
_UPSERT = """
query upsert($rows: [{name: String, size: I64, tags: [String]?, needs: [String]}]) {
    match { each $r in $rows }
    insert Package { name: $r.name, size: $r.size, tags: $r.tags, released: date("2024-01-31") + days($r.size) }
}
"""
_LINK = """
query link($rows: [{name: String, size: I64, tags: [String]?, needs: [String]}]) {
    match { each $r in $rows  each $need in $r.needs  $a: Package  $a.name = $r.name  $b: Package  $b.name = $need }
    insert Depends { from: $a, to: $b, weight: $a.size / ($b.size + 1) }
}
"""
_MAINTAIN = """
match { $p: Package  let $n = count { $q depends $p }  $n > 0 }
insert Person { name: "m-" + $p.name } as $m
insert Maintains { from: $m, to: $p }
insert Note { text: upper($p.name) } as $note
insert About { from: $note, to: $p }
returning { $p.name, $note.@id }
"""
_CHANGES = (
    (
        "match { $p: Package optional { $q depends $p } } with { $p, count($q) as n }"
        " update $p set { size: size + $n * 100 }"
    ),
    (
        'match { $a: Package { name: "net" } $a $e:depends $b } delete $e'
        " insert Depends { from: $b, to: $a, weight: $e.weight }"
    ),
    "match { $m maintains $p  not { $p depends $_ } } delete $m",
    (
        'insert Package { name: "new", size: 7 } if absent as $p'
        ' insert Depends { from: $p, to: "app" } returning { $p.size }'
    ),
    (
        'match { $p: Package { name: "new" } } update $p set { tags: ["x11"] }'
        ' insert Note { text: "late" } as $n insert About { from: $n, to: $p }'
    ),
)
QUESTIONS = {
    "calculations": "match { $p: Package } return { upper($p.name) as n, $p.size * 2 + 1 as s, year($p.released) as y,"
    " case { $p.size > 9 => $p.tags else => [] } as t } order { n }",
    "optional, count, exists": "match { $p: Package optional { $m maintains $p } } return { $p.name, $m.name as m,"
    " count { $q depends $p } as n, exists { $p depends $p } as own } order { $p.name, m }",
    "either and each": "match { $p: Package either { $p depends $x } or { $x maintains $p } } "
    "return { $p.name, $x.@type as type, $x.name as x } order { $p.name, type, x }",
    "elements": "match { $p: Package each $t in $p.tags } return { $t, collect($p.name) as ps } order { $t }",
    "paths": "match { $a: Package shortest $w = $a depends{1,*} $b } return { $a.name, $b.name, length($w) as l,"
    " collect { each $n in nodes($w) return $n.name } as way } order { $a.name, $b.name }",
    "cheapest": "match { $a: Package cheapest $w = $a depends{0,*} $b by { weight } } "
    "return { $a.name, $b.name, round(cost($w), 6) as c } order { $a.name, $b.name }",
    "every path": "match { $a: Package path $w = $a depends{1,3} $b along { weight > 0.0 } } "
    "return { $a.name, $b.name, length($w) as l } order { $a.name, $b.name, l }",
    "without a bound": "match { $a: Package $a depends{0,*} $b } return { $a.name, count(*) as n } order { $a.name }",
    "any edge": "match { $x: Named $x <*>{1,2} $y }"
    " return { $x.@type, $x.name, count($y) as n } order { $x.@type, $x.name }",
    "stages": "match { $p: Package $q depends $p } with { $p, count($q) as n } having { n > 1 } "
    "match { $p depends $r } return { $p.name, $n, $r.name } order { $p.name, $r.name }",
    "union": "match { $p: Package } return { $p.name as n } union"
    " match { $m: Person } return { $m.name as n } order { n }",
    "best of each group": "match { $p: Package $q depends $p } return { $p.name, $q.name } order { $q.size desc } "
    "limit 1 per { $p }",
    "windows": "match { $p: Package } return { $p.name, sum($p.size) over { order { $p.name } } as s, "
    "lag($p.name) over { order { $p.name } } as b } order { $p.name }",
    "aggregates": "match { $p: Package } return { median($p.size) as m, collect(distinct $p.size) as s,"
    " any($p.size > 9) as a, count($p where $p.size > 9) as c }",
    "records": "match { $p: Package } return { $p.name, collect { $p depends $q return { name: $q.name, tags: $q.tags }"
    " order { $q.name } } as needs, { a: $p.size, b: [$p.name] } as r } order { $p.name }",
    "whole": "match { $p: Package optional { $m maintains $p } } return { $p, $m } order { $p.name }",
    "notes": "match { $n about $p } return { $n.text, $p.name } order { $n.text }",
}


def write_graph(place: Path) -> og.Graph:
    """Create the graph by batches and driven statements."""
    graph = og.create_graph(str(place), SCHEMA)
    graph.mutate(_UPSERT, params={"rows": PACKAGES})
    graph.mutate(_LINK, params={"rows": PACKAGES})
    graph.mutate(_MAINTAIN)
    return graph


def change_graph(graph: og.Graph, branch: str = "main") -> None:
    """Change what every question reads."""
    for text in _CHANGES:
        graph.mutate(text, branch=branch)


def ask_all(graph: og.Graph, **state: Any) -> Mapping[str, list[dict[str, Any]]]:
    """Return the answers of all questions, of a state and by an engine that the keywords name."""
    return {name: list(graph.query(text, **state).rows()) for name, text in QUESTIONS.items()}
