"""The options that commands share."""

import json
from datetime import datetime
from typing import NoReturn

import click
from click.core import ParameterSource

from omnigraph.cli.sources import STDIN, read_source
from omnigraph.clock import parse_instant
from omnigraph.lang.source import Source
from omnigraph.query.params import ParamText

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)

branch_option = click.option(
    "--branch", default="main", show_default=True, metavar="NAME", help="The branch; today a graph has only main."
)

quiet_option = click.option("--quiet", is_flag=True, help="Show no progress on a terminal.")

store_option = click.option(
    "--store", metavar="URI", envvar="OMNIGRAPH_STORE", show_envvar=True, help="The graph, instead of the argument URI."
)


snapshot_option = click.option("--snapshot", "commit_id", metavar="ID", help="The state that this commit made.")

query_option = click.option("--query", "path", metavar="FILE", help="The query file (.gq).")
text_option = click.option("-e", "text", metavar="TEXT", help="The query itself, instead of a file.")
params_option = click.option("--params", metavar="JSON", help="The parameters, as one JSON object.")
param_option = click.option(
    "--param", "pairs", multiple=True, metavar="NAME=VALUE", help="One parameter; may be repeated."
)


def refuse(message: str) -> NoReturn:
    """The command was called wrongly."""
    raise click.UsageError(message, click.get_current_context())


def name_and_uri(words: tuple[str, ...], store: str | None) -> tuple[str | None, str | None]:
    """The query's name and the graph's URI among the words of a command: one alone is the URI, unless there is one."""
    if len(words) > 2:
        refuse(f"expected at most NAME and URI, found {len(words)} words")
    if len(words) == 1:
        return (None, words[0]) if store is None else (words[0], None)
    return (words[0], words[1]) if words else (None, None)


def given_params(text: str | None, pairs: tuple[str, ...]) -> dict[str, object]:
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


def chosen_query(path: str | None, text: str | None) -> Source:
    """The text of --query or -e, exactly one of which is given."""
    if (path is None) == (text is None):
        refuse("name the query with either --query FILE or -e TEXT")
    return Source(text, "<-e>") if text is not None else read_source(path or STDIN)


def chosen_graph(uri: str | None, store: str | None) -> str:
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
        raise click.UsageError(message, context)
    return chosen


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
