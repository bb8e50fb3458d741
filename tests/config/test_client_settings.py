"""Personal settings: which file they are from, what counts first, and where a token may go."""

import stat
from pathlib import Path

import pytest

from omnigraph.config.client import CLIENT_SETTINGS, ClientSettings
from omnigraph.config.logins import Logins, normalize_server_url
from omnigraph.config.server import build_server_config
from omnigraph.errors import BadArgumentError, SettingsError


def write(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "omnigraph.toml"
    path.write_text(text, encoding="utf-8")
    return path


def settings(directory: Path, home: Path, **variables: str) -> ClientSettings:
    return ClientSettings({"HOME": str(home), **variables}, directory)


def found(client: ClientSettings) -> dict[str, str | None]:
    return {name: client.find(name).value for name in CLIENT_SETTINGS}


NOTHING = {"graph": None, "branch": "main", "actor": "anonymous", "server": None}


def test_without_a_file_they_are_the_defaults(tmp_path: Path) -> None:
    client = settings(tmp_path, tmp_path)

    assert found(client) == NOTHING
    assert {client.find(name).source for name in CLIENT_SETTINGS} == {"default"}


def test_the_file_is_looked_for_up_to_the_home_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(tmp_path, "[client]\nactor = 'eve'\n")
    path = write(home, "[client]\nactor = 'ada'\n")
    below = home / "work" / "deep"
    below.mkdir(parents=True)

    assert settings(below, home).find("actor").source == str(path)
    path.unlink()
    assert found(settings(below, home)) == NOTHING


def test_the_file_is_looked_for_up_to_the_first_repository(tmp_path: Path) -> None:
    write(tmp_path, "[client]\nactor = 'eve'\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "src").mkdir()

    assert found(settings(tmp_path / "project" / "src", tmp_path)) == NOTHING

    write(tmp_path / "project", "[client]\nactor = 'ada'\n")
    assert settings(tmp_path / "project" / "src", tmp_path).find("actor").value == "ada"


def test_where_neither_is_above_only_the_directory_itself_counts(tmp_path: Path) -> None:
    write(tmp_path, "[client]\nactor = 'eve'\n")
    (tmp_path / "below").mkdir()

    assert found(settings(tmp_path / "below", tmp_path / "elsewhere")) == NOTHING
    assert settings(tmp_path, tmp_path / "elsewhere").find("actor").value == "eve"


def test_the_file_of_a_server_hides_none_above_it(tmp_path: Path) -> None:
    path = write(tmp_path, "[client]\nbranch = 'dev'\n")
    write(tmp_path / "server", "[graphs.people]\nuri = 'people.omni'\n")

    assert settings(tmp_path / "server", tmp_path).file == path


def test_a_variable_counts_before_the_file(tmp_path: Path) -> None:
    write(tmp_path, "[client]\ngraph = 'g'\nbranch = 'dev'\nactor = 'ada'\n")

    client = settings(
        tmp_path, tmp_path, OMNIGRAPH_STORE="x.omni", OMNIGRAPH_BRANCH="b", OMNIGRAPH_ACTOR="bob", OMNIGRAPH_SERVER=""
    )

    assert found(client) == {"graph": "x.omni", "branch": "b", "actor": "bob", "server": None}
    assert client.find("branch").source == "OMNIGRAPH_BRANCH"


@pytest.mark.parametrize("uri", ["s3://bucket/people", "/data/people.omni", "file:///data/people.omni"])
def test_a_graph_that_is_no_relative_path_stays_as_written(uri: str, tmp_path: Path) -> None:
    write(tmp_path, f"[client]\ngraph = '{uri}'\n")

    assert settings(tmp_path, tmp_path).find("graph").value == uri


def test_a_relative_graph_starts_at_the_file(tmp_path: Path) -> None:
    write(tmp_path, "[client]\ngraph = 'data/people.omni'\n")
    (tmp_path / "below").mkdir()

    assert settings(tmp_path / "below", tmp_path).find("graph").value == str(tmp_path / "data" / "people.omni")


def test_with_a_server_the_graph_is_its_id_there(tmp_path: Path) -> None:
    write(tmp_path, "[client]\ngraph = 'people'\nserver = 'https://a.example'\n")

    assert settings(tmp_path, tmp_path).find("graph").value == "people"
    assert settings(tmp_path, tmp_path, OMNIGRAPH_GRAPH="other").find("graph").value == "other"
    # It is not on another server, and not in a store.
    assert settings(tmp_path, tmp_path, OMNIGRAPH_SERVER="https://b.example").find("graph").value is None
    assert found(settings(tmp_path, tmp_path, OMNIGRAPH_STORE="x.omni")) == {**NOTHING, "graph": "x.omni"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[client]\nbranc = 'x'\n", "`client.branc`: there is no such setting; did you mean `branch`"),
        ("[client]\ntoken = 'x'\n", "there is no such setting"),
        ("[client]\nbranch = 3\n", "`client.branch`: write a text in quotes"),
        ("client = 'x'\n", r"write \[client\]"),
        ("[client\n", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, text)

    with pytest.raises(SettingsError, match=message) as raised:
        settings(tmp_path, tmp_path).find("branch")

    assert str(tmp_path / "omnigraph.toml") in str(raised.value)


def test_a_server_passes_over_the_section(tmp_path: Path) -> None:
    path = write(tmp_path, "[graphs.g]\nuri = 'g.omni'\n[client]\nbranch = 3\nnonsense = true\n")

    assert [graph.id for graph in build_server_config(path, {}).graphs] == ["g"]


SECRETS = {"OMNIGRAPH_TOKEN": "secret-1", "AWS_SECRET_ACCESS_KEY": "secret-2", "OPENAI_API_KEY": "secret-3"}


@pytest.mark.parametrize("variable", ["OMNIGRAPH_TOKEN", "OMNIGRAPH_TOKENS", "AWS_SECRET_ACCESS_KEY"])
def test_a_file_has_no_secret_of_something_else_sent_as_a_key(variable: str, tmp_path: Path) -> None:
    embedding = f"[embedding]\nprovider = 'openai'\nurl = 'http://evil.example'\nkey_variable = '{variable}'\n"
    path = write(tmp_path, f"[graphs.g]\nuri = 'g'\n{embedding}")

    with pytest.raises(SettingsError, match="is not the key of a provider"):
        build_server_config(path, {**SECRETS, variable: "secret"})


@pytest.mark.parametrize(
    "url, key",
    [
        ("", "secret-3"),
        ("url = 'https://api.openai.com/v1/'", "secret-3"),
        ("url = 'http://evil.example/v1'", None),
    ],
)
def test_the_key_of_the_environment_goes_to_its_server_only(url: str, key: str | None, tmp_path: Path) -> None:
    path = write(tmp_path, f"[graphs.g]\nuri = 'g'\n[embedding]\nprovider = 'openai'\n{url}\n")

    embedding = build_server_config(path, SECRETS).embedding

    assert embedding is not None
    assert embedding.key == key


@pytest.mark.parametrize(
    "url, normal",
    [
        ("HTTPS://Graphs.Example/", "https://graphs.example"),
        ("https://graphs.example:443/a//", "https://graphs.example/a"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost:80", "http://localhost"),
    ],
)
def test_an_address_has_one_form(url: str, normal: str) -> None:
    assert normalize_server_url(url) == normal
    assert normalize_server_url(normal) == normal


@pytest.mark.parametrize(
    "url",
    [
        "graphs.example",
        "ftp://graphs.example",
        "https://",
        "https://user@graphs.example",
        "https://a:b@graphs.example",
        "https://graphs.example\\@evil.example",
        "https://graphs.example\n",
        "https://gra\tphs.example",
        "https://graphs.example?x",
        "https://graphs.example#x",
        "https://graphs.exa\u00admple",
        "https://graphs.example:99999",
        "https://graphs example",
    ],
)
def test_what_programs_may_read_in_two_ways_is_no_address(url: str) -> None:
    with pytest.raises(BadArgumentError):
        normalize_server_url(url)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(BadArgumentError) as raised:
        normalize_server_url("https://ada:hunter2@graphs.example")

    assert "hunter2" not in str(raised.value)


def test_only_their_owner_may_read_stored_tokens(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "new" / "logins.json")

    logins.store("https://A.example/", "t1")
    logins.store("https://b.example", None)

    assert stat.S_IMODE(logins.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(logins.path.parent.stat().st_mode) == 0o700
    assert logins.read() == {"https://a.example": "t1", "https://b.example": None}
    assert [logins.remove("https://a.example:443"), logins.remove("https://a.example")] == [True, False]
    assert logins.read() == {"https://b.example": None}


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_stored_tokens_that_others_may_read_are_refused(mode: int, tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json")
    logins.store("https://a.example", "t1")
    logins.path.chmod(mode)

    with pytest.raises(SettingsError, match="chmod 600"):
        logins.read()


@pytest.mark.parametrize("text", ["", "[]", '{"https://a.example": 3}', "\x00"])
def test_a_damaged_file_of_tokens_is_named(text: str, tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json")
    logins.path.touch(mode=0o600)
    logins.path.write_text(text)

    with pytest.raises(SettingsError, match=r"logins\.json"):
        logins.read()
