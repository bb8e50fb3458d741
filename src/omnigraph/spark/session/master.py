"""Parse and probe Spark master URLs."""

import os
import re
import socket

# The default: all cores of this machine.
LOCAL = "local[*]"
LOCAL_CLUSTER = "local-cluster"

_STANDALONE = "spark://"
# A URL may list several masters, `spark://a:7077,b:7077`, of which one is active.
_STANDALONE_ADDRESS = re.compile(r"([^,\s]+):(\d{1,5})(?=,|$)")
_CONNECT_TIMEOUT_SECONDS = 5.0
_MAX_PORT = 65_535
_OWN_MACHINE = re.compile(r"local(\[.*\]|-cluster\[.*\])?|spark://(127\.0\.0\.1|localhost):\d+")


def is_own_machine(master: str) -> bool:
    """Return whether all processes of a Spark run on this machine, where they see its files and loopback."""
    return _OWN_MACHINE.fullmatch(master) is not None


def explain_unreachable(master: str) -> str | None:
    """Explain why no master of a standalone cluster answers, or return None if one does.

    Other kinds of masters are not probed. Spark itself would retry for about two minutes, and then report only that it
    has been stopped.
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
        except ValueError:  # a name that no host can have
            reasons.append(f"`{host}` is not a host name")
        else:
            return None
    return "; ".join(reasons) or None


def count_cores(master: str) -> int:
    """Return the number of tasks that run in parallel on a master of this machine."""
    numbers = re.findall(r"\d+|\*", master.partition("[")[2])
    match numbers:
        # local-cluster[workers, cores per worker, memory per worker]
        case [workers, cores, _] if master.startswith(LOCAL_CLUSTER):
            return int(workers) * int(cores)
        case [count, *_] if count != "*":
            return int(count)
        case _:
            return 1 if master == "local" else os.cpu_count() or 1
