"""`omnigraph policy`: the group."""

from omnigraph.cli.lazy_groups import Lazy, LazyGroup

group = LazyGroup(
    "policy",
    help="Check policies, and ask them.",
    lazy={
        "check": Lazy("omnigraph.cli.policy_check:command", "Check the policies of a directory."),
        "explain": Lazy("omnigraph.cli.policy_explain:command", "Say whether an actor may do something, and why."),
    },
)
