"""A snapshot and its parameters decide a plan, and nothing else: no memory, no process, no setting of the cache."""

import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import omnigraph as og
from corpus_format import read_cases
from corpus_reading import graph_of_case
from corpus_runner import schema_of_case
from omnigraph.errors import OmnigraphError
from omnigraph.options import Options
from worlds import FAST, runtime

HERE = Path(__file__).parent
FILES = sorted((HERE / "reading").glob("*.case"))
NO_MEMORY = replace(FAST, cache_bytes=0, derived_cache=False)
ELSEWHERE = f"""import json, sys
sys.path[:0] = {[str(HERE), str(HERE.parent)]!r}
from test_same_plan import plans
print(json.dumps(plans(json.load(sys.stdin))))
"""

Question = tuple[str, str, dict[str, object]]


@cache
def questions() -> list[Question]:
    """Every query of the reading cases: where its graph is, the text, the parameters."""
    cases = [case for path in FILES for case in read_cases(path) if case.reads]
    return [
        (graph_of_case(case, schema_of_case(case)), case.blocks["query"], dict(answer.given))
        for case in cases
        for answer in case.answers
    ]


def plans(asked: Iterable[Question], options: Options = FAST, *, is_warm: bool = False) -> list[str]:
    """How each is explained; `is_warm`: after it was run, by the handle that ran all before it."""
    handles: dict[str, og.Graph] = {}
    found = []
    for uri, query, given in asked:
        graph = handles.setdefault(uri, og.Graph.open(uri, is_read_only=True, runtime=runtime(options)))
        if is_warm:
            with suppress(OmnigraphError):  # a case of what is refused
                graph.query(query, params=given).to_arrow()
        try:
            found.append(str(graph.explain(query, params=given)))
        except OmnigraphError as error:
            found.append(error.code)
    return found


@pytest.fixture(scope="module")
def first() -> list[str]:
    """How every question is explained by handles that have answered nothing."""
    return plans(questions())


def test_there_are_plans_to_compare(first: list[str]) -> None:
    assert len([text for text in first if text.startswith("query ")]) > 300


def test_a_plan_is_the_same_after_everything_was_read(first: list[str]) -> None:
    plans(questions(), is_warm=True)

    assert plans(questions(), is_warm=True) == first


def test_a_plan_is_the_same_without_any_memory(first: list[str]) -> None:
    assert plans(questions(), NO_MEMORY) == first


def test_a_plan_is_the_same_in_another_process(first: list[str]) -> None:
    some = range(0, len(first), 4)
    asked = json.dumps([questions()[place] for place in some])

    found = subprocess.run([sys.executable, "-c", ELSEWHERE], input=asked, capture_output=True, text=True, check=True)

    assert json.loads(found.stdout) == [first[place] for place in some]


def test_an_analysed_run_has_as_many_rows_as_the_answer() -> None:
    differing = []
    for uri, query, given in questions()[::3]:
        graph = og.Graph.open(uri, is_read_only=True, runtime=runtime())
        with suppress(OmnigraphError):  # a case of what is refused
            measured = graph.explain(query, params=given, analyze=True).measured
            if measured is None or measured.rows != graph.query(query, params=given).row_count:
                differing.append(query)

    assert differing == []
