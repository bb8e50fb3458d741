"""Routes of the server itself: health, readiness, metrics, its graphs and its OpenAPI document."""

from functools import cache, partial
from importlib import metadata

import msgspec
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from omnigraph import __version__
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION
from omnigraph.ops.scrub import ScrubReport
from omnigraph.policy import Action, Actor
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.openapi import build_document, describe_route
from omnigraph.server.http.relaying import gather_metrics, relay_home
from omnigraph.server.http.request_bodies import GraphsAnswer, HealthAnswer, ReadyAnswer
from omnigraph.server.http.responses import respond_json, respond_large_json
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.metrics import CONTENT_TYPE
from omnigraph.server.service import collect_scrub_reports, get_exchange, get_service, summarize_damage
from omnigraph.struct_decoder import get_decoder

router = APIRouter()


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", **describe_route(HealthAnswer, is_open=True))
async def health() -> Response:
    """Return that the server is alive, and its version. Needs no token."""
    return respond_json(_build_health("ok"))


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", **describe_route(ReadyAnswer, is_open=True))
async def readiness(request: Request) -> Response:
    """Return whether the server accepts requests: 503 while it is shutting down or saturated. Needs no token.

    It is saturated while its queue is full, or all of its threads have been busy with the same calls for 5 seconds.

    Damaged files are counted here; `/graphs` lists them.
    """
    service = get_service(request)
    if service.is_draining:
        raise ServerUnavailableError.server_stopping()
    if service.is_saturated:
        raise ServerUnavailableError.server_busy()
    is_verified, damaged_graphs, damaged_files = summarize_damage(service)
    state = "damaged" if damaged_files else "sound"
    if not is_verified:
        state = "off"
    scrub = {"state": state, "damaged_graphs": damaged_graphs, "damaged_files": damaged_files}
    return respond_json({**_build_health("ready"), "scrub": scrub})


@router.get("/metrics", **describe_route(streams=["text/plain"]))
async def metrics(request: Request) -> Response:
    """Return the metrics in the Prometheus text format; of those by graph, only of graphs whose rows it may all see.

    A server with several workers returns those of all of them, each with the label `worker`.
    """
    actor, service = get_exchange(request).actor, get_service(request)

    def is_visible(graph: str) -> bool:
        hosted = service.registry.graphs.get(graph)
        if hosted is None or not hosted.allows(actor, Action.GRAPH_LIST):
            return False
        # Commits, conflicts, bytes and files follow all rows of a graph, so they are for actors who see them all.
        return not hosted.find_rules_key(actor, None)

    # In a thread: the text of many routes, graphs and buckets takes milliseconds, in which no request would be served.
    text = await run_in_threadpool(service.metrics.render, is_visible)
    return Response(await gather_metrics(request, text), media_type=CONTENT_TYPE)


@router.get("/graphs", **describe_route(GraphsAnswer))
async def graphs(request: Request) -> Response:
    """List the graphs that the actor may see."""
    exchange, service = get_exchange(request), get_service(request)
    exchange.action = Action.GRAPH_LIST
    # The progress of the scrub is known to the worker that verifies files.
    relayed = await relay_home(request)
    if relayed is not None:
        return relayed
    reports = collect_scrub_reports(service)
    visible = [
        {
            "id": hosted.id,
            "state": "open" if hosted.is_open else "unavailable",
            "read_only": hosted.config.is_read_only,
            "scrub": _encode_scrub(reports.get(hosted.id), hosted, exchange.actor),
        }
        for _, hosted in sorted(service.registry.graphs.items())
        if hosted.allows(exchange.actor, Action.GRAPH_LIST)
    ]
    return respond_json({"graphs": visible})


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return await respond_large_json(partial(build_document, request.app), get_service(request).limits)


def _encode_scrub(report: ScrubReport | None, hosted: ServedGraph, actor: Actor) -> dict[str, object] | None:
    """Return the progress of a scrub, with the damaged files if the actor may maintain the graph.

    Actors who do not see all rows get none: its numbers of files and bytes follow all rows.
    """
    if report is None or hosted.find_rules_key(actor, None):
        return None
    # The names of files and branches are for actors that may maintain the graph.
    is_whole = hosted.allows(actor, Action.MAINTAIN)
    return report.to_json() if is_whole else {**report.to_json(), "damaged": []}


def _build_health(status: str) -> dict[str, object]:
    return {
        "status": status,
        "version": __version__,
        "source_version": find_source_version(),
        "internal_schema_version": INTERNAL_SCHEMA_VERSION,
    }


@cache  # the installation does not change while the process runs
def find_source_version() -> str | None:
    """Return the revision that the package was installed from, or None unless installed from a repository."""
    # Installers record it beside the package, in `direct_url.json` (PEP 610).
    try:
        text = metadata.distribution("omnigraph").read_text("direct_url.json")
        origin = get_decoder(_DirectUrl).decode(text or "{}")
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return None
    return origin.vcs_info.commit_id


class _VcsInfo(msgspec.Struct):
    commit_id: str | None = None


class _DirectUrl(msgspec.Struct):
    vcs_info: _VcsInfo = msgspec.field(default_factory=_VcsInfo)
