"""Maintenance of a graph behind a server. The work is the server's; who asks waits for it."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.check import CheckResult
from omnigraph.ops.cleanup import CleanupResult
from omnigraph.ops.embed import EmbedResult
from omnigraph.ops.indexes import IndexReport
from omnigraph.ops.operations import Operations
from omnigraph.ops.optimize import OptimizeResult
from omnigraph.ops.recoveries import Recovery
from omnigraph.ops.repair_result import RepairResult
from omnigraph.ops.session import ANONYMOUS
from omnigraph.ops.verify import VerifyResult
from omnigraph.server.client import maintenance_responses as answers
from omnigraph.server.client.requests import GraphCalls, check_actor, format_optional_instant
from omnigraph.server.http.paging import MAX_PAGE_ITEMS

MAINTENANCE_TIMEOUT_SECONDS = 24 * 3_600.0
"""How long maintenance may take."""

Progress = Callable[[Any], None] | None


class RemoteMaintenance:
    """What keeps a graph behind a server fast and sound; each method is that of `UpkeepVerbs`, which says more.

    Nobody tells how far it is: `progress` is taken, and not called.
    """

    _calls: GraphCalls

    @property
    def uri(self) -> str:
        """The graph's address on the server."""
        return f"{self._calls.transport.url}/graphs/{self._calls.graph}"

    def indexes(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> list[IndexReport]:
        """Every index that is declared or there, with the share of rows that it covers."""
        said = self._calls.get("indexes", branch=branch, snapshot=snapshot, at=format_optional_instant(at))
        return [answers.decode_index(one) for one in said["indexes"]]

    def operations(self) -> Operations:
        """Operations that are at work, or died and wait for recovery."""
        return answers.decode_operations(self._calls.get("operations"))

    def recoveries(self, *, limit: int | None = None, before: str | None = None) -> list[Recovery]:
        """What recovery did about operations that died, newest first."""
        found: list[Recovery] = []
        is_behind = before is None
        for page in self._calls.iter_pages("recoveries", limit=MAX_PAGE_ITEMS):
            for one in page["recoveries"]:
                if is_behind:
                    found.append(answers.decode_recovery(one))
                is_behind = is_behind or one["id"] == before
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def embed(  # noqa: PLR0913 - the choices of a run, all by name but the type
        self,
        type_name: str,
        *,
        property: str | None = None,
        batch: int | None = None,
        limit: int | None = None,
        all: bool = False,
        dry_run: bool = False,
        branch: str = "main",
        actor: str = ANONYMOUS,
        message: str | None = None,
        progress: Progress = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> EmbedResult:
        """Compute the vectors that `@embed` declares and that are missing, through the server's provider."""
        del progress
        check_actor(actor)
        body = {
            "type": type_name,
            "property": property,
            "batch": batch,
            "limit": limit,
            "all": all,
            "dry_run": dry_run,
            "branch": branch,
            "message": message,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return answers.decode_embed(self._calls.post("embed", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

    def optimize(  # noqa: PLR0913 - the choices of a run, all by name
        self,
        *,
        types: Sequence[str] | None = None,
        all_indexes: bool = False,
        dry_run: bool = False,
        engine: str = "local",
        master: str | None = None,
        branch: str = "main",
        actor: str = ANONYMOUS,
        message: str | None = None,
        progress: Progress = None,
    ) -> OptimizeResult:
        """Merge small fragments, drop deleted rows from files, build and complete indexes."""
        del progress
        check_actor(actor)
        if engine == "spark" or master is not None:
            raise BadArgumentError("engine", "`spark`", "a server does it by itself: leave it out")
        body = {
            "types": types,
            "all_indexes": all_indexes,
            "dry_run": dry_run,
            "branch": branch,
            "message": message,
        }
        return answers.decode_optimize(self._calls.post("optimize", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        grace: timedelta | None = None,
        confirm: bool = False,
        progress: Progress = None,
    ) -> CleanupResult:
        """Collect what no kept commit needs any more; without `confirm` a preview."""
        del progress
        body = {
            "keep": keep,
            "older_than_seconds": None if older_than is None else older_than.total_seconds(),
            "grace_seconds": None if grace is None else grace.total_seconds(),
            "confirm": confirm,
        }
        return answers.decode_cleanup(self._calls.post("cleanup", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

    def check(
        self,
        *,
        branch: str | None = None,
        quick: bool = False,
        deep: bool = False,
        record: bool = False,
        actor: str = ANONYMOUS,
        message: str | None = None,
        progress: Progress = None,
    ) -> CheckResult:
        """Verify manifests, files, rows, indexes and operations; `record` checksums that are missing."""
        del progress
        check_actor(actor)
        body = {"branch": branch, "quick": quick, "deep": deep, "record": record, "message": message}
        return answers.decode_check(self._calls.post("check", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), self.uri)

    def verify(self, *, branch: str = "main", digest: str | None = None, progress: Progress = None) -> VerifyResult:
        """Prove what a branch shows by the digests of its commits."""
        del progress
        body = {"branch": branch, "digest": digest}
        return answers.decode_verify(self._calls.post("verify", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), self.uri)

    def repair(
        self,
        *,
        confirm: bool = False,
        force: bool = False,
        deep: bool = False,
        branch: str | None = None,
        source: str | os.PathLike[str] | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
    ) -> RepairResult:
        """Find tables that other tools have damaged, and what could take their place: a preview, and no more."""
        check_actor(actor)
        if confirm or force or message is not None:
            raise BadArgumentError("confirm", "given", "a repair is confirmed where the graph is, not through a server")
        if source is not None:
            raise BadArgumentError("source", "given", "files are put back where the graph is, not through a server")
        body = {"branch": branch, "deep": deep}
        return answers.decode_repair(self._calls.post("repair", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), self.uri)
