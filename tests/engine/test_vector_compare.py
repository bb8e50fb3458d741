"""Texts that are compared again are compared by their codes, with the same answers."""

import pytest

import omnigraph as og
from omnigraph.engine.tables import vector_compare

SCHEMA = "node P { k: String @key  city: String?  size: enum(small, large)? }\n"
CITIES = ("Rome", None, "Oslo", "Rome", "", None, "rome")
COUNT = 40


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.create_graph(str(tmp_path_factory.mktemp("texts") / "g"), SCHEMA)
    rows = [
        {"type": "P", "data": {"k": f"{n:02}", "city": CITIES[n % 7], "size": ("small", "large", None)[n % 3]}}
        for n in range(COUNT)
    ]
    made.load(rows, mode="append")
    made.mutate('query q() { delete P where k = "00" }')
    return made


def keys(graph: og.Graph, predicate: str) -> list[str]:
    text = f"query q() {{ match {{ $p: P  {predicate} }} return {{ $p.k }} order {{ $p.k }} }}"
    return [row["p.k"] for row in graph.query(text).rows()]


@pytest.mark.parametrize("few_rows", [0, 16])
@pytest.mark.parametrize("few_values", [1, 4_096])
@pytest.mark.parametrize("wanted", ["Rome", "", "nowhere"])
def test_an_answer_is_the_same_each_time(
    graph: og.Graph, wanted: str, few_values: int, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_compare, "_MAX_SINGLE_ROWS", few_rows)
    monkeypatch.setattr(vector_compare, "_MAX_CODED_VALUES", few_values)
    asked = og.open_graph(graph.uri, read_only=True)
    living = range(1, COUNT)

    for _ in range(3):
        assert keys(asked, f'$p.city = "{wanted}"') == [f"{n:02}" for n in living if CITIES[n % 7] == wanted]
        assert keys(asked, f'$p.city != "{wanted}"') == [
            f"{n:02}" for n in living if CITIES[n % 7] not in (wanted, None)
        ]
        assert keys(asked, f'$p.size = "large"  $p.city = "{wanted}"') == [
            f"{n:02}" for n in living if CITIES[n % 7] == wanted and n % 3 == 1
        ]
