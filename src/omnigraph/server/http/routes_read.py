"""Routes that read: queries, plans and whole graphs, of any state."""

from collections.abc import Iterator
from functools import partial
from io import SEEK_END
from typing import IO, Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.engine.result import Result
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.policy import Action
from omnigraph.server.http.openapi import described
from omnigraph.server.http.request_arguments import (
    BranchName,
    CommitId,
    EntityId,
    EntityType,
    GraphId,
    Instant,
    body_of,
    instant_of,
    params_of,
    part_of,
)
from omnigraph.server.http.request_bodies import (
    ARROW,
    BYTES,
    JSON,
    NDJSON,
    ExplainAnswer,
    ExplainBody,
    ExportBody,
    ReadBody,
    ResultAnswer,
)
from omnigraph.server.http.responses import (
    answer,
    result_document,
    result_headers,
    result_pieces,
    streamed,
    wanted_stream,
)
from omnigraph.server.service import Service, exchange_of, service_of

router = APIRouter()
SOURCE_NAME = "query.gq"
Property = Annotated[str, Query(alias="property", description="The Blob property.", max_length=256)]
_PIECE_BYTES = 1024 * 1024


@router.post("/graphs/{graph}/query", **described(ResultAnswer, body=ReadBody, streams=[NDJSON, ARROW]))
async def query(request: Request, graph: GraphId) -> Response:
    """Run a query. With `Accept: application/x-ndjson` or `application/vnd.apache.arrow.stream` rows are streamed."""
    body = await body_of(request, ReadBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, body.branch)
    return await answer_query(service, request, handle, body, Source(body.query, SOURCE_NAME))


async def answer_query(service: Service, request: Request, graph: Graph, body: ReadBody, source: Source) -> Response:
    """The answer to a query: a document, or the stream that the request wants."""
    budget = service.budget(body.seconds, body.memory_bytes)
    stream = wanted_stream(request)
    if stream is not None and body.seconds is None:  # then `seconds` of the settings is for finding the rows alone
        budget.reading_seconds = service.limits.stream_seconds

    def asked() -> tuple[Result, bytes]:
        result = graph.query(
            source,
            name=body.name,
            params=params_of(body),
            branch=body.branch,
            snapshot=body.snapshot,
            at=instant_of(body.at),
            budget=budget,
        )
        return result, b"" if stream is not None else result_document(result, service.limits)

    result, text = await service.read(request, budget, asked)
    if stream is not None:
        return await streamed(service, request, result_pieces(result, stream), stream, result_headers(result))
    exchange_of(request).commit = result.commit_id
    return Response(text, media_type=JSON)


@router.post("/graphs/{graph}/explain", **described(ExplainAnswer, body=ExplainBody))
async def explain(request: Request, graph: GraphId) -> Response:
    """How a query is run; with `analyze` it is run, and each step tells what it did."""
    body = await body_of(request, ExplainBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, body.branch)
    budget = service.budget(body.seconds, body.memory_bytes)
    explained = await service.read(
        request,
        budget,
        partial(
            handle.explain,
            Source(body.query, SOURCE_NAME),
            name=body.name,
            params=params_of(body),
            branch=body.branch,
            snapshot=body.snapshot,
            at=instant_of(body.at),
            analyze=body.analyze,
            budget=budget,
        ),
    )
    return answer({**explained.to_json(), "text": explained.text})


@router.get(
    "/graphs/{graph}/blob",
    **described(
        streams=[BYTES],
        also={
            "204": "The value is null.",
            "206": "The part that `Range` asks for.",
            "416": "It begins behind the end.",
        },
    ),
)
async def blob(
    request: Request,
    graph: GraphId,
    type_: EntityType,
    id_: EntityId,
    property_: Property,
    branch: BranchName = "main",
    snapshot: CommitId = None,
    at: Instant = None,
) -> Response:
    """The bytes of a Blob property of one node or edge, or the part of them that `Range` asks for."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)

    def opened() -> tuple[str, IO[bytes] | None, int]:
        state = handle.snapshot(branch=branch, snapshot=snapshot, at=instant_of(at))
        found = handle.blob(type_, id_, property_, branch=branch, snapshot=state.commit.id)
        return state.commit.id, found, 0 if found is None else found.seek(0, SEEK_END)

    commit_id, found, size = await service.run(request, opened)
    headers = {"Omnigraph-Commit": commit_id}
    if found is None:
        return Response(status_code=204, headers=headers)
    part = part_of(request.headers.get("range"), size)
    headers |= {"Content-Length": str(len(part)), "Accept-Ranges": "bytes"}
    if len(part) < size:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    pieces = _bytes_of(found, part)
    return await streamed(service, request, pieces, BYTES, headers, 206 if len(part) < size else 200)


def _bytes_of(file: IO[bytes], part: range) -> Iterator[bytes]:
    with file:
        file.seek(part.start)
        left = len(part)
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            left -= len(piece)
            yield piece


@router.post("/graphs/{graph}/export", **described(body=ExportBody, streams=[NDJSON]))
async def export(request: Request, graph: GraphId) -> Response:
    """All rows, or those of some types, as graph JSONL: what a load takes."""
    body = await body_of(request, ExportBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.EXPORT, body.branch)
    found = await service.run(
        request,
        partial(
            handle.export_stream,
            types=body.types,
            branch=body.branch,
            snapshot=body.snapshot,
            at=instant_of(body.at),
            budget=service.stream_budget(body.seconds, body.memory_bytes),
        ),
    )
    headers = {"Omnigraph-Commit": found.commit_id, "Omnigraph-Types": quote(",".join(found.types))}
    return await streamed(service, request, found.pieces, NDJSON, headers)
