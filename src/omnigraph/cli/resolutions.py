"""Conflicts in files: written to be decided about, read with the decisions, or asked about at the terminal."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import omnigraph
from omnigraph.cli.confirm import can_ask
from omnigraph.cli.input_files import STDIN, build_file_error, read_source
from omnigraph.cli.options import refuse
from omnigraph.cli.render import format_count, print_error
from omnigraph.errors import BadArgumentError, BadFileError, OutputError
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.merge_result import MergeResult

_Command = TypeVar("_Command", bound=Callable[..., Any])

# What a key answers, by what can be taken.
_ROW_KEYS = {"o": "ours", "t": "theirs", "b": "base"}
_EDGE_KEYS = {"d": "drop_edge", "k": "keep_node"}
_RULE_KEYS = {"d": "drop"}
_ROW_KINDS = ("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate")


def resolution_options(command: _Command) -> _Command:
    """Add the options that write, read and ask for decisions about conflicts."""
    options = (
        click.option(
            "--conflicts-to", metavar="FILE", help="Write all conflicts to FILE, one a line, to be decided about."
        ),
        click.option("--resolve", metavar="FILE", help="Apply the decisions of FILE, written by --conflicts-to."),
        click.option("--interactive", is_flag=True, help="Ask at the terminal what to do about each conflict."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def run_with_resolutions(
    run: "Callable[..., MergeResult]",
    *,
    dry_run: bool,
    conflicts_to: str | None,
    resolve: str | None,
    interactive: bool,
) -> "MergeResult":
    """Run a merge, a revert or a cherry-pick, with the decisions of a file or of the user; return its conflicts too."""
    if sum([conflicts_to is not None, resolve is not None, interactive]) > 1:
        refuse("give one of --conflicts-to, --resolve and --interactive")
    if interactive and not can_ask(is_stdin_taken=False):
        refuse("--interactive needs a terminal: use --conflicts-to FILE and --resolve FILE")
    resolutions = None if resolve is None else _read_resolutions(resolve)
    result = _run(run, dry_run=dry_run, resolutions=resolutions)
    if not result.conflict_total or (conflicts_to is None and not interactive):
        return result
    # The first run has listed a few conflicts only.
    listed = run(dry_run=True, all_conflicts=True)
    if conflicts_to is not None:
        _write_conflicts(conflicts_to, listed)
        return listed
    return _run(run, dry_run=dry_run, resolutions=_ask_for_all(listed)) if listed.conflict_total else listed


def _run(run: "Callable[..., MergeResult]", *, dry_run: bool, resolutions: list[Any] | None) -> "MergeResult":
    try:
        return run(dry_run=dry_run, resolutions=resolutions)
    except omnigraph.MergeConflictsError as error:
        # Conflicts are the result of these commands, not an error: they go to stdout.
        return error.result


def _read_resolutions(path: str) -> list[Any]:
    documents = []
    # By line feeds alone: a text may contain what else Python takes for the end of a line.
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                documents.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise BadArgumentError.bad_resolutions(f"line {number} is not JSON: {error}") from None
    return documents


def _read_text(path: str) -> str:
    """Return the text of a file, of any size: it was written by `--conflicts-to`; an editor may have added a mark."""
    if path == STDIN:
        return read_source(path).text
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        # Of a file with a mark, positions are counted after it.
        raise BadFileError.not_utf8(path, error.start, error.object[error.start]) from error
    except (OSError, ValueError) as error:
        raise build_file_error(path, "read", error) from error


def _write_conflicts(path: str, result: "MergeResult") -> None:
    text = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in result.list_conflicts())
    if path == STDIN:
        refuse("--conflicts-to takes the name of a file")
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error
    written = format_count(result.conflict_total, "conflict")
    print_error(f"{written} written to {path}: set each `take`, then run this with --resolve {path}")


def _ask_for_all(result: "MergeResult") -> list[dict[str, Any]]:
    """Return the conflicts with what the user takes for each."""
    documents = result.list_conflicts()
    for number, (conflict, document) in enumerate(zip(result.conflicts, documents[1:], strict=True), start=1):
        print_error(f"\n{number} of {result.conflict_total}: {reveal(conflict.message)}")
        document["take"] = _ask(document, names={"ours": result.into, "theirs": result.source})
    return documents


def _ask(document: Mapping[str, Any], names: Mapping[str, str]) -> object:
    """Return what the user takes for one conflict."""
    keys = _RULE_KEYS
    if document["kind"] in _ROW_KINDS:
        keys = _ROW_KEYS
        for state in ("base", "ours", "theirs"):
            value = reveal(json.dumps(document[state], ensure_ascii=False))
            print_error(f"  {state:6}  {value}  {names.get(state, '')}".rstrip())
    elif document["kind"] == "OrphanEdge":
        keys = _EDGE_KEYS
    choices = {**keys, **({} if keys is _EDGE_KEYS else {"v": "a value"}), "q": "quit"}
    question = ", ".join(f"{key} = {what}" for key, what in choices.items())
    key = click.prompt(question, type=click.Choice(list(choices)), show_choices=False, err=True)
    if key == "q":
        print_error("nothing was merged")
        raise click.exceptions.Exit(1)
    if key != "v":
        return keys[key]
    while True:
        text = click.prompt("the value, as JSON", err=True)
        try:
            return {"value": json.loads(text)}
        except (ValueError, RecursionError) as error:
            print_error(f"that is not JSON: {error}")
