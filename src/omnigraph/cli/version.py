"""`omnigraph version`: show versions."""

import platform
from importlib import metadata

import click

from omnigraph import __version__
from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.format_version import INTERNAL_SCHEMA_VERSION


@click.command("version")
@json_option
def command(as_json: bool) -> int:
    """Show the release and its component versions.

    `internal-schema` is the version of the stored format that this release writes and reads.
    """
    # From the metadata of the installation: importing either would take long.
    lance = _find_version("pylance")
    spark = _find_version("pyspark")
    if as_json:
        print_json(
            {
                "omnigraph": __version__,
                "internal_schema_version": INTERNAL_SCHEMA_VERSION,
                "lance": lance,
                "spark": spark,
                "python": platform.python_version(),
            }
        )
        return 0
    print_text(
        f"omnigraph {__version__}\n"
        f"internal-schema {INTERNAL_SCHEMA_VERSION}\n"
        f"lance {lance or 'not installed'}\n"
        f"spark {spark or 'not installed'}\n"
        f"python {platform.python_version()}\n"
    )
    return 0


def _find_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
