"""Hints below an error: what a mistaken call probably meant."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path, PurePath

import click

from omnigraph.cli.input_files import INLINE_NAME
from omnigraph.config.client import BRANCH, ClientSettings
from omnigraph.errors import OmnigraphError
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest

# The command or variable that avoids an error, by its code. Other interfaces have other ways out.
_HINT_BY_CODE = {
    "not_a_read": "`omnigraph mutate` runs it, and `omnigraph explain --schema FILE` shows its plan",
    "not_a_mutation": "`omnigraph query` runs it",
    "schema_drops_data": "--yes allows it; `@rename_from` keeps the data of a renamed type or property",
    "query_timeout": "OMNIGRAPH_QUERY_SECONDS sets the time limit",
    "query_memory": "OMNIGRAPH_QUERY_MEMORY_BYTES sets the memory limit",
}
_STORE_CODES = frozenset({"store_unavailable", "store_denied"})
_AZURE_HINT = (
    "access to Azure is configured by AZURE_STORAGE_ACCOUNT_NAME and the other variables of Azure's tools,"
    " which `omnigraph` reads from its environment"
)
_S3_HINT = (
    "access to S3 is configured by AWS_REGION, AWS_ENDPOINT_URL and the other variables of Amazon's tools,"
    " which `omnigraph` reads from its environment"
)
# Every graph has this directory. storage/layout.py defines it too, but is too heavy to be imported for --help.
_MANIFEST_DIRECTORY = "__manifest"
# The option that takes a file, and the hint, by the suffix of its name.
_OPTION_BY_SUFFIX = {
    ".pg": ("--schema", "a schema is given as `--schema {word}`"),
    ".gq": ("--query", "queries are given as `--query {word}`"),
    ".jsonl": ("--data", "data is given as `--data {word}`, or rows of one type as `--node TYPE={word}`"),
    ".ndjson": ("--data", "data is given as `--data {word}`, or rows of one type as `--node TYPE={word}`"),
    ".json": ("--data", "data is given as `--data {word}`, or rows of one type as `--node TYPE={word}`"),
    ".csv": ("--node", "rows of one type are given as `--node TYPE={word}` or `--edge TYPE={word}`"),
    ".parquet": ("--node", "rows of one type are given as `--node TYPE={word}` or `--edge TYPE={word}`"),
    ".orc": ("--node", "rows of one type are given as `--node TYPE={word}` or `--edge TYPE={word}`"),
}
_GRAPH_JSONL = frozenset({".jsonl", ".ndjson"})
_COMPRESSION_SUFFIXES = frozenset({".gz", ".bz2", ".zst", ".xz"})
_S3_ADDRESS = re.compile("s3[an]?://")
_AZURE_ADDRESS = re.compile("az://")
# Entries of a directory that are searched for a graph with a similar name.
_MAX_DIRECTORY_ENTRIES = 1_000
_MULTI_GRAPH_COMMANDS = frozenset({"backup", "clone", "serve"})
_QUERY_COMMANDS = frozenset({"query", "mutate", "explain"})


def find_hint(error: Exception, arguments: Sequence[str]) -> str | None:
    """Return what a user who called `omnigraph` with `arguments` may have meant; None if unknown."""
    match error:
        case SourceError() if _has_lost_variables(error.source):
            return "in double quotes the shell replaces `$p` as one of its variables: put the text into single quotes"
        case OmnigraphError(code="not_a_graph"):
            return _hint_missing_graph(str(error.facts().get("uri", "")), arguments)
        case OmnigraphError(code=code) if code in _STORE_CODES and any(_S3_ADDRESS.search(word) for word in arguments):
            return _S3_HINT
        case OmnigraphError(code=code) if code in _STORE_CODES and any(map(_AZURE_ADDRESS.search, arguments)):
            return _AZURE_HINT
        case OmnigraphError(code="branch_not_found") if (source := _find_branch_source(error)) is not None:
            return f"the branch is from {source}: --branch names another one"
        case OmnigraphError(code="file_format") if (
            PurePath(path := str(error.facts().get("path"))).suffix in _GRAPH_JSONL
        ):
            return f"graph JSONL, with a node or an edge on each line, is given as `--data {path}`"
        case OmnigraphError(code="file_damaged") if (format_ := _find_option("--input-format", arguments)) is not None:
            return f"--input-format says {format_}; without it the name of a file says its format"
        case OmnigraphError(code=code):
            return _HINT_BY_CODE.get(code)
        case click.UsageError(ctx=click.Context() as ctx) if not isinstance(ctx.command, click.Group):
            return _hint_misplaced_word(ctx, arguments)
        case _:
            return None


def _find_branch_source(error: OmnigraphError) -> str | None:
    """Return which variable or file names the branch of an error; None if it is an option."""
    try:
        setting = ClientSettings(os.environ, Path.cwd()).find(BRANCH)
    except OmnigraphError:
        return None
    is_set = setting.variable is not None or setting.file is not None
    return setting.source if is_set and setting.value == error.facts().get("name") else None


def _find_option(name: str, arguments: Sequence[str]) -> str | None:
    """Return the last value given to an option."""
    values = [after for word, after in pairwise(arguments) if word == name]
    values += [word.removeprefix(f"{name}=") for word in arguments if word.startswith(f"{name}=")]
    return values[-1] if values else None


def _has_lost_variables(source: Source) -> bool:
    return source.name == INLINE_NAME and "match" in source.text and "$" not in source.text


def is_graph(path: str) -> bool:
    """Return whether the directory contains a graph."""
    return Path(path, _MANIFEST_DIRECTORY).is_dir()


def _hint_missing_graph(uri: str, arguments: Sequence[str]) -> str | None:
    path = Path(uri)
    if path.is_file():
        return f"{path.name} is a file, and a graph is a directory"
    if arguments[0] not in _MULTI_GRAPH_COMMANDS:
        # A graph given as the first argument was read as the name of a branch, a query or a tag.
        places = enumerate(pairwise(arguments))
        place = next((at for at, (before, word) in places if is_graph(word) and before != "--store"), None)
        if place is not None and place + 2 < len(arguments):
            graph = arguments[place + 1]
            ordered = [*arguments[: place + 1], *arguments[place + 2 :], graph]
            command = shlex.join(["omnigraph", *ordered])
            return f"there is one at {graph}, and the graph is the last argument: `{command}`"
    similar = _find_similar_graph(path)
    if similar is not None:
        return f"did you mean {similar}?"
    if arguments[0] in _QUERY_COMMANDS and path.name.isidentifier():
        return f"a single word is the graph; put a query's name before it: `omnigraph {arguments[0]} {path.name} URI`"
    return None


def _find_similar_graph(path: Path) -> str | None:
    """Find a graph in the same directory with almost the same name."""
    try:
        entries = islice(path.parent.iterdir(), _MAX_DIRECTORY_ENTRIES)
        graphs = {entry.stem: entry for entry in entries if is_graph(str(entry))}
    except OSError:  # the directory is missing, or may not be read
        return None
    closest = path.stem if path.stem in graphs else find_closest(path.stem, graphs)
    return None if closest is None else str(graphs[closest])


def _hint_misplaced_word(ctx: click.Context, arguments: Sequence[str]) -> str | None:
    """Find the option that a plain word should have been given with."""
    options = {name for param in ctx.command.params if isinstance(param, click.Option) for name in param.opts}
    for word in _iter_plain_words(ctx, arguments):
        if "{" in word and "-e" in options:
            return "a query's text is given as `-e TEXT`, in single quotes because of its `$`"
        path = PurePath(word)
        suffix = PurePath(path.stem).suffix if path.suffix.lower() in _COMPRESSION_SUFFIXES else path.suffix
        option, hint = _OPTION_BY_SUFFIX.get(suffix.lower(), ("", ""))
        if option in options:
            return hint.format(word=word)
    return None


def _iter_plain_words(ctx: click.Context, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words of a call that are neither options nor their values; none if it can't be parsed."""
    depth = len(ctx.command_path.split()) - 1
    # `resilient_parsing` ignores missing arguments, which the failed call may have.
    fresh = click.Context(ctx.command, parent=ctx.parent, info_name=ctx.info_name, resilient_parsing=True)
    try:
        values, extra, _ = ctx.command.make_parser(fresh).parse_args(list(arguments[depth:]))
    except click.UsageError:
        return
    for argument in ctx.command.params:
        if isinstance(argument, click.Argument):
            value = values.get(argument.name or "")
            words = value if isinstance(value, list | tuple) else [value]
            # click represents a missing argument by a value that is no text.
            yield from (word for word in words if isinstance(word, str))
    yield from extra
