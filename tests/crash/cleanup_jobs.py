"""What the children of the crash tests of cleanup do. Every function runs in its own process."""

import os

from branching import put
from collecting import DAY, collect
from omnigraph.commit import freshness
from omnigraph.faults import read_faults
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from worlds import FAST, count_as_large


def armed(uri: str) -> Session:
    """A handle with the fault that the environment arms, which opening it does not reach."""
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=FAST))
    session.store.runtime = Runtime(options=FAST, faults=read_faults(os.environ))
    return session


def clean_up(uri: str) -> int:
    """Keep the newest commit of each branch; the bytes that went."""
    return collect(armed(uri), grace=DAY).bytes_removed


def write(uri: str, branch: str, tables: list[str]) -> str:
    """Write a row; the commit's id. A moment counts as long: whoever sleeps looks again."""
    freshness.RECENT_SECONDS = 0.02
    count_as_large()
    return put(armed(uri).checkout(branch), {"victim": 1}, *tables)
