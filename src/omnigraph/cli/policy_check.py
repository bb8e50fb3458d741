"""`omnigraph policy check`."""

import click

import omnigraph
from omnigraph.cli.input_files import require_directory
from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text


@click.command("check")
@click.argument("directory")
@json_option
def command(*, directory: str, as_json: bool) -> int:
    """Check the policies of a directory.

    They must be Cedar, and speak of nothing that there is not.
    """
    names = [str(name) for name in omnigraph.CedarPolicies.load(require_directory(directory)).names.values()]
    if as_json:
        print_json({"ok": True, "policies": names})
    else:
        listed = "".join(f"  {name}\n" for name in names)
        print_text(f"{len(names)} {'policy' if len(names) == 1 else 'policies'}, all right\n{listed}")
    return 0
