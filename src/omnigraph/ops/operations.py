"""Operations that are at work, or died and wait for recovery: what their sidecars say. Changes nothing."""

from dataclasses import dataclass

from omnigraph.commit.sidecar import BrokenSidecar, Sidecar, list_sidecars
from omnigraph.ops.session import Session
from omnigraph.policy import Action


@dataclass(frozen=True, slots=True)
class Operations:
    """All sidecars of a graph. Which of the `pending` are dead is found out by recovery, which may write."""

    pending: tuple[Sidecar, ...]
    broken: tuple[BrokenSidecar, ...]

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "pending": [
                {
                    "id": one.id,
                    "operation": one.operation,
                    "actor": one.actor,
                    "branch": one.branch,
                    "commit_id": one.commit_id,
                    "started_at": one.started_at,
                    "state": one.state,
                }
                for one in self.pending
            ],
            "broken": [{"key": one.key, "reason": one.reason} for one in self.broken],
        }


def list_operations(session: Session) -> Operations:
    """What is under way now; usually nothing."""
    session.allow_on_graph(Action.READ)
    found, broken = list_sidecars(session.store)
    return Operations(tuple(item.sidecar for item in found), tuple(broken))
