"""The examples in the help of each command, by its words joined with `_`. A test parses all of them."""

# fmt: off
EXAMPLES: dict[str, tuple[str, ...]] = {
    "algorithm": (
        "omnigraph algorithm pagerank people.omni --edge Knows --format csv",
        "omnigraph algorithm shortest_paths people.omni --edge Knows --param start=Ada --param weight=weight",
    ),
    "backup_create": ("omnigraph backup create people.omni s3://backups/people --keep 30",),
    "backup_list": ("omnigraph backup list s3://backups/people",),
    "backup_restore": ("omnigraph backup restore s3://backups/people restored.omni",),
    "branch_create": (
        "omnigraph branch create review/ages people.omni",
        "omnigraph branch create before-the-load people.omni --at 2026-01-31T12:00:00Z",
    ),
    "branch_delete": ("omnigraph branch delete review/ages people.omni",),
    "branch_list": ("omnigraph branch list people.omni --json",),
    "branch_merge": (
        "omnigraph branch merge review/ages people.omni --dry-run",
        "omnigraph branch merge review/ages people.omni --strategy theirs --as ada",
    ),
    "changes": (
        "omnigraph changes people.omni --since 01KE0000000000000000000002 --type Person",
        "omnigraph changes people.omni --follow --format jsonl",
    ),
    "check": ("omnigraph check people.omni", "omnigraph check people.omni --quick --branch main"),
    "cherry-pick": ("omnigraph cherry-pick 01KE0000000000000000000003 people.omni --branch review/ages",),
    "cleanup": (
        "omnigraph cleanup people.omni --keep 10",
        "omnigraph cleanup people.omni --older-than 7d --confirm",
    ),
    "clone": ("omnigraph clone people.omni s3://backups/people",),
    "commit_list": ("omnigraph commit list people.omni --filter actor=ada --limit 20",),
    "commit_show": ("omnigraph commit show 01KE0000000000000000000002 people.omni --stat",),
    "completion": (
        "omnigraph completion bash > ~/.local/share/bash-completion/completions/omnigraph",
        "omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish",
    ),
    "config": ("omnigraph config",),
    "demo": ("omnigraph demo --small", "omnigraph demo tour --engine local"),
    "diff": (
        "omnigraph diff main review/ages people.omni",
        "omnigraph diff 01KE0000000000000000000002 main people.omni --type Person --format jsonl",
    ),
    "embed": ("OMNIGRAPH_EMBED_PROVIDER=hash omnigraph embed people.omni --type Person --batch 1000",),
    "examples": ("omnigraph examples", "omnigraph examples people"),
    "explain": (
        "omnigraph explain friends people.omni --query people.gq --param name=Ada --analyze",
        "omnigraph explain friends --query people.gq --schema people.pg",
    ),
    "explore": ("omnigraph explore people.omni", "omnigraph explore people.omni --read-only --no-browser"),
    "export": (
        "omnigraph export people.omni --type Person > people.jsonl",
        "omnigraph export people.omni --format parquet --output backup --at 2026-01-31T12:00:00Z",
    ),
    "fmt": ("omnigraph fmt people.pg people.gq", "omnigraph fmt --check people.gq"),
    "graph_create": ("omnigraph graph create people --schema people.pg --server https://graphs.example",),
    "graph_delete": ("omnigraph graph delete people --server https://graphs.example --yes",),
    "graph_list": ("omnigraph graph list --server https://graphs.example --json",),
    "history": ("omnigraph history Person Ada people.omni --limit 5",),
    "indexes": ("omnigraph indexes people.omni",),
    "init": ("omnigraph init people.omni --schema people.pg --as ada",),
    "lint": ("omnigraph lint --schema people.pg --query people.gq", "omnigraph lint --query people.gq people.omni"),
    "load": (
        "omnigraph load people.omni --mode append --data people.jsonl --as ada",
        "omnigraph load people.omni --mode merge --node Person=people.csv --map Person.name=full_name",
        "omnigraph load people.omni --mode append --edge 'Knows=knows/*.parquet' --engine spark --on-error rejected",
    ),
    "login": ("omnigraph login https://graphs.example", "omnigraph login http://localhost:8080 --no-token"),
    "logout": ("omnigraph logout https://graphs.example",),
    "lsp": ("omnigraph lsp", "omnigraph lsp people.omni --branch review/ages"),
    "mcp": ("omnigraph mcp people.omni",),
    "mutate": (
        "omnigraph mutate birthday people.omni --query people.gq --param name=Ada --param age=37 --as ada",
        "omnigraph mutate people.omni -e 'query q() { delete Person where name = \"Ada\" }'",
    ),
    "optimize": ("omnigraph optimize people.omni", "omnigraph optimize people.omni --auto --every 300 --budget 5"),
    "policy_check": ("omnigraph policy check policies",),
    "policy_explain": (
        "omnigraph policy explain policies --actor ada --group team --action change --graph people --branch main",
    ),
    "query": (
        "omnigraph query friends people.omni --query people.gq --param name=Ada",
        "omnigraph query people.omni -e 'query q() { match { $p: Person } return { $p.name } }' --format csv",
        "omnigraph query friends people.omni --query people.gq --params '{\"name\": \"Ada\"}' --snapshot v1",
        "omnigraph query friends --server https://graphs.example --graph people --query people.gq --param name=Ada",
    ),
    "repair": ("omnigraph repair people.omni", "omnigraph repair people.omni --confirm --as ada"),
    "reset": ("omnigraph reset main people.omni --to main@2026-01-31T12:00:00Z --dry-run",),
    "revert": (
        "omnigraph revert 01KE0000000000000000000003 people.omni --dry-run",
        "omnigraph revert 01KE0000000000000000000003 people.omni --strategy theirs --as ada",
    ),
    "schema_apply": ("omnigraph schema apply people.omni --schema next.pg --as ada",),
    "schema_infer": ("omnigraph schema infer people.csv knows.csv --edge Knows=knows.csv -o people.pg",),
    "schema_plan": (
        "omnigraph schema plan people.omni --schema next.pg",
        "omnigraph schema plan --from people.pg --schema next.pg",
    ),
    "schema_show": ("omnigraph schema show people.omni --at 2026-01-31T12:00:00Z",),
    "serve": (
        "omnigraph serve --config omnigraph.toml --check",
        "omnigraph serve people=people.omni --bind 127.0.0.1:8080 --unauthenticated",
    ),
    "recoveries": ("omnigraph recoveries people.omni", "omnigraph recoveries people.omni --limit 5 --json"),
    "shell": (
        "omnigraph shell people.omni",
        "omnigraph shell --server https://graphs.example --graph people --branch review/x",
    ),
    "show": (
        "omnigraph show people.omni",
        "omnigraph show people.omni Person",
        "omnigraph show people.omni Person Ada --at 2026-01-31T12:00:00Z",
    ),
    "snapshot": ("omnigraph snapshot people.omni --json",),
    "spark_sql": ("omnigraph spark sql 'select role, count(*) from Person group by role' people.omni",),
    "sql": (
        "omnigraph sql people.omni 'select role, count(*) as people from Person group by role'",
        "omnigraph sql people.omni 'select name from Person where name = $name' --param name=Ada --format csv",
    ),
    "tag_create": ("omnigraph tag create v1 main people.omni --as ada",),
    "tag_delete": ("omnigraph tag delete v1 people.omni",),
    "tag_list": ("omnigraph tag list people.omni",),
    "token_new": ("omnigraph token new ada --group team --expires 2036-01-01T00:00:00Z > ada.txt",),
    "verify": (
        "omnigraph verify people.omni",
        "omnigraph verify people.omni --digest 5ceZDjit9S4fkywzPxMCeDJhBqWPS7C4jGmNgNDJqoc",
    ),
    "version": ("omnigraph version --json",),
}
# fmt: on


def format_examples(target: str) -> str | None:
    """Return the examples of the command at `package.module:function` as the end of its help, or None.

    The function of a command that is no subcommand is called `command`, and its key is the module alone; of several in
    one module each is called like its command.
    """
    module, _, function = target.rpartition(".")[2].partition(":")
    # `list_` is the function of `list`, which would hide the built-in.
    key = module if function == "command" else f"{module}_{function.removesuffix('_')}"
    lines = EXAMPLES.get(key) or EXAMPLES.get(function.replace("_", "-"))
    if not lines:
        return None
    title = "Example:" if len(lines) == 1 else "Examples:"
    # click keeps the line breaks of a paragraph that starts with \b.
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])
