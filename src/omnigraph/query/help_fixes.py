"""Turn the help line of a diagnostic into changes of the text that follow it.

A help line is written for people: what it quotes is what it advises to write. So each quoted text is tried at the place
of the diagnostic, and only a change after which the checks no longer find the mistake, nor another one instead, is
proposed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span

Check = Callable[[str], Sequence[Diagnostic]]
"""Returns the findings about a text."""

_QUOTED: Final = re.compile(r"`([^`]+)`")
_ADDS_INDEX: Final = re.compile(r"add `(@index\(\w+\))` to `(\w+)`")
# Each candidate is checked, and a help line quotes few.
_MAX_CANDIDATES: Final = 12


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of a text: the span gets another text."""

    title: str
    span: Span
    text: str


def find_fixes(text: str, diagnostic: Diagnostic, check: Check) -> list[Fix]:
    """Return the changes that the help line of a diagnostic advises and that mend it, likeliest first."""
    fixes: list[Fix] = []
    before = check(text)
    if diagnostic not in before:
        return []
    tried: set[tuple[Span, str]] = set()
    for fix in _iter_candidates(text, diagnostic):
        if (fix.span, fix.text) in tried or text[fix.span.start : fix.span.end] == fix.text:
            continue
        tried.add((fix.span, fix.text))
        if len(tried) > _MAX_CANDIDATES:
            break
        after = check(text[: fix.span.start] + fix.text + text[fix.span.end :])
        if _is_mended(diagnostic, before, after):
            fixes.append(fix)
            if fix.span.start < fix.span.end or not fixes[:-1]:
                # One way to follow a help line is enough; a second quoted text is mostly an example.
                break
    return fixes


def find_schema_fix(schema: str, diagnostic: Diagnostic) -> Fix | None:
    """Return the change of the schema that the help line of a diagnostic about a query advises, if it is an index."""
    advice = _ADDS_INDEX.search(diagnostic.help or "")
    if advice is None:
        return None
    constraint, name = advice.groups()
    for declaration in parse_schema(Source(schema)).tree.declarations:
        if declaration.name.text == name and declaration.members:
            last = declaration.members[-1].span
            line = schema.rfind("\n", 0, last.start) + 1
            indent = schema[line : last.start]
            place = Span(last.end, last.end)
            # Members of one line stay on it.
            separator = f"\n{indent}" if not indent.strip() else " "
            return Fix(f"Add `{constraint}` to `{name}`", place, f"{separator}{constraint}")
    return None


def _iter_candidates(text: str, diagnostic: Diagnostic) -> Iterator[Fix]:
    help_ = diagnostic.help or ""
    span = diagnostic.span
    written = text[span.start : span.end]
    quoted = [quote for quote in _QUOTED.findall(help_) if "…" not in quote]
    if help_.startswith(("add the closing", "missing")) or diagnostic.message.startswith("missing"):
        # What is missing is named by the message; an example by the help.
        quoted = [quote for quote in _QUOTED.findall(diagnostic.message)[:1] if "…" not in quote] + quoted
        for quote in quoted:
            for inserted in (quote, f" {quote}", f"{quote} ", f"\n{quote}"):
                yield Fix(f"Add `{quote}`", Span(span.end, span.end), inserted)
    if "delete it" in help_ or help_.startswith("keep one"):
        yield Fix(f"Delete `{written}`", span, "")
    for quote in quoted:
        yield Fix(f"Change to `{quote}`", span, quote)
        # The span of a name leaves out the sign that belongs to it, or the other way round.
        bare = quote.lstrip("$@")
        if bare != quote:
            yield Fix(f"Change to `{quote}`", span, bare)
            yield Fix(f"Change to `{quote}`", Span(max(span.start - 1, 0), span.end), quote)
    if "did you mean" not in help_:
        for quote in quoted:
            yield Fix(f"Add `{quote}`", Span(span.end, span.end), f" {quote}")


def _is_mended(diagnostic: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """Return whether a mistake is gone, and no other one is there instead."""
    signature = (diagnostic.code, diagnostic.message)
    count = sum((each.code, each.message) == signature for each in before)
    if sum((each.code, each.message) == signature for each in after) >= count:
        return False
    # A mended text is read further, so that mistakes are found that were hidden; those of its grammar were not.
    syntax = {"Q000", "S000"}
    if diagnostic.code in syntax:
        return _count(after, syntax) < _count(before, syntax)
    known = {(each.code, each.message) for each in before}
    return not any((each.code, each.message) not in known for each in after if each.is_error)


def _count(diagnostics: Sequence[Diagnostic], codes: set[str]) -> int:
    return sum(diagnostic.code in codes for diagnostic in diagnostics)
