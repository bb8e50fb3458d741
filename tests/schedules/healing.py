"""The thread of a server that recovers what died, beside the writers of its process."""

from types import SimpleNamespace
from typing import Any

from omnigraph.ops.session import Session
from omnigraph.server.background_maintenance import Healer


def serve(session: Session, every_seconds: float, seconds: float) -> None:
    """Serve a graph for some time: a healer looks for dead operations."""
    hosted: Any = SimpleNamespace(config=SimpleNamespace(is_read_only=False), session=session)
    healer = Healer([hosted], every_seconds)
    healer.start()
    session.runtime.clock.sleep(seconds)
    healer.stop()
