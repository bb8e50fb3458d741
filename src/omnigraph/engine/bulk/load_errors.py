"""The problems of a load: all are counted, the first are reported, in the order of files and lines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.engine.bulk.row_spool import FILE, LINE, SpooledType
from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.json_struct import JsonStruct
from omnigraph.schema.values import format_value
from omnigraph.storage.columnar_sets import Column, Positions


class Problem(JsonStruct, frozen=True, kw_only=True):
    """Why a record can't be loaded; without a file, a problem of the load as a whole."""

    json_keys = "file line type property value rule message"

    rule: str
    file: str | None
    line: int | None
    unit: str
    type: str | None
    property: str | None
    value: str | None
    message: str

    def __str__(self) -> str:
        return self.message if self.file is None else f"{self.file}, {self.unit} {self.line}: {self.message}"


class ProblemGroup(JsonStruct, frozen=True, kw_only=True):
    """The number of problems of one rule, type and property."""

    json_keys = "rule type property count"

    rule: str
    type: str | None
    property: str | None
    count: int

    def __str__(self) -> str:
        subject = ".".join(part for part in (self.type, self.property) if part)
        return f"{self.count:,} × {self.rule}" + (f" {subject}" if subject else "")


class LoadError(OmnigraphError):
    """Records of a load were rejected, so nothing was written.

    `groups` count all `total` problems, `problems` are examples of each group. A record may have several.
    """

    kind = Kind.INVALID
    code = "load_refused"

    def __init__(
        self,
        problems: Sequence[Problem],
        total: int,
        quarantine: str | None = None,
        groups: Sequence[ProblemGroup] = (),
    ) -> None:
        super().__init__(tuple(problems), total, quarantine, tuple(groups))
        self.groups = tuple(groups)
        self.problems = tuple(problems)
        self.total = total
        self.quarantine = quarantine

    def facts(self) -> dict[str, object]:
        """Return each problem as a mapping, so that programs need not parse messages."""
        problems = [problem.to_json() for problem in self.problems]
        groups = [group.to_json() for group in self.groups]
        return {"groups": groups, "problems": problems, "total": self.total, "quarantine": self.quarantine}

    def __str__(self) -> str:
        examples = [str(problem) for problem in self.problems]
        # Where all problems are shown, a group that repeats none needs no count of its own.
        is_plain = len(self.groups) <= 1 or all(group.count == 1 for group in self.groups)
        is_short = is_plain and self.total <= len(examples)
        lines = [] if is_short else [str(group) for group in self.groups]
        lines += examples
        if self.total > len(examples):
            lines.append(f"and {self.total - len(examples)} more")
        noun = "problem" if self.total == 1 else "problems"
        hint = "" if self.quarantine is None else f"; the bad records and their reasons are in {self.quarantine}"
        lines.append(f"{self.total} {noun}: nothing was loaded{hint}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Rows of one type that break one rule: their positions, ascending, and the value and message of the n-th."""

    rows: Positions
    rule: str
    property: str | None
    # Functions, because a rule may reject millions of rows, and only the first messages are formatted.
    value: Callable[[int], str | None]
    message: Callable[[int], str]


def format_nth_of(column: Column) -> Callable[[int], str]:
    """Return a function that formats the n-th value of a column."""
    return lambda number: format_value(column[number].as_py(), is_typed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalProblem:
    """A problem of the load as a whole: `count` rows that stay would break a rule. Functions describe the n-th."""

    type: str
    rule: str
    property: str | None
    count: int
    value: Callable[[int], str | None]
    message: Callable[[int], str]

    def iter_problems(self) -> Iterator[Problem]:
        """Yield the problem of each row."""
        for number in range(self.count):
            yield Problem(
                rule=self.rule,
                file=None,
                line=None,
                unit="line",
                type=self.type,
                property=self.property,
                value=self.value(number),
                message=self.message(number),
            )


@dataclass(frozen=True, slots=True)
class InputNames:
    """The inputs of a load by number: their names, and the words for their lines in messages."""

    names: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(slots=True)
class Rejections:
    """All rejections by the checks of one attempt."""

    rows: list[tuple[SpooledType, RejectedRows]] = field(default_factory=list)
    global_problems: list[GlobalProblem] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The number of rejected records."""
        return sum(len(rejection.rows) for _, rejection in self.rows)

    def iter_first(
        self, inputs: InputNames, limit: int = MAX_REPORTED_PROBLEMS
    ) -> Iterator[tuple[RejectedRows, str, list[tuple[tuple[int, int], Problem]]]]:
        """Yield the first problems of each rejection by file and line, with the name of their type."""
        for spooled, rejection in self.rows:
            origins = spooled.take(rejection.rows, [FILE, LINE])
            files, lines = origins.column(0).to_numpy(), origins.column(1).to_numpy()
            first = np.lexsort((lines, files))[:limit].tolist()
            problems = [
                (
                    (int(files[index]), int(lines[index])),
                    build_problem(inputs, int(files[index]), int(lines[index]), spooled, rejection, index),
                )
                for index in first
            ]
            yield rejection, spooled.type.name, problems

    def group_by_type(self) -> Iterator[tuple[SpooledType, list[RejectedRows]]]:
        """Yield the rejections of each type together."""
        grouped: dict[str, tuple[SpooledType, list[RejectedRows]]] = {}
        for spooled, rejection in self.rows:
            grouped.setdefault(spooled.type.name, (spooled, []))[1].append(rejection)
        yield from grouped.values()


def build_problem(
    inputs: InputNames, file: int, line: int, spooled: SpooledType, rejection: RejectedRows, index: int
) -> Problem:
    """Build the problem of the row at `index` of a rejection."""
    return Problem(
        rule=rejection.rule,
        file=inputs.names[file],
        line=line,
        unit=inputs.units[file],
        type=spooled.type.name,
        property=rejection.property,
        value=rejection.value(index),
        message=rejection.message(index),
    )
