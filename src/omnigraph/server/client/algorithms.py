"""Graph algorithms that a server runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from omnigraph.engine.result import Result
from omnigraph.ops.session import ANONYMOUS
from omnigraph.server.client.requests import GraphCalls, build_state, check_actor


@dataclass(frozen=True, slots=True)
class RemoteAlgorithms:
    """The algorithms over a graph on a server."""

    _calls: GraphCalls

    def run(  # noqa: PLR0913 - all but the first three by name
        self,
        name: str,
        edge: str | Sequence[str],
        parameters: Mapping[str, object] | None = None,
        *,
        into: str | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> Result:
        """Run the algorithm of a name; see `Algorithms.run`. The owner of the token signs the commit."""
        check_actor(actor)
        body = {
            "name": name,
            "edges": [edge] if isinstance(edge, str) else list(edge),
            "parameters": dict(parameters or {}),
            "into": into,
            **build_state(branch, snapshot, at),
            "message": message,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return self._calls.fetch_rows("algorithms", body=body)
