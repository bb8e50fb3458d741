"""Requests that another worker answers: mutations of a branch, long reads, and questions about the whole server."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.errors import OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.server.fleet import Fleet
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.relay_client import ClientGoneError, Relay, WorkerLostError
from omnigraph.server.http.request_bodies import JSON, MutateBody, encode_json
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.service import Exchange, Service, get_exchange, get_service
from omnigraph.server.shared_state import WorkerSlot

T = TypeVar("T")

_GATHER_SECONDS = 2.0
_REASON = "the process that published it ended"
# The tool of agents that runs a mutation; stored queries are tools of their own names.
_MUTATE_TOOL = "graph_mutate"


async def relay_mutation(service: Service, request: Request, body: MutateBody, source: Source) -> Response | None:
    """Have the worker that publishes the writes of a branch run a mutation; None if it is to be run here.

    If that worker dies, the id that its commit would have shows what became of it: it is committed, or not, or unknown.
    A mutation with an idempotency key is then sent again.

    Raises:
        OutcomeUnknownError: It is unknown.
        ServerUnavailableError: It is not committed, and has no idempotency key.
    """
    fleet, exchange = service.fleet, get_exchange(request)
    if fleet is None or body.dry_run or exchange.is_relayed or exchange.graph is None:
        return None
    # The second worker may die like the first one; a third try would be for a mutation that kills workers.
    for _ in range(2):
        owner = fleet.find_owner(exchange.graph, body.branch)
        if owner is None:
            return None
        commit_id = service.runtime.ids.ulid()
        try:
            with service.admission.admit_write(exchange.actor.name):
                return await _get_relay(request).send(request, owner, next_commit=commit_id, is_watched=False)
        except WorkerLostError as lost:
            if not lost.is_sent:
                return None
            response = await _find_outcome(service, request, body, source, commit_id, lost)
            if response is not None:
                return response
    return None


async def _find_outcome(
    service: Service, request: Request, body: MutateBody, source: Source, commit_id: str, lost: WorkerLostError
) -> Response | None:
    """Return the response to a mutation whose worker died, or None if it should be sent again.

    Raises:
        OutcomeUnknownError, ServerUnavailableError: See `relay_mutation`.
    """
    hosted = service.registry.graphs[get_exchange(request).graph or ""]
    find = partial(hosted.find_mutation, source, body.name, branch=body.branch, commit_id=commit_id)
    write = RelayedWrite(body.branch, commit_id, has_key=body.idempotency_key is not None)
    done = await _settle_lost(service, hosted, write, lost, find)
    if done is None:
        return None
    service.record_commit(request, "mutate", commit_id)
    return Response(encode_json(done.to_json()), media_type=JSON)


class RelayedWrite(NamedTuple):
    """A write that another worker was sent: its branch, its commit, and whether it has an idempotency key."""

    branch: str
    commit_id: str
    has_key: bool


async def _settle_lost(
    service: Service, hosted: ServedGraph, write: RelayedWrite, lost: WorkerLostError, find: Callable[[], T | None]
) -> T | None:
    """Return what `find` has of the commit of a write whose worker died; None if it is to be run again under its key.

    Raises:
        OutcomeUnknownError: It may have been committed.
        ServerUnavailableError: It is not committed, and has no idempotency key.
    """
    assert service.fleet is not None  # noqa: S101 - a worker was lost
    # Until then the process might still publish it.
    is_reaped = await service.fleet.await_end(lost.slot, lost.generation)
    if is_reaped and write.has_key:
        return None
    try:
        outcome = await run_in_threadpool(find)
    except OmnigraphError as error:
        raise OutcomeUnknownError(write.commit_id, _REASON, write.branch) from error
    if outcome is not None:
        return outcome
    # What a process sent to an object store may arrive after its end.
    if not is_reaped or not hosted.is_local:
        raise OutcomeUnknownError(write.commit_id, _REASON, write.branch)
    raise ServerUnavailableError.write_lost()


async def relay_agent_call(service: Service, request: Request, graph: str, body: bytes) -> Response | None:
    """Have the worker that publishes the writes of a branch answer an agent's call that writes to it; None: this one.

    If that worker dies, a write that is committed is noted in the exchange, and the call is answered here with its
    result. A write with an idempotency key is run here, which finds what is committed.

    Raises:
        OutcomeUnknownError: That worker died, and the call may have been committed, under the id that the error names.
        ServerUnavailableError: It died, and nothing was committed.
    """
    fleet, exchange = service.fleet, get_exchange(request)
    if fleet is None or exchange.is_relayed:
        return None
    hosted = service.registry.graphs[graph]
    write = find_agent_write(hosted, body)
    owner = None if write is None else fleet.find_owner(graph, write.branch)
    if owner is None or write is None:
        return None
    commit_id = service.runtime.ids.ulid()
    try:
        with service.admission.admit_write(exchange.actor.name):
            return await _get_relay(request).send(request, owner, next_commit=commit_id, is_watched=False)
    except WorkerLostError as lost:
        if not lost.is_sent:
            return None
        sent = RelayedWrite(write.branch, commit_id, write.has_key)
        find = partial(hosted.find_recent_commit, write.branch, commit_id)
        if await _settle_lost(service, hosted, sent, lost, find) is not None:
            exchange.done_commit = commit_id
        return None


class AgentWrite(NamedTuple):
    """The write of an agent's call: its branch, and whether it has an idempotency key."""

    branch: str
    has_key: bool


def find_agent_write(hosted: ServedGraph, body: bytes) -> AgentWrite | None:
    """Return what an agent's call of a tool writes rows to; None if it does something else."""
    try:
        call = _decode_call(body)
    except msgspec.DecodeError:
        return None
    name = call.params.name
    stored = hosted.stored_queries
    query = None if stored is None else stored.get(name) or stored.get(name.removeprefix("stored_"))
    is_write = name == _MUTATE_TOOL or (query is not None and query.is_mutation)
    if call.method != "tools/call" or not is_write:
        return None
    # A parameter of a stored query hides the argument of its name.
    hidden = set() if query is None or name == _MUTATE_TOOL else {param.name for param in query.params}
    given = {key: value for key, value in call.params.arguments.items() if key not in hidden}
    branch = given.get("branch", "main")
    return AgentWrite(branch, given.get("idempotency_key") is not None) if isinstance(branch, str) else None


class _ToolParams(msgspec.Struct):
    name: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class _ToolCall(msgspec.Struct):
    method: str = ""
    params: _ToolParams = msgspec.field(default_factory=_ToolParams)


_decode_call = msgspec.json.Decoder(_ToolCall).decode


async def relay_long(request: Request) -> Response:
    """Have a worker for long requests answer a request that was handed over.

    Raises:
        ServerUnavailableError: There is none at the moment.
    """
    service, exchange = get_service(request), get_exchange(request)
    target = None if service.fleet is None else service.fleet.find_long_worker()
    if target is None:
        raise ServerUnavailableError.server_busy()
    try:
        return await _get_relay(request).send(request, target)
    except WorkerLostError:
        raise ServerUnavailableError.server_busy() from None
    except ClientGoneError:
        return _note_client_gone(exchange)


def _note_client_gone(exchange: Exchange) -> Response:
    """Return a response that no client receives; its status is for the log and the metrics."""
    exchange.code = "client_gone"
    return Response(status_code=408)


async def relay_follower(service: Service, request: Request, graph: str, branch: str) -> Response | None:
    """Have the worker that publishes the writes of a branch answer a request that waits for one; None: this one."""
    fleet, exchange = service.fleet, get_exchange(request)
    owner = None if fleet is None or exchange.is_relayed else fleet.find_owner(graph, branch)
    if owner is None:
        return None
    try:
        return await _get_relay(request).send(request, owner)
    except WorkerLostError:
        return None
    except ClientGoneError:
        return _note_client_gone(exchange)


async def relay_home(request: Request) -> Response | None:
    """Have the worker that maintains the graphs answer; None if this is it, or it does not answer."""
    service = get_service(request)
    fleet = service.fleet
    if fleet is None or fleet.is_home or get_exchange(request).is_relayed:
        return None
    try:
        async with asyncio.timeout(_GATHER_SECONDS):
            return await _get_relay(request).send(request, fleet.home)
    except (WorkerLostError, TimeoutError):
        return None


async def gather_metrics(request: Request, own: str) -> str:
    """Return the metrics of all workers that answer, with those of this one, each with its number as a label."""
    service = get_service(request)
    fleet = service.fleet
    if fleet is None:
        return own
    if get_exchange(request).is_relayed:
        return _add_label(own, fleet.slot)
    asked = [_ask(request, slot) for slot in fleet.others]
    texts = [_add_label(own, fleet.slot), *(text for text in await asyncio.gather(*asked) if text)]
    return _merge([*texts, _describe_workers(fleet)])


async def gather_documents(request: Request) -> list[dict[str, Any]]:
    """Return what the other workers answer to the same request, as JSON documents; not those that don't answer."""
    fleet = get_service(request).fleet
    if fleet is None or get_exchange(request).is_relayed:
        return []
    texts = await asyncio.gather(*[_ask(request, slot) for slot in fleet.others])
    return [json.loads(text) for text in texts if text]


def _get_relay(request: Request) -> Relay:
    relay: Relay = request.app.state.relay
    return relay


async def _ask(request: Request, slot: WorkerSlot) -> str:
    try:
        async with asyncio.timeout(_GATHER_SECONDS):
            answer = await _get_relay(request).send(request, slot, is_watched=False)
            return await answer.read_text() if answer.status_code == 200 else ""
    except (WorkerLostError, TimeoutError, OSError, EOFError):
        return ""


def _describe_workers(fleet: Fleet) -> str:
    name = "omnigraph_workers"
    return f"# HELP {name} Workers that answer requests.\n# TYPE {name} gauge\n{name} {len(fleet.others) + 1}\n"


def _add_label(text: str, slot: WorkerSlot) -> str:
    """Add the number of a worker to each line of its metrics: counters of a process start at 0 when it is replaced."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(line)
            continue
        name, brace, rest = line.partition("{")
        label = f'worker="{slot.index}"'
        if brace:
            lines.append(f"{name}{{{label}{',' if rest[0] != '}' else ''}{rest}")
        else:
            name, _, number = line.partition(" ")
            lines.append(f"{name}{{{label}}} {number}")
    return "\n".join([*lines, ""])


def _merge(texts: list[str]) -> str:
    """Join metrics so that all lines of one metric follow its description."""
    families: dict[str, list[str]] = {}
    family: list[str] = []
    for line in chain.from_iterable(text.splitlines() for text in texts):
        if line.startswith("# HELP "):
            family = families.setdefault(line, [])
        elif not line.startswith("# TYPE ") or line not in family:
            family.append(line)
    return "\n".join([*chain.from_iterable((head, *lines) for head, lines in sorted(families.items())), ""])
