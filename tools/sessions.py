"""Runs the sessions that are pasted into the pages, and writes what they print now. A test fails when one is stale.

A session is a block that starts with ```` ```console ````; what follows a `$ ` is a command, and a line that ends in a
backslash goes on in the next one. All sessions of a page run one after the other in one empty directory that has
`examples` in it. What differs from run to run (ids and digests of commits, times, versions, milliseconds, the
directory) is shown in a form that does not; an id or a digest that a page shows may be used by its later commands.
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
_MILLISECONDS = re.compile(r"\b\d+\.\d{3} ms\b")
_FIRST_TIME = datetime(2026, 1, 5, 9, tzinfo=UTC)
_SHELL_SIGNS, _QUOTES = frozenset("|<>;&*"), frozenset("'\"")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_PIPED = re.compile(r"(?P<first>[^|<>;&]*) (?:\| (?P<pipe>[^<>;&]*)|> (?P<file>[\w.]+))")


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def refreshed(text: str) -> str:
    """A page's text with its sessions run again."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-session-") as directory:
        (Path(directory) / "examples").symlink_to(ROOT / "examples")
        page = _Page(Path(directory))
        return SESSION.sub(lambda session: "".join(page.replayed(session.group())), text)


class _Page:
    """The sessions of one page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._shown: dict[str, str] = {}
        """What is shown instead of what a command printed."""
        self._ids = self._last = self._digests = 0

    def replayed(self, session: str) -> Iterator[str]:
        for found in _COMMAND.finditer(session):
            command = found.group()
            yield f"{command}\n{self._stable(self._output(self._real(command[2:])))}"

    def _real(self, command: str) -> str:
        for real, shown in self._shown.items():
            command = command.replace(shown, real)
        return command

    def _output(self, command: str) -> str:
        own, rest = _own_part(command)
        if own is None:
            return self._of_shell(command)
        variables, words = own
        printed, told = _in_process(words, self._directory, variables, are_apart=bool(rest))
        return told + self._of_shell(rest, printed) if rest else printed

    def _of_shell(self, command: str, given: str = "") -> str:
        result = subprocess.run(
            ["/bin/bash", "-c", f'omnigraph() {{ {shlex.quote(sys.executable)} -m omnigraph "$@"; }}; {command}'],
            cwd=self._directory,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return result.stdout

    def _stable(self, output: str) -> str:
        output = output.replace(str(self._directory.resolve()), HOME).replace(str(self._directory), HOME)
        output = _DIGEST.sub(lambda found: self._digest(found.group()), output)
        output = _ULID_OR_TIME.sub(lambda found: self._id_or_time(found.group()), output)
        output = _MILLISECONDS.sub("… ms", output)
        output = _VERSION_FILE.sub("/d….manifest", output)
        return _stable_versions(output)

    def _digest(self, real: str) -> str:
        """Return what is shown for a digest: the digest of its number, as they appear."""
        if real not in self._shown:
            self._digests += 1
            shown = urlsafe_b64encode(sha256(f"digest {self._digests}".encode()).digest())
            self._shown[real] = shown.decode().rstrip("=")
        return self._shown[real]

    def _id_or_time(self, real: str) -> str:
        """Ids are numbered as they appear. A time is that of the id before it, a minute for each number."""
        if len(real) == _ULID_LENGTH and real.isalnum():
            if real not in self._shown:
                self._ids += 1
                self._shown[real] = f"01KE{self._ids:022d}"
            self._last = int(self._shown[real][4:])
            return self._shown[real]
        if abs(datetime.now(UTC) - datetime.fromisoformat(real)) > timedelta(hours=1):
            return real  # a time of the data
        instant = _FIRST_TIME + timedelta(minutes=self._last)
        return self._shown.setdefault(real, instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def _stable_versions(output: str) -> str:
    """Versions of tables are drawn anew, with 19 or 20 digits; their column is made as wide as it can be."""
    found = list(dict.fromkeys(_VERSION.findall(output)))
    if not found:
        return output
    lines = output.splitlines(keepends=True)
    width = max(map(len, found))
    start = next((line.index("version ") for line in lines if line.startswith("table ")), None)
    for number, line in enumerate(lines):
        if start is not None and line[start - 2 : start] == "  " and len(line) > start + width:
            cell = line[start : start + width].rstrip()
            lines[number] = line[:start] + cell.ljust(_VERSION_WIDTH) + line[start + width :]
    names = {real: str(9_223_372_036_854_775_808 + place) for place, real in enumerate(found, start=1)}
    return _VERSION.sub(lambda one: names[one.group()].ljust(len(one.group())), "".join(lines))


def _own_part(command: str) -> tuple[tuple[dict[str, str], list[str]] | None, str]:
    """The variables and arguments of a command of ours that needs no shell, and what its output goes to, if anything.

    That is a whole command, or one without quotes up to its first pipe or redirection.
    """
    command, rest = command.replace("\\\n", " "), ""
    if not _QUOTES & set(command) and (found := _PIPED.fullmatch(command)):
        command, rest = found["first"], found["pipe"] or f"cat > {found['file']}"
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in takewhile(_ASSIGNMENT.match, words))
    words = words[len(variables) :]
    signs = _SHELL_SIGNS | ({"$"} if variables else set())
    if words[:1] != ["omnigraph"] or signs & set(re.sub(r"'[^']*'", "", command)):
        return None, ""
    return (variables, words[1:]), rest


def _in_process(
    arguments: list[str], directory: Path, variables: Mapping[str, str], *, are_apart: bool
) -> tuple[str, str]:
    """What a command prints, stdout and stderr as they come, or apart; a process of its own takes a second to start."""
    printed, told = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        _standing_in(directory),
        _with_variables(variables),
        _without_input(),
        redirect_stdout(printed),
        redirect_stderr(told if are_apart else printed),
    ):
        main(arguments)
    return printed.buffer.getvalue().decode(), told.buffer.getvalue().decode()


@contextmanager
def _with_variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _standing_in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _without_input() -> Iterator[None]:
    before = sys.stdin
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        sys.stdin = nothing
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
