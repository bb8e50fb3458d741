"""Runs the sessions that are pasted into the pages, and writes what they print now. A test fails when one is stale.

A session is a block that starts with ```` ```console ````; its commands start with `$ omnigraph` and run at the root.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SESSION = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def refreshed(text: str) -> str:
    """A page's text with its sessions run again."""
    return SESSION.sub(lambda session: "".join(_replay(session.group())), text)


def _replay(session: str) -> Iterator[str]:
    for line in session.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(line[2:])}"


def _output(command: str) -> str:
    program, *arguments = shlex.split(command)
    if program != "omnigraph":
        message = f"a session runs omnigraph, not {program}"
        raise ValueError(message)
    result = subprocess.run(
        [sys.executable, "-m", "omnigraph", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.stdout


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")
