"""Count verdicts over all processes of a run, and show them once."""

import json
from collections import Counter, defaultdict

import pytest

VERDICTS = "damage verdicts"
SILENT = "silent flips"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how many cases ended how, by the kind of file."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    lines: list[str] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name == VERDICTS:
                    for kind, verdicts in json.loads(value).items():
                        counts[kind].update(verdicts)
                elif name == SILENT:
                    lines.append(value)
    if not counts and not lines:
        return
    names = sorted({name for verdicts in counts.values() for name in verdicts})
    terminalreporter.section("damage: cases by kind of file and verdict")
    for kind, verdicts in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        told = "  ".join(f"{name} {verdicts[name]}" for name in names if verdicts[name])
        terminalreporter.write_line(f"{kind:44} {verdicts.total():6}  {told}")
    for line in lines:
        terminalreporter.write_line(line)
