"""The MCP prompts: what a person starts an agent with, together with the guide to the graph's language."""

from collections.abc import Awaitable, Callable, Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from omnigraph.policy import Action
from omnigraph.server.mcp import browse_calls, calls
from omnigraph.server.mcp.arguments import LintArguments
from omnigraph.server.mcp.calls import Caller

# Longer arguments are refused: a prompt is what a person types.
_MAX_CHARACTERS = 16 * 1024

_QUERY = """\
{guide}
# Your task

Answer this question from the graph. Look at the types with graph_describe, find what is named with graph_search, \
write a query, check it with graph_lint, run it with graph_query, and say what the answer rests on.

{text}
"""
_CHANGE = """\
{guide}
# Your task

Prepare this change. Find the rows that are meant with graph_query, write a mutation that changes these and no others, \
and call graph_propose with a branch name of your own. Show its changes, and leave the merge to the person.

{text}
"""
_CORRECT = """\
{guide}
# Your task

Correct this query so that it means what its author wanted. The checker says:

{findings}

The query:

{text}
"""


async def _ask(caller: Caller, text: str) -> str:
    return _QUERY.format(guide=await calls.write_branch_guide(caller, "main"), text=text)


async def _change(caller: Caller, text: str) -> str:
    return _CHANGE.format(guide=await calls.write_branch_guide(caller, "main"), text=text)


async def _correct(caller: Caller, text: str) -> str:
    findings = await browse_calls.lint(caller, LintArguments(query=text))
    guide = await calls.write_branch_guide(caller, "main")
    return _CORRECT.format(guide=guide, findings=findings.text, text=text)


_PROMPTS: dict[str, tuple[str, str, str, Callable[[Caller, str], Awaitable[str]]]] = {
    "query_graph": ("Answer a question from the graph.", "question", "The question, in plain words.", _ask),
    "propose_change": ("Prepare a change for review.", "change", "What should be different, in plain words.", _change),
    "correct_query": ("Correct a query.", "query", "The text with mistakes.", _correct),
}


def list_prompts(caller: Caller) -> list[Prompt]:
    """List the prompts that the caller may use: all, if the policy allows reads anywhere, else none."""
    if not caller.find_graph(Action.READ, None).is_allowed_somewhere(caller.actor, Action.READ):
        return []
    return [
        Prompt(
            name=name,
            description=description,
            arguments=[PromptArgument(name=argument, description=meaning, required=True)],
        )
        for name, (description, argument, meaning, _) in _PROMPTS.items()
    ]


async def build_prompt(caller: Caller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """Build a prompt.

    Raises:
        MCPError: It does not exist, or its argument is missing, unknown or too long.
    """
    if name not in {prompt.name for prompt in list_prompts(caller)}:
        raise MCPError(INVALID_PARAMS, f"there is no prompt `{name[:128]}` that you may use")
    description, argument, _, build = _PROMPTS[name]
    if {*arguments} != {argument} or not arguments[argument].strip():
        raise MCPError(INVALID_PARAMS, f"the prompt `{name}` has one argument, `{argument}`, which is a text")
    if len(arguments[argument]) > _MAX_CHARACTERS:
        raise MCPError(INVALID_PARAMS, f"`{argument}` is longer than {_MAX_CHARACTERS:,} characters")
    text = await build(caller, arguments[argument])
    return GetPromptResult(
        description=description, messages=[PromptMessage(role="user", content=TextContent(text=text))]
    )
