"""A session of a shell: the graph, branch and time that it looks at, and what its statements and commands do."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.mutate import format_mutation
from omnigraph.cli.render import print_error, print_json, print_text
from omnigraph.cli.result_formats import resolve_format, write_result
from omnigraph.cli.shell_statements import END, split_statements
from omnigraph.cli.shell_work import run_cancellable
from omnigraph.clock import format_instant
from omnigraph.config.environment import build_runtime
from omnigraph.engine.parallel import count_threads
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import BadArgumentError
from omnigraph.lang.proposals import Completion
from omnigraph.lang.query_ast import Read, Union
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.completion import CommandArgument, KnownNames, complete
from omnigraph.schema.bind import load_schema

if TYPE_CHECKING:
    from omnigraph.engine.result import Result
    from omnigraph.graph import Graph
    from omnigraph.schema.catalog import Catalog

T = TypeVar("T")
SOURCE_NAME = "<shell>"
# Schema and names for completion are read again after this, or after a write of this session.
_NAMES_SECONDS = 5.0
_ON_OFF = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the shell: what its argument is, what it does, and its line of help."""

    argument: CommandArgument
    run: Callable[["ShellSession", str], None]
    usage: str
    help: str


@dataclass(frozen=True, slots=True)
class _KnownNames:
    """The schema of a state and the names beside it, which completion proposes."""

    read_at: float
    state: tuple[str, datetime | None]
    catalog: "Catalog"
    known: KnownNames


class ShellSession:
    """Runs statements and commands on a graph. `reconnect` opens a served graph anew after a cancelled request."""

    def __init__(
        self,
        graph: "Graph",
        name: str,
        branch: str,
        actor: str,
        commands: Mapping[str, Command],
        reconnect: Callable[[], "Graph"] | None = None,
    ) -> None:
        self.graph = graph
        self.name = name
        self.branch = branch
        self.at: datetime | None = None
        self.format = "table"
        self.has_timer = False
        self.prefill = ""
        """What the next prompt begins with, after `.edit`."""
        self._commands = commands
        self._actor = actor
        self._reconnect = reconnect
        self.latest = ""
        """The latest statement."""
        self._names: _KnownNames | None = None
        self._runtime = build_runtime(os.environ)

    @property
    def prompt(self) -> str:
        """The graph, its branch, and the time if it is not now."""
        time_text = "" if self.at is None else f"@{format_instant(self.at)}"
        return f"{self.name} {self.branch}{time_text}> "

    def run(self, text: str) -> None:
        """Run a command, or each statement of a text.

        Raises:
            OmnigraphError, click.ClickException: A statement or command has a mistake, or failed.
            CancelledWorkError: The user ended it by Ctrl-C.
            EOFError: The session is over.
        """
        stripped = text.strip()
        if stripped.startswith("."):
            self._run_command(stripped.removesuffix(END).rstrip())
            return
        parts = split_statements(text)
        for statement in (*parts.statements, parts.rest.strip()):
            if statement:
                self.latest = statement
                self._run_statement(statement)

    def complete(self, text: str, position: int) -> Completion:
        """Return what may be written at a position of a text."""
        start = 0 if text.startswith(".") else len(text[:position]) - len(split_statements(text[:position]).rest)
        catalog, known = self._read_names()
        found = complete(text[start:], position - start, catalog, known)
        return Completion(found.start + start, found.end + start, found.proposals)

    def _run_command(self, text: str) -> None:
        word, argument = [*text.split(maxsplit=1), ""][:2]
        command = self._commands.get(word)
        if command is None:
            raise click.UsageError(f"there is no command `{word}`; .help lists all")
        command.run(self, argument)

    def _run_statement(self, statement: str) -> None:
        started = time.perf_counter()
        source = Source(statement, SOURCE_NAME)
        queries = parse_queries(source, allows_bare=True).require(source).queries
        if any(not isinstance(query.body, Read | Union) for query in queries):
            self._mutate(source)
        else:
            result = self.query(source)
            write_result(result, resolve_format(self.format, None, as_json=False), None, as_json=False)
        if self.has_timer:
            print_error(f"{time.perf_counter() - started:.3f} s")

    def query(self, source: Source) -> "Result":
        """Run a query on the state that the session looks at."""
        return self.work(partial(self.graph.query, source, branch=self.branch, at=self.at))

    def _mutate(self, source: Source) -> None:
        if self.at is not None:
            raise BadArgumentError(
                "a mutation", "run", f"the session shows the past, at {format_instant(self.at)}; `.at now` leaves it"
            )
        self._names = None
        result = self.work(partial(self.graph.mutate, source, branch=self.branch, actor=self._actor))
        if self.format == "json":
            print_json(result.to_json())
        else:
            print_text(format_mutation(result))

    def work(self, call: Callable[..., T]) -> T:
        """Run a call on the graph, which Ctrl-C ends."""
        if self._reconnect is not None:
            return run_cancellable(call, None, self._abandon)
        options = self._runtime.options
        budget = Budget(
            self._runtime.clock,
            seconds=options.query_seconds,
            memory_bytes=options.query_memory_bytes,
            threads=count_threads(options.threads),
        )
        return run_cancellable(partial(call, budget=budget), budget, self._abandon)

    def _abandon(self) -> None:
        """Close the connection, by which the server notices that the client has left, and open another one."""
        if self._reconnect is not None:
            self.graph.abort()  # type: ignore[attr-defined]  # a served graph has it
            self.graph = self._reconnect()

    def _read_names(self) -> tuple["Catalog", KnownNames]:
        state = (self.branch, self.at)
        names = self._names
        if names is not None and names.state == state and time.monotonic() - names.read_at < _NAMES_SECONDS:
            return names.catalog, names.known
        schema = self.graph.accepted_schema(branch=self.branch, at=self.at).source
        catalog = load_schema(Source(schema, "schema.pg"))
        branches = tuple(branch.name for branch in self.graph.branches.list())
        known = KnownNames(
            branches=branches, commands={name: command.argument for name, command in self._commands.items()}
        )
        self._names = _KnownNames(time.monotonic(), state, catalog, known)
        return catalog, known
