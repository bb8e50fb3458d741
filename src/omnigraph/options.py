"""Settings of the engine, with their defaults. Doors fill them from files, environment and flags."""

from dataclasses import dataclass, field
from enum import Enum


class Durability(Enum):
    """When a write on local disk is acknowledged."""

    FSYNC = "fsync"
    """Files and directories are flushed first: it survives a power loss."""
    OS = "os"
    """The operating system has it: it survives a crash of the process, not of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All settings; every one has a safe default."""

    durability: Durability = Durability.FSYNC
    heartbeat_seconds: float = 10.0
    """How often a running operation renews its sidecar."""
    lease_seconds: float = 60.0
    """A sidecar that was not renewed for so long belongs to a dead operation."""
    publish_rounds: int = 5
    """How many rounds may be lost over tables of the write itself before it is a conflict."""
    backoff_seconds: float = 0.05
    """The first wait between two rounds; it doubles, with jitter."""
    head_commits: int = 128
    """How many of the latest commits the head fragment holds before they are sealed.

    So many keep it under 64 KB, which Lance fetches in one request.
    """
    sealed_fragments: int = 32
    """How many sealed fragments there may be before they are merged."""
    manifest_versions: int = 200
    """How many old manifest versions are kept as a fence against stalled writers."""
    storage: dict[str, str] = field(default_factory=dict)
    """Options for the object store (credentials, endpoint), by Lance's names; empty: the AWS_* environment."""
