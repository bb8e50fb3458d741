"""`omnigraph policy`: check and evaluate policies."""

import click

import omnigraph
from omnigraph.cli.input_files import require_directory
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.policy import Access, Action, Actor

EXIT_DENIED = 1

group = LazyGroup(
    "policy",
    help="Check policies, and ask them.",
    lazy={
        "check": LazyCommand("omnigraph.cli.policy:check", "Check the policies of a directory."),
        "explain": LazyCommand("omnigraph.cli.policy:explain", "Say whether an actor may do something, and why."),
    },
)


@click.command("check")
@click.argument("directory")
@json_option
def check(*, directory: str, as_json: bool) -> int:
    """Check the policies of a directory.

    They must be Cedar, and speak of nothing that there is not.
    """
    names = [str(name) for name in omnigraph.CedarPolicies.load(require_directory(directory)).names.values()]
    if as_json:
        print_json({"ok": True, "policies": names})
    else:
        listed = "".join(f"  {name}\n" for name in names)
        print_text(f"{len(names)} {'policy' if len(names) == 1 else 'policies'}, all right\n{listed}")
    return 0


@click.command("explain")
@click.argument("directory")
@click.option("--actor", required=True, metavar="NAME", help="Who.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of theirs; may be repeated.")
@click.option("--action", "wanted", type=click.Choice([one.value for one in Action]), required=True, help="What.")
@click.option("--graph", required=True, metavar="ID", help="The graph's ID on the server.")
@click.option("--branch", metavar="NAME", help="The branch; without, the graph as a whole.")
@click.option("--query", "query", metavar="NAME", help="The stored query on whose behalf.")
@json_option
def explain(
    *,
    directory: str,
    actor: str,
    groups: tuple[str, ...],
    wanted: str,
    graph: str,
    branch: str | None,
    query: str | None,
    as_json: bool,
) -> int:
    """Say whether an actor may do something, and why.

    The policies of a directory are asked, and those that led to the answer are named. Exits with 1 if it may not.
    """
    who = Actor(name=actor, groups=frozenset(groups))
    access = Access(actor=who, action=Action(wanted), branch=branch, query=query)
    decision = omnigraph.CedarPolicies.load(require_directory(directory)).decide(graph, access)
    if as_json:
        print_json({"allowed": decision.is_allowed, "reasons": list(decision.reasons)})
    else:
        verdict = "allowed" if decision.is_allowed else "denied"
        print_text(f"{verdict}: {', '.join(decision.reasons) or 'no policy permits it'}\n")
    return 0 if decision.is_allowed else EXIT_DENIED
