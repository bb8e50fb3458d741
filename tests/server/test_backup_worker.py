"""A server backs its graphs up on a schedule, whatever the policy says of people."""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.config.server import BackupSchedule, build_server_config
from omnigraph.server.backup_worker import BackupWorker
from serving import serving
from worlds import runtime

HOUR = 3_600.0


def backups(place: Path) -> list[og.Backup]:
    return og.list_backups(place, runtime=runtime())


def test_the_server_backs_up_at_its_start_and_tells_when(tmp_path: Path) -> None:
    schedule = BackupSchedule(target=str(tmp_path / "backups"), seconds=HOUR, keep=3)
    served = serving(tmp_path / "server", config={"backup": schedule})

    deadline = time.monotonic() + 60
    while "omnigraph_backup_last_timestamp_seconds{" not in served.logs() and time.monotonic() < deadline:
        time.sleep(0.05)
    served.service.close()
    og.restore_graph(tmp_path / "backups" / "people", tmp_path / "restored", runtime=runtime())

    assert 'omnigraph_backup_last_timestamp_seconds{graph="people"}' in served.logs()
    assert len(backups(tmp_path / "backups" / "people")) == 1
    restored = og.open_graph(str(tmp_path / "restored"), runtime=runtime())
    assert restored.query("match { $p: Person } return { count(*) as n }").rows() == [{"n": 2}]


def test_a_backup_is_made_when_the_newest_is_old_enough(tmp_path: Path) -> None:
    served = serving(tmp_path / "server")
    place = tmp_path / "backups" / "people"
    schedule = BackupSchedule(target=str(tmp_path / "backups"), seconds=HOUR, keep=2)
    og.back_up_graph(served.graph.uri, place, runtime=runtime())
    worker = BackupWorker(served.service.registry.graphs, schedule)
    served.graph.load([{"type": "Person", "data": {"name": "Zed"}}], mode="append")

    worker.back_up_due()
    early = len(backups(place))
    (report,) = worker.collect_reports().values()
    assert report.newest is not None
    worker._reports["people"] = replace(report, newest=report.newest - timedelta(seconds=HOUR))
    worker.back_up_due()
    too_early = len(backups(place))
    worker._due_at.clear()
    worker.back_up_due()

    assert (early, too_early, len(backups(place))) == (1, 1, 2)
    served.service.close()


def test_a_failure_is_counted_and_tried_again(tmp_path: Path) -> None:
    served = serving(tmp_path / "server")
    (tmp_path / "backups" / "people").mkdir(parents=True)
    (tmp_path / "backups" / "people" / "other").write_text("x", encoding="utf-8")
    worker = BackupWorker(served.service.registry.graphs, BackupSchedule(target=str(tmp_path / "backups")))

    worker.back_up_due()
    worker.back_up_due()
    (report,) = worker.collect_reports().values()
    failures = report.failures
    (tmp_path / "backups" / "people" / "other").unlink()
    worker._due_at.clear()
    worker.back_up_due()

    (report,) = worker.collect_reports().values()
    # The second call came before the next attempt was due.
    assert (failures, report.failures, report.newest is None) == (1, 1, False)
    served.service.close()


@pytest.mark.parametrize("target", ["backups", "s3://bucket/backups/"])
def test_the_settings_name_the_place_and_the_hours(target: str, tmp_path: Path) -> None:
    file = tmp_path / "omnigraph.toml"
    file.write_text(f'[backup]\ntarget = "{target}"\nevery_hours = 0.5\nkeep = 7\n', encoding="utf-8")

    schedule = build_server_config(file, {}, ["people=people.omni"]).backup

    assert schedule is not None
    base = str(tmp_path / "backups") if target == "backups" else "s3://bucket/backups"
    assert (schedule.locate("people"), schedule.seconds, schedule.keep) == (f"{base}/people", 1_800.0, 7)
