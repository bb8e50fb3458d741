"""What checks of stored rows find: rules that are broken, how often, and the first rows that do."""

from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleViolation:
    """A rule that rows of one type break: how many times, and what is said of the first."""

    rule: str
    type_name: str
    count: int
    examples: tuple[str, ...]


@dataclass(slots=True)
class ViolationCounter:
    """Counts what breaks each rule of a type."""

    type_name: str
    _counts: dict[str, int] = field(default_factory=dict)
    _examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, rule: str, count: int, examples: Iterable[str]) -> None:
        """So many more, of which some are described; no more of the descriptions are taken than are kept."""
        if not count:
            return
        self._counts[rule] = self._counts.get(rule, 0) + count
        kept = self._examples.setdefault(rule, [])
        for example in examples:
            if len(kept) == MAX_EXAMPLES:
                break
            kept.append(example)

    def list_violations(self) -> list[RuleViolation]:
        """Every rule that is broken, in the order in which that was found out."""
        return [
            RuleViolation(rule=rule, type_name=self.type_name, count=count, examples=tuple(self._examples[rule]))
            for rule, count in self._counts.items()
        ]
