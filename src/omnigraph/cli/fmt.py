"""`omnigraph fmt`: format schema and query files."""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath

import click

from omnigraph.cli.input_files import STDIN, find_language_files, read_source
from omnigraph.cli.options import color_option, json_option, refuse
from omnigraph.cli.output_files import write_source
from omnigraph.cli.render import format_count, print_error, print_json, print_text, use_color
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json, render_text
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language
from omnigraph.lang.source import Source

_LANGUAGES = {"schema": Language.SCHEMA, "query": Language.QUERY}
_LANGUAGE_BY_SUFFIX = {".pg": Language.SCHEMA, ".gq": Language.QUERY}


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormattedFile:
    """The outcome for one file: `text` is None if the file has errors, and it is then left unchanged."""

    path: str
    source: Source
    text: str | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def status(self) -> str:
        if self.text is None:
            return "invalid"
        return "unchanged" if self.text == self.source.text else "changed"


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--check", is_flag=True, help="Write nothing; list files that would change, and exit with 1 if there are any."
)
@click.option(
    "--language", type=click.Choice(sorted(_LANGUAGES)), help="The language of files whose suffix does not show it."
)
@color_option
@json_option
def command(files: tuple[str, ...], check: bool, language: str | None, color: str, as_json: bool) -> int:
    """Format schema and query files.

    Files are replaced atomically; comments are kept. A directory means all .pg and .gq files below it. `-` reads stdin
    and prints the formatted text, and needs --language. A file with errors is left unchanged and reported on stderr.

    Exit code: 0 on success, 1 if a file has errors or, with --check, would change.
    """
    requested = _LANGUAGES.values() if language is None else [_LANGUAGES[language]]
    suffixes = [suffix for suffix, suffix_language in _LANGUAGE_BY_SUFFIX.items() if suffix_language in requested]
    paths = tuple(dict.fromkeys(path for word in files for path in find_language_files(word, suffixes)))
    # All files are checked and formatted before the first one is written.
    languages = {path: _detect_language(path, language) for path in paths}
    results = [_format_file(path, languages[path]) for path in paths]

    if not check:
        for result in results:
            if result.status == "changed" and result.path != STDIN and result.text is not None:
                write_source(result.path, result.text)
    if as_json:
        print_json(_encode_results(results))
    else:
        _print(results, check=check, color=color)
    statuses = {result.status for result in results}
    return 1 if "invalid" in statuses or (check and "changed" in statuses) else 0


def _detect_language(path: str, language_name: str | None) -> Language:
    if language_name is not None:
        return _LANGUAGES[language_name]
    language = _LANGUAGE_BY_SUFFIX.get(PurePath(path).suffix)
    if language is None:
        what = "stdin" if path == STDIN else f"`{path}`"
        refuse(f"{what} ends neither in .pg nor in .gq; name its language: --language schema or --language query")
    return language


def _format_file(path: str, language: Language) -> _FormattedFile:
    source = read_source(path)
    formatted = format_source(source, language)
    text = formatted.value if formatted.ok else None
    return _FormattedFile(path=path, source=source, text=text, diagnostics=formatted.diagnostics)


def _encode_results(results: list[_FormattedFile]) -> dict[str, object]:
    files: list[dict[str, object]] = []
    for result in results:
        entry: dict[str, object] = {"file": result.source.name, "status": result.status}
        if result.path == STDIN:
            entry["text"] = result.text
        files.append(entry)
    diagnostics = [
        diagnostic_to_json(result.source, diagnostic) for result in results for diagnostic in result.diagnostics
    ]
    return {"files": files, "diagnostics": diagnostics}


def _print(results: list[_FormattedFile], *, check: bool, color: str) -> None:
    for result in results:
        if result.diagnostics:
            print_error(render_text(result.source, result.diagnostics, color=use_color(color, sys.stderr)))
        if result.path == STDIN and not check:
            print_text(result.text or "")
        elif result.status == "changed":
            print_text(f"{'would change' if check else 'formatted'} {result.source.name}\n")
    if any(result.path == STDIN for result in results) and not check:
        return  # stdout contains the formatted text and nothing else
    counts = Counter(result.status for result in results)
    parts = [f"{counts['changed']} changed", f"{counts['unchanged']} unchanged"]
    if counts["invalid"]:
        parts.append(f"{counts['invalid']} with errors")
    print_text(f"{format_count(len(results), 'file')}: {', '.join(parts)}\n")
