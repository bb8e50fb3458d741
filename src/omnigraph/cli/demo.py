"""`omnigraph demo`: a guided tour on generated data."""

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
@click.option("--small", "is_small", is_flag=True, help="Use a hundredth of the data; takes seconds.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="What loads the data; auto: Spark if it is installed, this process for --small.",
)
@json_option
def command(directory: str, is_small: bool, engine: str, as_json: bool) -> int:
    """Run a guided tour on generated data, showing the command of each step.

    Generates and loads 200,000 people, companies and papers with a million edges, texts and vectors. Then shows a
    traversal, an aggregate, a hybrid search, a plan, a killed writer, a branch, a diff, a merge with a conflict,
    earlier states, recovery, maintenance, and the cost of each step. All files stay in DIR, by default
    ./omnigraph-demo. An earlier tour in DIR is replaced; other files are not.

    With --json the story goes to stderr, and the cost of each step to stdout.
    """
    path = resolve_local_path(directory).absolute()
    prepare(path)
    selected_engine, reason = _choose_engine(Engine(engine), is_small=is_small)
    with _redirect_story(as_json=as_json):
        runner = TourRunner(
            run_command=main, write=_write, emphasize=_style_bold if use_color("auto", sys.stdout) else str
        )
        runner.say("omnigraph: a typed, versioned property graph. Load it, query it, change it, read any state it had.")
        runner.say(f"The files of this tour are in {path}. To try its commands yourself, cd there.{reason}\n")
        with _change_directory(path):
            play(Tour(directory=path, is_small=is_small, engine=selected_engine), runner)
        rows = build_cost_rows(runner.costs)
        runner.say(f"=== What it cost\n\n{format_table(HEADERS, rows, right=HEADERS[1:])}")
        for line in format_farewell(path):
            runner.say(line)
    if as_json:
        print_json({"directory": str(path), "engine": selected_engine.value, "steps": _encode_steps(rows)})
    return 0


def _encode_steps(rows: list[tuple[str, ...]]) -> list[dict[str, object]]:
    """Return the rows of the cost table as JSON objects, with null for counts that were not measured."""
    return [
        {"step": step, "seconds": float(seconds), **dict(zip(HEADERS[2:], map(_parse_number, counts), strict=True))}
        for step, seconds, *counts in rows
    ]


def _parse_number(cell: str) -> int | None:
    return int(cell.replace(",", "")) if cell else None


def _choose_engine(requested: Engine, *, is_small: bool) -> tuple[Engine, str]:
    """Return the engine that loads the data, and a note if Spark is missing although the tour is made for it."""
    if requested is not Engine.AUTO:
        return requested, ""
    if is_small:
        return Engine.LOCAL, ""
    missing = describe_machine(None).find_missing()
    return (Engine.SPARK, "") if missing is None else (Engine.LOCAL, f"\nThis process loads the data: {missing}.")


def _style_bold(text: str) -> str:
    return click.style(text, bold=True)


def _write(text: str) -> None:
    print_text(text)
    # Commands write to stderr, too: without a flush, lines would appear out of order on a terminal.
    flush_output()


@contextmanager
def _redirect_story(*, as_json: bool) -> Iterator[None]:
    if not as_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def _change_directory(directory: Path) -> Iterator[None]:
    previous = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(previous)
