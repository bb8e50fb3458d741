"""What a mistaken call probably meant: the help that stands below an error."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath

import click

from omnigraph.cli.input_files import INLINE_NAME
from omnigraph.errors import OmnigraphError
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.source import Source
from omnigraph.lang.spelling import find_closest

_HINT_BY_CODE = {
    "not_a_read": "`omnigraph mutate` runs it, and `omnigraph explain --schema FILE` shows its plan",
    "not_a_mutation": "`omnigraph query` runs it",
    "schema_drops_data": "--yes allows it; `@rename_from` keeps the data of what has another name now",
    "query_timeout": "OMNIGRAPH_QUERY_SECONDS is the deadline",
    "query_memory": "OMNIGRAPH_QUERY_MEMORY_BYTES is the budget",
}
"""What only this door can tell: the command or variable with which an error is avoided, by the error's code."""
_STORE_CODES = frozenset({"store_unavailable", "store_denied"})
_S3_HINT = (
    "S3 is reached by AWS_REGION, AWS_ENDPOINT_URL and the other variables of Amazon's tools,"
    " which `omnigraph` reads from its environment"
)
_MANIFEST_DIRECTORY = "__manifest"
"""What every graph has: storage/layout.py says so too, which is too heavy to be imported for --help."""
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
"""By which option a file is given, by what its name ends in, and how that is told."""
_COMPRESSION_SUFFIXES = frozenset({".gz", ".bz2", ".zst", ".xz"})
_MAX_DIRECTORY_ENTRIES = 1_000
"""How much of a directory is looked through for a graph that may have been meant."""
_MULTI_GRAPH_COMMANDS = frozenset({"clone", "serve"})
_QUERY_COMMANDS = frozenset({"query", "mutate", "explain"})


def find_hint(error: Exception, given: Sequence[str]) -> str | None:
    """What whoever called `omnigraph` with the words `given` may have meant; None where nothing is known."""
    match error:
        case SourceError() if _has_lost_variables(error.source):
            return "in double quotes the shell takes `$p` for a variable of its own: put the text into single quotes"
        case OmnigraphError(code="not_a_graph"):
            return _hint_missing_graph(str(error.facts().get("uri", "")), given)
        case OmnigraphError(code=code) if code in _STORE_CODES and any("s3://" in word for word in given):
            return _S3_HINT
        case OmnigraphError(code=code):
            return _HINT_BY_CODE.get(code)
        case click.UsageError(ctx=click.Context() as ctx) if not isinstance(ctx.command, click.Group):
            return _hint_misplaced_word(ctx, given)
        case _:
            return None


def _has_lost_variables(source: Source) -> bool:
    return source.name == INLINE_NAME and "match" in source.text and "$" not in source.text


def is_graph(place: str) -> bool:
    """Whether there is a graph in the directory."""
    return Path(place, _MANIFEST_DIRECTORY).is_dir()


def _hint_missing_graph(uri: str, given: Sequence[str]) -> str | None:
    place = Path(uri)
    if place.is_file():
        return f"{place.name} is a file, and a graph is a directory"
    if given[0] not in _MULTI_GRAPH_COMMANDS:
        # Whoever gives the graph first has its name taken for that of a branch, a query or a tag.
        there = next((word for word in given[:-1] if is_graph(word)), None)
        if there is not None:
            return f"there is one at {there}; the graph is the last argument"
    near = _find_similar_graph(place)
    if near is not None:
        return f"did you mean {near}?"
    if given[0] in _QUERY_COMMANDS and place.name.isidentifier():
        return f"a single word is the graph; a query's name stands before it: `omnigraph {given[0]} {place.name} URI`"
    return None


def _find_similar_graph(place: Path) -> str | None:
    """The graph beside it whose name is nearly the same."""
    try:
        beside = {one.stem: one for one in islice(place.parent.iterdir(), _MAX_DIRECTORY_ENTRIES) if is_graph(str(one))}
    except OSError:  # nothing is there to be meant, or nothing that may be seen
        return None
    near = place.stem if place.stem in beside else find_closest(place.stem, beside)
    return None if near is None else str(beside[near])


def _hint_misplaced_word(ctx: click.Context, given: Sequence[str]) -> str | None:
    """The option by which a word should have been given that stands alone."""
    options = {name for one in ctx.command.params if isinstance(one, click.Option) for name in one.opts}
    for word in _iter_plain_words(ctx, given):
        if "{" in word and "-e" in options:
            return "a query's text is given as `-e TEXT`, in single quotes because of its `$`"
        name = PurePath(word)
        suffix = PurePath(name.stem).suffix if name.suffix.lower() in _COMPRESSION_SUFFIXES else name.suffix
        option, told = _OPTION_BY_SUFFIX.get(suffix.lower(), ("", ""))
        if option in options:
            return told.format(word=word)
    return None


def _iter_plain_words(ctx: click.Context, given: Sequence[str]) -> Iterator[str]:
    """The words of a call that are no options, nor values of options; none where even that can't be told."""
    depth = len(ctx.command_path.split()) - 1
    fresh = click.Context(ctx.command, parent=ctx.parent, info_name=ctx.info_name, resilient_parsing=True)
    try:
        values, extra, _ = ctx.command.make_parser(fresh).parse_args(list(given[depth:]))
    except click.UsageError:
        return
    for argument in ctx.command.params:
        if isinstance(argument, click.Argument):
            value = values.get(argument.name or "")
            words = value if isinstance(value, list | tuple) else [value]
            yield from (word for word in words if isinstance(word, str))  # what is missing is no text
    yield from extra
