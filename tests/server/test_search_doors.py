"""Searches by a vector index through every door: the answers and notes of the graph itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import talk
from omnigraph.config.server import HostedGraph
from omnigraph.options import Options
from serving import serving
from vector_worlds import SIZE, World, make_small

NEAREST = f"""query q($v: Vector({SIZE})) {{
  match {{ $d: Doc  $d.share < 0.9 }} return {{ $d.key as key, nearest($d.vec, $v) as s }}
  order {{ nearest($d.vec, $v) }} limit 10 }}"""
EXACT = NEAREST.replace("$v)", "$v, exact=true)")
_ORDER = "order { nearest($d.vec, $v) }"
VARIED = NEAREST.replace(_ORDER, "order { mmr(nearest($d.vec, $v), $d.vec) }")
_FUSED = NEAREST.replace(_ORDER, "order { rrf(nearest($d.vec, $v), bm25($d.key, $t)) }")
FUSED = _FUSED.replace("query q(", "query q($t: String, ")


@pytest.mark.parametrize("query", [NEAREST, EXACT, FUSED, VARIED], ids=["nearest", "exact", "fused", "varied"])
def test_every_door_has_the_answers_of_the_index(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    world = World(tmp_path / "g")
    world.add(0, 2_000)
    world.graph.optimize()
    vector = world.draw(1)[0].tolist()
    params = {"v": vector} | ({"t": "d00003"} if query == FUSED else {})
    hosted = (HostedGraph(id="docs", uri=world.graph.uri),)
    served = serving(tmp_path / "home", has_policies=False, options=Options(), config={"graphs": hosted})

    direct = world.graph.query(query, params=params)
    local = world.graph.query(query, params=params, engine="local")
    headers = served.as_role("reader")
    over_http = served.client.post("/graphs/docs/query", json={"query": query, "params": params}, headers=headers)
    arguments = {"query": query, "params": params}
    over_mcp: Any = talk(
        served, "reader", lambda agent: agent.call_tool("graph_query", arguments), path="/mcp/docs"
    ).structured_content

    rows = list(direct.rows())
    assert len(rows) == 10
    assert list(local.rows()) == over_http.json()["rows"] == over_mcp["rows"] == rows
    assert direct.notes == local.notes == tuple(over_http.json().get("notes", ()))
    if query == EXACT:
        assert [row["key"] for row in rows] == [key for _, key in world.rank(np.array(vector, np.float64), 0.9)[:10]]
        assert direct.notes == ()
    else:
        assert any("approximate" in note for note in direct.notes)
