"""Complete a query that is being typed, against the schema of a state."""

from datetime import datetime

from omnigraph.errors import LimitError
from omnigraph.lang.proposals import Completion
from omnigraph.ops.revision import show_state
from omnigraph.ops.session import Session
from omnigraph.query.completion import complete


def complete_query(
    session: Session,
    text: str,
    position: int | None,
    *,
    branch: str,
    snapshot: str | None = None,
    at: datetime | None = None,
) -> Completion:
    """Return what may be written at a position of a text, its end if it is None.

    Raises:
        LimitError: The text is longer than a query may be.
        BranchMissingError, CommitMissingError: There is no such state.
    """
    limit = session.runtime.options.query_text_characters
    if len(text) > limit:
        raise LimitError.text_too_large("query", limit)
    state = show_state(session, branch=branch, commit_id=snapshot, at=at)
    return complete(text, len(text) if position is None else position, session.load_catalog(state))
