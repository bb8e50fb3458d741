"""Runs queries that are meant to exhaust the machine, in a process of limited memory: one line of JSON for each.

Given the address of the graph. A query may answer, or fail with a typed error; anything else ends the process.
"""

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.runtime import Runtime

ADDRESS_SPACE = 6 * 1024**3
"""What the process may map at all: the libraries and their thread stacks take more than half of it."""
MEMORY, SECONDS = 64 * 1024**2, 2.0
NODES = 120
"""How many there are in the graph."""


@dataclass(frozen=True)
class Attack:
    """A query, its parameters, and the codes it may fail with; `rows` is how many there are if it answers.

    Any of them may run out of time: that is for the machine to decide.
    """

    name: str
    text: str
    fails: tuple[str, ...] = ("query_memory",)
    rows: int | None = None
    params: dict[str, Any] = field(default_factory=dict)


def read(match: str, output: str = "count(*) as n", rest: str = "", params: str = "") -> str:
    """The text of a query."""
    return f"query q({params}) {{ match {{ {match} }} return {{ {output} }} {rest} }}"


def chain(length: int, *, edge: str = "knows") -> str:
    """Hops one behind the other."""
    return "$v0: P " + " ".join(f"$v{at} {edge} $v{at + 1}" for at in range(length))


def product(count: int) -> str:
    """Variables that nothing connects."""
    return " ".join(f"$v{number}: P" for number in range(count))


def outputs(count: int) -> str:
    """The ids of that many variables."""
    return ", ".join(f"$v{number}.@id" for number in range(count))


def blocks(depth: int) -> str:
    """`not` blocks in each other, each a hop further."""
    inside = ""
    for level in range(depth, 0, -1):
        inside = f"not {{ $v{level - 1} knows $v{level} {inside} }}"
    return f"$v0: P {inside}"


def attacks() -> Iterator[Attack]:
    """Every query, with what may come of it."""
    yield from _products()
    yield from _hops()
    yield from _texts()
    yield from _counts_and_inputs()


_OVERFLOWS = ("aggregate_overflow", "count_overflow")
_REFUSED = ("text_too_large", "invalid_source")
LARGEST = 2**63 - 1


def _products() -> Iterator[Attack]:
    yield Attack("a product of six", read(product(6), outputs(6)))
    yield Attack("a product of six, counted", read(product(6)), (), 1)
    yield Attack("a product of ten, counted", read(product(10)), _OVERFLOWS)
    filtered = read(f"{product(3)} $v0.v < $v1.v $v1.v < $v2.v", outputs(3))
    yield Attack("a product with a filter", filtered, rows=NODES * (NODES - 1) * (NODES - 2) // 6)
    yield Attack("a product of five with a filter", read(f"{product(5)} $v0.v < $v1.v $v2.v < $v3.v", outputs(5)))
    yield Attack("a product, ordered", read(product(4), outputs(4), "order { $v3.v desc } limit 3"), (), 3)
    yield Attack("a product, grouped", read(product(4), "$v0.v, $v1.v, $v2.@id, $v3.@id, count(*) as n"))
    yield Attack("a product, made distinct", read(product(4), outputs(4)).replace("return", "return distinct"))
    yield Attack("a product with a not block", read(f"{product(4)} not {{ $v0 knows $v1 $v1.v > $v2.v }}", outputs(4)))
    parts = "$a: P $b: P $c: P $a.t contains $b.t $b.t contains $c.t"
    yield Attack("a part of every text", read(parts, "$a.@id"), rows=NODES)


def _hops() -> Iterator[Attack]:
    yield Attack("a chain of eight hops", read(chain(8), outputs(9)))
    yield Attack("a chain of eight hops, counted", read(chain(8)), _OVERFLOWS, 1)
    yield Attack("a chain of thirty hops, counted", read(chain(30)), _OVERFLOWS)
    yield Attack("a cycle of six", read(f"{chain(5)} $v5 knows $v0", outputs(6)))
    edges = "$a: P $b: P $a $e:knows $b $x: P $y: P $x $f:knows $y"
    yield Attack("every edge with every edge", read(edges, "$e.@id, $f.@id"))
    yield Attack("64 hops", read("$a: P $a knows{1,64} $b", "$a.@id, $b.@id"), (), NODES * NODES)
    yield Attack("64 hops without direction", read("$a: P $a <knows>{1,64} $b", "count(*) as n"), (), 1)
    far = "$a: P $a ring{1,64} $b $b ring{1,64} $c $c ring{1,64} $d"
    yield Attack("64 hops of 64 hops", read(far, "$a.@id, $b.@id, $c.@id, $d.@id"))
    yield Attack("not blocks twelve deep", read(blocks(12)), rows=1)


def _texts() -> Iterator[Attack]:
    many = " or ".join(f"$p.v = {number}" for number in range(999))
    numbers = ", ".join(map(str, range(65_536)))
    yield Attack("nesting to the limit", read(f"$p: P {'not (' * 30}$p.v = 1{')' * 30}"), (), 1)
    yield Attack("nesting beyond", read(f"$p: P {'not (' * 20_000}$p.v = 1{')' * 20_000}"), _REFUSED)
    yield Attack("blocks beyond", read(f"$p: P {'not { ' * 5_000}$p.v = 1{' }' * 5_000}"), _REFUSED)
    yield Attack("a thousand terms", read(f"$p: P {many}"), (), 1)
    yield Attack("more terms", read(f"$p: P {many} or {many}"), _REFUSED)
    yield Attack("a long list", read(f"$p: P $p.v in [{numbers}]"), _REFUSED, 1)
    yield Attack("a longer list", read(f"$p: P $p.v in [{numbers}, 1]"), _REFUSED)
    yield Attack("a text without end", read("$p: P") + "//" + "x" * 20_000_000, _REFUSED)


def _counts_and_inputs() -> Iterator[Attack]:
    nearest, fused = "nearest($p.x, [1, 0])", "rrf(nearest($p.x, [1, 0]), bm25($p.t, $q))"
    page, text = f"limit {LARGEST} offset {LARGEST}", "$q: String"
    words, word, phrase = "abc " * 500, "a" * 200_000, '"' + "word " * 50_000 + '"'
    yield Attack("the largest limit", read("$p: P", "$p.@id", f"limit {LARGEST}"), (), NODES)
    yield Attack("the largest offset", read("$p: P", "$p.@id", page), (), 0)
    yield Attack("a limit of a rank", read("$p: P", "$p.@id", f"order {{ {nearest} }} limit {LARGEST}"), (), NODES)
    yield Attack("a fusion", read("$p: P", "$p.@id", f"order {{ {fused} }} {page}", text), (), 0, {"q": words})
    yield Attack("a list", read("$p: P $p.v in $l", params="$l: [I64]"), (), 1, {"l": list(range(100_000))})
    yield Attack("any edits", read("$p: P fuzzy($p.t, $q, 1000000000)", params=text), (), 1, {"q": words})
    yield Attack("a long word", read("$p: P fuzzy($p.t, $q)", params=text), (), 1, {"q": word})
    yield Attack("a long phrase", read("$p: P match_text($p.t, $q)", params=text), (), 1, {"q": phrase})
    surplus = {f"p{number}": number for number in range(5_000)}
    yield Attack("too many parameters", read("$p: P"), ("invalid_parameters",), params=surplus)


def run(graph: og.Graph, attack: Attack) -> dict[str, Any]:
    """What came of it."""
    try:
        result = graph.query(attack.text, params=attack.params, seconds=SECONDS, memory_bytes=MEMORY)
        outcome: dict[str, Any] = {"rows": result.row_count}
        result.to_arrow()
    except og.OmnigraphError as error:
        outcome = {"code": error.code, "message": str(error)[:200]}
    return {"name": attack.name, "peak": peak(), **outcome}


def peak() -> int:
    """The most memory that this process had; `ru_maxrss` would also tell what the process had that started it."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main(uri: str) -> None:
    """Run all of them, one after the other, so that what one leaves behind would hit the next."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    graph = og.Graph.open(uri, is_read_only=True, runtime=Runtime())
    for attack in attacks():
        print(json.dumps(run(graph, attack)), flush=True)  # noqa: T201 - its only way to answer


if __name__ == "__main__":
    main(sys.argv[1])
