"""Load into a branch that is made for it: both are there at one moment, or neither ever was."""

from dataclasses import replace

from omnigraph.commit.branch_errors import BranchExistsError, BranchMissingError
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import OutcomeUnknownError
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
    """Make `branch` from the newest state of `source` and load into it.

    When the load fails there is no branch; when it changes nothing there is one without a commit of its own. A repeated
    call with its idempotency key finds what it did before. With `uses_existing`, a branch of that name is loaded into
    as it is, whatever it was made from.

    Raises:
        What `load` raises, and:
        BadBranchNameError, BranchExistsError: The name won't do.
        BranchMissingError: There is no branch `source`.
        ConflictError: With `uses_existing`, somebody else made the branch meanwhile, and the input can be read once.
    """
    session.allow(Action.READ, source)
    session.allow(Action.CHANGE, branch, signed=call.actor)
    check_branch_name(branch)
    while True:
        if uses_existing and any(one.name == branch for one in session.branches.list_records()):
            return load(session.checkout(branch), call, reader)
        session.allow(Action.BRANCH_CREATE, branch)
        session.check_writable()
        try:
            return _load_on_draft(session, call, branch, source, reader)
        except BranchExistsError as error:
            if not uses_existing or error.name != error.existing:
                raise BranchExistsError(error.name, error.existing, True) from None
        # Somebody else made the branch while this was loaded into a draft of it.
        if call.on_error is not None or not is_rereadable(call.input, session.runtime.options.storage):
            raise ConflictError("branch", "none", f"`{branch}`", "somebody else made it")


def _load_on_draft(session: Session, call: LoadCall, branch: str, source: str, reader: Reader) -> LoadResult:
    if call.is_dry_run:
        session.branches.check_name(branch)
        return replace(load(session.checkout(source), call, reader), branch=branch)
    if _is_repeated(session, call, branch):
        return load(session.checkout(branch), call, reader)
    with draft_branch(session, branch, source=source, actor=call.actor) as draft:
        try:
            return load(session.checkout_log(draft.log), call, reader)
        except OutcomeUnknownError as error:  # nobody sees the branch, so nothing is unknown: it was not loaded
            raise StoreUnavailableError(f"load into the new branch `{branch}`", error.reason) from error


def _is_repeated(session: Session, call: LoadCall, branch: str) -> bool:
    """Whether this very call has made the branch; BranchExistsError when somebody else has."""
    try:
        there = session.checkout(branch)
        head = there.head()
    except (BranchMissingError, DeniedError):
        return False
    earlier = find_earlier_commit(there.log, head, operation=OPERATION, actor=call.actor, key=call.idempotency_key)
    if earlier is None or earlier.branch != branch:  # what its parent did before the fork has not made it
        raise BranchExistsError(branch, branch)
    return True
