"""A process that has imported the engine but not used it, and forks a child per job.

Starting Python and importing Lance takes most of a second; forking from here takes a few milliseconds. Lance is not
fork-safe once used, so the zygote itself never touches a graph.
"""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended: its result, or the signal that killed it."""

    result: Any
    signal: int | None
    error: str | None

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.signal == signal.SIGKILL


_processes: list[subprocess.Popen[str]] = []
"""The one that all tests of this process share, once there is one."""


def _process(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    if not _processes or _processes[-1].poll() is not None:
        started = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        _processes.append(started)
    return _processes[-1]


@atexit.register
def _end() -> None:
    for process in _processes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


class Zygote:
    """Runs functions of test modules in fresh forked children: `run("module:function", {...})`.

    Jobs have the environment that there was when this was made.
    """

    def __init__(self) -> None:
        modules = os.pathsep.join([str(HERE), *filter(None, sys.path)])
        self._environment = {**os.environ, "PYTHONPATH": modules, "LANCE_LOG": "error"}
        self._process = _process(self._environment)

    def run(self, target: str, arguments: Mapping[str, object], fault: str | None = None) -> Ended:
        """Run one job to its end."""
        return self.wait(self.start(target, arguments, fault))

    def start(self, target: str, arguments: Mapping[str, object], fault: str | None = None) -> int:
        """Start a job; its process id."""
        environment = {**self._environment, **({"OMNIGRAPH_FAULT": fault} if fault else {})}
        job: dict[str, object] = {
            "do": "start",
            "target": target,
            "arguments": dict(arguments),
            "environment": environment,
        }
        return int(self._ask(job)["pid"])

    def wait(self, pid: int) -> Ended:
        """Wait for a job."""
        answer = self._ask({"do": "wait", "pid": pid})
        return Ended(answer["result"], answer["signal"], answer["error"])

    def close(self) -> None:
        """Let go of it: the process that forks stays for the next."""

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]


def _serve() -> None:
    from omnigraph.graph import lazy_ops

    for verb in lazy_ops.__all__:
        getattr(lazy_ops, verb)  # imported here so that every child has it already

    pipes: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "start":
            pid = _fork(request, pipes)
            answer: dict[str, object] = {"pid": pid}
        else:
            answer = _wait(request["pid"], pipes)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _fork(request: dict[str, object], pipes: dict[int, int]) -> int:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        pipes[pid] = read
        return pid
    os.close(read)
    os.dup2(2, 1)
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload] # it comes as JSON
    outcome: dict[str, object] = {"result": None, "error": None}
    try:
        module, _, function = str(request["target"]).partition(":")
        outcome["result"] = getattr(importlib.import_module(module), function)(**request["arguments"])  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 - whatever ends a job is told to the test
        outcome["error"] = traceback.format_exc()
    with os.fdopen(write, "w") as pipe:
        json.dump(outcome, pipe)
    os._exit(0)


def _wait(pid: int, pipes: dict[int, int]) -> dict[str, object]:
    with os.fdopen(pipes.pop(pid)) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    outcome = json.loads(text) if text else {"result": None, "error": None}
    return {"signal": ended, **outcome}


if __name__ == "__main__":
    _serve()
