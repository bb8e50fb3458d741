"""The call of `graph_propose`: a branch, a mutation on it and the difference, in one step."""

from itertools import islice

from omnigraph.errors import OmnigraphError
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
    base_commit, next_offset = None, None
    lines: list[bytes] = []
    if proposal.is_empty:
        instruction = "The mutation changed nothing, so there is no branch. Check its conditions with graph_query."
    else:
        instruction = (
            f"Show the changes to the person who asked. graph_merge of `{arguments.branch}` into `{arguments.base}`"
            " accepts them."
        )
        try:
            diff = proposal.diff()
            base_commit = diff.before.commit.id
            requested = list(islice(diff.json_lines(), arguments.limit + 1))
        except OmnigraphError as error:
            # The branch stands: an error as the answer would say that nothing was proposed.
            instruction = (
                f"The branch stands, and its changes could not be read: {error}. Read them with graph_diff of"
                f" `{arguments.branch}`. {instruction}"
            )
        else:
            lines = take_lines(requested, arguments.limit)
            if len(lines) < len(requested):
                next_offset = len(lines)
                span = f'before="{base_commit}", after="{arguments.branch}"'
                # The rest is read as a difference of the two states.
                instruction = f"{instruction} More: graph_diff with {span} and offset={next_offset}."
    value = {
        "outcome": "unchanged" if proposal.is_empty else "proposed",
        "branch": None if proposal.is_empty else arguments.branch,
        "base": arguments.base,
        "base_commit": base_commit,
        "commit_id": mutation.commit_id,
        "affected_nodes": mutation.affected_nodes,
        "affected_edges": mutation.affected_edges,
        "changes": decode_lines(lines),
        "next_offset": next_offset,
        "instruction": instruction,
    }
    if mutation.rows is not None:
        value["rows"] = list(mutation.rows)
    return ToolResult.from_value(value)
