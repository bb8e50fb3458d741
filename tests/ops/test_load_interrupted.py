"""A load that is interrupted leaves nothing, wherever it was."""

from pathlib import Path

import pytest

from mutating import new_graph, rows
from omnigraph.ops.load_call import Progress

RECORDS = [{"type": "Person", "data": {"name": f"p{number}"}} for number in range(100)]


@pytest.mark.parametrize("phase", ["read", "check", "write"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    graph = new_graph(tmp_path)
    spools = tmp_path / "tmp"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    files = sorted(path for path in tmp_path.rglob("*.lance") if path.is_file())

    def interrupt(progress: Progress) -> None:
        if progress.phase == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.load(RECORDS, mode="append", progress=interrupt)

    assert rows(graph, "Person", "id") == []
    assert graph.operations().pending == ()
    assert list(spools.iterdir()) == []
    assert sorted(path for path in tmp_path.rglob("*.lance") if path.is_file()) == files


def test_the_next_load_goes_through(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "write":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.load(RECORDS, mode="append", progress=interrupt)
    done = graph.load(RECORDS, mode="append")

    assert done.nodes["Person"].inserted == 100
