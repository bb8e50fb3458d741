"""Reads `.case` files; `tests/corpus/README.md` describes the format. Strict: a problem names file and line."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, get_args

BlockName: TypeAlias = Literal[
    "schema", "query", "cypher", "old", "new", "steps", "plan", "optimized", "prints", "formats", "data"
]
Verdict: TypeAlias = Literal["ok", "clean", "unchanged"]
BLOCKS: tuple[str, ...] = get_args(BlockName)
VERDICTS: tuple[str, ...] = get_args(Verdict)
ROW_BLOCKS = ("rows", "ordered")
LOADS = ("load append", "load merge", "load overwrite")
LEAVING_OUT = " without bad records"
WRITES = ("mutate", *LOADS, *(load + LEAVING_OUT for load in LOADS))
"""`load merge without bad records:` leaves bad records out; `load merge:` fails for one."""
EFFECTS = ("affects", "counts", "left out", "holds")
HOLDS_NOTHING = "holds nothing"
NO_ROWS = "no rows"
INDENT = "    "

_FINDING = re.compile(
    r"(?P<severity>error|warning) (?P<code>\S+) at (?P<line>\d+):(?P<column>\d+)"
    r"(?: on `(?P<marked>[^`]*)`)?: (?P<fragment>\S.*)"
)
_FAILURE = re.compile(r"fails (?P<code>[a-z_]+): (?P<fragment>\S.*)")
_REFUSAL = re.compile(r"refused (?P<code>[a-z_]+):")
_ESCAPE = re.compile(r"‹(?:U\+(?P<point>[0-9A-F]{4,6})|(?P<text>[^‹›]+) ×(?P<times>\d+))›")


class CaseFormatError(Exception):
    """A `.case` file that can't be read."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Finding:
    """An expected diagnostic: `error CODE at L:C on `text`: fragment`, and a `help: fragment` line."""

    severity: str
    code: str
    line: int
    column: int
    marked: str | None
    fragment: str
    help: str | None = None


@dataclass(frozen=True, slots=True)
class ParamsCheck:
    """`params: {…}` and what must come of it; no fragments means that they are accepted."""

    line: int
    given: dict[str, object]
    fragments: tuple[str, ...] = ()
    is_decided: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a read must give for these parameters: rows (in this order, or in any), or a failure.

    `failure` is the code of an error and a part of its message. An answer without rows and failure is still open.
    """

    line: int
    given: dict[str, object] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    rows: tuple[list[object], ...] | None = None
    is_ordered: bool = False
    failure: tuple[str, str] | None = None

    @property
    def is_decided(self) -> bool:
        return self.rows is not None or self.failure is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One mutation or load, and what must come of it: its counts, or a refusal's code and message.

    `holds` are the records of the graph afterwards, where the case lists them.
    """

    line: int
    verb: str
    text: str
    given: dict[str, object] = field(default_factory=dict)
    counts: dict[str, object] | None = None
    refusal: tuple[str, str] | None = None
    left_out: tuple[str, ...] = ()
    holds: tuple[dict[str, object], ...] | None = None

    @property
    def is_decided(self) -> bool:
        return self.counts is not None or self.refusal is not None

    @property
    def mode(self) -> str | None:
        """The mode of a load; None for a mutation."""
        return self.verb.removesuffix(LEAVING_OUT).removeprefix("load ") if self.verb != "mutate" else None

    @property
    def leaves_out(self) -> bool:
        """Whether bad records are left out of the load."""
        return self.verb.endswith(LEAVING_OUT)


@dataclass(frozen=True)
class Case:
    """One case as written."""

    path: Path
    line: int
    title: str
    blocks: dict[str, str] = field(default_factory=dict)
    uses: str | None = None
    verdict: str | None = None
    findings: tuple[Finding, ...] = ()
    params: tuple[ParamsCheck, ...] = ()
    graph: str | None = None
    answers: tuple[Answer, ...] = ()
    writes: tuple[Write, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether it has a graph, so that its query is run."""
        return not self.writes and (self.graph is not None or "data" in self.blocks)

    @property
    def expects_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def codes(self) -> frozenset[str]:
        """Every code that the case expects: of its findings, and of its migration steps."""
        of_steps = re.findall(r"\bOG-[A-Z]+-\d+\b", self.blocks.get("steps", ""))
        return frozenset({finding.code for finding in self.findings} | set(of_steps))


def read_cases(path: Path) -> tuple[Case, ...]:
    """All cases of a file, in order; `CaseFormatError` for the first problem."""
    return _Reader(path, path.read_text(encoding="utf-8")).cases()


def parse_cases(text: str, path: Path = Path("<text>")) -> tuple[Case, ...]:
    """As `read_cases`, of a text."""
    return _Reader(path, text).cases()


def expand(text: str) -> str:
    """`‹U+202E›` becomes that character, `‹a ×3›` becomes `aaa`."""

    def replacement(match: re.Match[str]) -> str:
        if point := match["point"]:
            return chr(int(point, 16))
        return match["text"] * int(match["times"])

    return _ESCAPE.sub(replacement, text)


class _Reader:
    """Goes through the lines once; `self.case` is the case being read."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.number = 0
        self.case: Case | None = None

    def cases(self) -> tuple[Case, ...]:
        found: list[Case] = []
        for started in self._read():
            if any(case.title == started.title for case in found):
                self._fail(f"a second case has the title `{started.title}`", started.line)
            found.append(started)
        if not found:
            self._fail("no case in this file; a case starts with `=== title`", 1)
        return tuple(found)

    def _read(self) -> Iterator[Case]:
        while self.number < len(self.lines):
            line = self.lines[self.number]
            self.number += 1
            if line.startswith("===") and self.case is not None:
                yield self._finished(self.case)
            self._take(line)
        if self.case is not None:
            yield self._finished(self.case)

    def _take(self, line: str) -> None:
        if not line.strip() or line.startswith("#"):
            return
        if line.startswith("==="):
            title = line.removeprefix("===").strip()
            if not title or not line.startswith("=== "):
                self._fail("a case starts with `=== title`")
            self.case = Case(self.path, self.number, title)
            return
        if self.case is None:
            self._fail(f"`{line.strip()}` stands before the first case; a case starts with `=== title`")
        if line != line.rstrip():
            self._fail("white space at the end of the line")
        if line.startswith((" ", "\t")):
            self._fail("an indented line that belongs to no block")
        self.case = self._with_line(self.case, line)

    def _with_line(self, case: Case, line: str) -> Case:
        word, colon, rest = line.partition(":")
        rest = rest.strip()
        if colon and word in WRITES:
            return self._with_write(case, word, rest)
        if case.writes:
            return self._with_effect(case, line, word, rest)
        if colon and word in BLOCKS:
            return self._with_block(case, word, rest)
        if word in (*ROW_BLOCKS, "columns") or line == NO_ROWS or line.startswith("fails "):
            return self._with_answer(case, line, word, rest)
        if line in VERDICTS or word == "error":
            return self._with_verdict(case, line)
        if line.startswith(("error ", "warning ")):
            return self._with_finding(case, line)
        if not colon or not rest:
            self._fail(f"`{line}` is no section and no expectation; see tests/corpus/README.md")
        if word == "uses":
            if case.uses is not None:
                self._fail("`uses:` is given twice")
            return replace(case, uses=rest)
        if word == "graph":
            if case.graph is not None:
                self._fail("`graph:` is given twice")
            return replace(case, graph=rest)
        if word == "help":
            if not case.findings or case.findings[-1].help is not None or case.params:
                self._fail("`help:` stands under the error or warning that it belongs to, once")
            return replace(case, findings=(*case.findings[:-1], replace(case.findings[-1], help=expand(rest))))
        if word != "params":
            known = ", ".join((*BLOCKS, *ROW_BLOCKS, *WRITES, "uses", "params", "help"))
            self._fail(f"unknown section `{word}:`; there are {known}")
        if case.reads:
            return self._open_answer(case, self._json(rest))
        return replace(case, params=(*case.params, ParamsCheck(self.number, self._json(rest))))

    def _with_block(self, case: Case, name: str, rest: str) -> Case:
        if name in case.blocks:
            self._fail(f"`{name}:` is given twice")
        return replace(case, blocks={**case.blocks, name: expand("\n".join(self._block(name, rest)) + "\n")})

    def _block(self, name: str, rest: str) -> list[str]:
        """The lines of a block, without their indentation."""
        if rest:
            self._fail(f"the text of `{name}:` stands on the next lines, indented by four spaces")
        taken: list[str] = []
        while self.number < len(self.lines):
            line = self.lines[self.number]
            if line.strip() and not line.startswith(INDENT):
                break
            self.number += 1
            taken.append(line.removeprefix(INDENT) if line.strip() else "")
        while taken and not taken[-1]:
            taken.pop()
        if not taken:
            self._fail(f"`{name}:` is empty")
        return taken

    # --- answers of reads --------------------------------------------------------------------------

    def _open_answer(self, case: Case, given: dict[str, object]) -> Case:
        if case.answers and not case.answers[-1].is_decided:
            self._fail("the parameters before these have no answer yet")
        return replace(case, answers=(*case.answers, Answer(self.number, given)))

    def _with_answer(self, case: Case, line: str, word: str, rest: str) -> Case:
        if not case.reads:
            self._fail("rows are expected of a query with `graph:` or `data:` before them")
        if not case.answers or (case.answers[-1].is_decided and not case.answers[-1].given):
            if case.answers:
                self._fail("the case already says what it expects; more answers need `params:` before each")
            case = self._open_answer(case, {})
        last = case.answers[-1]
        if last.is_decided:
            self._fail("these parameters already have an answer")
        if word == "columns":
            last = replace(last, columns=tuple(str(name) for name in self._json_list(rest)))
        elif line == NO_ROWS:
            last = replace(last, rows=(), is_ordered=True)
        elif word in ROW_BLOCKS:
            first = self.number + 1
            lines = enumerate(self._block(word, rest), first)
            rows = tuple(self._json_list(expand(row), number) for number, row in lines)
            last = replace(last, rows=rows, is_ordered=word == "ordered")
        else:
            match = _FAILURE.fullmatch(line)
            if match is None:
                self._fail("a failure is written `fails CODE: fragment of the message`")
            last = replace(last, failure=(match["code"], expand(match["fragment"])))
        return replace(case, answers=(*case.answers[:-1], last))

    # --- writes --------------------------------------------------------------------------------------

    def _with_write(self, case: Case, verb: str, rest: str) -> Case:
        if case.answers or case.verdict or case.findings or case.params:
            self._fail("a write, but the case already expects something else")
        if case.writes and not case.writes[-1].is_decided:
            self._fail("the write before this one has no expectation yet")
        line = self.number
        text = expand("\n".join(self._block(verb, rest)) + "\n")
        return replace(case, writes=(*case.writes, Write(line=line, verb=verb, text=text)))

    def _with_effect(self, case: Case, line: str, word: str, rest: str) -> Case:
        """One more expectation of the last write."""
        last = case.writes[-1]
        refusal = _REFUSAL.fullmatch(line)
        if word == "params" and last.mode is None and not last.given and not last.is_decided:
            last = replace(last, given=self._json(rest))
        elif word == ("affects" if last.mode is None else "counts") and not last.is_decided:
            last = replace(last, counts=self._json(rest))
        elif refusal is not None and not last.is_decided:
            message = "\n".join(expand(text) for text in self._block(line[:-1], ""))
            last = replace(last, refusal=(refusal["code"], message))
        elif word == "left out" and last.leaves_out and last.is_decided and not last.left_out:
            last = replace(last, left_out=tuple(expand(text) for text in self._block(word, rest)))
        elif line == HOLDS_NOTHING and last.is_decided and last.holds is None:
            last = replace(last, holds=())
        elif word == "holds" and last.is_decided and last.holds is None:
            last = replace(last, holds=tuple(self._json(expand(text)) for text in self._block(word, rest)))
        else:
            self._fail(f"`{line}` is no expectation of `{last.verb}:` here; see tests/corpus/README.md")
        return replace(case, writes=(*case.writes[:-1], last))

    def _finish_write(self, case: Case) -> None:
        names = case.blocks.keys()
        if names - {"schema", "data"}:
            self._fail("a case with writes has a graph and its writes, nothing else", case.line)
        if (case.graph is not None) + (case.uses is not None) + ("schema" in names) != 1:
            self._fail("a write needs one of `graph:`, `schema:` and `uses:`", case.line)
        if case.graph is not None and "data" in names:
            self._fail("`graph:` stands instead of a schema and `data:`", case.line)
        if not case.writes[-1].is_decided:
            self._fail("a write expects `affects:`, `counts:` or `refused CODE:`", case.writes[-1].line)

    def _json_list(self, text: str, line: int | None = None) -> list[object]:
        try:
            found = json.loads(text)
        except json.JSONDecodeError as problem:
            self._fail(f"a JSON array is expected, not `{text}`: {problem}", line)
        if not isinstance(found, list):
            self._fail(f"a JSON array is expected, not `{text}`", line)
        return found

    def _with_verdict(self, case: Case, line: str) -> Case:
        if case.params:
            last = case.params[-1]
            if line == "ok" and not last.is_decided:
                return replace(case, params=(*case.params[:-1], replace(last, is_decided=True)))
            fragment = line.removeprefix("error:").strip()
            if line.startswith("error:") and fragment and (last.fragments or not last.is_decided):
                decided = replace(last, is_decided=True, fragments=(*last.fragments, fragment))
                return replace(case, params=(*case.params[:-1], decided))
            self._fail("`params:` takes one `ok`, or `error: fragment` lines")
        if line not in VERDICTS:
            self._fail("an error is written `error CODE at LINE:COLUMN: fragment of the message`")
        if case.verdict or case.findings:
            self._fail(f"`{line}`, but the case already says what it expects")
        return replace(case, verdict=line)

    def _with_finding(self, case: Case, line: str) -> Case:
        match = _FINDING.fullmatch(line)
        if match is None:
            word = line.split(maxsplit=1)[0]
            self._fail(f"expected `{word} CODE at LINE:COLUMN: fragment` (`on …` before the colon is optional)")
        if case.verdict or case.params:
            self._fail("a finding, but the case already says what it expects")
        finding = Finding(
            severity=match["severity"],
            code=match["code"],
            line=int(match["line"]),
            column=int(match["column"]),
            marked=None if match["marked"] is None else expand(match["marked"]),
            fragment=expand(match["fragment"]),
        )
        last = case.findings[-1] if case.findings else finding
        if (finding.line, finding.column) < (last.line, last.column):
            self._fail("findings are listed in the order of their places")
        return replace(case, findings=(*case.findings, finding))

    def _json(self, text: str) -> dict[str, object]:
        try:
            given = json.loads(text)
        except json.JSONDecodeError as problem:
            self._fail(f"a JSON object on one line is expected: {problem}")
        if not isinstance(given, dict):
            self._fail("a JSON object on one line is expected")
        return given

    def _finished(self, case: Case) -> Case:
        """The case, if its sections make sense together."""
        names = case.blocks.keys()
        if names & {"old", "new"}:
            self._finish_migration(case)
            return case
        if case.writes:
            self._finish_write(case)
            return case
        if "cypher" in names:
            self._finish_cypher(case)
            return case
        if not names & {"schema", "query"}:
            self._fail("a case needs `schema:`, `query:`, `cypher:`, or `old:` and `new:`", case.line)
        if case.reads:
            self._finish_read(case)
            return case
        if "steps" in names or case.verdict == "unchanged":
            self._fail("steps are expected of `old:` and `new:`", case.line)
        if not case.verdict and not case.findings:
            self._fail("the case expects nothing: `ok`, `clean`, or errors or warnings", case.line)
        if "query" in names and not case.uses and "schema" not in names:
            self._fail("a query needs `schema:` or `uses:`", case.line)
        if case.uses and ("schema" in names or "query" not in names):
            self._fail("`uses:` stands with `query:`, instead of `schema:`", case.line)
        if case.expects_errors and (names & {"prints", "formats", "plan", "optimized"} or case.params):
            self._fail("a refused text has no golden text and takes no parameters", case.line)
        if "query" not in names and (names & {"plan", "optimized"} or case.params):
            self._fail("plans and parameters are expected of queries", case.line)
        if undecided := next((check for check in case.params if not check.is_decided), None):
            self._fail("`params:` is followed by `ok` or by `error: fragment`", undecided.line)
        return case

    def _finish_cypher(self, case: Case) -> None:
        names = case.blocks.keys()
        if case.reads:
            if not case.answers or not case.answers[-1].is_decided:
                self._fail("a statement with a graph expects `rows:`, `ordered:`, `no rows` or `fails …`", case.line)
            return
        if names - {"schema", "cypher"} or ("schema" in names) == (case.uses is not None) or case.params:
            self._fail("a statement of Cypher has `schema:` or `uses:`, and what is found about it", case.line)
        if not case.verdict and not case.findings:
            self._fail("the case expects nothing: `ok`, `clean`, or errors or warnings", case.line)

    def _finish_read(self, case: Case) -> None:
        names = case.blocks.keys()
        if names - {"schema", "query", "data"} or case.verdict or case.findings:
            self._fail("a read has a graph, `query:` and its answers, nothing else", case.line)
        if "query" not in names:
            self._fail("a graph is there to be queried: `query:` is missing", case.line)
        if (case.graph is not None) == ("data" in names):
            self._fail("`graph:` stands instead of a schema and `data:`", case.line)
        if case.graph is None and (case.uses is None) == ("schema" not in names):
            self._fail("`data:` needs `schema:` or `uses:`", case.line)
        if case.graph is not None and (case.uses or "schema" in names):
            self._fail("`graph:` has a schema of its own", case.line)
        if not case.answers or not case.answers[-1].is_decided:
            self._fail("a read expects `rows:`, `ordered:`, `no rows` or `fails …`", case.line)

    def _finish_migration(self, case: Case) -> None:
        names = case.blocks.keys()
        if not names >= {"old", "new"} or names - {"old", "new", "steps"} or case.uses or case.params:
            self._fail("a migration has `old:`, `new:`, and `steps:` or `unchanged`", case.line)
        if case.findings or case.verdict not in (None, "unchanged"):
            self._fail("a migration expects `steps:` or `unchanged`, nothing else", case.line)
        if ("steps" in names) == (case.verdict == "unchanged"):
            self._fail("a migration expects either `steps:` or `unchanged`", case.line)

    def _fail(self, problem: str, line: int | None = None) -> NoReturn:
        raise CaseFormatError(self.path, self.number if line is None else line, problem)
