"""Violations found by checks of stored rows: the rules, how often each is violated, and the first examples."""

from collections.abc import Iterable
from dataclasses import dataclass, field

# Examples per rule; further violations are only counted.
MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleViolation:
    """A rule that rows of one type violate: the number of violations, and descriptions of the first ones."""

    rule: str
    type_name: str
    count: int
    examples: tuple[str, ...]


@dataclass(slots=True)
class ViolationCounter:
    """Counts the violations of each rule of a type, and keeps the first examples."""

    type_name: str
    _counts: dict[str, int] = field(default_factory=dict)
    _examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, rule: str, count: int, examples: Iterable[str]) -> None:
        """Add `count` violations of a rule; `examples` is consumed only as far as examples are kept."""
        if not count:
            return
        self._counts[rule] = self._counts.get(rule, 0) + count
        rule_examples = self._examples.setdefault(rule, [])
        for example in examples:
            if len(rule_examples) == MAX_EXAMPLES:
                break
            rule_examples.append(example)

    def list_violations(self) -> list[RuleViolation]:
        """Return every violated rule, in the order of the first violations."""
        return [
            RuleViolation(rule=rule, type_name=self.type_name, count=count, examples=tuple(self._examples[rule]))
            for rule, count in self._counts.items()
        ]
