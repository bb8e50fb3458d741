"""Routes that read any state: queries, plans, blobs and exports."""

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from io import SEEK_END
from typing import IO, Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.graph import Graph
from omnigraph.lang.proposals import Completion
from omnigraph.lang.source import Source
from omnigraph.options import Engine
from omnigraph.policy import Action
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.request_arguments import (
    BranchName,
    CommitId,
    EntityId,
    EntityType,
    GraphId,
    Instant,
    merge_params,
    parse_optional_instant,
    parse_range,
    read_body,
)
from omnigraph.server.http.request_bodies import (
    ARROW,
    BYTES,
    JSON,
    NDJSON,
    AlgorithmBody,
    CompleteBody,
    CypherBody,
    ExplainAnswer,
    ExplainBody,
    ExportBody,
    ReadBody,
    ResultAnswer,
    SqlBody,
)
from omnigraph.server.http.responses import (
    build_result_headers,
    encode_result,
    negotiate_stream,
    respond_large_json,
    start_stream,
    stream_result,
)
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import Service, get_exchange, get_service, hand_over_long

router = APIRouter()
SOURCE_NAME = "query.gq"
Property = Annotated[str, Query(alias="property", description="The Blob property.", max_length=256)]
# The size of a streamed chunk of a blob, which bounds the memory of a download.
_CHUNK_BYTES = 1024 * 1024


@router.post("/graphs/{graph}/query", **describe_route(ResultAnswer, body=ReadBody, streams=[NDJSON, ARROW]))
async def query(request: Request, graph: GraphId) -> Response:
    """Run a query; rows are streamed with `Accept: application/x-ndjson` or `application/vnd.apache.arrow.stream`."""
    body = await read_body(request, ReadBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    return await answer_query(service, request, handle, body, Source(body.query, SOURCE_NAME))


async def answer_query(service: Service, request: Request, graph: Graph, body: ReadBody, source: Source) -> Response:
    """Run a query and respond with a JSON document, or with the stream that the request accepts."""
    # Both are called in a thread, with the budget of the request.
    run_all, run_window = (
        partial(
            run,
            source,
            name=body.name,
            params=merge_params(body),
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            engine=body.engine,
        )
        for run in (graph.query, graph.query_window)
    )
    # A misspelt or forgotten `limit` must not fetch all rows.
    is_window = body.limit is not None
    if not is_window and (body.offset or body.sort):
        raise BadRequestError("limit", "`offset` and `sort` are for a window, which has a `limit`")
    if is_window and (body.max_staleness or body.min_commit is not None):
        raise BadRequestError("limit", "a window is of the newest state, or of that of a commit or time")

    def run_query(budget: Budget) -> Result:
        if body.limit is None:
            return run_all(max_staleness=body.max_staleness, min_commit=body.min_commit, budget=budget)
        sort = [(key.column, key.descending) for key in body.sort]
        return run_window(offset=body.offset, limit=body.limit, sort=sort, budget=budget)

    return await _answer_rows(service, request, body, run_query, (source.text, body.name))


@router.post("/graphs/{graph}/sql", **describe_route(ResultAnswer, body=SqlBody, streams=[NDJSON, ARROW]))
async def sql(request: Request, graph: GraphId) -> Response:
    """Run a SQL query over the types of one state, read-only; rows are streamed as those of `/query`."""
    body = await read_body(request, SqlBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)

    def run_statement(budget: Budget) -> Result:
        return handle.sql(
            body.sql,
            merge_params(body),
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            budget=budget,
        )

    return await _answer_rows(service, request, body, run_statement, body.sql)


@router.post("/graphs/{graph}/cypher", **describe_route(ResultAnswer, body=CypherBody, streams=[NDJSON, ARROW]))
async def cypher(request: Request, graph: GraphId) -> Response:
    """Run a statement of Cypher that reads; rows are streamed as those of `/query`."""
    body = await read_body(request, CypherBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)

    def run_statement(budget: Budget) -> Result:
        return handle.cypher(
            body.cypher,
            merge_params(body),
            strict=body.strict,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            max_staleness=body.max_staleness,
            min_commit=body.min_commit,
            engine=body.engine,
            budget=budget,
        )

    return await _answer_rows(service, request, body, run_statement, body.cypher)


async def _answer_rows(
    service: Service,
    request: Request,
    body: ReadBody | SqlBody | CypherBody,
    run: Callable[[Budget], Result],
    key: Hashable,
) -> Response:
    budget = service.build_read_budget(body.seconds, body.memory_bytes)
    stream = negotiate_stream(request)
    # The server's time limit of a query then applies to matching only, and reading the rows has the limit of streams.
    if stream is not None and body.seconds is None:
        budget.reading_seconds = service.limits.stream_seconds

    def run_and_encode() -> tuple[Result, bytes]:
        result = run(budget)
        # Encoded in the same thread: it fetches the rows, which takes time of the budget.
        return result, b"" if stream is not None else encode_result(result, service.limits)

    result, text = await service.read(request, budget, run_and_encode, key=key, query_id=body.query_id)
    if stream is not None:
        return await start_stream(service, request, stream_result(result, stream), stream, build_result_headers(result))
    get_exchange(request).commit = result.commit_id
    return Response(text, media_type=JSON)


@router.post(
    "/graphs/{graph}/algorithms",
    **describe_route(ResultAnswer, body=AlgorithmBody, streams=[NDJSON, ARROW], can_conflict=True),
)
async def algorithms(request: Request, graph: GraphId) -> Response:
    """Run a graph algorithm; rows are streamed as those of `/query`. With `into`, values are written in one commit."""
    body = await read_body(request, AlgorithmBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ if body.into is None else Action.CHANGE, body.branch)
    build_budget = service.build_read_budget if body.into is None else service.build_write_budget
    budget = build_budget(body.seconds, body.memory_bytes)
    stream = negotiate_stream(request)

    def run() -> tuple[Result, bytes]:
        result = handle.algorithms.run(
            body.name,
            body.edges,
            body.parameters,
            into=body.into,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            message=body.message,
            engine=Engine.LOCAL,
            budget=budget,
        )
        return result, b"" if stream is not None else encode_result(result, service.limits)

    result, text = await service.read(request, budget, run, is_long=True, query_id=body.query_id)
    get_exchange(request).commit = result.commit_id
    if stream is not None:
        return await start_stream(service, request, stream_result(result, stream), stream, build_result_headers(result))
    return Response(text, media_type=JSON)


@router.post("/graphs/{graph}/explain", **describe_route(ExplainAnswer, body=ExplainBody))
async def explain(request: Request, graph: GraphId) -> Response:
    """Return the plan of a query; with `analyze` the query is run, and each step reports its work."""
    body = await read_body(request, ExplainBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    budget = service.build_read_budget(body.seconds, body.memory_bytes)
    explained = await service.read(
        request,
        budget,
        partial(
            handle.explain,
            Source(body.query, SOURCE_NAME),
            name=body.name,
            params=merge_params(body),
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            engine=body.engine,
            analyze=body.analyze,
            cypher=body.cypher,
            budget=budget,
        ),
        key=(body.query, body.name, body.analyze),
        query_id=body.query_id,
    )
    return await respond_large_json(lambda: {**explained.to_json(), "text": explained.text}, service.limits)


@router.post("/graphs/{graph}/complete", **describe_route(Completion, body=CompleteBody))
async def complete(request: Request, graph: GraphId) -> Response:
    """Return what may be written at a position of a query that is being typed, which may be broken."""
    body = await read_body(request, CompleteBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, body.branch)
    completion = await service.run(
        request,
        partial(
            handle.complete,
            body.query,
            body.position,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
        ),
    )
    return await respond_large_json(completion.to_json, service.limits)


@router.get(
    "/graphs/{graph}/blob",
    **describe_route(
        streams=[BYTES],
        extra_statuses={
            "204": "The value is null.",
            "206": "The part that `Range` requests.",
            "416": "The range begins after the end.",
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
    """Return the bytes of a Blob property of a node or edge, or the part of them that `Range` requests."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)

    def open_blob() -> tuple[str, IO[bytes] | None, int]:
        # Resolved first, so that the header names the commit that the bytes come from.
        state = handle.snapshot(branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
        file = handle.blob(type_, id_, property_, branch=branch, snapshot=state.commit.id)
        return state.commit.id, file, 0 if file is None else file.seek(0, SEEK_END)

    commit_id, file, size = await service.run(request, open_blob)
    headers = {"Omnigraph-Commit": commit_id}
    if file is None:
        return Response(status_code=204, headers=headers)
    part = parse_range(request.headers.get("range"), size)
    headers |= {"Content-Length": str(len(part)), "Accept-Ranges": "bytes"}
    if len(part) < size:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    chunks = _iter_bytes(file, part)
    return await start_stream(service, request, chunks, BYTES, headers, 206 if len(part) < size else 200)


def _iter_bytes(file: IO[bytes], part: range) -> Iterator[bytes]:
    with file:
        file.seek(part.start)
        left = len(part)
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


@router.post("/graphs/{graph}/export", **describe_route(body=ExportBody, streams=[NDJSON]))
async def export(request: Request, graph: GraphId) -> Response:
    """Export all rows, or those of some types, as graph JSONL, the format of a load."""
    body = await read_body(request, ExportBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.EXPORT, body.branch)
    hand_over_long(service, request)
    exported = await service.run(
        request,
        partial(
            handle.export_stream,
            types=body.types,
            branch=body.branch,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
            budget=service.build_stream_budget(body.seconds, body.memory_bytes),
        ),
    )
    headers = {"Omnigraph-Commit": exported.commit_id, "Omnigraph-Types": quote(",".join(exported.types))}
    return await start_stream(service, request, exported.pieces, NDJSON, headers)
