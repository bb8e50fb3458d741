"""A command in a pseudo-terminal: keys go in, the screen's text comes out."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

# Only ends what hangs.
PATIENCE = 120.0
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")
# Ctrl-C reaches the processes whose controlling terminal this is.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """`omnigraph` with these arguments, whose stdin, stdout and stderr are one terminal."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self._leader, follower = pty.openpty()
        self.resize(24, 100)
        command = [sys.executable, "-m", "omnigraph", *arguments]
        merged = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **(env or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=merged,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(follower)
        self.raw = ""
        self._seen = 0

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size, as a window manager does."""
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "process"):
            os.killpg(self.process.pid, signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Send keys; what is read meanwhile is kept, so that neither side waits for the other."""
        data = keys.encode()
        while data:
            _, writable, _ = select.select([], [self._leader], [], 0.05)
            self._read_available(0)
            if writable:
                data = data[os.write(self._leader, data[:512]) :]

    @property
    def text(self) -> str:
        """What was printed after what the last `wait_for` waited for, without colours and cursor movements."""
        return _ESCAPES.sub("", self.raw).replace("\r", "")[self._seen :]

    def wait_for(self, expected: str, patience: float = PATIENCE) -> str:
        """Read until a text was printed after that of the last call, and return what was printed up to it."""
        deadline = time.monotonic() + patience
        while expected not in self.text:
            if time.monotonic() > deadline:
                raise AssertionError(f"{expected!r} was not printed, but: {self.text[-3000:]!r}")
            if not self._read_available(0.2) and self.process.poll() is not None and not self._read_available(0.2):
                assert expected in self.text, f"ended with {self.process.returncode}: {self.text[-3000:]!r}"
        seen = self.text[: self.text.index(expected) + len(expected)]
        self._seen += len(seen)
        return seen

    def wait_for_end(self) -> int:
        """Return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end: {self.text[-3000:]!r}"
            self._read_available(0.05)
        while self._read_available(0):
            pass
        return self.process.returncode

    def _read_available(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._leader], [], [], seconds)
        if not readable:
            return False
        try:
            data = os.read(self._leader, 65_536)
        except OSError:  # what Linux answers when the other end is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._leader)
