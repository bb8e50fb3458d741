"""The options that commands share."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click
from click.core import ParameterSource

import omnigraph
from omnigraph.cli.error_hints import is_graph
from omnigraph.cli.input_files import INLINE_NAME, STDIN, read_source
from omnigraph.clock import parse_instant
from omnigraph.config.tokens import read_client_token
from omnigraph.lang.source import Source
from omnigraph.query.params import ParamText

if TYPE_CHECKING:
    from omnigraph.graph import Graph

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

_SIZE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|[KMGT]i?B?)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{end}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for end, base in (("", 1024), ("ib", 1024), ("i", 1024), ("b", 1000))
}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)

branch_option = click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch.")

engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Who does the work: this process, or Spark; the result is the same.",
)

master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs, such as spark://host:7077; else OMNIGRAPH_SPARK_MASTER, else all cores here.",
)

quiet_option = click.option("--quiet", is_flag=True, help="Show no progress on a terminal.")

store_option = click.option(
    "--store", metavar="URI", envvar="OMNIGRAPH_STORE", show_envvar=True, help="The graph, instead of the argument URI."
)


def _store_in_context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep an option that commands don't take as an argument: which graph they work on is not their matter."""
    ctx.meta[f"{__name__}.{parameter.name}"] = value


server_option = click.option(
    "--server",
    metavar="URL",
    expose_value=False,
    callback=_store_in_context,
    help="A server that has the graph; the token is in OMNIGRAPH_TOKEN.",
)
graph_option = click.option(
    "--graph", metavar="ID", expose_value=False, callback=_store_in_context, help="The graph's name on the server."
)


snapshot_option = click.option(
    "--snapshot", "commit_id", metavar="ID", help="The state of a commit, tag or manifest version."
)

query_option = click.option("--query", "path", metavar="FILE", help="The query file (.gq).")
text_option = click.option("-e", "text", metavar="TEXT", help="The query itself, instead of a file.")
params_option = click.option("--params", metavar="JSON", help="The parameters, as one JSON object.")
param_option = click.option(
    "--param", "pairs", multiple=True, metavar="NAME=VALUE", help="One parameter; may be repeated."
)


def refuse(message: str) -> NoReturn:
    """The command was called wrongly."""
    raise click.UsageError(message, click.get_current_context())


def split_name_and_uri(words: tuple[str, ...], store: str | None, what: str = "NAME") -> tuple[str | None, str | None]:
    """A name and the graph's URI among the words of a command: one alone is the URI, unless there is one elsewhere."""
    if len(words) > 2:
        refuse(f"expected at most {what} and URI, found {len(words)} words")
    if len(words) == 1:
        return (None, words[0]) if store is None and _get_server() is None else (words[0], None)
    return (words[0], words[1]) if words else (None, None)


def parse_params(text: str | None, pairs: tuple[str, ...]) -> dict[str, object]:
    """The parameters of --params and --param together, each once."""
    found: dict[str, object] = {}
    if text is not None:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            refuse(f"--params is not JSON: {error}")
        if not isinstance(given, dict):
            refuse('--params is one JSON object, such as {"name": "Ada"}')
        found.update(given)
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            refuse(f"--param takes NAME=VALUE, not `{pair}`")
        if name in found:
            refuse(f"the parameter `{name}` is given twice")
        found[name] = ParamText(value)
    return found


def read_query(path: str | None, text: str | None) -> Source:
    """The text of --query or -e, exactly one of which is given."""
    if (path is None) == (text is None):
        refuse("name the query with either --query FILE or -e TEXT")
    return Source(text, INLINE_NAME) if text is not None else read_source(path or STDIN)


def resolve_store_uri(uri: str | None, store: str | None) -> str:
    """The graph that a command is about: its URI, else --store, else OMNIGRAPH_STORE; two at once are refused."""
    context = click.get_current_context()
    if uri is not None and store is not None:
        if context.get_parameter_source("store") is ParameterSource.COMMANDLINE:
            message = "the graph is named twice: give either URI or --store"
            raise click.UsageError(message, context)
        return uri
    chosen = uri if uri is not None else store
    if chosen is None:
        message = "name the graph: URI, --store URI, or the environment variable OMNIGRAPH_STORE"
        for parameter in context.command.params:
            word = context.params.get(parameter.name or "")
            if isinstance(word, str) and is_graph(word):
                place = parameter.human_readable_name
                message = f"`{word}` is a graph, and stands where {place} is expected: the graph is the last argument"
        raise click.UsageError(message, context)
    return chosen


def _get_server() -> str | None:
    """The server that --server names."""
    found: str | None = click.get_current_context().meta.get(f"{__name__}.server")
    return found


def is_served() -> bool:
    """Whether the graph is one of a server."""
    return _get_server() is not None


def resolve_graph_uri(uri: str | None, store: str | None) -> str:
    """As `resolve_store_uri`; of a graph on a server, its address there."""
    server = _get_server()
    graph: str | None = click.get_current_context().meta.get(f"{__name__}.graph")
    if server is None:
        if graph is not None:
            refuse("--graph is a graph's name on a server: name that with --server URL")
        return resolve_store_uri(uri, store)
    by_hand = click.get_current_context().get_parameter_source("store") is ParameterSource.COMMANDLINE
    if uri is not None or by_hand:
        refuse("the graph is named twice: give either URI, --store or --server")
    return f"{server.rstrip('/')}/graphs/{graph or ''}"


def open_selected_graph(uri: str | None, store: str | None, *, read_only: bool = False) -> "Graph":
    """The graph that a command is about, which has the same verbs here and on a server."""
    place = resolve_graph_uri(uri, store)
    server = _get_server()
    if server is None:
        return omnigraph.open_graph(place, read_only=read_only)
    context = click.get_current_context()
    served = omnigraph.connect(server, read_client_token(), graph=context.meta.get(f"{__name__}.graph"))
    context.call_on_close(served.close)
    return cast("Graph", served)


class Instant(click.ParamType[datetime]):
    """A time with a zone."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time, in UTC."""
        try:
            return parse_instant(str(value))
        except ValueError:
            self.fail(f"`{value}` is not a time with a zone, such as 2026-01-31T12:00:00Z", param, ctx)


at_option = click.option(
    "--at", type=Instant(), metavar="TIME", help="The state at this time, such as 2026-01-31T12:00:00Z."
)


class ByteSize(click.ParamType[int]):
    """A number of bytes, such as 500MB or 2GiB."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes; at least one."""
        found = _SIZE_PATTERN.fullmatch(str(value).strip())
        size = 0 if found is None else int(float(found[1]) * _UNITS[(found[2] or "").lower()])
        if size < 1:
            self.fail(f"`{value}` is not a size, such as 500MB or 2GiB", param, ctx)
        return size


class Seconds(click.ParamType[float]):
    """A time above 0."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            self.fail(f"`{value}` is not a number of seconds above 0", param, ctx)
        return seconds


timeout_option = click.option(
    "--timeout",
    "seconds",
    type=Seconds(),
    metavar="SECONDS",
    help="How long it may run; OMNIGRAPH_QUERY_SECONDS unless given.",
)
memory_option = click.option(
    "--memory",
    "memory_bytes",
    type=ByteSize(),
    metavar="SIZE",
    help="What it may use, such as 500MB or 2GiB; OMNIGRAPH_QUERY_MEMORY_BYTES unless given.",
)


def combine_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


query_options: Callable[[Command], Command] = combine_options(
    click.argument("words", nargs=-1, metavar="[NAME] [URI]"),
    store_option,
    server_option,
    graph_option,
    query_option,
    text_option,
    params_option,
    param_option,
    branch_option,
)
"""Which query of which graph: what every command takes that runs one."""
graph_options: Callable[[Command], Command] = combine_options(store_option, server_option, graph_option)
"""Which graph, for a command that works on one of a server, too."""
read_options: Callable[[Command], Command] = combine_options(
    query_options, snapshot_option, at_option, timeout_option, memory_option
)
"""Likewise for one that reads: also of which state, and what it may use."""


limit_options: Callable[[Command], Command] = combine_options(timeout_option, memory_option)
"""What a command may use that writes, or moves whole tables."""


def refuse_two_states(commit_id: str | None, at: datetime | None) -> None:
    """A query reads one state."""
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
