"""Operations that are at work, or died and wait for recovery: what their sidecars say. Changes nothing."""

from dataclasses import dataclass
from datetime import timedelta

from omnigraph.commit.sidecar import BrokenSidecar, Sidecar, list_sidecars
from omnigraph.ops.session import Session
from omnigraph.policy import Action


@dataclass(frozen=True, slots=True)
class Operations:
    """All sidecars of a graph."""

    pending: tuple[Sidecar, ...]
    broken: tuple[BrokenSidecar, ...]
    dead: frozenset[str] = frozenset()
    """Of the pending ones, the ids of those that were silent for longer than their lease: recovery settles them."""

    def state(self, one: Sidecar) -> str:
        """Return `running`, `dead`, or `abandoned` when recovery is at it."""
        return "dead" if one.id in self.dead and one.state == "running" else one.state

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
                    "state": self.state(one),
                }
                for one in self.pending
            ],
            "broken": [{"key": one.key, "reason": one.reason} for one in self.broken],
        }


def list_operations(session: Session) -> Operations:
    """List what is under way now; usually nothing. Ages are by this machine's clock, since nothing is written."""
    session.allow_on_graph(Action.READ)
    found, broken = list_sidecars(session.store)
    silent_since = session.runtime.clock.now() - timedelta(seconds=session.runtime.options.lease_seconds)
    dead = frozenset(item.sidecar.id for item in found if item.modified < silent_since)
    return Operations(tuple(item.sidecar for item in found), tuple(broken), dead)
