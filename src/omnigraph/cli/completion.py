"""`omnigraph completion`."""

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.main import cli
from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text

VARIABLE = "_OMNIGRAPH_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(shell: str, as_json: bool) -> int:
    """Print a script that completes commands and options.

    Put what it prints where your shell looks for completions, or run it at the start of a shell. For zsh:
    eval "$(omnigraph completion zsh)" in ~/.zshrc, below compinit.
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - the choice above is click's own shells
    maker = found(cli, {}, "omnigraph", VARIABLE)
    # Not `source`: that starts a shell to ask for its version, which is not that of the one that will read it.
    script = maker.source_template % maker.source_vars()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        print_text(f"{script.strip()}\n")
    return 0
