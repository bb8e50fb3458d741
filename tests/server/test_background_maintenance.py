"""A server optimises its graphs by itself when its settings say so, whatever the policy says of people."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.ops.auto_maintenance import DEFAULT_ACTOR, ReconcilePolicy
from omnigraph.server.background_maintenance import MaintenanceWorker
from serving import serving
from upkeep_calls import eager

OFTEN = ReconcilePolicy(every_seconds=0.05, budget=1.0)


def maintainers() -> list[str]:
    """The threads of caretakers."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("maintain ")]


def test_it_optimises_and_ends_with_the_server(tmp_path: Path) -> None:
    served = serving(tmp_path, options=eager(), config={"maintenance": OFTEN})
    served.graph.load([{"type": "Person", "data": {"name": "Zed"}}], mode="append")

    deadline = time.monotonic() + 300
    while not served.graph.commits(filters={"operation": "maintain"}) and time.monotonic() < deadline:
        time.sleep(0.05)
    served.service.close()

    assert served.graph.commits(limit=1, include_maintenance=True)[0].actor == DEFAULT_ACTOR
    assert maintainers() == []


def test_without_the_setting_nobody_does(tmp_path: Path) -> None:
    served = serving(tmp_path)

    assert maintainers() == []
    served.service.close()


def test_a_graph_that_is_served_read_only_is_left_alone(tmp_path: Path) -> None:
    served = serving(tmp_path)
    (hosted,) = served.service.registry.graphs.values()
    hosted.config = replace(hosted.config, is_read_only=True)

    caretaker = MaintenanceWorker([hosted], OFTEN)
    caretaker.start()

    assert maintainers() == []
    caretaker.stop()
    served.service.close()


def test_a_graph_that_cannot_be_opened_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    served = serving(tmp_path)
    (hosted,) = served.service.registry.graphs.values()
    hosted.config = replace(hosted.config, uri=str(tmp_path / "later.omni"))
    caretaker = MaintenanceWorker([hosted], OFTEN)
    caretaker.start()

    deadline = time.monotonic() + 300
    while caplog.text.count("will be retried") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    caretaker.stop()
    served.service.close()

    assert caplog.text.count("maintenance of graph people failed and will be retried") >= 2
    assert maintainers() == []


@pytest.mark.parametrize("keep_derived", [True, False])
def test_the_reads_of_a_served_graph_keep_what_they_derived_if_it_is_set_so(tmp_path: Path, keep_derived: bool) -> None:
    served = serving(tmp_path)
    (hosted,) = served.service.registry.graphs.values()
    hosted.config = replace(hosted.config, keep_derived=keep_derived)

    hosted.open()

    assert hosted.session is not None
    assert hosted.session.reads._derived is not None
    assert hosted.session.reads._derived.is_read_only is not keep_derived
    served.service.close()
