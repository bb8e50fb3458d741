"""`omnigraph completion`: print shell completion scripts."""

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.lazy_groups import COMPLETION_VARIABLE, load_member
from omnigraph.cli.main import cli
from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(shell: str, as_json: bool) -> int:
    """Print a shell completion script for commands and options.

    Values are completed too: paths, and the branches, tags, types, properties and queries of the graph that is named,
    or is the only one in the directory. Save the script where your shell looks for completions, or evaluate it when a
    shell starts. For zsh: eval "$(omnigraph completion zsh)" in ~/.zshrc, below compinit.
    """
    load_member("omnigraph.cli.word_completion:register")()
    completion_class = get_completion_class(shell)
    assert completion_class is not None  # noqa: S101 - the choice above is click's own shells
    completion = completion_class(cli, {}, "omnigraph", COMPLETION_VARIABLE)
    # Not `source()`: it starts a shell to check its version, which may differ from the shell that reads the script.
    script = completion.source_template % completion.source_vars()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        print_text(f"{script.strip()}\n")
    return 0
