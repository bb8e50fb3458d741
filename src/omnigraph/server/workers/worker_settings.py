"""What the parent tells a worker: the settings of the server, and the worker's share of them."""

import os
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.config.server import ServerConfig
from omnigraph.server.shared_state import create_sealed_file

# The share of the threads that the workers for long requests have together.
_LONG_SHARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker. They hold secrets, so they go through a descriptor, never through arguments."""

    config: ServerConfig
    """The settings of the whole server, as they were when it started."""
    is_open_to_all: bool
    index: int
    serving: int
    """The number of workers that have clients; those after them run long requests."""
    workers: int
    """The number of all workers."""
    port: int
    home: Path
    """The directory of the workers' sockets."""
    shared_fd: int
    status_fd: int
    """Where the error is written that keeps the worker from starting."""
    parent: int
    """The process of the parent."""

    @property
    def is_long(self) -> bool:
        """Whether the worker runs long requests, and has no clients of its own."""
        return self.index >= self.serving

    def build_config(self) -> ServerConfig:
        """Return the settings of this worker: threads and waiting requests are those of the server, divided."""
        limits = self.config.limits
        long_threads = max(1, limits.threads // _LONG_SHARE)
        threads = long_threads if self.is_long else limits.threads - long_threads
        count = self.workers - self.serving if self.is_long else self.serving
        return replace(
            self.config,
            limits=replace(
                limits,
                threads=max(1, -(-threads // count)),
                waiting=max(1, -(-limits.waiting // self.serving)),
            ),
        )

    def write(self) -> int:
        """Return the descriptor of a sealed file in memory with these settings."""
        return create_sealed_file("omnigraph-settings", pickle.dumps(self))

    @staticmethod
    def read(fd: int) -> "WorkerSettings":
        """Read the settings that the parent wrote."""
        with os.fdopen(fd, "rb") as file:
            file.seek(0)
            settings = pickle.load(file)  # noqa: S301 - the parent's own file, which no other process can open
        assert isinstance(settings, WorkerSettings)  # noqa: S101 - the parent writes nothing else
        return settings
