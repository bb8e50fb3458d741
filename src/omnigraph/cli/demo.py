"""`omnigraph demo`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import click

from omnigraph.cli.main import main
from omnigraph.cli.options import json_option
from omnigraph.cli.render import flush_output, format_table, print_json, print_text, use_color
from omnigraph.demo.cost_table import HEADERS, build_cost_rows
from omnigraph.demo.directory import prepare
from omnigraph.demo.runner import TourRunner
from omnigraph.demo.script import Tour, format_farewell, play
from omnigraph.locations import resolve_local_path
from omnigraph.options import Engine
from omnigraph.spark.load.engine_choice import describe_machine

DIRECTORY = "omnigraph-demo"


@click.command("demo")
@click.argument("directory", required=False, default=DIRECTORY, metavar="[DIR]")
@click.option("--small", "is_small", is_flag=True, help="A hundredth of the data; takes seconds.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Who loads the data; auto: Spark where it is installed, and this process for --small.",
)
@json_option
def command(directory: str, is_small: bool, engine: str, as_json: bool) -> int:
    """Show on made-up data what this can do, each step with its command.

    200,000 people, companies and papers with a million edges, texts and vectors are made up and loaded; then come a
    traversal, an aggregate, a hybrid search, a plan, a killed writer, a branch, a diff, a merge with a conflict, the
    past, recovery, maintenance, and what each of them cost. All of it stays in DIR, which is ./omnigraph-demo unless
    given. A tour that was there before is replaced; nothing else is.

    With --json the story goes to stderr, and what each step cost to stdout.
    """
    place = resolve_local_path(directory).absolute()
    prepare(place)
    chosen, reason = _choose_engine(Engine(engine), is_small=is_small)
    with _redirect_story(as_json=as_json):
        stage = TourRunner(
            run_command=main, write=_write, emphasize=_style_bold if use_color("auto", sys.stdout) else str
        )
        stage.say(
            "omnigraph: a typed, versioned property graph. Load it, ask it, change it, and read any state it ever had."
        )
        stage.say(f"The files of this tour are in {place}, and so is this process: to follow, cd there.{reason}\n")
        with _change_directory(place):
            play(Tour(directory=place, is_small=is_small, engine=chosen), stage)
        rows = build_cost_rows(stage.costs)
        stage.say(f"=== What it cost\n\n{format_table(HEADERS, rows, right=HEADERS[1:])}")
        for line in format_farewell(place):
            stage.say(line)
    if as_json:
        print_json({"directory": str(place), "engine": chosen.value, "steps": _encode_steps(rows)})
    return 0


def _encode_steps(rows: list[tuple[str, ...]]) -> list[dict[str, object]]:
    """The rows of the table for programs: numbers, and null for what was not counted."""
    return [
        {"step": step, "seconds": float(seconds), **dict(zip(HEADERS[2:], map(_parse_number, counts), strict=True))}
        for step, seconds, *counts in rows
    ]


def _parse_number(cell: str) -> int | None:
    return int(cell.replace(",", "")) if cell else None


def _choose_engine(asked: Engine, *, is_small: bool) -> tuple[Engine, str]:
    """Who loads, and a word about it where it is not what the tour is made for."""
    if asked is not Engine.AUTO:
        return asked, ""
    if is_small:
        return Engine.LOCAL, ""
    lacks = describe_machine(None).find_missing()
    return (Engine.SPARK, "") if lacks is None else (Engine.LOCAL, f"\nThis process loads the data: {lacks}.")


def _style_bold(text: str) -> str:
    return click.style(text, bold=True)


def _write(text: str) -> None:
    print_text(text)
    flush_output()  # commands write to stderr, too: the order on a terminal is the order of the story


@contextmanager
def _redirect_story(*, as_json: bool) -> Iterator[None]:
    if not as_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def _change_directory(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
