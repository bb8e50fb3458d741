"""What tasks leave behind the end of their operation goes when somebody opens the graph, and not too early."""

import os
from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.commit.publisher import arm


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.mark.parametrize("name", ["save-1-0.piece", "1-0-abcd.note", "1-0-abcd.0.piece"])
def test_what_a_task_leaves_behind_the_end_of_its_operation_is_swept_when_it_is_old(graph: og.Graph, name: str) -> None:
    stray = Path(graph.uri, "__recovery", f"01M00000000000000000000000-{name}")
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"{}")

    og.open_graph(graph.uri)
    is_there_while_young = stray.exists()
    os.utime(stray, (0, 0))
    og.open_graph(graph.uri)

    assert is_there_while_young
    assert not stray.exists()


def test_the_objects_of_an_operation_at_work_are_not_swept_however_old(graph: og.Graph) -> None:
    session = graph._session
    armed = arm(session.log, session.head(), operation="load", actor="test")
    note = Path(graph.uri, "__recovery", f"{armed.lease.operation_id}-1-0-abcd.note")
    note.write_bytes(b"{}")
    os.utime(note, (0, 0))

    og.open_graph(graph.uri)
    is_there = note.exists()
    note.unlink()
    armed.lease.disarm()

    assert is_there


def test_what_a_repair_has_put_aside_is_not_swept(graph: og.Graph) -> None:
    aside = Path(graph.uri, "__recovery", "damaged-00000000000000000-1-main")
    aside.parent.mkdir(exist_ok=True)
    aside.write_bytes(b"x")
    os.utime(aside, (0, 0))

    og.open_graph(graph.uri)

    assert aside.exists()
