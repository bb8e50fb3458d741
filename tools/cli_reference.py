"""Write docs/reference/cli.md from the commands. Run by `make docs`; a test fails when the page is stale."""

from collections.abc import Iterator
from pathlib import Path

import click

from omnigraph.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_CODES, EXIT_INTERRUPTED
from omnigraph.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
WIDTH = 100

INTRODUCTION = """\
# Command line

<!-- Written by tools/cli_reference.py (`make docs`). Don't edit by hand. -->

`omnigraph COMMAND`, or `python -m omnigraph COMMAND`. This page lists all commands.

- **The graph** is the argument `URI`: a directory, or `s3://bucket/prefix`. Where it can be omitted, `--store URI` or
  the environment variable `OMNIGRAPH_STORE` name the graph; the command line wins over the variable. `commit show`
  takes the commit's id first: `omnigraph commit show ID people.omni`.
- **S3** is configured by the variables of Amazon's tools: `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
  `AWS_SESSION_TOKEN`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, `AWS_S3_FORCE_PATH_STYLE`.
- **Blobs** may be read from URIs below the locations in `OMNIGRAPH_BLOB_SOURCES`, separated by spaces
  (`file:///directory`, `s3://bucket/prefix`); by default from none.
- **Queries** may run for `OMNIGRAPH_QUERY_SECONDS` (no limit unless set) and use `OMNIGRAPH_QUERY_MEMORY_BYTES` (2 GiB
  unless set; `none` for no limit), SQL also `OMNIGRAPH_SPILL_BYTES` on disk (16 GiB unless set). Reads keep up to
  `OMNIGRAPH_CACHE_BYTES` in memory. `OMNIGRAPH_TRAVERSAL_MODE`
  (`auto`, `indexed`, `csr`) and `OMNIGRAPH_DERIVED_CACHE=false` change how a query is run, not its result; see
  [how a query is run](../explanation/query-pipeline.md).
- **Embeddings**: `OMNIGRAPH_EMBED_PROVIDER` and its variables; see [search](../how-to/search.md#vectors-from-texts).
- **Text** for people goes to stdout. Colours appear on a terminal only; `NO_COLOR` and `--color never` turn them off.
- **`--json`** prints exactly one JSON document on stdout, and nothing else goes there.
- **Errors** go to stderr, as text, or with `--json` as one document
  `{"error": {"code", "kind", "message", …facts}}`, with a `help` beside `error` where a likely mistake was
  detected; stdout is then empty. All codes are listed in [errors](errors.md).
- **Findings** about a text (`lint`, `fmt`) are a result, not an error: with `--json` all of them are in the document
  on stdout. Text shows the first 50 errors and the first 50 warnings of a file, and the number of others.
- **`-`** as a file is stdin. Schema and query files are UTF-8, at most 16 MiB.
- **Progress** of long commands is shown on a terminal only, on stderr; `--quiet` hides it.
- `OMNIGRAPH_DEBUG=1` adds the traceback to an error.

## Exit codes

| code | meaning | kinds of error |
|---|---|---|
"""

MEANINGS = {
    1: "failure: a finding that is an error, or an error without its own code",
    2: "usage: the command was called wrongly",
    3: "conflict: another writer was first",
    4: "not found: a file, graph, branch or name does not exist",
    5: "the storage or server is unavailable",
    6: "corrupt, or a format that this release does not read",
}


def page() -> str:
    """Return the text of the page."""
    return INTRODUCTION + "\n".join(_exit_codes()) + "\n" + "".join(_sections(cli, "omnigraph", None))


def _exit_codes() -> Iterator[str]:
    yield "| 0 | done | |"
    for code, meaning in MEANINGS.items():
        kinds = ", ".join(f"`{kind.value}`" for kind, number in EXIT_CODES.items() if number == code)
        yield f"| {code} | {meaning} | {kinds} |"
    yield f"| {EXIT_INTERRUPTED} | interrupted (Ctrl-C) | |"
    yield f"| {EXIT_BROKEN_PIPE} | the reader of the output closed the pipe | |"


def _sections(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    name = path.rpartition(" ")[2]
    context = click.Context(command, info_name=name, parent=parent, max_content_width=WIDTH, **command.context_settings)
    context.terminal_width = WIDTH
    command._help_option = None  # noqa: SLF001 - click caches it on first use, perhaps without these settings
    yield f"\n## `{path}`\n\n```text\n{context.get_help()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _sections(below, f"{path} {name}", context)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
