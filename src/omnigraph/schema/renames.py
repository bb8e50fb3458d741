"""Check `@rename_from`: the old name must be unused, and claimed only once."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from omnigraph.lang.source import Span
from omnigraph.schema.findings import DiagnosticCollector


@dataclass(frozen=True, slots=True)
class RenameClaim:
    """`name @rename_from("old")`, and the span of the old name."""

    name: str
    old: str
    span: Span


def check_renames(
    claims: Iterable[RenameClaim], declared: Collection[str], thing: str, findings: DiagnosticCollector
) -> None:
    """Report each claim to a name that is still in use, or that was claimed before.

    A declared name may be claimed if its declaration was renamed itself: this is how two names are swapped.
    """
    all_claims = tuple(claims)
    renamed = {claim.name for claim in all_claims if claim.old != claim.name}
    claimed_by: dict[str, str] = {}
    for claim in all_claims:
        if claim.old == claim.name:
            message = f"`{claim.name}` is renamed from itself"
            findings.add_error("S024", claim.span, message, "remove `@rename_from`")
        elif claim.old in declared and claim.old not in renamed:
            message = f"`{claim.name}` can't be renamed from `{claim.old}`: that {thing} still exists"
            findings.add_error("S024", claim.span, message, f"remove `{claim.old}`, or the `@rename_from`")
        elif (first := claimed_by.setdefault(claim.old, claim.name)) != claim.name:
            message = f"`{claim.old}` can't become both `{first}` and `{claim.name}`"
            findings.add_error("S024", claim.span, message, "keep one `@rename_from`")
