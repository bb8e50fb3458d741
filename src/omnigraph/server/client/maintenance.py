"""Maintenance of a graph on a server. The server does the work; a call returns when it is done."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from omnigraph.errors import BadArgumentError
from omnigraph.json_struct import decode_struct
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
from omnigraph.server.client.requests import GraphCalls, build_state, check_actor
from omnigraph.server.client.responses import decode_operations, decode_repair
from omnigraph.server.http.paging import MAX_PAGE_ITEMS

# The server sends nothing until the work is done, so the timeout of the socket limits the whole call.
MAINTENANCE_TIMEOUT_SECONDS = 24 * 3_600.0

Progress = Callable[[Any], None] | None


class RemoteMaintenance:
    """The maintenance of a graph on a server. Each method is documented in `UpkeepVerbs`.

    A server reports no progress: `progress` is accepted, so that calls are the same, but never called.
    """

    _calls: GraphCalls

    @property
    def uri(self) -> str:
        """The graph's address on the server."""
        return f"{self._calls.transport.url}/graphs/{self._calls.graph}"

    def indexes(
        self,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        recall: bool = False,
    ) -> list[IndexReport]:
        """List the indexes that are declared or exist, with the number of rows that each covers, and their recall."""
        asked = {"recall": "true"} if recall else {}
        page = self._calls.get("indexes", **build_state(branch, snapshot, at), **asked)
        return [decode_struct(IndexReport, document) for document in page["indexes"]]

    def operations(self) -> Operations:
        """Return the operations that are running, or that died and wait for recovery."""
        return decode_operations(self._calls.get("operations"))

    def recoveries(self, *, limit: int | None = None, before: str | None = None) -> list[Recovery]:
        """List what recovery did about operations that died, newest first; with `before`, those older than that one."""
        recoveries: list[Recovery] = []
        # The route has no `before`: newer entries are read and skipped.
        is_past_before = before is None
        for page in self._calls.iter_pages("recoveries", limit=MAX_PAGE_ITEMS):
            for document in page["recoveries"]:
                if is_past_before:
                    recoveries.append(decode_struct(Recovery, document))
                is_past_before = is_past_before or document["id"] == before
            if limit is not None and len(recoveries) >= limit:
                break
        return recoveries[:limit]

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
        """Compute the missing vectors that `@embed` declares, with the provider configured on the server."""
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
        return decode_struct(EmbedResult, self._calls.post("embed", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

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
        """Compact small fragments and deleted rows, and build or extend indexes."""
        del progress
        check_actor(actor)
        if engine == "spark" or master is not None:
            raise BadArgumentError("engine", "`spark`", "a server runs maintenance without Spark; leave it out")
        body = {
            "types": types,
            "all_indexes": all_indexes,
            "dry_run": dry_run,
            "branch": branch,
            "message": message,
        }
        return decode_struct(OptimizeResult, self._calls.post("optimize", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        grace: timedelta | None = None,
        confirm: bool = False,
        progress: Progress = None,
    ) -> CleanupResult:
        """Remove data that no kept commit needs; without `confirm`, only preview it."""
        del progress
        body = {
            "keep": keep,
            "older_than_seconds": None if older_than is None else older_than.total_seconds(),
            "grace_seconds": None if grace is None else grace.total_seconds(),
            "confirm": confirm,
        }
        return decode_struct(CleanupResult, self._calls.post("cleanup", body, seconds=MAINTENANCE_TIMEOUT_SECONDS))

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
        """Check manifests, files, rows, indexes and operations; with `record`, also store missing checksums."""
        del progress
        check_actor(actor)
        body = {"branch": branch, "quick": quick, "deep": deep, "record": record, "message": message}
        return decode_struct(
            CheckResult, self._calls.post("check", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), uri=self.uri
        )

    def verify(self, *, branch: str = "main", digest: str | None = None, progress: Progress = None) -> VerifyResult:
        """Verify the rows of a branch against the digests of its commits."""
        del progress
        body = {"branch": branch, "digest": digest}
        return decode_struct(
            VerifyResult, self._calls.post("verify", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), uri=self.uri
        )

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
        """Find tables that other tools have damaged, and what could replace them. Always a preview."""
        check_actor(actor)
        if confirm or force or message is not None:
            raise BadArgumentError("confirm", "given", "a server only previews repairs; confirm on the graph itself")
        if source is not None:
            raise BadArgumentError("source", "given", "a server restores no files; repair the graph itself")
        body = {"branch": branch, "deep": deep}
        return decode_repair(self._calls.post("repair", body, seconds=MAINTENANCE_TIMEOUT_SECONDS), self.uri)
