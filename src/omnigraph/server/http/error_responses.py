"""An error as an answer: its status, and a body that tells the caller what to do and nothing of the machine."""

from collections.abc import Mapping

from omnigraph.commit.conflict import ConflictError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json
from omnigraph.lang.diagnostics import SourceError
from omnigraph.policy import ActorDiffersError, DeniedError, NobodyActsError

STATUS_BY_KIND: dict[Kind, int] = {
    Kind.INVALID: 400,
    Kind.USAGE: 400,
    Kind.CONFLICT: 409,
    Kind.NOT_FOUND: 404,
    Kind.DENIED: 403,
    Kind.EXHAUSTED: 422,
    Kind.UNAVAILABLE: 503,
    Kind.CORRUPT: 500,
    Kind.INTERNAL: 500,
}
_STATUS_BY_CODE = {
    "unauthenticated": 401,
    "method_not_allowed": 405,
    "body_too_slow": 408,
    "answer_too_large": 413,
    "body_too_large": 413,
    "text_too_large": 413,
    "range_refused": 416,
    "constraint_violation": 422,
    "load_refused": 422,
    "origin_refused": 403,
    "schema_unfit": 422,
    "schema_drops_data": 422,
    "schema_unsupported": 422,
    "commit_altered": 422,
    "digest_unknown": 422,
    "files_damaged": 422,
    "too_many_requests": 429,
    "query_cancelled": 503,
}
"""Where the kind alone does not say it. 422: it is understood, and what is stored, or the budget, speaks against."""

_RESERVED = frozenset({"error", "code", "kind", "request_id", "diagnostics", "manifest_conflict"})
_SAFE_FACTS = ("commit_id", "branch")
"""What is told of an error whose other facts may be of the machine."""
_DAMAGED = "what is stored is damaged, or of another format"
_UNREACHABLE = "something that the server relies on does not answer as it should"
_POLICY_ERRORS = (DeniedError, NobodyActsError, ActorDiffersError)
RETRY_SECONDS = {429: 1, 503: 2}


def find_status(error: Exception) -> int:
    """The status of an answer that tells of an error; what is not one of ours is a 500."""
    if not isinstance(error, OmnigraphError):
        return 500
    if error.kind is Kind.DENIED and error.code != "unauthenticated" and not isinstance(error, _POLICY_ERRORS):
        return 503  # the store or a file refuses the server: that is not the caller's fault
    return _STATUS_BY_CODE.get(error.code, STATUS_BY_KIND[error.kind])


def build_error_body(error: Exception, request_id: str, hidden: Mapping[str, str]) -> dict[str, object]:
    """The body of that answer. `hidden` are texts of the machine, such as addresses, with what is shown instead."""
    if not isinstance(error, OmnigraphError):
        return {
            "error": _format_internal_error(request_id),
            "code": "internal",
            "kind": "internal",
            "request_id": request_id,
        }
    body: dict[str, object] = {"error": "", "code": error.code, "kind": error.kind.value, "request_id": request_id}
    if _is_private(error):
        facts = error.facts()
        told = _DAMAGED if find_status(error) == 500 else _UNREACHABLE
        body |= {name: facts[name] for name in _SAFE_FACTS if name in facts}
        return body | {"error": f"{told}; the server's log tells more under {request_id}"}
    for name, fact in error.facts().items():
        if name not in _RESERVED:
            body[name] = redact(fact, hidden)
    match error:
        case SourceError():
            body["diagnostics"] = [diagnostic_to_json(error.source, one) for one in error.diagnostics]
        case ConflictError():
            body["manifest_conflict"] = {
                "table_key": error.table_key,
                "expected": error.expected,
                "actual": error.actual,
            }
    body["error"] = redact(str(error), hidden)
    return body


def _is_private(error: OmnigraphError) -> bool:
    """Whether an error may tell of paths, buckets or reasons of the machine."""
    if type(error).__module__.startswith("omnigraph.server."):
        return False
    return find_status(error) in (500, 503) and error.code != "query_cancelled"


def redact(value: object, hidden: Mapping[str, str]) -> object:
    """A JSON value, in which texts of the machine are those that are shown instead."""
    match value:
        case str():
            for text, instead in hidden.items():
                value = value.replace(text, instead)
            return value
        case dict():
            return {name: redact(one, hidden) for name, one in value.items()}
        case list() | tuple():
            return [redact(one, hidden) for one in value]
        case _:
            return value


def _format_internal_error(request_id: str) -> str:
    return f"the server failed in a way it should not; please report it with the log's lines of {request_id}"
