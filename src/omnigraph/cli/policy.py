"""`omnigraph policy`: check and evaluate policies."""

import click

import omnigraph
from omnigraph.cli.input_files import require_directory
from omnigraph.cli.options import json_option
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.policy import Access, Action, Actor

# A denial is a result of `explain`, but scripts need to see it in the exit code.
EXIT_DENIED = 1


@click.command("check")
@click.argument("directory")
@json_option
def check(*, directory: str, as_json: bool) -> int:
    """Check the policies in a directory.

    They must be valid Cedar, and use only entities, actions and attributes that exist.
    """
    names = [str(name) for name in omnigraph.CedarPolicies.load(require_directory(directory)).names.values()]
    if as_json:
        print_json({"ok": True, "policies": names})
    else:
        listed = "".join(f"  {name}\n" for name in names)
        print_text(f"{format_count(len(names), 'policy', 'policies')}, all valid\n{listed}")
    return 0


@click.command("explain")
@click.argument("directory")
@click.option("--actor", required=True, metavar="NAME", help="The actor.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the actor; may be repeated.")
@click.option("--action", type=click.Choice([item.value for item in Action]), required=True, help="The action.")
@click.option("--graph", required=True, metavar="ID", help="The graph's ID on the server.")
@click.option("--branch", metavar="NAME", help="The branch; by default the graph as a whole.")
@click.option("--query", metavar="NAME", help="The stored query that performs the action.")
@json_option
def explain(
    *,
    directory: str,
    actor: str,
    groups: tuple[str, ...],
    action: str,
    graph: str,
    branch: str | None,
    query: str | None,
    as_json: bool,
) -> int:
    """Show whether an actor may perform an action, and why.

    Evaluates the policies in a directory and names those that decided.

    Exit code: 0 if the action is allowed, 1 if it is denied.
    """
    access = Access(
        actor=Actor(name=actor, groups=frozenset(groups)), action=Action(action), branch=branch, query=query
    )
    decision = omnigraph.CedarPolicies.load(require_directory(directory)).decide(graph, access)
    if as_json:
        print_json({"allowed": decision.is_allowed, "reasons": list(decision.reasons)})
    else:
        verdict = "allowed" if decision.is_allowed else "denied"
        print_text(f"{verdict}: {', '.join(decision.reasons) or 'no policy permits it'}\n")
    return 0 if decision.is_allowed else EXIT_DENIED
