"""Routes about the server itself: whether it is there, what it has, how it does."""

from functools import cache
from importlib import metadata

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph import __version__
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.ops.scrub import ScrubReport
from omnigraph.policy import Action
from omnigraph.server.http.openapi import described, document
from omnigraph.server.http.request_bodies import GraphsAnswer, HealthAnswer, ReadyAnswer
from omnigraph.server.http.responses import answer
from omnigraph.server.http_errors import ServerStoppingError
from omnigraph.server.metrics import CONTENT_TYPE
from omnigraph.server.service import exchange_of, service_of

router = APIRouter()


@router.get("/healthz", **described(HealthAnswer, is_open=True))
async def health() -> Response:
    """Whether the server is there. Needs no token."""
    return answer(_health("ok"))


@router.get("/readyz", **described(ReadyAnswer, is_open=True))
async def readiness(request: Request) -> Response:
    """Whether the server takes requests: 503 while it is about to stop. Needs no token.

    Files that were found to be damaged are counted; which they are is told by `/graphs`.
    """
    service = service_of(request)
    if service.is_draining:
        raise ServerStoppingError
    counts = [len(report.damaged) for report in service.scrub_reports().values()]
    state = "off" if service.scrubber is None else "damaged" if any(counts) else "sound"
    scrub = {"state": state, "damaged_graphs": sum(map(bool, counts)), "damaged_files": sum(counts)}
    return answer({**_health("ready"), "scrub": scrub})


@router.get("/metrics", **described(streams=["text/plain"]))
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE)


@router.get("/graphs", **described(GraphsAnswer))
async def graphs(request: Request) -> Response:
    """The graphs of the server that the actor may see."""
    exchange, service = exchange_of(request), service_of(request)
    exchange.action = Action.GRAPH_LIST
    reports = service.scrub_reports()
    seen = [
        {
            "id": one.id,
            "state": "open" if one.is_open else "unavailable",
            "read_only": one.config.is_read_only,
            "scrub": _scrub(reports.get(one.id), is_whole=one.allows(exchange.actor, Action.MAINTAIN)),
        }
        for _, one in sorted(service.hosting.graphs.items())
        if one.allows(exchange.actor, Action.GRAPH_LIST)
    ]
    return answer({"graphs": seen})


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """This document."""
    return answer(document(request.app))


def _scrub(report: ScrubReport | None, *, is_whole: bool) -> dict[str, object] | None:
    """Return how far a scrub is; which files and branches are concerned is for those who may maintain the graph."""
    if report is None:
        return None
    return report.to_json() if is_whole else {**report.to_json(), "damaged": []}


def _health(status: str) -> dict[str, object]:
    return {
        "status": status,
        "version": __version__,
        "source_version": source_version(),
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
    }


@cache
def source_version() -> str | None:
    """Return the revision that the package was installed from; None unless installed straight from a repository.

    Installers write it down beside the package, as `direct_url.json`.
    """
    try:
        text = metadata.distribution("omnigraph").read_text("direct_url.json")
        origin = msgspec.json.decode(text or "{}", type=_Origin)
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return None
    return origin.vcs_info.commit_id


class _Repository(msgspec.Struct):
    commit_id: str | None = None


class _Origin(msgspec.Struct):
    vcs_info: _Repository = msgspec.field(default_factory=_Repository)
