"""Masters: where Spark runs."""

import os
import re
import socket

LOCAL = "local[*]"
"""The default: this machine, with all of its cores."""
LOCAL_CLUSTER = "local-cluster"

_STANDALONE = "spark://"
_STANDALONE_ADDRESS = re.compile(r"([^,\s]+):(\d{1,5})(?=,|$)")
_CONNECT_TIMEOUT_SECONDS = 5.0
_MAX_PORT = 65_535
_OWN_MACHINE = re.compile(r"local(\[.*\]|-cluster\[.*\])?|spark://(127\.0\.0\.1|localhost):\d+")


def is_own_machine(master: str) -> bool:
    """Whether all of a Spark's processes run on this machine, and so see its files and reach its loopback."""
    return _OWN_MACHINE.fullmatch(master) is not None


def explain_unreachable(master: str) -> str | None:
    """Why the master of a standalone cluster does not answer; None if one of its addresses does, or it is another kind.

    Spark itself tries for about two minutes, and then says that it has been stopped.
    """
    if not master.startswith(_STANDALONE):
        return None
    reasons: list[str] = []
    for host, port in _STANDALONE_ADDRESS.findall(master.removeprefix(_STANDALONE)):
        if int(port) > _MAX_PORT:
            reasons.append(f"there is no port {port}")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_SECONDS).close()
        except OSError as error:
            reasons.append(f"nothing answers at {host}:{port} ({error.strerror or error})")
        except ValueError:  # of a name that no host can have
            reasons.append(f"`{host}` is no host")
        else:
            return None
    return "; ".join(reasons) or None


def count_cores(master: str) -> int:
    """How many tasks run at once on a master of this machine."""
    numbers = re.findall(r"\d+|\*", master.partition("[")[2])
    match numbers:
        case [workers, cores, _] if master.startswith(LOCAL_CLUSTER):
            return int(workers) * int(cores)
        case [count, *_] if count != "*":
            return int(count)
        case _:
            return 1 if master == "local" else os.cpu_count() or 1
