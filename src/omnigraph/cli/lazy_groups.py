"""Command groups that import a command only when it is called, so that `--help` stays fast."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from omnigraph.cli.examples import format_examples
from omnigraph.lang.spelling import find_closest

# A shell sets it when it asks for the words that may follow.
COMPLETION_VARIABLE = "_OMNIGRAPH_COMPLETE"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command not yet imported: its `module:attribute`, and its line in the help of the group."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """A click group that knows its commands by name and summary, and imports one only to run it.

    A test compares each summary with the command's own help. `synonyms` maps words that users of other tools may try
    to the command that does it here.
    """

    def __init__(
        self,
        name: str,
        *,
        lazy: Mapping[str, LazyCommand],
        help: str,
        synonyms: Mapping[str, str] | None = None,
        params: list[click.Parameter] | None = None,
        context_settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            name,
            help=help,
            params=params,
            callback=show_help,
            invoke_without_command=True,
            no_args_is_help=False,
            context_settings=context_settings,
        )
        self.lazy = dict(lazy)
        self.synonyms = dict(synonyms or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in alphabetical order."""
        del ctx
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name; None for an unknown name."""
        del ctx
        entry = self.lazy.get(cmd_name)
        return None if entry is None else _load_command(entry.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run.

        Raises:
            click.UsageError: the name is unknown; the message suggests the closest one.
        """
        name = args[0]
        # click itself reports unknown options, and completion must not fail on half a word.
        if name in self.lazy or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = self.synonyms.get(name) or find_closest(name, sorted(self.lazy))
        way_out = f"did you mean `{near}`?" if near else f"the commands are {', '.join(sorted(self.lazy))}"
        message = f"there is no command `{ctx.command_path} {name}`; {way_out}"
        raise click.UsageError(message, ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with this prefix, and the options of the group, without importing a command."""
        items = [
            CompletionItem(name, help=self.lazy[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        # Not `super()`: click's groups complete by importing every command.
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from their summaries, without importing a command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name].summary) for name in sorted(self.lazy)])


@click.pass_context
def show_help(ctx: click.Context) -> int:
    """Print the help of a group that is called without a command."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


def load_member(target: str) -> Any:  # noqa: ANN401 - whatever the module has
    """Import a module of the command line that `--help` does not need, and return one of its members."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _load_command(target: str) -> click.Command:
    command = load_member(target)
    if not isinstance(command, click.Command):
        message = f"{target} is not a command"
        raise TypeError(message)
    if COMPLETION_VARIABLE in os.environ:
        load_member("omnigraph.cli.word_completion:add_completion")(command)
    if command.epilog is None:
        command.epilog = format_examples(target)
    return command
