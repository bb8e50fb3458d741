"""`@rename_from`: a name that is given up, claimed by exactly one."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from omnigraph.lang.source import Span
from omnigraph.schema.findings import DiagnosticCollector


@dataclass(frozen=True, slots=True)
class RenameClaim:
    """`name @rename_from("old")`, and the place of the old name."""

    name: str
    old: str
    span: Span


def check_renames(
    claims: Iterable[RenameClaim], declared: Collection[str], thing: str, findings: DiagnosticCollector
) -> None:
    """Report claims to a name that is still in use, or that somebody claimed before.

    A name in use is free all the same when its holder was itself renamed: that is how two names are swapped.
    """
    everyone = tuple(claims)
    moved = {claim.name for claim in everyone if claim.old != claim.name}
    claimed_by: dict[str, str] = {}
    for claim in everyone:
        if claim.old == claim.name:
            message = f"`{claim.name}` is renamed from itself"
            findings.add_error("S024", claim.span, message, "remove `@rename_from`")
        elif claim.old in declared and claim.old not in moved:
            message = f"`{claim.name}` can't be renamed from `{claim.old}`: that {thing} still exists"
            findings.add_error("S024", claim.span, message, f"remove `{claim.old}`, or the `@rename_from`")
        elif (first := claimed_by.setdefault(claim.old, claim.name)) != claim.name:
            message = f"`{claim.old}` can't become both `{first}` and `{claim.name}`"
            findings.add_error("S024", claim.span, message, "keep one `@rename_from`")
