"""Warnings about a schema that was accepted."""

import sys

from omnigraph.cli.render import print_error, use_color
from omnigraph.lang.diagnostic_rendering import render_text
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.lint import find_misspelt_annotations


def warn_misspelt_annotations(source: Source) -> None:
    """Warn on stderr of unknown annotations that resemble a known one, in a schema without errors."""
    diagnostics = tuple(find_misspelt_annotations(parse_schema(source).tree))
    if diagnostics:
        print_error(render_text(source, diagnostics, color=use_color("auto", sys.stderr)))
