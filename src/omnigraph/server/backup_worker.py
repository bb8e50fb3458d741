"""A thread of a server that backs its graphs up on a schedule. No policy applies to it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from omnigraph.clock import parse_instant
from omnigraph.config.server import BackupSchedule
from omnigraph.errors import OmnigraphError
from omnigraph.ops.backup import BackupCall, back_up
from omnigraph.ops.backup_repository import Repository
from omnigraph.ops.open import open_session
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.storage.uri import parse_uri
from omnigraph.telemetry import log

# How long a stopping server waits for the thread. A backup that is cut off is removed by the next one.
_SECONDS_TO_STOP = 5.0
# A backup that failed is tried again after this time, or after the interval if that is shorter.
_RETRY_SECONDS = 300.0
# Graphs are looked through this often, as clients may create some.
_ROUND_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The backups of one graph, as far as this process knows."""

    newest: datetime | None = None
    """When the newest backup was begun, or was last found to be up to date."""
    failures: int = 0
    """The number of attempts that failed since the server started."""


class BackupWorker:
    """A thread that adds a backup of each graph whose newest one is older than the interval, until it is stopped."""

    def __init__(self, graphs: Mapping[str, ServedGraph], schedule: BackupSchedule) -> None:
        self._graphs = graphs
        self._schedule = schedule
        self._reports: dict[str, BackupReport] = {}
        # When the next attempt at each graph is due, by the clock that is never set.
        self._due_at: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="back up", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the backup in progress, waiting for at most a few seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    def collect_reports(self) -> dict[str, BackupReport]:
        """Return what is known of the backups of each graph."""
        return dict(self._reports)

    def back_up_due(self) -> None:
        """Add a backup of every graph that is due."""
        graphs = list(self._graphs.values())
        served = {hosted.id for hosted in graphs}
        self._reports = {name: report for name, report in self._reports.items() if name in served}
        self._due_at = {name: due_at for name, due_at in self._due_at.items() if name in served}
        for hosted in graphs:
            now = hosted.runtime.clock.monotonic()
            if self._stopped.is_set() or self._due_at.get(hosted.id, now) > now:
                continue
            try:
                wait = self._back_up(hosted)
            except OmnigraphError as error:
                report = self._reports.get(hosted.id, BackupReport())
                self._reports[hosted.id] = replace(report, failures=report.failures + 1)
                wait = min(_RETRY_SECONDS, self._schedule.seconds)
                log.error("graph %s can't be backed up: %s", hosted.id, error)
            self._due_at[hosted.id] = now + wait

    def _back_up(self, hosted: ServedGraph) -> float:
        """Add a backup of a graph if it is due, and return the seconds until its next backup."""
        target = self._schedule.locate(hosted.id)
        report = self._reports.get(hosted.id, BackupReport())
        if report.newest is None:
            # Asked once, so that a server that is restarted often does not back up each time.
            newest = Repository(parse_uri(target), hosted.runtime).find_newest()
            report = replace(report, newest=None if newest is None else parse_instant(newest.at))
            self._reports[hosted.id] = report
        now = hosted.runtime.clock.now()
        due = now if report.newest is None else report.newest + timedelta(seconds=self._schedule.seconds)
        if now < due:
            return (due - now).total_seconds()
        # The server itself acts here, not an actor of its policies.
        session = open_session(hosted.config.uri, is_read_only=True, runtime=replace(hosted.runtime, policy=None))
        done = back_up(session, BackupCall(target=target, keep=self._schedule.keep))
        self._reports[hosted.id] = replace(report, newest=now)
        if done.is_new:
            log.info("backup %s of graph %s: %d files, %d bytes", done.backup.id, hosted.id, done.files, done.nbytes)
        return self._schedule.seconds

    def _run(self) -> None:
        delay = 0.0
        while not self._stopped.wait(delay):
            self.back_up_due()
            delay = min(_ROUND_SECONDS, self._schedule.seconds)
