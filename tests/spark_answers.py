"""Reads through Spark, and what the memory engine says of the same."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import omnigraph as og
from corpus_format import Case
from corpus_reading import graph_of_case
from corpus_runner import schema_of_case
from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.errors import OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.query import QueryCall, begin
from omnigraph.spark.query.query_result import fetch_result
from omnigraph.spark.spark_graph import SparkGraph
from worlds import FAST, runtime

UNSUPPORTED = "form_unsupported"


@dataclass(frozen=True)
class Question:
    """A query and its parameters."""

    text: str
    params: Mapping[str, Any]


def ask_spark(graph: og.Graph, question: Question) -> Result:
    """What Spark answers."""
    snapshot = graph.snapshot()
    # With the session of the handle, as `Graph.spark` has it.
    rows = SparkGraph(graph._session, snapshot).query_rows(question.text, params=question.params)
    return fetch_result(rows, commit_id=snapshot.commit.id, target=Target(snapshot.branch))


def compare_engines(graph: og.Graph, question: Question) -> bool:
    """Compare what Spark and the memory engine answer or refuse; False if Spark does not run a form of the query."""
    expected = found = None
    expected_error = found_error = None
    try:
        expected = graph.query(question.text, params=question.params)
    except OmnigraphError as error:
        expected_error = error.code, str(error)
    try:
        found = ask_spark(graph, question)
    except OmnigraphError as error:
        if error.code == UNSUPPORTED:
            return False
        found_error = error.code, str(error)
    assert found_error == expected_error, question
    if expected is not None and found is not None:
        assert found.schema == expected.schema, question
        is_ordered = _is_ordered(graph, question)
        assert _rows(found, is_ordered) == _rows(expected, is_ordered), question
    return True


def _is_ordered(graph: og.Graph, question: Question) -> bool:
    """Whether the order of the rows is part of the answer: an order inside of a stage, block or window is not."""
    call = QueryCall(source=Source(question.text), params=question.params)
    bound, _ = begin(graph._session, call, graph.snapshot(), Budget(SystemClock()))
    return bound.is_ordered


def _rows(result: Result, is_ordered: bool) -> Any:
    rows = [json.dumps(row, sort_keys=True) for row in json.loads(json.dumps(result.to_json()))["rows"]]
    return rows if is_ordered else Counter(rows)


def compare_case(case: Case) -> Sequence[bool]:
    """Compare the answers of a case of the corpus."""
    graph = og.Graph.open(graph_of_case(case, schema_of_case(case)), is_read_only=True, runtime=runtime(FAST))
    return [compare_engines(graph, Question(case.blocks["query"], answer.given)) for answer in case.answers]
