"""Load into a new branch: branch and records become visible together, or not at all."""

import msgspec

from omnigraph.commit.branch_errors import BranchExistsError, BranchMissingError, OutcomeUnknownError
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.ref_names import check_branch_name
from omnigraph.ops.branch import draft_branch
from omnigraph.ops.load import OPERATION, LoadCall, LoadResult, load
from omnigraph.ops.load_engine import Reader
from omnigraph.ops.load_inputs import is_rereadable
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError
from omnigraph.storage.object_store import StoreUnavailableError


def load_on_new_branch(
    session: Session,
    call: LoadCall,
    *,
    branch: str,
    source: str,
    uses_existing: bool = False,
    reader: Reader = read_locally,
) -> LoadResult:
    """Create `branch` from the newest state of `source` and load into it.

    If the load fails, no branch is created; if it changes nothing, the branch has no commit of its own. A repeated call
    with the same idempotency key returns the earlier result. With `uses_existing`, an existing branch of that name is
    loaded into, whatever it was created from.

    Raises:
        What `load` raises, and:
        BadArgumentError, BranchExistsError: The name is invalid or in use.
        BranchMissingError: There is no branch `source`.
        ConflictError: With `uses_existing`, another writer created the branch in the meantime, and the input can
            be read only once.
    """
    session.allow(Action.READ, source)
    session.allow(Action.CHANGE, branch, signed=call.actor)
    check_branch_name(branch)
    while True:
        if uses_existing and any(record.name == branch for record in session.branches.list_records()):
            return load(session.checkout(branch), call, reader)
        session.allow(Action.BRANCH_CREATE, branch)
        session.check_writable()
        try:
            return _load_on_draft(session, call, branch, source, reader)
        except BranchExistsError as error:
            if not uses_existing or error.name != error.existing:
                raise BranchExistsError(error.name, error.existing, True) from None
        # Another writer created the branch while this call loaded into a draft of it. To load into that branch, the
        # input must be read again; a quarantine directory has been written to already.
        if call.on_error is not None or not is_rereadable(call.input, session.runtime.options.storage):
            raise ConflictError("branch", "none", f"`{branch}`", "another writer created it")


def _load_on_draft(session: Session, call: LoadCall, branch: str, source: str, reader: Reader) -> LoadResult:
    if call.is_dry_run:
        session.branches.check_name(branch)
        return msgspec.structs.replace(load(session.checkout(source), call, reader), branch=branch)
    if _is_repeated(session, call, branch):
        return load(session.checkout(branch), call, reader)
    with draft_branch(session, branch, source=source, actor=call.actor) as draft:
        try:
            return load(session.checkout_log(draft.log), call, reader)
        except OutcomeUnknownError as error:
            # The draft is not visible, so the outcome is known: nothing was loaded.
            raise StoreUnavailableError(f"load into the new branch `{branch}`", error.reason) from error


def _is_repeated(session: Session, call: LoadCall, branch: str) -> bool:
    """Return whether an earlier call with the same idempotency key has created the branch.

    Raises:
        BranchExistsError: Another request has created it.
    """
    try:
        branch_session = session.checkout(branch)
        head = branch_session.head()
    except (BranchMissingError, DeniedError):
        return False
    earlier = find_earlier_commit(
        branch_session.log, head, operation=OPERATION, actor=call.actor, key=call.idempotency_key
    )
    # A commit from before the fork, made on the parent, has not created this branch.
    if earlier is None or earlier.branch != branch:
        raise BranchExistsError(branch, branch)
    return True
