"""Routes that write: mutations, loads, branches, merges, schemas. The author of a commit is the authenticated actor."""

import tempfile
from functools import partial
from typing import Annotated, BinaryIO, Self

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.branch import Branch
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.merge_result import MergeResult
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.reset import ResetResult
from omnigraph.policy import Action
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.relaying import relay_mutation
from omnigraph.server.http.request_arguments import GraphId, check_text, merge_params, parse_optional_instant, read_body
from omnigraph.server.http.request_bodies import (
    BODY_NAME,
    JSON,
    ApplyAnswer,
    ApplyBody,
    BranchBody,
    MergeBody,
    MutateBody,
    PlanAnswer,
    PlanBody,
    ResetBody,
    UndoBody,
    encode_json,
)
from omnigraph.server.http.responses import respond_json, respond_large_json
from omnigraph.server.service import Service, get_exchange, get_service

router = APIRouter()

Mode = Annotated[str, Query(description="append, merge or overwrite.", max_length=16)]
LoadBranch = Annotated[str, Query(description="The branch to load into.", max_length=256)]
IfExists = Annotated[bool, Query(description="With `from`: load into the branch unchanged if it already exists.")]
From = Annotated[str | None, Query(alias="from", description="First create the branch from this one.", max_length=256)]
Text = Annotated[str | None, Query(max_length=16_384)]

OnDuplicateText = Annotated[
    str, Query(description="error, first or last: which of records with equal ids is loaded.", max_length=16)
]
# A longer body of a load is spooled to a temporary file.
_MAX_MEMORY_BYTES = 1024 * 1024


@router.post("/graphs/{graph}/mutate", **describe_route(MutationResult, body=MutateBody, can_conflict=True))
async def mutate(request: Request, graph: GraphId) -> Response:
    """Run a mutation atomically, in one commit. With `dry_run`, the response has a `preview` and nothing changes."""
    body = await read_body(request, MutateBody)
    service = get_service(request)
    check_text(body.query, "query.gq", service.limits)
    action = Action.READ if body.dry_run else Action.CHANGE
    handle = service.bind_graph(request, graph, action, body.branch)
    return await answer_mutation(service, request, handle, body, Source(body.query, "query.gq"))


async def answer_mutation(
    service: Service, request: Request, graph: Graph, body: MutateBody, source: Source
) -> Response:
    """Run a mutation and respond with its effect; of several workers, in the one that publishes the branch's writes."""
    relayed = await relay_mutation(service, request, body, source)
    if relayed is not None:
        return relayed
    run = partial(
        graph.mutate,
        source,
        name=body.name,
        params=merge_params(body),
        branch=body.branch,
        message=body.message,
        idempotency_key=body.idempotency_key,
        if_commit=body.if_commit,
        dry_run=body.dry_run,
        budget=service.build_write_budget(body.seconds, body.memory_bytes),
    )

    def run_and_encode() -> tuple[str | None, bytes]:
        done = run()
        # In the same thread: the rows of `returning` may be many.
        return done.commit_id, encode_json(done.to_json())

    commit_id, text = await service.mutate(request, run_and_encode)
    service.record_commit(request, "mutate", commit_id)
    return Response(text, media_type=JSON)


@router.post("/graphs/{graph}/load", **describe_route(LoadResult, takes_ndjson=True, can_conflict=True))
async def load(  # noqa: PLR0913 - FastAPI declares a query string by parameters
    request: Request,
    graph: GraphId,
    mode: Mode,
    *,
    branch: LoadBranch = "main",
    from_: From = None,
    if_exists: IfExists = False,
    message: Text = None,
    idempotency_key: Text = None,
    on_duplicate: OnDuplicateText = "error",
    dry_run: bool = False,
    seconds: Annotated[float | None, Query(description="The time limit in seconds.")] = None,
    memory_bytes: Annotated[int | None, Query(description="The memory limit in bytes.")] = None,
) -> Response:
    """Load graph JSONL atomically, in one commit; with `from`, into a branch that is created for it."""
    service = get_service(request)
    hosted, actor = service.find_graph(request, graph, Action.CHANGE, branch, read=from_), get_exchange(request).actor
    handle = hosted.bind_actor(actor)
    # Checked before the body, which may be large, is read; the load checks again.
    if from_ is not None:
        hosted.require(actor, Action.READ, from_)
    hosted.require(actor, Action.CHANGE, branch)
    # Admitted before the body is read, too: reading it counts as one of the actor's writes.
    with service.admission.admit_write(actor.name), _SpooledBody() as spooled:
        async for chunk in request.stream():
            spooled.write(chunk)
        done = await service.admission.run_write(
            actor.name,
            partial(
                handle.load,
                spooled.rewind(),
                mode=mode,
                branch=branch,
                from_=from_,
                if_exists=if_exists,
                message=message,
                idempotency_key=idempotency_key,
                on_duplicate=on_duplicate,
                dry_run=dry_run,
                engine="local",
                budget=service.build_write_budget(seconds, memory_bytes),
            ),
        )
    service.record_commit(request, "load", done.commit_id)
    return await respond_large_json(done.to_json, service.limits)


@router.post("/graphs/{graph}/branches", **describe_route(Branch, body=BranchBody, status=201, can_conflict=True))
async def create_branch(request: Request, graph: GraphId) -> Response:
    """Create a branch from any state of another."""
    body = await read_body(request, BranchBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.BRANCH_CREATE, body.name, read=body.from_)
    created = await service.write(
        request,
        partial(
            handle.branches.create,
            body.name,
            from_=body.from_,
            snapshot=body.snapshot,
            at=parse_optional_instant(body.at),
        ),
    )
    return respond_json(created.to_json(), 201)


@router.delete("/graphs/{graph}/branches/{branch:path}", **describe_route(Branch, can_conflict=True))
async def delete_branch(request: Request, graph: GraphId, branch: str) -> Response:
    """Delete a branch with its commits."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.BRANCH_DELETE, branch)
    return respond_json((await service.write(request, partial(handle.branches.delete, branch))).to_json())


@router.post("/graphs/{graph}/merge", **describe_route(MergeResult, body=MergeBody, can_conflict=True))
async def merge(request: Request, graph: GraphId) -> Response:
    """Merge the changes of a branch into another. With conflicts nothing changes, and a 409 has them in `merge`."""
    body = await read_body(request, MergeBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.BRANCH_MERGE, body.into, read=body.source)
    done = await service.write(
        request,
        partial(
            handle.merge,
            body.source,
            into=body.into,
            strategy=body.strategy,
            message=body.message,
            idempotency_key=body.idempotency_key,
            dry_run=body.dry_run,
            resolutions=body.resolutions,
            all_conflicts=body.all_conflicts,
            budget=service.build_write_budget(body.seconds, body.memory_bytes),
        ),
    )
    service.record_commit(request, "merge", done.commit_id)
    return await respond_large_json(done.to_json, service.limits)


@router.post("/graphs/{graph}/revert", **describe_route(MergeResult, body=UndoBody, can_conflict=True))
async def revert(request: Request, graph: GraphId) -> Response:
    """Undo the changes of one commit in a new one. With conflicts nothing changes, and a 409 has them in `merge`."""
    return await _answer_undo(request, graph, "revert")


@router.post("/graphs/{graph}/cherry-pick", **describe_route(MergeResult, body=UndoBody, can_conflict=True))
async def cherry_pick(request: Request, graph: GraphId) -> Response:
    """Apply the changes of one commit to a branch. With conflicts nothing changes, and a 409 has them in `merge`."""
    return await _answer_undo(request, graph, "cherry-pick")


async def _answer_undo(request: Request, graph: str, operation: str) -> Response:
    body = await read_body(request, UndoBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.CHANGE, body.branch)
    done = await service.write(
        request,
        partial(
            handle.revert if operation == "revert" else handle.cherry_pick,
            body.commit,
            branch=body.branch,
            strategy=body.strategy,
            message=body.message,
            idempotency_key=body.idempotency_key,
            dry_run=body.dry_run,
            resolutions=body.resolutions,
            all_conflicts=body.all_conflicts,
            budget=service.build_write_budget(body.seconds, body.memory_bytes),
        ),
    )
    service.record_commit(request, operation, done.commit_id)
    return await respond_large_json(done.to_json, service.limits)


@router.post("/graphs/{graph}/reset", **describe_route(ResetResult, body=ResetBody, can_conflict=True))
async def reset(request: Request, graph: GraphId) -> Response:
    """Give a branch the rows and the schema of another state, in a new commit. The commits in between stay."""
    body = await read_body(request, ResetBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.RESET, body.branch)
    done = await service.write(
        request, partial(handle.reset, body.branch, to=body.to, message=body.message, dry_run=body.dry_run)
    )
    service.record_commit(request, "reset", done.commit_id)
    return await respond_large_json(done.to_json, service.limits)


@router.post("/graphs/{graph}/schema/plan", **describe_route(PlanAnswer, body=PlanBody))
async def plan_schema(request: Request, graph: GraphId) -> Response:
    """Plan the migration of a branch to another schema. Nothing is changed."""
    body = await read_body(request, PlanBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.SCHEMA_APPLY, body.branch)
    check_text(body.schema, "schema.pg", service.limits)
    plan = await service.run(
        request,
        partial(handle.plan_schema, body.schema, branch=body.branch, allow_data_loss=body.allow_data_loss),
    )
    return await respond_large_json(plan.to_json, service.limits)


@router.post("/graphs/{graph}/schema/apply", **describe_route(ApplyAnswer, body=ApplyBody, can_conflict=True))
async def apply_schema(request: Request, graph: GraphId) -> Response:
    """Migrate a branch to another schema atomically, in one commit."""
    body = await read_body(request, ApplyBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.SCHEMA_APPLY, body.branch)
    check_text(body.schema, "schema.pg", service.limits)
    done = await service.write(
        request,
        partial(
            handle.apply_schema,
            body.schema,
            branch=body.branch,
            message=body.message,
            allow_drops=body.allow_drops,
            allow_data_loss=body.allow_data_loss,
            budget=service.build_write_budget(body.seconds, body.memory_bytes),
        ),
    )
    service.record_commit(request, "schema_apply", done.commit_id)
    return await respond_large_json(done.to_json, service.limits)


class _SpooledBody:
    """The spooled body of a load: in memory if it is short, else in an unnamed file that ends with the request."""

    name = BODY_NAME

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_MAX_MEMORY_BYTES)  # noqa: SIM115 - closed by `__exit__`
        self.write = self._file.write
        self.read = self._file.read

    def rewind(self) -> BinaryIO:
        """Return this body as a file, at its start."""
        self._file.seek(0)
        return self  # type: ignore[return-value]  # a load only calls `read`, and uses the name in errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
