"""The options that commands share."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)
