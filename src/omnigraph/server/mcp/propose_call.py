"""The call of `graph_propose`: a branch, a mutation on it and the difference, in one step."""

from itertools import islice

from omnigraph.lang.source import Source
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.merge_result import MergeConflictsError
from omnigraph.ops.mutate import MutationCall
from omnigraph.ops.propose import ProposeCall, ProposedChange, propose
from omnigraph.policy import Action
from omnigraph.server.http.request_arguments import check_text
from omnigraph.server.mcp.arguments import ProposeArguments
from omnigraph.server.mcp.calls import SOURCE_NAME, Caller, ToolResult, decode_lines, report_conflicts, take_lines


async def propose_change(caller: Caller, arguments: ProposeArguments) -> ToolResult:
    """Create a branch with one mutation, and return the first of its changes; with conflicts there is no branch."""
    check_text(arguments.query, SOURCE_NAME, caller.service.limits)
    hosted = caller.find_graph(Action.CHANGE, arguments.branch, read=arguments.base)
    budget = caller.service.build_write_budget(arguments.seconds, arguments.memory_bytes)
    session = with_limits(hosted.bind_session(caller.actor), ResourceLimits(budget=budget), "proposal")
    call = ProposeCall(
        branch=arguments.branch,
        source=arguments.base,
        commit_id=arguments.snapshot,
        mutation=MutationCall(
            source=Source(arguments.query, SOURCE_NAME),
            name=arguments.name,
            params=arguments.params,
            actor=caller.actor.name,
            message=arguments.message,
        ),
    )
    try:
        result = await caller.write(lambda: _build_result(propose(session, call), arguments))
    except MergeConflictsError as error:
        way_out = (
            f"There is no branch `{arguments.branch}`. Read the newest state of `{arguments.base}`, and propose again"
            " without `snapshot`"
        )
        return report_conflicts(caller, error.result, way_out)
    caller.service.record_commit(caller.request, "mutate", result.value["commit_id"])
    return result


def _build_result(proposal: ProposedChange, arguments: ProposeArguments) -> ToolResult:
    mutation = proposal.mutation
    lines: list[bytes] = []
    next_offset = None
    if proposal.diff is not None:
        requested = list(islice(proposal.diff.json_lines(), arguments.limit + 1))
        lines = take_lines(requested, arguments.limit)
        next_offset = len(lines) if len(lines) < len(requested) else None
    value = {
        "outcome": "unchanged" if proposal.diff is None else "proposed",
        "branch": None if proposal.diff is None else arguments.branch,
        "base": arguments.base,
        "base_commit": None if proposal.diff is None else proposal.diff.before.commit.id,
        "commit_id": mutation.commit_id,
        "affected_nodes": mutation.affected_nodes,
        "affected_edges": mutation.affected_edges,
        "changes": decode_lines(lines),
        "next_offset": next_offset,
        "instruction": _find_next_step(proposal, arguments, next_offset),
    }
    if mutation.rows is not None:
        value["rows"] = list(mutation.rows)
    return ToolResult.from_value(value)


def _find_next_step(proposal: ProposedChange, arguments: ProposeArguments, next_offset: int | None) -> str:
    if proposal.diff is None:
        return "The mutation changed nothing, so there is no branch. Check its conditions with graph_query."
    before, branch = proposal.diff.before.commit.id, arguments.branch
    merge = f"Show the changes to the person who asked. graph_merge of `{branch}` into `{arguments.base}` accepts them."
    if next_offset is None:
        return merge
    return f'{merge} More: graph_diff with before="{before}", after="{branch}" and offset={next_offset}.'
