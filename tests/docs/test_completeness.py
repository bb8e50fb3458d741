"""Nothing is undocumented: commands, flags, settings, errors, diagnostics, routes, public names."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import errors_reference
import omnigraph
import python_reference
from omnigraph.cli.main import cli
from omnigraph.config import server as server_settings
from omnigraph.config import settings_file
from omnigraph.config.settings_file import SettingsSection
from omnigraph.config.tokens import read_tokens
from omnigraph.lang.diagnostic_codes import CODES
from omnigraph.server.http.app import ROUTERS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
VARIABLE = re.compile(r'"(OMNIGRAPH_[A-Z_]+)"')
ROW = re.compile(r"^\| `(?P<key>[A-Za-z]\w*(?:\.\w+)+)` \| (?P<rest>.*)\|$", re.MULTILINE)


# The page and its files are described in a how-to.
_PAGES = "/explorer/{name}"
ROUTES = sorted({str(getattr(route, "path_format", route)) for router in ROUTERS for route in router.routes} - {_PAGES})


def text_of(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


COMMANDS = dict(commands(cli, "omnigraph"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_flag_is_documented(path: str) -> None:
    section = re.search(rf"^## `{path}`\n(.*?)(?=^## |\Z)", text_of("cli.md"), re.MULTILINE | re.DOTALL)

    assert section is not None, "run `make docs`"
    options = [word for one in COMMANDS[path].params if isinstance(one, click.Option) for word in one.opts]
    assert [word for word in options if not re.search(rf"{re.escape(word)}\b", section[1])] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_says_what_it_does(path: str) -> None:
    silent = [one.name for one in COMMANDS[path].params if isinstance(one, click.Option) and not one.help]

    assert silent == []


def variables_in_source() -> set[str]:
    """Every string of the source that is the name of one of our variables."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "omnigraph").rglob("*.py"))
    return {name for text in sources for name in VARIABLE.findall(text)}


def test_every_environment_variable_is_documented_and_there() -> None:
    table = text_of("settings.md").partition("## Environment variables")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(OMNIGRAPH_[A-Z_]+)` \|", table, re.MULTILINE))

    assert documented == variables_in_source()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every setting that is asked for, by its full name, from now on."""
    found: set[str] = set()
    original = SettingsSection._get

    def get(section: SettingsSection, key: str) -> object:
        found.add(section._qualify(key))
        return original(section, key)

    monkeypatch.setattr(SettingsSection, "_get", get)
    return found


def leaves(names: set[str]) -> set[str]:
    """Settings, without the sections that they stand in."""
    return {name for name in names if not any(other.startswith((f"{name}.", f"{name}[")) for other in names)}


def documented_settings(heading: str) -> dict[str, str]:
    table = text_of("settings.md").partition(f"## {heading}")[2].partition("\n## ")[0]
    return {found["key"]: found["rest"] for found in ROW.finditer(table)}


def test_every_setting_of_a_server_is_documented_and_there(tmp_path: Path, asked: set[str]) -> None:
    file = tmp_path / "omnigraph.toml"
    issuer = '[[jwt]]\nissuer = "i"\naudience = "a"\nkeys = "k.json"\n'
    file.write_text(f'[graphs.ID]\nuri = "x.omni"\n{issuer}', encoding="utf-8")

    server_settings.build_server_config(file, {})

    # `client` is the section of personal settings, which a server leaves alone.
    read = {name.replace("[0]", "") for name in leaves(asked)} - {"client"}
    assert set(documented_settings("The settings file of a server")) == read


def test_every_setting_of_a_tokens_file_is_documented_and_there(tmp_path: Path, asked: set[str]) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f'[[token]]\nactor = "ada"\nsha256 = "{"0" * 64}"\n', encoding="utf-8")
    file.chmod(0o600)

    read_tokens(file)

    assert set(documented_settings("The file of tokens")) == {name.replace("[0]", "") for name in leaves(asked)}


@pytest.mark.parametrize("name", server_settings.ServerLimits.__dataclass_fields__)
def test_the_limits_of_a_server_are_those_that_are_documented(name: str) -> None:
    shown = documented_settings("The settings file of a server")[f"limits.{name}"].partition(" |")[0]

    size = settings_file._parse_size(shown)

    assert (float(shown) if size is None else size) == getattr(server_settings.ServerLimits(), name)


def test_every_error_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", text_of("errors.md").partition("## Codes")[2], re.MULTILINE))

    assert {error.code for error in errors_reference.errors()} - documented == set()


@pytest.mark.parametrize("code", CODES)
def test_every_diagnostic_is_documented(code: str) -> None:
    assert f"\n### {code}\n" in text_of("diagnostics.md")


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_is_documented(path: str) -> None:
    assert path in text_of("http.md")


def test_every_public_name_has_a_docstring_and_a_place_on_the_page() -> None:
    page = text_of("python.md")

    missing = [name for name in omnigraph.__all__ if f"`{name}`" not in page and f"`{name}." not in page]

    assert missing == ["__version__"]
    assert python_reference.undocumented() == []
