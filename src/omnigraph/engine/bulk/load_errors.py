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


class LoadError(OmnigraphError):
    """Records of a load were rejected, so nothing was written. `problems` are the first of `total`."""

    kind = Kind.INVALID
    code = "load_refused"

    def __init__(self, problems: Sequence[Problem], total: int, quarantine: str | None = None) -> None:
        super().__init__(tuple(problems), total, quarantine)
        self.problems = tuple(problems)
        self.total = total
        self.quarantine = quarantine

    def facts(self) -> dict[str, object]:
        """Return each problem as a mapping, so that programs need not parse messages."""
        problems = [problem.to_json() for problem in self.problems]
        return {"problems": problems, "total": self.total, "quarantine": self.quarantine}

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more")
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

    def list_first(self, inputs: InputNames, limit: int = MAX_REPORTED_PROBLEMS) -> list[Problem]:
        """Return the first problems by file and line, and after them those of the load as a whole."""
        candidates: list[tuple[int, int, int, int]] = []
        for number, (spooled, rejection) in enumerate(self.rows):
            origins = spooled.take(rejection.rows, [FILE, LINE])
            files, lines = origins.column(0).to_numpy(), origins.column(1).to_numpy()
            # Only the first `limit` of each rejection can be among the first `limit` of all.
            order = np.lexsort((lines, files))[:limit].tolist()
            candidates += [(int(files[index]), int(lines[index]), number, index) for index in order]
        problems = [self._build_problem(inputs, *candidate) for candidate in sorted(candidates)[:limit]]
        for global_problem in self.global_problems:
            for _, problem in zip(range(limit - len(problems)), global_problem.iter_problems(), strict=False):
                problems.append(problem)
        return problems

    def group_by_type(self) -> Iterator[tuple[SpooledType, list[RejectedRows]]]:
        """Yield the rejections of each type together."""
        grouped: dict[str, tuple[SpooledType, list[RejectedRows]]] = {}
        for spooled, rejection in self.rows:
            grouped.setdefault(spooled.type.name, (spooled, []))[1].append(rejection)
        yield from grouped.values()

    def _build_problem(self, inputs: InputNames, file: int, line: int, number: int, index: int) -> Problem:
        spooled, rejection = self.rows[number]
        return build_problem(inputs, file, line, spooled, rejection, index)


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
