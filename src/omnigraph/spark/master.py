"""Masters: where Spark runs."""

import os
import re

LOCAL = "local[*]"
"""The default: this machine, with all of its cores."""
LOCAL_CLUSTER = "local-cluster"

_OWN_MACHINE = re.compile(r"local(\[.*\]|-cluster\[.*\])?|spark://(127\.0\.0\.1|localhost):\d+")


def is_own_machine(master: str) -> bool:
    """Whether all of a Spark's processes run on this machine, and so see its files and reach its loopback."""
    return _OWN_MACHINE.fullmatch(master) is not None


def cores_of(master: str) -> int:
    """How many tasks run at once on a master of this machine."""
    numbers = re.findall(r"\d+|\*", master.partition("[")[2])
    match numbers:
        case [workers, cores, _] if master.startswith(LOCAL_CLUSTER):
            return int(workers) * int(cores)
        case [count, *_] if count != "*":
            return int(count)
        case _:
            return 1 if master == "local" else os.cpu_count() or 1
