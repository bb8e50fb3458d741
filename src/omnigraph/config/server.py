"""Read the configuration of a server: its graphs, tokens and policies, and the limits of a request."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnigraph.config.environment import read_embedding_options
from omnigraph.config.jwt_issuers import JwtIssuer, read_jwt_issuers
from omnigraph.config.settings_file import CONFIG_FILE, SettingsSection, read_settings
from omnigraph.config.tokens import MIN_TOKEN_CHARACTERS, TokenRecord, hash_token
from omnigraph.engine.parallel import count_cores
from omnigraph.errors import Kind, OmnigraphError, SettingsError
from omnigraph.locations import parse_scheme
from omnigraph.ops.auto_maintenance import ReconcilePolicy
from omnigraph.ops.commit_signature import ActorRefusedError, CommitTextTooLongError, check_actor
from omnigraph.options import OPENAI_URL, EmbedOptions, EmbedProvider
from omnigraph.policy import Actor

# Tokens as `actor=token`, separated by spaces, for a container without a tokens file.
TOKENS_VARIABLE = "OMNIGRAPH_TOKENS"
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

# The names of variables with secrets that a settings file can't have sent to the provider that it names.
_OTHER_SECRETS = ("OMNIGRAPH_TOKEN", "AWS_")

# Workers share sealed memory, which only Linux has.
_HAS_WORKERS = hasattr(os, "memfd_create")
_MAX_WORKERS = 64


def _count_default_workers() -> int:
    """Return one worker for each core, or one where there can't be several."""
    return min(count_cores(), _MAX_WORKERS) if _HAS_WORKERS else 1


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_MIB = 1024 * 1024


class NothingToServeError(OmnigraphError):
    """Neither the command nor a file names a graph."""

    kind = Kind.USAGE
    code = "nothing_to_serve"

    def __str__(self) -> str:
        return f"name a graph to serve: `omnigraph serve ID=URI`, or [graphs.ID] in {CONFIG_FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of one request, of one actor, and of the whole server."""

    body_bytes: int = _MIB
    """The longest body of a request, except a load."""
    load_bytes: int = 32 * _MIB
    query_characters: int = 64 * 1024
    """The longest text of a query or schema."""
    body_seconds: float = 30.0
    """The time in which a client has to send the headers of a request, and then its body."""
    send_seconds: float = 30.0
    """The time in which a client has to receive a chunk of a response."""
    seconds: float = 30.0
    """The time limit of a query."""
    memory_bytes: int = 512 * _MIB
    """The memory limit of a query, a write or an export."""
    write_seconds: float = 300.0
    """The time in which a mutation or load has to be committed; after that it is cancelled."""
    stream_seconds: float = 3_600.0
    """The time that a stream of rows may be computed; waiting for the client does not count."""
    rows: int = 10_000
    """The maximum number of rows of a response that is one JSON document; streams have no such limit."""
    answer_bytes: int = 64 * _MIB
    """The longest JSON document."""
    threads: int = 8
    """The number of requests that run at the same time."""
    waiting: int = 128
    """The number of further requests that may wait for a thread."""
    writes_per_actor: int = 16
    requests_per_actor: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedGraph:
    """A graph, and the name under which it is served."""

    id: str
    uri: str
    queries: Path | None = None
    """A directory of stored queries."""
    is_read_only: bool = False
    keep_derived: bool = True
    """Whether reads may store derived data beside the tables; a graph served read-only never does."""
    is_created: bool = False
    """Whether it is below the root for graphs of clients, so that a client may delete it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSchedule:
    """When and where a server backs its graphs up."""

    target: str
    """The location below which each graph has its repository, by name."""
    seconds: float = 86_400.0
    """The age of the newest backup at which another is added."""
    keep: int | None = None
    """The number of backups of a graph that are kept; None: all."""

    def locate(self, graph: str) -> str:
        """Return the location of the backups of a graph."""
        return f"{self.target.rstrip('/')}/{graph}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files with which a server proves its name to clients, in PEM format."""

    certificate: Path
    """The certificate, followed by those of its issuers."""
    private_key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The whole configuration of a server."""

    graphs: tuple[HostedGraph, ...]
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tokens_file: Path | None = None
    given_tokens: tuple[TokenRecord, ...] = ()
    """The tokens of the environment."""
    jwt_issuers: tuple[JwtIssuer, ...] = ()
    """Whose JWTs authenticate clients, beside the tokens."""
    policies: Path | None = None
    """A directory of Cedar policies; without it, every valid token may only read."""
    tls: TlsFiles | None = None
    """The certificate for HTTPS; None: plain HTTP."""
    allowed_hosts: tuple[str, ...] = ()
    """The host names that requests may use; if empty, any, but on loopback only loopback names."""
    workers: int = 1
    """The number of processes that serve clients; more than one are started by a parent. Settings have one a core."""
    long_workers: int = 1
    """The number of further processes for long requests, if there is more than one worker."""
    stuck_seconds: float = 30.0
    """A worker that does not respond for this long is ended and replaced."""
    drain_seconds: float = 30.0
    """The time that running requests have to finish when the server stops."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    embedding: EmbedOptions | None = None
    """How vectors are computed; None: by the environment's settings."""
    compacts_tails: bool = True
    """Whether writes keep the number of small fragments bounded."""
    maintenance: ReconcilePolicy | None = None
    """The rounds in which the server optimises its graphs and removes old data; None: there are none."""
    recovery_seconds: float = 60.0
    """The interval of recovery from operations of other processes that died."""
    scrub_days: float = 30.0
    """The number of days in which all files of a graph are verified once; 0: never."""
    backup: BackupSchedule | None = None
    """None: the server makes no backups."""
    graph_root: str | None = None
    """The location below which clients may create and delete graphs; None: they can't."""
    max_created_graphs: int = 100
    """The number of graphs below it at which no more are created."""
    has_telemetry: bool = False
    """Whether traces and metrics are sent by OpenTelemetry."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK

    @property
    def has_tokens(self) -> bool:
        """Whether any client can authenticate."""
        return self.tokens_file is not None or bool(self.given_tokens) or bool(self.jwt_issuers)


def load_server_config(
    graphs: Sequence[str],
    file: str | os.PathLike[str] | None,
    bind: str | None,
    workers: int | None = None,
) -> ServerConfig:
    """Build the configuration with this process's environment, see `build_server_config`.

    Without graphs and a file, the file is `omnigraph.toml` in the working directory, if it exists. `workers` takes
    precedence over the file.

    Raises:
        SettingsError: See `build_server_config`; or there can't be so many workers.
    """
    path = None if file is None else Path(file)
    if path is None and not graphs and Path(CONFIG_FILE).is_file():
        path = Path(CONFIG_FILE)
    config = build_server_config(path, os.environ, graphs, bind)
    if workers is not None:
        problem = _find_problem(workers)
        if problem is not None:
            raise SettingsError("omnigraph serve", "--workers", problem)
        config = replace(config, workers=workers)
    return config


def build_server_config(
    file: Path | None, environment: Mapping[str, str], graphs: Sequence[str] = (), bind: str | None = None
) -> ServerConfig:
    """Build the configuration from a file, with the graphs (`ID=URI`, or a URI alone) and address of a command line.

    Raises:
        SettingsError: The file, the command line or the environment has an invalid setting.
        NothingToServeError: There is no graph.
    """
    config = ServerConfig(graphs=(), workers=_count_default_workers())
    if file is not None:
        config = _read_config_file(file, environment)
    hosted = (*config.graphs, *map(_parse_graph_argument, graphs))
    if not hosted and config.graph_root is None:
        raise NothingToServeError
    ids = [graph.id for graph in hosted]
    for id_ in ids:
        if not is_graph_id(id_):
            raise SettingsError.bad_graph_id(id_, "use at most 63 letters (A–Z, a–z), digits, `-` and `_`")
        if ids.count(id_) > 1:
            raise SettingsError.bad_graph_id(id_, "two graphs have that name; write ID=URI to give one another name")
    config = replace(config, graphs=hosted, given_tokens=parse_token_variable(environment))
    if bind is not None:
        host, port = parse_bind(bind)
        config = replace(config, host=host, port=port)
    return config


def is_graph_id(text: str) -> bool:
    """Return whether a graph may have this name on a server."""
    return _ID.fullmatch(text) is not None


def parse_token_variable(environment: Mapping[str, str]) -> tuple[TokenRecord, ...]:
    """Return the tokens of the environment.

    Raises:
        SettingsError: The variable is invalid. The error does not show the tokens.
    """
    tokens = []
    for pair in environment.get(TOKENS_VARIABLE, "").split():
        actor, sign, token = pair.partition("=")
        if not sign or len(token) < MIN_TOKEN_CHARACTERS:
            way_out = f"write actor=token, separated by spaces, each token of {MIN_TOKEN_CHARACTERS} characters or more"
            raise SettingsError.bad_variable(TOKENS_VARIABLE, "…", way_out)
        try:
            check_actor(actor)
        except (ActorRefusedError, CommitTextTooLongError) as error:
            raise SettingsError.bad_variable(TOKENS_VARIABLE, "…", str(error)) from error
        tokens.append(TokenRecord(actor=Actor(name=actor), digest=hash_token(token)))
    return tuple(tokens)


def parse_bind(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`.

    Raises:
        SettingsError: It has another form.
    """
    host, sign, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    is_port = port.isascii() and port.isdigit() and int(port) < 2**16
    # An IPv6 address without brackets would be ambiguous.
    if not sign or not host or not is_port or (":" in host and not text.startswith("[")):
        raise SettingsError.bad_bind(text)
    return host, int(port)


def _read_config_file(path: Path, environment: Mapping[str, str]) -> ServerConfig:
    root = read_settings(path)
    server = root.get_section("server")
    limits = root.get_section("limits")
    embedding = root.get_section("embedding")
    maintenance = root.get_section("maintenance")
    scrub = root.get_section("scrub")
    backup = root.get_section("backup")
    telemetry = root.get_section("telemetry")
    # The personal settings of the command line, which are not those of a server.
    root.get_section("client")
    defaults = ServerConfig(graphs=())
    bind = server.get_text("bind")
    try:
        host, port = (DEFAULT_HOST, DEFAULT_PORT) if bind is None else parse_bind(bind)
    except SettingsError as error:
        raise server.build_error("bind", str(error)) from error
    config = ServerConfig(
        graphs=tuple(_read_hosted_graph(name, section) for name, section in root.iter_sections("graphs")),
        host=host,
        port=port,
        tokens_file=server.get_path("tokens"),
        jwt_issuers=read_jwt_issuers(root),
        policies=server.get_path("policies"),
        tls=_read_tls(server),
        allowed_hosts=server.get_texts("allowed_hosts"),
        workers=_read_workers(server),
        long_workers=server.get_count("long_workers", defaults.long_workers),
        stuck_seconds=server.get_seconds("stuck_seconds", defaults.stuck_seconds),
        drain_seconds=server.get_seconds("drain_seconds", defaults.drain_seconds),
        limits=_read_limits(limits),
        embedding=_read_embedding(embedding, environment),
        compacts_tails=maintenance.get_switch("auto", default=defaults.compacts_tails),
        maintenance=_read_maintenance(maintenance),
        recovery_seconds=maintenance.get_seconds("recovery_seconds", defaults.recovery_seconds),
        scrub_days=scrub.get_days("days", defaults.scrub_days),
        backup=_read_backup(backup),
        graph_root=_read_location(server, "graph_root"),
        max_created_graphs=server.get_count("max_created_graphs", defaults.max_created_graphs),
        has_telemetry=telemetry.get_switch("opentelemetry", default=False),
    )
    # `finish` rejects settings that were never read, so it comes after all reads.
    for section in (server, limits, embedding, maintenance, scrub, backup, telemetry, root):
        section.finish()
    return config


def _read_tls(section: SettingsSection) -> TlsFiles | None:
    certificate = section.get_path("certificate")
    private_key = section.get_path("private_key")
    if certificate is not None and private_key is not None:
        return TlsFiles(certificate=certificate, private_key=private_key)
    # Half of the settings must not become plain HTTP on a port where clients expect HTTPS.
    if certificate is not None or private_key is not None:
        missing = "certificate" if certificate is None else "private_key"
        raise section.build_error(missing, "TLS needs both `certificate` and `private_key`")
    return None


def _read_workers(section: SettingsSection) -> int:
    workers = section.get_count("workers", _count_default_workers())
    problem = _find_problem(workers)
    if problem is not None:
        raise section.build_error("workers", problem)
    return workers


def _find_problem(workers: int) -> str | None:
    """Return why there can't be so many workers, or None."""
    if not 1 <= workers <= _MAX_WORKERS:
        return f"write a whole number from 1 to {_MAX_WORKERS}"
    return None if workers == 1 or _HAS_WORKERS else "several workers need Linux: write 1"


def _read_limits(section: SettingsSection) -> ServerLimits:
    defaults = ServerLimits()
    return ServerLimits(
        body_bytes=section.get_size("body_bytes", defaults.body_bytes),
        load_bytes=section.get_size("load_bytes", defaults.load_bytes),
        query_characters=section.get_count("query_characters", defaults.query_characters),
        body_seconds=section.get_seconds("body_seconds", defaults.body_seconds),
        send_seconds=section.get_seconds("send_seconds", defaults.send_seconds),
        seconds=section.get_seconds("seconds", defaults.seconds),
        memory_bytes=section.get_size("memory_bytes", defaults.memory_bytes),
        write_seconds=section.get_seconds("write_seconds", defaults.write_seconds),
        stream_seconds=section.get_seconds("stream_seconds", defaults.stream_seconds),
        rows=section.get_count("rows", defaults.rows),
        answer_bytes=section.get_size("answer_bytes", defaults.answer_bytes),
        threads=section.get_count("threads", defaults.threads),
        waiting=section.get_count("waiting", defaults.waiting),
        writes_per_actor=section.get_count("writes_per_actor", defaults.writes_per_actor),
        requests_per_actor=section.get_count("requests_per_actor", defaults.requests_per_actor),
    )


def _read_maintenance(section: SettingsSection) -> ReconcilePolicy | None:
    defaults = ReconcilePolicy()
    interval = section.get_seconds("every_seconds", defaults.every_seconds)
    percent = section.get_count("budget_percent", round(defaults.budget * 100))
    if percent > 100:
        raise section.build_error("budget_percent", "write a whole number from 1 to 100")
    # All settings were read before, so that invalid ones are reported even while maintenance is off.
    policy = ReconcilePolicy(
        every_seconds=interval,
        budget=percent / 100,
        optimizes=section.get_switch("optimize", default=False),
        cleanup_days=section.get_days("cleanup_days", defaults.cleanup_days),
    )
    return policy if policy.optimizes or policy.cleanup_days else None


def _read_backup(section: SettingsSection) -> BackupSchedule | None:
    target = _read_location(section, "target")
    hours = section.get_seconds("every_hours", 24.0)
    # All settings were read before, so that invalid ones are reported even without a target.
    keep = section.get_count("keep", 0) if section.has("keep") else None
    return None if target is None else BackupSchedule(target=target, seconds=hours * 3_600.0, keep=keep)


def _read_location(section: SettingsSection, key: str) -> str | None:
    """Return a location: a relative path starts at the directory of the file, an address stays as written."""
    text = section.get_text(key)
    return str(section.get_path(key)) if text is not None and parse_scheme(text) is None else text


def _read_hosted_graph(name: str, section: SettingsSection) -> HostedGraph:
    uri = _read_location(section, "uri")
    if uri is None:
        raise section.build_error("uri", "every graph needs a `uri`")
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
    """Return the provider of the file. Its key is in the environment, in a variable that the file may name."""
    choices = [provider.value for provider in EmbedProvider]
    provider = section.get_choice("provider", choices)
    url = section.get_text("url")
    model = section.get_text("model")
    variable = section.get_text("key_variable")
    if provider is None:
        if url or model or variable:
            raise section.build_error("provider", f"name the provider: {', '.join(choices)}")
        return None
    if variable is not None and variable.startswith(_OTHER_SECRETS):
        raise section.build_error("key_variable", f"{variable} is not the key of a provider, and is not sent to one")
    key = environment.get(variable) if variable else _read_embedding_key(url, environment)
    if variable and not key:
        raise section.build_error("key_variable", f"the environment variable {variable} is not set")
    return EmbedOptions(provider=EmbedProvider(provider), url=url, model=model, key=key)


def _read_embedding_key(url: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the key of the environment, which goes to the server of the environment only: a file names another."""
    given = read_embedding_options(environment)
    is_same = url is None or url.rstrip("/") == (given.url or OPENAI_URL).rstrip("/")
    return given.key if is_same else None


def _parse_graph_argument(text: str) -> HostedGraph:
    """Return the graph of `people=people.omni`; for a URI alone, its last part without ending is the name."""
    name, sign, uri = text.partition("=")
    if sign and uri and "/" not in name:
        return HostedGraph(id=name, uri=uri)
    return HostedGraph(id=Path(text.rstrip("/").rpartition("/")[2]).stem, uri=text)


__all__ = [
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
