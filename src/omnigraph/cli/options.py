"""Options that commands share, and how they select a graph."""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click
from click.core import ParameterSource

import omnigraph
from omnigraph.cli.error_hints import is_graph
from omnigraph.cli.input_files import INLINE_NAME, STDIN, read_source
from omnigraph.cli.render import flush_output, measure_terminal
from omnigraph.clock import parse_moment
from omnigraph.config.client import (
    ACTOR,
    BRANCH,
    DEFAULTS,
    GRAPH,
    GRAPH_VARIABLE,
    SERVER,
    STORE_VARIABLE,
    VARIABLES,
    ClientSettings,
    Setting,
)
from omnigraph.config.logins import find_logins, normalize_server_url
from omnigraph.config.tokens import read_client_token
from omnigraph.errors import OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.query.params import ParamText

if TYPE_CHECKING:
    from omnigraph.graph import Graph

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

_SIZE_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|[KMGT]i?B?)?", re.IGNORECASE)
# K, KB and KiB as in most tools: KB counts by 1000, K and KiB by 1024.
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{end}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for end, base in (("", 1024), ("ib", 1024), ("i", 1024), ("b", 1000))
}

# A command that has written compacts small files before it exits, but not so long that its user would notice.
_MAINTENANCE_SECONDS = 0.05

ANONYMOUS = DEFAULTS[ACTOR]
# Only commands with both options can be sent to a server.
_SERVED = ("server", "store")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")

key_option = click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repeated request with the same key within 7 days has no effect; a different request is rejected.",
)

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)


def find_setting(name: str) -> Setting:
    """Return a personal setting, which is read when a command first asks for one."""
    meta = click.get_current_context().find_root().meta
    settings: ClientSettings = meta.setdefault(f"{__name__}.settings", ClientSettings(os.environ, Path.cwd()))
    try:
        return settings.find(name)
    except OmnigraphError:
        # A shell completes words beside a file with a mistake, too.
        if click.get_current_context().resilient_parsing:
            return Setting(None)
        raise


def make_branch_option(metavar: str, help_: str) -> Callable[[Command], Command]:
    """Return the option --branch with the personal setting as its default."""
    return click.option(
        "--branch", default=lambda: find_setting(BRANCH).value, show_default="main", metavar=metavar, help=help_
    )


branch_option = make_branch_option("NAME", "The branch.")

engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Run in this process (local) or on Spark; the result is the same.",
)

query_engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "memory", "local"]),
    default="auto",
    show_default=True,
    help="Run in memory, or on all cores with what does not fit on disk (local); the answer is the same.",
)

spark_query_engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "memory", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Run in memory, on all cores with what does not fit on disk (local), or on Spark; the answer is the same.",
)

master_option = click.option(
    "--master",
    metavar="URL",
    help="The Spark master, such as spark://host:7077; by default OMNIGRAPH_SPARK_MASTER, or all local cores.",
)

quiet_option = click.option("--quiet", is_flag=True, help="Show no progress on a terminal.")


def _find_default_store() -> str | None:
    """Return the graph of the settings file, if it is in a store."""
    is_served = _get_typed_server() is not None or find_setting(SERVER).value is not None
    return None if is_served else find_setting(GRAPH).value


store_option = click.option(
    "--store",
    metavar="URI",
    envvar=STORE_VARIABLE,
    show_envvar=True,
    default=_find_default_store,
    help="The graph, instead of the argument URI.",
)


def _store_in_context(ctx: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    """Store an option for functions of this module, so that commands need no argument for it."""
    ctx.meta[f"{__name__}.{parameter.name}"] = value


server_option = click.option(
    "--server",
    metavar="URL",
    expose_value=False,
    callback=_store_in_context,
    help="The server of the graph; OMNIGRAPH_TOKEN contains the token.",
)
graph_option = click.option(
    "--graph", metavar="ID", expose_value=False, callback=_store_in_context, help="The graph's ID on the server."
)


wide_option = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_store_in_context,
    help="Print the values of a table whole, also if lines don't fit into the terminal.",
)

snapshot_option = click.option(
    "--snapshot",
    "commit_id",
    metavar="ID",
    help="The state of a commit (a part of the id is enough), tag or manifest version; ID~2 is two before.",
)

query_option = click.option("--query", "path", metavar="FILE", help="The query file (.gq).")
text_option = click.option("-e", "text", metavar="TEXT", help="The text of the query, instead of a file.")
params_option = click.option("--params", metavar="JSON", help="The parameters, as one JSON object.")
param_option = click.option(
    "--param", "pairs", multiple=True, metavar="NAME=VALUE", help="One parameter; may be repeated."
)


def refuse(message: str) -> NoReturn:
    """Reject the call of the current command.

    Raises:
        click.UsageError: always.
    """
    raise click.UsageError(message, click.get_current_context())


def split_name_and_uri(words: tuple[str, ...], store: str | None, what: str = "NAME") -> tuple[str | None, str | None]:
    """Split the words of a command into a name and the URI of the graph.

    A single word is the URI if it is a graph, or if neither an option nor a setting selects one.
    """
    if len(words) > 2:
        refuse(f"expected at most {what} and URI, found {len(words)} words")
    if len(words) == 1:
        return (None, words[0]) if is_graph_word(words[0], store) else (words[0], None)
    return (words[0], words[1]) if words else (None, None)


def parse_params(text: str | None, pairs: tuple[str, ...]) -> dict[str, object]:
    """Return the parameters of --params and --param; none may be given twice."""
    parsed: dict[str, object] = {}
    if text is not None:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            refuse(f"--params is not JSON: {error}")
        if not isinstance(document, dict):
            refuse('--params takes one JSON object, such as {"name": "Ada"}')
        parsed.update(document)
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            refuse(f"--param takes NAME=VALUE, not `{pair}`")
        if name in parsed:
            refuse(f"the parameter `{name}` is given twice")
        # A text of the command line is converted to the type that the query declares.
        parsed[name] = ParamText(value)
    return parsed


def read_query(path: str | None, text: str | None) -> Source:
    """Read the text of --query or -e, exactly one of which must be given."""
    if (path is None) == (text is None):
        refuse("name the query with either --query FILE or -e TEXT")
    return Source(text, INLINE_NAME) if text is not None else read_source(path or STDIN)


def read_cypher(cypher: str, path: str | None, text: str | None) -> str:
    """Return the statement of --cypher, which stands instead of --query and -e."""
    if path is not None or text is not None:
        refuse("name the query with one of --query FILE, -e TEXT and --cypher TEXT")
    return read_source(STDIN).text if cypher == STDIN else cypher


def split_cypher_uri(words: tuple[str, ...]) -> str | None:
    """Return the graph of a command with --cypher: a statement has no name."""
    if len(words) > 1:
        refuse(f"a statement of Cypher has no name: leave out `{words[0]}`")
    return words[0] if words else None


def resolve_store_uri(uri: str | None, store: str | None) -> str:
    """Return the graph of a command: its URI, else --store, else OMNIGRAPH_STORE.

    Raises:
        click.UsageError: no graph is named, or both URI and --store.
    """
    context = click.get_current_context()
    if uri is not None and store is not None:
        # The variable OMNIGRAPH_STORE is only a default, which URI overrides.
        if context.get_parameter_source("store") is ParameterSource.COMMANDLINE:
            refuse("the graph is named twice: give either URI or --store")
        return uri
    selected = uri if uri is not None else store
    if selected is None:
        message = "name the graph: URI, --store URI, or the environment variable OMNIGRAPH_STORE"
        for parameter in context.command.params:
            word = context.params.get(parameter.name or "")
            if isinstance(word, str) and is_graph(word):
                expected = parameter.human_readable_name
                message = f"`{word}` is a graph, but {expected} is expected there: the graph is the last argument"
        refuse(message)
    return selected


def _get_typed_server() -> str | None:
    """Return the URL given by --server."""
    server: str | None = click.get_current_context().meta.get(f"{__name__}.server")
    return server


def _get_server() -> str | None:
    """Return the URL of the server: of --server, else of the settings unless the command line names a graph."""
    context = click.get_current_context()
    if (typed := _get_typed_server()) is not None:
        return typed
    is_typed = context.get_parameter_source("store") is ParameterSource.COMMANDLINE
    if is_typed or not all(any(name == option.name for option in context.command.params) for name in _SERVED):
        return None
    return None if context.meta.get(f"{__name__}.is_uri_given") else find_setting(SERVER).value


def _get_graph_id() -> str | None:
    """Return the ID of the graph on the server: of --graph, else of the settings if they are about this server."""
    graph: str | None = click.get_current_context().meta.get(f"{__name__}.graph")
    if graph is not None:
        return graph
    server, setting = find_setting(SERVER), find_setting(GRAPH)
    is_set_for_it = server.value is not None and _get_server() == server.value
    return setting.value if is_set_for_it else os.environ.get(GRAPH_VARIABLE) or None


def is_wide() -> bool:
    """Return whether --wide asks for whole values in tables."""
    return bool(click.get_current_context().meta.get(f"{__name__}.wide"))


def measure_table() -> int | None:
    """Return the number of columns that a table may take: those of the terminal, or None for any number."""
    return None if is_wide() else measure_terminal()


def is_served() -> bool:
    """Return whether the graph is on a server."""
    return _get_server() is not None


def is_server_typed() -> bool:
    """Return whether the command line names a server."""
    return _get_typed_server() is not None


def resolve_graph_uri(uri: str | None, store: str | None) -> str:
    """Return the URI of the graph like `resolve_store_uri`, or its URL on a server."""
    context = click.get_current_context()
    if uri is not None and _get_typed_server() is None:
        # The server of the settings is only a default, as is OMNIGRAPH_STORE.
        context.meta[f"{__name__}.is_uri_given"] = True
    server = _get_server()
    if server is None:
        if context.meta.get(f"{__name__}.graph") is not None:
            refuse("--graph is the ID of a graph on a server: give --server URL, too")
        return resolve_store_uri(uri, store)
    if uri is not None or context.get_parameter_source("store") is ParameterSource.COMMANDLINE:
        refuse("the graph is named twice: give only one of URI, --store and --server")
    if _get_typed_server() is None and store is not None:
        refuse(f"{STORE_VARIABLE} and {VARIABLES[SERVER]} each name a graph: unset one, or name the graph")
    return f"{server.rstrip('/')}/graphs/{_get_graph_id() or ''}"


def is_graph_named(store: str | None) -> bool:
    """Return whether an option or a setting names the graph, so that no argument has to."""
    return store is not None or _get_server() is not None


def is_graph_word(word: str, store: str | None) -> bool:
    """Return whether a word of the command line is the graph, where it may be another argument."""
    return not is_graph_named(store) or "://" in word or is_graph(word)


def open_selected_graph(uri: str | None, store: str | None, *, read_only: bool = False) -> "Graph":
    """Open the graph of a command, in its store or on a server."""
    graph_uri = resolve_graph_uri(uri, store)
    context = click.get_current_context()
    if is_served():
        return _connect(_get_graph_id())
    if read_only:
        return omnigraph.open_graph(graph_uri, read_only=True)
    local_graph = omnigraph.open_graph(graph_uri, maintenance_seconds=_MAINTENANCE_SECONDS)
    context.call_on_close(partial(_close_graph, local_graph))
    # The commits of `optimize --auto` have an author of their own.
    if context.params.get("actor") != ANONYMOUS or context.params.get("is_auto"):
        return local_graph
    actor = choose_actor(ANONYMOUS)
    return local_graph if actor == ANONYMOUS else local_graph.acting_as(actor)


def choose_actor(named: str) -> str:
    """Return who signs the commits of a command that opens no graph: the actor of --as, else that of the settings."""
    return named if named != ANONYMOUS else find_setting(ACTOR).value or ANONYMOUS


def reopen_served_graph(graph: "Graph") -> "Graph":
    """Open the served graph of a command again, with a connection of its own."""
    return _connect(graph.uri.rpartition("/")[2])


def _connect(graph: str | None) -> "Graph":
    """Connect to the server of a command."""
    server, token = find_server()
    remote_graph = omnigraph.connect(server, token, graph=graph)
    click.get_current_context().call_on_close(remote_graph.close)
    # A graph on a server has the same methods as a local one.
    return cast("Graph", remote_graph)


def find_server() -> tuple[str, str | None]:
    """Return the URL of the server of a command, and the token for it.

    A settings file never decides where a token goes, or any data: a server that it names must have been logged in to.

    Raises:
        click.UsageError: there is none; or a file names it, and the user never logged in to it.
    """
    server = _get_typed_server() or find_setting(SERVER).value
    if server is None:
        refuse("name the server: --server URL")
    token = read_client_token()
    file = None if _get_typed_server() is not None else find_setting(SERVER).file
    if file is not None or token is None:
        logins = find_logins(os.environ).read()
        address = normalize_server_url(server)
        if file is not None:
            if address not in logins:
                refuse(
                    f"{file} names the server {server}, and a file alone does not decide where data and tokens go: run"
                    f" `omnigraph login {address}` once, or give --server"
                )
            server = address
        token = logins.get(address)
    return server, token


def _close_graph(graph: "Graph") -> None:
    # Maintenance comes after the answer.
    flush_output()
    graph.close()


class Instant(click.ParamType[datetime]):
    """A time with a time zone, or a time ago."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time, and convert it to UTC; `2h` is two hours ago."""
        try:
            return parse_moment(str(value), datetime.now(UTC))
        except ValueError:
            expected = "a time with a time zone, such as 2026-01-31T12:00:00Z, or a time ago, such as 2h"
            self.fail(f"`{value}` is not {expected}", param, ctx)


at_option = click.option(
    "--at",
    type=Instant(),
    metavar="TIME",
    help="The state at this time: 2026-01-31T12:00:00Z, or 2h for two hours ago.",
)


class ByteSize(click.ParamType[int]):
    """A number of bytes, such as 500MB or 2GiB."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a size of at least one byte."""
        match = _SIZE_PATTERN.fullmatch(str(value).strip())
        size = 0 if match is None else int(float(match[1]) * _UNITS[(match[2] or "").lower()])
        if size < 1:
            self.fail(f"`{value}` is not a size, such as 500MB or 2GiB", param, ctx)
        return size


class Seconds(click.ParamType[float]):
    """A positive number of seconds."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a finite number of seconds above 0."""
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
    help="The time limit; by default OMNIGRAPH_QUERY_SECONDS.",
)
memory_option = click.option(
    "--memory",
    "memory_bytes",
    type=ByteSize(),
    metavar="SIZE",
    help="The memory limit, such as 500MB or 2GiB; by default OMNIGRAPH_QUERY_MEMORY_BYTES.",
)


def combine_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator; --help lists them in this order."""

    def decorate(command: Command) -> Command:
        # Decorators apply from the last to the first.
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


cypher_option: Callable[[Command], Command] = click.option(
    "--cypher", "cypher", metavar="TEXT", help="A statement of Cypher that reads, instead of a query; - is stdin."
)

# Select a query and a graph, for all commands that run a query.
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

# Select a graph in a store or on a server.
graph_options: Callable[[Command], Command] = combine_options(store_option, server_option, graph_option)

# Select a query, a graph and one of its states, and limit resources, for commands that only read.
read_options: Callable[[Command], Command] = combine_options(
    query_options, snapshot_option, at_option, timeout_option, memory_option
)

# Limit the resources of commands that write, or read whole tables.
limit_options: Callable[[Command], Command] = combine_options(timeout_option, memory_option)


def refuse_two_states(commit_id: str | None, at: datetime | None) -> None:
    """Reject a call with both --snapshot and --at: a command reads one state."""
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
