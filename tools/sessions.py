"""Run the sessions that are pasted into the pages, and update their output. A test fails when one is stale.

A session is a ```` ```console ```` block; `$ ` starts a command, and a line that ends in a backslash continues on the
next one. All sessions of a page run in order in one empty directory that has `examples` in it. Values that differ from
run to run (ids and digests of commits, times, versions, milliseconds, the directory) are replaced by stable ones; later
commands of a page may use an id or a digest that the page shows.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO, TextIOWrapper
from itertools import takewhile
from pathlib import Path

from omnigraph.cli.main import main

ROOT = Path(__file__).parents[1]
SESSION = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
HOME = "/graphs"

_COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)
_ULID_LENGTH = 26
_ULID_OR_TIME = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b|\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z")
_DIGEST = re.compile(r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[A-Za-z0-9_-]{43}(?![\w-])")
_VERSION = re.compile(r"\b\d{19,20}\b")
_VERSION_WIDTH = 20
_VERSION_FILE = re.compile(r"/d\d{19,20}\.manifest")
_DATA_FILE = re.compile(r"/data/[\w-]+\.lance")
_MILLISECONDS = re.compile(r"\b\d+\.\d{3} ms\b")
_FIRST_TIME = datetime(2026, 1, 5, 9, tzinfo=UTC)
_SHELL_SIGNS, _QUOTES = frozenset("|<>;&*"), frozenset("'\"")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_PIPED = re.compile(r"(?P<first>[^|<>;&]*) (?:\| (?P<pipe>[^<>;&]*)|> (?P<file>[\w.]+))")


def pages() -> list[Path]:
    """Return every page of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def refreshed(text: str) -> str:
    """Return a page's text with its sessions run again."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-session-") as directory:
        (Path(directory) / "examples").symlink_to(ROOT / "examples")
        page = _Page(Path(directory))
        return SESSION.sub(lambda session: "".join(page.replay(session.group())), text)


class _Page:
    """The sessions of one page, and the stable values that they have shown so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._shown: dict[str, str] = {}
        """The stable value that is shown, by the value that a command printed."""
        self._ids = 0
        self._last_id = 0
        self._digests = 0

    def replay(self, session: str) -> Iterator[str]:
        for match in _COMMAND.finditer(session):
            command = match.group()
            output = self._run(self._restore_values(command[2:]))
            yield f"{command}\n{self._stabilize(output)}"

    def _restore_values(self, command: str) -> str:
        for real, shown in self._shown.items():
            command = command.replace(shown, real)
        return command

    def _run(self, command: str) -> str:
        call, rest = _split_command(command)
        if call is None:
            return self._run_in_shell(command)
        variables, words = call
        stdout, stderr = _run_in_process(words, self._directory, variables, are_apart=bool(rest))
        return stderr + self._run_in_shell(rest, stdout) if rest else stdout

    def _run_in_shell(self, command: str, stdin: str = "") -> str:
        result = subprocess.run(
            ["/bin/bash", "-c", f'omnigraph() {{ {shlex.quote(sys.executable)} -m omnigraph "$@"; }}; {command}'],
            cwd=self._directory,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return result.stdout

    def _stabilize(self, output: str) -> str:
        output = output.replace(str(self._directory.resolve()), HOME).replace(str(self._directory), HOME)
        output = _DIGEST.sub(lambda match: self._stabilize_digest(match.group()), output)
        output = _ULID_OR_TIME.sub(lambda match: self._stabilize_id_or_time(match.group()), output)
        output = _MILLISECONDS.sub("… ms", output)
        output = _VERSION_FILE.sub("/d….manifest", output)
        output = _DATA_FILE.sub("/data/….lance", output)
        return _stabilize_versions(output)

    def _stabilize_digest(self, real: str) -> str:
        """Return the stable value of a digest: digests are numbered as they appear, and the number is hashed."""
        if real not in self._shown:
            self._digests += 1
            shown = urlsafe_b64encode(sha256(f"digest {self._digests}".encode()).digest())
            self._shown[real] = shown.decode().rstrip("=")
        return self._shown[real]

    def _stabilize_id_or_time(self, real: str) -> str:
        """Return the stable value of an id or a time.

        Ids are numbered as they appear. A time is derived from the number of the last id, one minute per number.
        """
        if len(real) == _ULID_LENGTH and real.isalnum():
            if real not in self._shown:
                self._ids += 1
                self._shown[real] = f"01KE{self._ids:022d}"
            self._last_id = int(self._shown[real][4:])
            return self._shown[real]
        if abs(datetime.now(UTC) - datetime.fromisoformat(real)) > timedelta(hours=1):
            return real  # a time in the data, which is the same on each run
        instant = _FIRST_TIME + timedelta(minutes=self._last_id)
        return self._shown.setdefault(real, instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def _stabilize_versions(output: str) -> str:
    """Replace the versions of tables, which are random and have 19 or 20 digits, and pad their column to 20."""
    versions = list(dict.fromkeys(_VERSION.findall(output)))
    if not versions:
        return output
    lines = output.splitlines(keepends=True)
    width = max(map(len, versions))
    start = next((line.index("version ") for line in lines if line.startswith("table ")), None)
    for number, line in enumerate(lines):
        if start is not None and line[start - 2 : start] == "  " and len(line) > start + width:
            cell = line[start : start + width].rstrip()
            lines[number] = line[:start] + cell.ljust(_VERSION_WIDTH) + line[start + width :]
    names = {real: str(9_223_372_036_854_775_808 + number) for number, real in enumerate(versions, start=1)}
    return _VERSION.sub(lambda match: names[match.group()].ljust(len(match.group())), "".join(lines))


def _split_command(command: str) -> tuple[tuple[dict[str, str], list[str]] | None, str]:
    """Split a command into a call of omnigraph that needs no shell, and a shell command that reads its output.

    The call is the variables and arguments of the whole command, or if it has no quotes, of the part before its first
    pipe or redirection. It is None for a command that needs a shell.
    """
    command, rest = command.replace("\\\n", " "), ""
    if not _QUOTES & set(command) and (match := _PIPED.fullmatch(command)):
        command, rest = match["first"], match["pipe"] or f"cat > {match['file']}"
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in takewhile(_ASSIGNMENT.match, words))
    words = words[len(variables) :]
    signs = _SHELL_SIGNS | ({"$"} if variables else set())
    if words[:1] != ["omnigraph"] or signs & set(re.sub(r"'[^']*'", "", command)):
        return None, ""
    return (variables, words[1:]), rest


def _run_in_process(
    arguments: list[str], directory: Path, variables: Mapping[str, str], *, are_apart: bool
) -> tuple[str, str]:
    """Run a command, and return its stdout and stderr; unless they are apart, the first has both, interleaved.

    It runs in this process, because a new one takes a second to start.
    """
    stdout, stderr = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        _change_directory(directory),
        _set_variables(variables),
        _redirect_stdin(),
        redirect_stdout(stdout),
        redirect_stderr(stderr if are_apart else stdout),
    ):
        main(arguments)
    return stdout.buffer.getvalue().decode(), stderr.buffer.getvalue().decode()


@contextmanager
def _set_variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _change_directory(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _redirect_stdin() -> Iterator[None]:
    before = sys.stdin
    with Path(os.devnull).open(encoding="utf-8") as empty:
        sys.stdin = empty
        try:
            yield
        finally:
            sys.stdin = before


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")
