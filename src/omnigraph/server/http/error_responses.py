"""Error responses: the status of an error, and a body that reveals nothing about the server's machine."""

from collections.abc import Mapping

from omnigraph.commit.conflict import ConflictError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json
from omnigraph.lang.diagnostics import SourceError
from omnigraph.policy import DeniedError, WrongActorError

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
# Codes whose status does not follow from the kind. 422 means: the request is well-formed, but conflicts with the stored
# data or exceeds the budget.
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

# Keys of the body that a fact of an error must not overwrite.
_RESERVED = frozenset({"error", "code", "kind", "request_id", "diagnostics", "manifest_conflict"})
# The facts shown of an error whose other facts may describe the server's machine.
_SAFE_FACTS = ("commit_id", "branch")
_DAMAGED = "the stored data is damaged, or has another format"
_UNREACHABLE = "a service that the server depends on does not respond as expected"
_POLICY_ERRORS = (DeniedError, WrongActorError)
# The `Retry-After` header by status.
RETRY_SECONDS = {429: 1, 503: 2}


def find_status(error: Exception) -> int:
    """Return the HTTP status of an error; 500 unless it is an `OmnigraphError`."""
    if not isinstance(error, OmnigraphError):
        return 500
    # The store or a file denies access to the server, not to the caller.
    if error.kind is Kind.DENIED and error.code != "unauthenticated" and not isinstance(error, _POLICY_ERRORS):
        return 503
    return _STATUS_BY_CODE.get(error.code, STATUS_BY_KIND[error.kind])


def build_error_body(error: Exception, request_id: str, hidden: Mapping[str, str]) -> dict[str, object]:
    """Return the body of an error response; `hidden` maps texts to redact, such as addresses, to replacements."""
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
        summary = _DAMAGED if find_status(error) == 500 else _UNREACHABLE
        body |= {name: facts[name] for name in _SAFE_FACTS if name in facts}
        return body | {"error": f"{summary}; see {request_id} in the server's log for details"}
    for name, fact in error.facts().items():
        if name not in _RESERVED:
            body[name] = redact(fact, hidden)
    match error:
        case SourceError():
            body["diagnostics"] = [diagnostic_to_json(error.source, item) for item in error.diagnostics]
        case ConflictError():
            body["manifest_conflict"] = {
                "table_key": error.table_key,
                "expected": error.expected,
                "actual": error.actual,
            }
    body["error"] = redact(str(error), hidden)
    return body


def _is_private(error: OmnigraphError) -> bool:
    """Return whether an error's text may describe paths, buckets or failures of the server's machine."""
    if is_server_error(error):
        return False
    return find_status(error) in (500, 503) and error.code != "query_cancelled"


def is_server_error(error: Exception) -> bool:
    """Return whether an error is one of the server's own, whose texts are written for its clients."""
    return type(error).__module__.startswith("omnigraph.server.")


def redact(value: object, hidden: Mapping[str, str]) -> object:
    """Return a JSON value with the texts of `hidden` replaced wherever they occur in it."""
    match value:
        case str():
            for text, replacement in hidden.items():
                value = value.replace(text, replacement)
            return value
        case dict():
            return {name: redact(item, hidden) for name, item in value.items()}
        case list() | tuple():
            return [redact(item, hidden) for item in value]
        case _:
            return value


def _format_internal_error(request_id: str) -> str:
    return f"the server failed unexpectedly; please report it with the lines of {request_id} in the server's log"
