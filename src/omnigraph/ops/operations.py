"""List operations that are running, or that died and wait for recovery, from their sidecars. Read-only."""

from dataclasses import dataclass
from datetime import timedelta

from omnigraph.commit.sidecar import BrokenSidecar, Sidecar, list_sidecars
from omnigraph.ops.session import Session, is_readable
from omnigraph.policy import Action


@dataclass(frozen=True, slots=True)
class Operations:
    """The sidecars of a graph."""

    pending: tuple[Sidecar, ...]
    broken: tuple[BrokenSidecar, ...]
    dead: frozenset[str] = frozenset()
    """The ids of pending operations without a heartbeat for longer than their lease; recovery resolves them."""

    def state(self, sidecar: Sidecar) -> str:
        """Return `running`, `dead`, or `abandoned` if recovery has taken it over."""
        return "dead" if sidecar.id in self.dead and sidecar.state == "running" else sidecar.state

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "pending": [
                {
                    "id": sidecar.id,
                    "operation": sidecar.operation,
                    "actor": sidecar.actor,
                    "branch": sidecar.branch,
                    "commit_id": sidecar.commit_id,
                    "started_at": sidecar.started_at,
                    "state": self.state(sidecar),
                }
                for sidecar in self.pending
            ],
            "broken": [{"key": sidecar.key, "reason": sidecar.reason} for sidecar in self.broken],
        }


def list_operations(session: Session) -> Operations:
    """List the operations in progress, usually none."""
    session.allow_on_graph(Action.READ)
    items, broken = list_sidecars(session.store)
    # By this machine's clock: to learn that of the store, something would have to be written.
    silent_since = session.runtime.clock.now() - timedelta(seconds=session.runtime.options.lease_seconds)
    dead = frozenset(item.sidecar.id for item in items if item.modified < silent_since)
    pending = tuple(item.sidecar for item in items if is_readable(session, item.sidecar.branch))
    return Operations(pending, tuple(broken), dead)
