"""What a server is told: its graphs, who may ask, and how much of the machine one request may have."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnigraph.config.environment import BadVariableError, read_embedding_options
from omnigraph.config.settings_file import SettingsError, SettingsSection, read_settings
from omnigraph.config.tokens import MIN_TOKEN_CHARACTERS, TokenRecord, hash_token
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.locations import parse_scheme
from omnigraph.ops.auto_optimize import ReconcilePolicy
from omnigraph.ops.commit_signature import ActorRefusedError, CommitTextTooLongError, check_actor
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.policy import Actor

CONFIG_FILE = "omnigraph.toml"
TOKENS_VARIABLE = "OMNIGRAPH_TOKENS"
"""Tokens as `actor=token`, separated by spaces; for a container that has no file."""
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_MIB = 1024 * 1024


class BadBindError(OmnigraphError):
    """An address that no server can listen on."""

    kind = Kind.USAGE
    code = "bad_bind"

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return f"can't listen on `{self.given}`: write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"


class BadGraphIdError(OmnigraphError):
    """A graph can't be served under that name, or two have the same."""

    kind = Kind.USAGE
    code = "bad_graph_id"

    def __init__(self, given: str, reason: str) -> None:
        super().__init__(given, reason)
        self.given, self.reason = given, reason

    def __str__(self) -> str:
        return f"a graph can't be served as `{self.given}`: {self.reason}"


class NothingToServeError(OmnigraphError):
    """Neither the command nor a file names a graph."""

    kind = Kind.USAGE
    code = "nothing_to_serve"

    def __str__(self) -> str:
        return f"name a graph to serve: `omnigraph serve ID=URI`, or [graphs.ID] in {CONFIG_FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """How much one request, one actor and all of them together may have."""

    body_bytes: int = _MIB
    """The longest body of a request but a load."""
    load_bytes: int = 32 * _MIB
    query_characters: int = 64 * 1024
    """The longest text of a query or schema."""
    body_seconds: float = 30.0
    """How long a client may take to send the headers of a request, and then its body."""
    send_seconds: float = 30.0
    """How long a client may take to receive a part of an answer."""
    seconds: float = 30.0
    """How long a query may run."""
    memory_bytes: int = 512 * _MIB
    """How much memory a query, a write or an export may use."""
    write_seconds: float = 300.0
    """How long a mutation or load may take until it is published; what is not by then is not done."""
    stream_seconds: float = 3_600.0
    """How long a stream of rows may work; how long the client takes to receive it does not count."""
    rows: int = 10_000
    """The most rows of an answer that is one JSON document; streams have no such limit."""
    answer_bytes: int = 64 * _MIB
    """The longest JSON document."""
    threads: int = 8
    """How many requests work at the same time."""
    waiting: int = 128
    """How many more may wait for their turn."""
    writes_per_actor: int = 16
    requests_per_actor: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedGraph:
    """A graph under the name that it is served as."""

    id: str
    uri: str
    queries: Path | None = None
    """A directory of stored queries."""
    is_read_only: bool = False
    keep_derived: bool = True
    """Whether its reads may keep what they derived beside the tables; a graph that is served read-only never does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Everything that a server is told."""

    graphs: tuple[HostedGraph, ...]
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tokens_file: Path | None = None
    given_tokens: tuple[TokenRecord, ...] = ()
    """Those of the environment."""
    policies: Path | None = None
    """A directory of Cedar policies; without it, whoever has a token may only read."""
    allowed_hosts: tuple[str, ...] = ()
    """The names under which it is asked; none: any, but on loopback only loopback's."""
    drain_seconds: float = 30.0
    """How long what runs may go on when the server is told to stop."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    embedding: EmbedOptions | None = None
    """How vectors are computed; None: as the environment says."""
    maintenance: ReconcilePolicy | None = None
    """How much of the time the server optimises its graphs by itself; None: it does not."""
    recovery_seconds: float = 60.0
    """How often it looks for operations of other processes that died."""
    scrub_days: float = 30.0
    """In how many days it verifies all files of a graph once; 0: never."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask."""
        return self.host in LOOPBACK

    @property
    def has_tokens(self) -> bool:
        """Whether anybody can be recognised."""
        return self.tokens_file is not None or bool(self.given_tokens)


def load_server_config(graphs: Sequence[str], file: str | os.PathLike[str] | None, bind: str | None) -> ServerConfig:
    """As `build_server_config`, with this process's environment.

    Without graphs and a file, the file is `omnigraph.toml` in the working directory, if it is there.
    """
    path = None if file is None else Path(file)
    if path is None and not graphs and Path(CONFIG_FILE).is_file():
        path = Path(CONFIG_FILE)
    return build_server_config(path, os.environ, graphs, bind)


def build_server_config(
    file: Path | None, environment: Mapping[str, str], graphs: Sequence[str] = (), bind: str | None = None
) -> ServerConfig:
    """The settings of a file, with the graphs (`ID=URI`, or a URI alone) and the address of a command line.

    Raises:
        SettingsError: The file says something that can't be understood.
        BadBindError, BadGraphIdError, NothingToServeError: The command line does, or nothing is said at all.
        BadVariableError: The environment does.
    """
    config = ServerConfig(graphs=()) if file is None else _read_config_file(file, environment)
    named = (*config.graphs, *map(_parse_graph_argument, graphs))
    if not named:
        raise NothingToServeError
    ids = [graph.id for graph in named]
    for id_ in ids:
        if not _ID.fullmatch(id_):
            raise BadGraphIdError(id_, "a name has letters (A–Z, a–z), digits, `-` and `_`, at most 63")
        if ids.count(id_) > 1:
            raise BadGraphIdError(id_, "there are two of that name: write ID=URI to give them others")
    config = replace(config, graphs=named, given_tokens=parse_token_variable(environment))
    if bind is not None:
        host, port = parse_bind(bind)
        config = replace(config, host=host, port=port)
    return config


def parse_token_variable(environment: Mapping[str, str]) -> tuple[TokenRecord, ...]:
    """The tokens of a variable; BadVariableError, which does not show them."""
    found = []
    for pair in environment.get(TOKENS_VARIABLE, "").split():
        actor, sign, token = pair.partition("=")
        if not sign or len(token) < MIN_TOKEN_CHARACTERS:
            way_out = f"write actor=token, separated by spaces, each token of {MIN_TOKEN_CHARACTERS} characters or more"
            raise BadVariableError(TOKENS_VARIABLE, "…", way_out)
        try:
            check_actor(actor)
        except (ActorRefusedError, CommitTextTooLongError) as error:
            raise BadVariableError(TOKENS_VARIABLE, "…", str(error)) from error
        found.append(TokenRecord(actor=Actor(name=actor), digest=hash_token(token)))
    return tuple(found)


def parse_bind(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; BadBindError."""
    host, sign, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    is_port = port.isascii() and port.isdigit() and int(port) < 2**16
    if not sign or not host or not is_port or (":" in host and not text.startswith("[")):
        raise BadBindError(text)
    return host, int(port)


def _read_config_file(path: Path, environment: Mapping[str, str]) -> ServerConfig:
    root = read_settings(path)
    server, limits, embedding = root.get_section("server"), root.get_section("limits"), root.get_section("embedding")
    maintenance, scrub = root.get_section("maintenance"), root.get_section("scrub")
    bind = server.get_text("bind")
    try:
        host, port = (DEFAULT_HOST, DEFAULT_PORT) if bind is None else parse_bind(bind)
    except BadBindError as error:
        raise server.build_error("bind", str(error)) from error
    config = ServerConfig(
        graphs=tuple(_read_hosted_graph(name, section) for name, section in root.iter_sections("graphs")),
        host=host,
        port=port,
        tokens_file=server.get_path("tokens"),
        policies=server.get_path("policies"),
        allowed_hosts=server.get_texts("allowed_hosts"),
        drain_seconds=server.get_seconds("drain_seconds", ServerConfig(graphs=()).drain_seconds),
        limits=_read_limits(limits),
        embedding=_read_embedding(embedding, environment),
        maintenance=_read_maintenance(maintenance),
        recovery_seconds=maintenance.get_seconds("recovery_seconds", ServerConfig(graphs=()).recovery_seconds),
        scrub_days=scrub.get_days("days", ServerConfig(graphs=()).scrub_days),
    )
    for section in (server, limits, embedding, maintenance, scrub, root):
        section.finish()
    return config


def _read_limits(section: SettingsSection) -> ServerLimits:
    usual = ServerLimits()
    return ServerLimits(
        body_bytes=section.get_size("body_bytes", usual.body_bytes),
        load_bytes=section.get_size("load_bytes", usual.load_bytes),
        query_characters=section.get_count("query_characters", usual.query_characters),
        body_seconds=section.get_seconds("body_seconds", usual.body_seconds),
        send_seconds=section.get_seconds("send_seconds", usual.send_seconds),
        seconds=section.get_seconds("seconds", usual.seconds),
        memory_bytes=section.get_size("memory_bytes", usual.memory_bytes),
        write_seconds=section.get_seconds("write_seconds", usual.write_seconds),
        stream_seconds=section.get_seconds("stream_seconds", usual.stream_seconds),
        rows=section.get_count("rows", usual.rows),
        answer_bytes=section.get_size("answer_bytes", usual.answer_bytes),
        threads=section.get_count("threads", usual.threads),
        waiting=section.get_count("waiting", usual.waiting),
        writes_per_actor=section.get_count("writes_per_actor", usual.writes_per_actor),
        requests_per_actor=section.get_count("requests_per_actor", usual.requests_per_actor),
    )


def _read_maintenance(section: SettingsSection) -> ReconcilePolicy | None:
    usual = ReconcilePolicy()
    every = section.get_seconds("every_seconds", usual.every_seconds)
    percent = section.get_count("budget_percent", round(usual.budget * 100))
    if percent > 100:
        raise section.build_error("budget_percent", "write a whole number from 1 to 100")
    is_on = section.get_switch("auto", default=False)
    return ReconcilePolicy(every_seconds=every, budget=percent / 100) if is_on else None


def _read_hosted_graph(name: str, section: SettingsSection) -> HostedGraph:
    uri = section.get_text("uri")
    if uri is None:
        raise section.build_error("uri", "every graph has the place where it is")
    if parse_scheme(uri) is None:
        uri = str(section.get_path("uri"))
    hosted = HostedGraph(
        id=name,
        uri=uri,
        queries=section.get_path("queries"),
        is_read_only=section.get_switch("read_only", default=False),
        keep_derived=section.get_switch("keep_derived", default=True),
    )
    section.finish()
    return hosted


def _read_embedding(section: SettingsSection, environment: Mapping[str, str]) -> EmbedOptions | None:
    """The provider of the file. Its key is in the environment, under a name that the file may say."""
    provider = section.get_choice("provider", [one.value for one in EmbedProvider])
    url, model, variable = section.get_text("url"), section.get_text("model"), section.get_text("key_variable")
    if provider is None:
        if url or model or variable:
            raise section.build_error("provider", "say which it is: " + ", ".join(one.value for one in EmbedProvider))
        return None
    key = environment.get(variable) if variable else read_embedding_options(environment).key
    if variable and not key:
        raise section.build_error("key_variable", f"the environment variable {variable} is not set")
    return EmbedOptions(provider=EmbedProvider(provider), url=url, model=model, key=key)


def _parse_graph_argument(text: str) -> HostedGraph:
    """`people=people.omni`; of a URI alone, the last part without its ending is the name."""
    name, sign, uri = text.partition("=")
    if sign and uri and "/" not in name:
        return HostedGraph(id=name, uri=uri)
    return HostedGraph(id=Path(text.rstrip("/").rpartition("/")[2]).stem, uri=text)


__all__ = [
    "BadBindError",
    "BadGraphIdError",
    "HostedGraph",
    "NothingToServeError",
    "ServerConfig",
    "ServerLimits",
    "SettingsError",
    "build_server_config",
    "load_server_config",
    "parse_bind",
    "parse_token_variable",
]
