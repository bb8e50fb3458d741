"""What is wrong with the records of a load: counted in full, told in part, in the order of files and lines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.engine.bulk.row_spool import FILE, LINE, SpooledType
from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.columnar_sets import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why one record can't be loaded. Without a file it is not one record's fault, but that of the load as a whole."""

    rule: str
    file: str | None
    line: int | None
    unit: str
    type: str | None
    property: str | None
    value: str | None
    message: str

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "file": self.file,
            "line": self.line,
            "type": self.type,
            "property": self.property,
            "value": self.value,
            "rule": self.rule,
            "message": self.message,
        }

    def __str__(self) -> str:
        return self.message if self.file is None else f"{self.file}, {self.unit} {self.line}: {self.message}"


class LoadError(OmnigraphError):
    """Records of a load can't be taken, so nothing was written. `problems` are the first of `total`."""

    kind = Kind.INVALID
    code = "load_refused"

    def __init__(self, problems: Sequence[Problem], total: int, quarantine: str | None = None) -> None:
        super().__init__(tuple(problems), total, quarantine)
        self.problems, self.total, self.quarantine = tuple(problems), total, quarantine

    def facts(self) -> dict[str, object]:
        """Every problem as a mapping, so that a program needs no parsing of messages."""
        found = [problem.to_json() for problem in self.problems]
        return {"problems": found, "total": self.total, "quarantine": self.quarantine}

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more")
        noun = "problem" if self.total == 1 else "problems"
        kept = "" if self.quarantine is None else f"; the bad records and their reasons are in {self.quarantine}"
        lines.append(f"{self.total} {noun}: nothing was loaded{kept}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """Rows of one type that break one rule: their positions, ascending, and what to say of the n-th of them."""

    rows: Positions
    rule: str
    property: str | None
    value: Callable[[int], str | None]
    message: Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalProblem:
    """What is wrong with the load as a whole: rows that stay would break a rule. Said of the n-th of `count`."""

    type: str
    rule: str
    property: str | None
    count: int
    value: Callable[[int], str | None]
    message: Callable[[int], str]

    def iter_problems(self) -> Iterator[Problem]:
        """Every one of them."""
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
    """The inputs of a load by number: their names, and what their lines are called."""

    names: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(slots=True)
class Rejections:
    """Everything that the checks of one attempt refuse."""

    rows: list[tuple[SpooledType, RejectedRows]] = field(default_factory=list)
    global_problems: list[GlobalProblem] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records are refused."""
        return sum(len(refusal.rows) for _, refusal in self.rows)

    def list_first(self, inputs: InputNames, limit: int = MAX_REPORTED_PROBLEMS) -> list[Problem]:
        """The first problems by file and line, and behind them those of the load as a whole."""
        found: list[tuple[int, int, int, int]] = []
        for number, (spooled, refusal) in enumerate(self.rows):
            places = spooled.take(refusal.rows, [FILE, LINE])
            files, lines = places.column(0).to_numpy(), places.column(1).to_numpy()
            order = np.lexsort((lines, files))[:limit].tolist()
            found += [(int(files[at]), int(lines[at]), number, at) for at in order]
        problems = [self._build_problem(inputs, *one) for one in sorted(found)[:limit]]
        for unplaced in self.global_problems:
            for _, problem in zip(range(limit - len(problems)), unplaced.iter_problems(), strict=False):
                problems.append(problem)
        return problems

    def group_by_type(self) -> Iterator[tuple[SpooledType, list[RejectedRows]]]:
        """The refusals of each type together."""
        grouped: dict[str, tuple[SpooledType, list[RejectedRows]]] = {}
        for spooled, refusal in self.rows:
            grouped.setdefault(spooled.type.name, (spooled, []))[1].append(refusal)
        yield from grouped.values()

    def _build_problem(self, inputs: InputNames, file: int, line: int, number: int, at: int) -> Problem:
        spooled, refusal = self.rows[number]
        return build_problem(inputs, file, line, spooled, refusal, at)


def build_problem(
    inputs: InputNames, file: int, line: int, spooled: SpooledType, refusal: RejectedRows, at: int
) -> Problem:
    """The n-th row of a refusal, told."""
    return Problem(
        rule=refusal.rule,
        file=inputs.names[file],
        line=line,
        unit=inputs.units[file],
        type=spooled.type.name,
        property=refusal.property,
        value=refusal.value(at),
        message=refusal.message(at),
    )
