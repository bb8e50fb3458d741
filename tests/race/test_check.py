"""A check beside writers, maintenance and cleanup: it never takes what is going on for damage."""

import threading
from datetime import timedelta
from pathlib import Path

import omnigraph as og
from omnigraph.ops.check_findings import FindingSeverity
from upkeep_calls import opened
from worlds import runtime


def test_a_check_beside_everybody_else_finds_no_error(tmp_path: Path) -> None:
    graph = og.create_graph(
        str(tmp_path / "g"), "node P { name: String @key  n: I64? }\nedge K: P -> P", runtime=runtime()
    )
    graph.load([{"type": "P", "data": {"name": "a"}}], mode="append")
    enough, rounds = threading.Event(), threading.Semaphore(0)
    failures: list[Exception] = []

    def churn() -> None:
        own = opened(graph.uri)
        number = 0
        try:
            while not enough.is_set():
                number += 1
                person: dict[str, object] = {"type": "P", "data": {"name": f"p{number % 7}", "n": number}}
                edge: dict[str, object] = {"edge": "K", "from": f"p{number % 7}", "to": "a"}
                own.load([person, edge], mode="merge")
                if number % 3 == 0:
                    own.optimize()
                    own.cleanup(keep=1, grace=timedelta(0), confirm=True)
                rounds.release()
        except Exception as error:  # noqa: BLE001 - told by the test
            failures.append(error)
            rounds.release(5)

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        found = []
        for _ in range(5):
            found.append(og.check_graph(graph.uri, runtime=runtime()))
            rounds.acquire()  # however slow the writer is, the next check finds more than this one
    finally:
        enough.set()
        writer.join()

    assert failures == []
    assert [one.message for result in found for one in result.findings if one.severity is FindingSeverity.ERROR] == []
    assert found[-1].commits > found[0].commits
    assert og.check_graph(graph.uri, runtime=runtime()).findings == ()
