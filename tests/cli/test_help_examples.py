"""The help of every command shows how it is called, in a way that it takes."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from omnigraph.cli.examples import EXAMPLES
from omnigraph.cli.main import cli, main

_SETTING = re.compile(r"^(?:[A-Z_]+=\S+ )+")
_SHELL = re.compile(r" > .*$")


def commands(group: click.Group, above: click.Context | None = None) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, parent=above, info_name=group.name)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, context)
        else:
            yield f"{context.command_path} {name}", found


COMMANDS = dict(commands(cli))


def key_of(path: str) -> str:
    """The key of a command's examples: `branch_create` for `omnigraph branch create`."""
    return "_".join(path.split()[1:])


def words_of(example: str) -> list[str]:
    """An example as the shell would hand it over, without settings in front and the file that takes the output."""
    return shlex.split(_SHELL.sub("", _SETTING.sub("", example)))


def parsed(words: list[str]) -> str:
    """The path of the command that the words call; click.UsageError when it does not take them."""
    context = click.Context(cli, info_name=words[0])
    rest = words[1:]
    command: click.Command = cli
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        assert name is not None
        command = found
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(context.info_name, list(rest), parent=context.parent)
    return context.command_path


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_shows_an_example_of_itself(path: str) -> None:
    examples = EXAMPLES[key_of(path)]

    assert {parsed(words_of(one)) for one in examples} == {path}


def test_no_example_is_about_a_command_that_there_is_not() -> None:
    assert set(EXAMPLES) == {key_of(path) for path in COMMANDS}


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_every_command_ends_with_its_examples(path: str) -> None:
    epilog = COMMANDS[path].epilog or ""

    assert tuple(line.strip() for line in epilog.splitlines()[2:]) == EXAMPLES[key_of(path)]


def test_an_example_that_a_command_does_not_take_is_found() -> None:
    with pytest.raises(click.UsageError):
        parsed(words_of("omnigraph load people.omni --mode somehow --data x.jsonl"))


def test_the_help_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "--help"])

    assert "Example:\n    omnigraph init people.omni --schema people.pg --as ada\n" in capsys.readouterr().out
