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
from omnigraph.server.http.openapi import build_document, describe_route
from omnigraph.server.http.request_bodies import GraphsAnswer, HealthAnswer, ReadyAnswer
from omnigraph.server.http.responses import respond_json
from omnigraph.server.http_errors import ServerStoppingError
from omnigraph.server.metrics import CONTENT_TYPE
from omnigraph.server.service import get_exchange, get_service

router = APIRouter()


@router.get("/healthz", **describe_route(HealthAnswer, is_open=True))
async def health() -> Response:
    """Whether the server is there. Needs no token."""
    return respond_json(_build_health("ok"))


@router.get("/readyz", **describe_route(ReadyAnswer, is_open=True))
async def readiness(request: Request) -> Response:
    """Whether the server takes requests: 503 while it is about to stop. Needs no token.

    Files that were found to be damaged are counted; which they are is told by `/graphs`.
    """
    service = get_service(request)
    if service.is_draining:
        raise ServerStoppingError
    counts = [len(report.damaged) for report in service.collect_scrub_reports().values()]
    state = "off" if service.scrubber is None else "damaged" if any(counts) else "sound"
    scrub = {"state": state, "damaged_graphs": sum(map(bool, counts)), "damaged_files": sum(counts)}
    return respond_json({**_build_health("ready"), "scrub": scrub})


@router.get("/metrics", **describe_route(streams=["text/plain"]))
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    return Response(get_service(request).metrics.render(), media_type=CONTENT_TYPE)


@router.get("/graphs", **describe_route(GraphsAnswer))
async def graphs(request: Request) -> Response:
    """The graphs of the server that the actor may see."""
    exchange, service = get_exchange(request), get_service(request)
    exchange.action = Action.GRAPH_LIST
    reports = service.collect_scrub_reports()
    seen = [
        {
            "id": one.id,
            "state": "open" if one.is_open else "unavailable",
            "read_only": one.config.is_read_only,
            "scrub": _encode_scrub(reports.get(one.id), is_whole=one.allows(exchange.actor, Action.MAINTAIN)),
        }
        for _, one in sorted(service.registry.graphs.items())
        if one.allows(exchange.actor, Action.GRAPH_LIST)
    ]
    return respond_json({"graphs": seen})


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """This document."""
    return respond_json(build_document(request.app))


def _encode_scrub(report: ScrubReport | None, *, is_whole: bool) -> dict[str, object] | None:
    """Return how far a scrub is; which files and branches are concerned is for those who may maintain the graph."""
    if report is None:
        return None
    return report.to_json() if is_whole else {**report.to_json(), "damaged": []}


def _build_health(status: str) -> dict[str, object]:
    return {
        "status": status,
        "version": __version__,
        "source_version": find_source_version(),
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
    }


@cache
def find_source_version() -> str | None:
    """Return the revision that the package was installed from; None unless installed straight from a repository.

    Installers write it down beside the package, as `direct_url.json`.
    """
    try:
        text = metadata.distribution("omnigraph").read_text("direct_url.json")
        origin = msgspec.json.decode(text or "{}", type=_DirectUrl)
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return None
    return origin.vcs_info.commit_id


class _VcsInfo(msgspec.Struct):
    commit_id: str | None = None


class _DirectUrl(msgspec.Struct):
    vcs_info: _VcsInfo = msgspec.field(default_factory=_VcsInfo)
