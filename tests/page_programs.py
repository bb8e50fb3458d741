"""Runs the program of a page in a child of the zygote: to start Python anew for each would take most of the time."""

import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from zygote import Zygote


def printed_by(program: str, place: Path) -> str:
    """What a program prints that runs in a process of its own, in `place`; fails with its traceback."""
    ended = Zygote().run("page_programs:run", {"program": program, "place": str(place)})
    assert (ended.signal, ended.error) == (None, None), ended.error
    return str(ended.result)


def run(program: str, place: str) -> str:
    """The job: what is printed."""
    os.chdir(place)
    with redirect_stdout(StringIO()) as printed:
        exec(compile(program, "page", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
    return printed.getvalue()
