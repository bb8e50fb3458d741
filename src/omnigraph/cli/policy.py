"""`omnigraph policy`: the group."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

group = LazyGroup(
    "policy",
    help="Check policies, and ask them.",
    lazy={
        "check": LazyCommand("omnigraph.cli.policy_check:command", "Check the policies of a directory."),
        "explain": LazyCommand(
            "omnigraph.cli.policy_explain:command", "Say whether an actor may do something, and why."
        ),
    },
)
