"""The tables of command groups: `--help` of a group imports none of its commands."""

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup

backup = LazyGroup(
    "backup",
    help="Back graphs up, and restore them.",
    lazy={
        "create": LazyCommand("omnigraph.cli.backup:create", "Add a backup of a graph to a repository of backups."),
        "list": LazyCommand("omnigraph.cli.backup:list_", "List the backups in a repository, newest first."),
        "restore": LazyCommand("omnigraph.cli.backup:restore", "Restore a backup to an empty location."),
    },
)
branch = LazyGroup(
    "branch",
    help="Create, list, merge and delete branches.",
    lazy={
        "create": LazyCommand("omnigraph.cli.branch:create", "Create a branch from any state of another branch."),
        "delete": LazyCommand("omnigraph.cli.branch:delete", "Delete a branch and its commits."),
        "list": LazyCommand("omnigraph.cli.branch:list_", "List the branches of a graph."),
        "merge": LazyCommand(
            "omnigraph.cli.branch:merge",
            "Merge the changes of branch SOURCE into another branch.",
        ),
    },
)
commit = LazyGroup(
    "commit",
    help="Read the history of a graph.",
    lazy={
        "list": LazyCommand("omnigraph.cli.commit:list_", "List the commits of a graph, newest first."),
        "show": LazyCommand("omnigraph.cli.commit:show", "Show one commit and its changes."),
    },
)
graph = LazyGroup(
    "graph",
    help="List, create and delete the graphs of a server.",
    lazy={
        "create": LazyCommand("omnigraph.cli.graph:create", "Create an empty graph on a server."),
        "delete": LazyCommand(
            "omnigraph.cli.graph:delete", "Delete a graph that a client created on a server, with all of its data."
        ),
        "list": LazyCommand("omnigraph.cli.graph:list_", "List the graphs of a server that you may see."),
    },
)
policy = LazyGroup(
    "policy",
    help="Check and evaluate access policies.",
    lazy={
        "check": LazyCommand("omnigraph.cli.policy:check", "Check the policies in a directory."),
        "explain": LazyCommand("omnigraph.cli.policy:explain", "Show whether an actor may perform an action, and why."),
    },
)
schema = LazyGroup(
    "schema",
    help="Infer, plan, apply and show schemas.",
    lazy={
        "apply": LazyCommand(
            "omnigraph.cli.schema:apply",
            "Change a graph's schema and migrate its tables in one commit.",
        ),
        "infer": LazyCommand(
            "omnigraph.cli.schema:infer", "Infer a schema from files, and the mapping with which they load."
        ),
        "plan": LazyCommand(
            "omnigraph.cli.schema:plan",
            "Show the migration steps from one schema to another.",
        ),
        "show": LazyCommand(
            "omnigraph.cli.schema:show", "Print the schema of a graph as it was written, or a picture of it."
        ),
    },
)
spark = LazyGroup(
    "spark",
    help="Query a graph with Spark.",
    lazy={"sql": LazyCommand("omnigraph.cli.spark:sql", "Run a SQL statement on a graph with Spark.")},
)
tag = LazyGroup(
    "tag",
    help="Name states of a graph, so that cleanup keeps them.",
    lazy={
        "create": LazyCommand("omnigraph.cli.tag:create", "Tag a state: the head of a branch, a commit or a time."),
        "delete": LazyCommand("omnigraph.cli.tag:delete", "Delete a tag; cleanup may then remove its commit."),
        "list": LazyCommand("omnigraph.cli.tag:list_", "List the tags of a graph."),
    },
)
token = LazyGroup(
    "token",
    help="Create tokens for a server.",
    lazy={"new": LazyCommand("omnigraph.cli.token:new", "Create a token for an actor.")},
)
