"""The options that commands share."""

from datetime import datetime

import click
from click.core import ParameterSource

from omnigraph.clock import parse_instant

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)

store_option = click.option(
    "--store", metavar="URI", envvar="OMNIGRAPH_STORE", show_envvar=True, help="The graph, instead of the argument URI."
)


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
