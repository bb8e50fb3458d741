"""Queries that are meant to exhaust the machine answer, or fail with a typed error: the process survives them all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hostile_queries import ADDRESS_SPACE, NODES, Attack, attacks
from read_seeding import Named, append, new_graph

SCHEMA = """
node P { k: String @key  v: I64  t: String  x: Vector(2) }
edge Knows: P -> P
edge Ring: P -> P
"""


def test_a_hostile_query_answers_or_fails_with_a_typed_error(tmp_path: Path) -> None:
    uri = everybody_knows_everybody(tmp_path / "g")

    outcomes = attacked(uri)

    assert [attack.name for attack in attacks()] == list(outcomes)
    assert [problem for attack in attacks() if (problem := _problem(attack, outcomes[attack.name]))] == []
    assert max(outcome["peak"] for outcome in outcomes.values()) < ADDRESS_SPACE / 4


def everybody_knows_everybody(root: Path) -> str:
    """The address of a graph of which every pattern has very many matches; beside, each is next to one in a ring."""
    keys = [f"p{number:03}" for number in range(NODES)]
    records: list[Named] = [
        ("P", {"@id": key, "k": key, "v": number, "t": f"word {key}", "x": [number - 50.0, 1.0]})
        for number, key in enumerate(keys)
    ]
    records += [("Knows", {"@id": f"{a}{b}", "@src": a, "@dst": b}) for a in keys for b in keys]
    records += [("Ring", {"@id": a, "@src": a, "@dst": b}) for a, b in zip(keys, [*keys[1:], keys[0]], strict=True)]
    session = new_graph(root, SCHEMA)
    append(session, records)
    return session.uri


def attacked(uri: str) -> dict[str, dict[str, Any]]:
    """What came of each query, by name."""
    script = Path(__file__).parent.parent / "hostile_queries.py"
    done = subprocess.run([sys.executable, str(script), uri], capture_output=True, text=True, timeout=100, check=False)
    found = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, f"died after {list(found)[-1:]}: {done.stderr[-2000:]}"
    return found


def _problem(attack: Attack, outcome: dict[str, Any]) -> str | None:
    if "code" in outcome:
        is_right = outcome["code"] in (*attack.fails, "query_timeout")
        return None if is_right else f"{attack.name}: {outcome['code']}: {outcome['message']}"
    return None if outcome["rows"] == attack.rows else f"{attack.name}: {outcome['rows']} rows, not {attack.rows}"
