"""Word an error for a model: what went wrong, and what to do now."""

from collections.abc import Mapping
from typing import Any

from omnigraph.server.http.request_bodies import encode_json

# A longer error message is cut: an agent pays for what it reads.
MAX_ERROR_CHARACTERS = 16 * 1024
# The first mistakes of a text usually cause the others.
_MAX_DIAGNOSTICS = 10

_ASK_FOR_LESS = (
    "Ask for less: add a condition or a `limit`, use fewer hops, or return fewer columns. graph_explain shows which"
    " step is the largest."
)
_BY_CODE = {
    "invalid_source": (
        "Correct the text at each place as its help says, check it with graph_lint, and call again. The resource"
        " `mistakes` lists the right form of what other languages write."
    ),
    "invalid_parameters": "Pass each parameter that the query declares, by its name without `$`, of its type.",
    "bad_request": "Correct the argument that the message names; the tool's input schema has its type.",
    "branch_exists": "Choose another name for the branch, or read what is on it with graph_diff.",
    "branch_not_found": "List the branches with graph_branches, and use one of these names.",
    "commit_not_found": "List the commits with graph_commits, and use one of these ids.",
    "type_not_found": "List the types with graph_describe, and use one of these names.",
    "constraint_violation": "Nothing was written. Change the values so that the rules of graph_schema hold.",
    "merge_conflicts": (
        "Nothing was merged. Read the newest state of the target with graph_query, and make the change again there."
    ),
    "outcome_unknown": "The change may have been made. Look with graph_commits before you repeat it.",
    "query_memory": _ASK_FOR_LESS,
    "query_timeout": _ASK_FOR_LESS,
    "answer_too_large": _ASK_FOR_LESS,
    "read_only": "Writing is not possible here. Don't try again; tell the person who asked.",
    "too_many_requests": "Wait a second, then repeat the call.",
    "data_dropped": "That data no longer exists. Read a newer state.",
    "commit_collected": "That state no longer exists. Read a newer one: graph_commits lists them.",
}
_BY_KIND = {
    "invalid": "Correct the input as the message says, and call again.",
    "usage": "Correct the arguments as the message says, and call again.",
    "conflict": "Another writer was first. Read the newest state, and make the change again from there.",
    "not_found": "Check the name; graph_describe and graph_branches list what there is.",
    "denied": "You may not do this. Don't try again; use a branch that you may use, or tell the person who asked.",
    "exhausted": _ASK_FOR_LESS,
    "unavailable": "Repeat the call later. If it fails again, tell the person who asked.",
    "corrupt": "This can't be solved here. Tell the person who asked.",
    "internal": "This can't be solved here. Tell the person who asked, and name the request id.",
}


def find_way_out(code: str, kind: str) -> str:
    """Return what a model should do about an error."""
    return _BY_CODE.get(code) or _BY_KIND[kind]


def add_way_out(body: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of an error together with `instruction`, what to do about it."""
    return {**body, "instruction": find_way_out(str(body["code"]), str(body["kind"]))}


def format_error(body: Mapping[str, Any]) -> str:
    """Return an error as text: its code and message, or all its diagnostics, and what to do."""
    diagnostics = body.get("diagnostics")
    lines = [format_diagnostic(item) for item in diagnostics] if diagnostics else [str(body["error"])]
    rest = len(lines) - _MAX_DIAGNOSTICS
    if rest > 0:
        lines = [*lines[:_MAX_DIAGNOSTICS], f"and {rest} more"]
    message = "\n".join([f"{body['code']}: {lines[0]}", *lines[1:]])
    if len(message) > MAX_ERROR_CHARACTERS:
        message = f"{message[:MAX_ERROR_CHARACTERS]}…"
    instruction = body.get("instruction")
    return f"{message}\nWhat to do: {instruction}" if instruction else message


def format_diagnostic(item: Mapping[str, Any]) -> str:
    """Return a diagnostic as one line: place, code, message, help."""
    start = item["start"]
    text = f"{item['file']}:{start['line']}:{start['column']}: {item['code']}: {item['message']}"
    return f"{text}; help: {item['help']}" if item["help"] else text


def shorten_body(body: dict[str, object], limit: int) -> dict[str, object]:
    """Return the fields of an error; only the message if they are too long, such as many diagnostics of one text."""
    if len(encode_json(body)) <= limit:
        return body
    names = ("code", "kind", "request_id", "instruction")
    return {name: body[name] for name in names if name in body} | {"error": format_error(body)}
