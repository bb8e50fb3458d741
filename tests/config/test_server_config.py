"""The settings of a server: complete, strict, and relative to their file."""

from pathlib import Path

import pytest

from omnigraph.config.server import (
    NothingToServeError,
    ServerLimits,
    TlsFiles,
    build_server_config,
    parse_bind,
    parse_token_variable,
)
from omnigraph.config.tokens import hash_token, read_tokens
from omnigraph.errors import BadFileError, FileMissingError, SettingsError
from omnigraph.ops.auto_maintenance import ReconcilePolicy
from omnigraph.options import EmbedProvider
from raised_codes import has_code

WHOLE = """
[server]
bind = "[::1]:9000"
tokens = "secret/tokens.toml"
policies = "policies"
allowed_hosts = ["graphs.example.org"]
drain_seconds = 5
certificate = "tls/server.pem"
private_key = "tls/server.key"

[limits]
body_bytes = "2 MiB"
load_bytes = 1000
seconds = 2.5
rows = 7
threads = 3

[maintenance]
auto = false
optimize = true
cleanup_days = 14
every_seconds = 30
budget_percent = 25
recovery_seconds = 12

[scrub]
days = 7.5

[embedding]
provider = "openai"
model = "m"
key_variable = "KEY"

[graphs.people]
uri = "people.omni"
queries = "queries"
read_only = true
keep_derived = false

[graphs.far]
uri = "s3://bucket/far"
"""


def settings(home: Path, text: str) -> Path:
    path = home / "omnigraph.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_everything(tmp_path: Path) -> None:
    config = build_server_config(settings(tmp_path, WHOLE), {"KEY": "k"})

    people, far = config.graphs
    assert (config.host, config.port, config.drain_seconds) == ("::1", 9000, 5.0)
    assert config.tls == TlsFiles(certificate=tmp_path / "tls/server.pem", private_key=tmp_path / "tls/server.key")
    assert (config.tokens_file, config.policies) == (tmp_path / "secret/tokens.toml", tmp_path / "policies")
    assert config.limits == ServerLimits(body_bytes=2 * 2**20, load_bytes=1000, seconds=2.5, rows=7, threads=3)
    assert (people.uri, people.queries, people.is_read_only) == (
        str(tmp_path / "people.omni"),
        tmp_path / "queries",
        True,
    )
    assert (far.uri, far.queries, far.is_read_only) == ("s3://bucket/far", None, False)
    assert (people.keep_derived, far.keep_derived) == (False, True)
    assert config.maintenance == ReconcilePolicy(every_seconds=30.0, budget=0.25, cleanup_days=14.0)
    assert config.compacts_tails is False
    assert config.recovery_seconds == 12
    assert config.scrub_days == 7.5
    assert config.embedding is not None
    assert (config.embedding.provider, config.embedding.key) == (EmbedProvider.OPENAI, "k")
    assert "'k'" not in repr(config)


@pytest.mark.parametrize("text, days", [("", 30.0), ("[scrub]\ndays = 0\n", 0.0), ("[scrub]\ndays = 'off'\n", 0.0)])
def test_the_scrub_takes_a_month_unless_it_is_switched_off(text: str, days: float, tmp_path: Path) -> None:
    assert build_server_config(settings(tmp_path, text), {}, ["a=x"]).scrub_days == days


def test_the_command_adds_graphs_and_says_where(tmp_path: Path) -> None:
    path = settings(tmp_path, '[graphs.a]\nuri = "a"\n')

    config = build_server_config(path, {}, ["b=s3://x/y", "dir/c.omni/"], "0.0.0.0:1")

    assert [graph.id for graph in config.graphs] == ["a", "b", "c"]
    assert (config.host, config.port, config.is_loopback) == ("0.0.0.0", 1, False)  # noqa: S104 - as above


@pytest.mark.parametrize(
    "text, place, way_out",
    [
        ("[sever]\n", "sever", "did you mean `server`?"),
        ("[server]\nbnd = 'x'\n", "server.bnd", "did you mean `bind`?"),
        ("[server]\nbind = 'localhost'\n", "server.bind", "HOST:PORT"),
        ("[server]\nbind = 7\n", "server.bind", "in quotes"),
        ("[server]\nallowed_hosts = 'x'\n", "server.allowed_hosts", "in brackets"),
        ("[server]\ncertificate = 'x'\n", "server.private_key", "needs both"),
        ("[limits]\nrow = 1\n", "limits.row", "did you mean `rows`?"),
        ("[limits]\nrows = 0\n", "limits.rows", "above 0"),
        ("[limits]\nrows = true\n", "limits.rows", "above 0"),
        ("[limits]\nseconds = inf\n", "limits.seconds", "above 0"),
        ("[limits]\nbody_bytes = '1 XB'\n", "limits.body_bytes", "32 MiB"),
        ("[maintenance]\nauto = 1\n", "maintenance.auto", "true or false"),
        ("[maintenance]\nbudget_percent = 101\n", "maintenance.budget_percent", "1 to 100"),
        ("[scrub]\ndays = -1\n", "scrub.days", "above 0"),
        ("[scrub]\ndays = true\n", "scrub.days", "above 0"),
        ("[scrub]\ndays = 'never'\n", "scrub.days", '"off"'),
        ("[scrub]\nday = 1\n", "scrub.day", "did you mean `days`?"),
        ("[graphs.a]\n", "graphs.a.uri", "every graph"),
        ("[graphs.a]\nuri = 'x'\nread_only = 'no'\n", "graphs.a.read_only", "true or false"),
        ("graphs = 1\n", "graphs", "[graphs]"),
        ("[embedding]\nprovider = 'opnai'\n", "embedding.provider", "did you mean `openai`?"),
        ("[embedding]\nmodel = 'm'\n", "embedding.provider", "name the provider"),
        ("[embedding]\nprovider = 'openai'\nkey_variable = 'NOPE'\n", "embedding.key_variable", "NOPE"),
        ("[server\n", "", "not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_way_out(text: str, place: str, way_out: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        build_server_config(settings(tmp_path, text), {})

    assert refused.value.key == place
    assert way_out in str(refused.value)
    assert "omnigraph.toml" in str(refused.value)


@pytest.mark.parametrize("text", ["", ":", "host", "host:", ":80", "host:x", "host:-1", "host:65536", "::1:80", "h:²"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, check=has_code("bad_bind")):
        parse_bind(text)


@pytest.mark.parametrize("given", [["a b=x"], ["=x"], ["../x="], ["a=x", "a=y"], ["é=x"], [f"{'a' * 64}=x"]])
def test_a_name_that_no_graph_can_have_is_refused(given: list[str]) -> None:
    with pytest.raises(SettingsError, check=has_code("bad_graph_id")):
        build_server_config(None, {}, given)


def test_there_is_something_to_serve() -> None:
    with pytest.raises(NothingToServeError):
        build_server_config(None, {})


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        build_server_config(tmp_path / "nope.toml", {})
    with pytest.raises(BadFileError, check=has_code("not_a_file")):
        build_server_config(tmp_path, {})


# --- tokens ------------------------------------------------------------------------------------------------


def test_tokens_of_the_environment_are_hashed_at_once() -> None:
    token = "t" * 32

    (found,) = parse_token_variable({"OMNIGRAPH_TOKENS": f" ada={token} "})

    assert (found.actor.name, found.digest) == ("ada", hash_token(token))


@pytest.mark.parametrize("text", ["ada", f"ada={'t' * 31}", f"={'t' * 32}", f"omnigraph:x={'t' * 32}"])
def test_a_variable_that_is_wrong_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(SettingsError, check=has_code("bad_variable")) as refused:
        parse_token_variable({"OMNIGRAPH_TOKENS": text})

    assert "ttt" not in str(refused.value) + str(refused.value.facts())


@pytest.mark.parametrize(
    "text, place",
    [
        ("[[token]]\nactor = 'a'\n", "token[0].sha256"),
        (f"[[token]]\nsha256 = '{'0' * 64}'\n", "token[0].actor"),
        ("[[token]]\nactor = 'a'\nsha256 = 'og_secret'\n", "token[0].sha256"),
        (f"[[token]]\nactor = 'omnigraph:x'\nsha256 = '{'0' * 64}'\n", "token[0].actor"),
        (f"[[token]]\nactor = 'a'\nsha256 = '{'0' * 64}'\nexpires = 'soon'\n", "token[0].expires"),
        (f"[[token]]\nactor = 'a'\nsha256 = '{'0' * 64}'\nrole = 'x'\n", "token[0].role"),
        (f"[[token]]\nactor = 'a'\nsha256 = '{'0' * 64}'\n" * 2, "token"),
        ("[token]\nactor = 'a'\n", "token"),
        ("[[tokens]]\n", "tokens"),
    ],
)
def test_a_tokens_file_with_a_mistake_is_refused(text: str, place: str, tmp_path: Path) -> None:
    path = settings(tmp_path, text)
    path.chmod(0o600)

    with pytest.raises(SettingsError) as refused:
        read_tokens(path)

    assert refused.value.key == place


def test_a_tokens_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = settings(tmp_path, "")
    path.chmod(0o666)

    with pytest.raises(SettingsError, match="users other than its owner"):
        read_tokens(path)


@pytest.mark.parametrize("cores, workers", [(1, 1), (4, 4), (500, 64)])
def test_there_is_a_worker_for_each_core(
    cores: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.config.server.count_cores", lambda: cores)

    assert build_server_config(None, {}, [str(tmp_path / "g.omni")], None).workers == workers


def test_there_is_one_worker_where_there_can_not_be_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.config.server.count_cores", lambda: 4)
    monkeypatch.setattr("omnigraph.config.server._HAS_WORKERS", False)

    assert build_server_config(None, {}, [str(tmp_path / "g.omni")], None).workers == 1
