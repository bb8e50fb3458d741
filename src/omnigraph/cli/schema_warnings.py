"""What of a schema is allowed and almost certainly not meant: told also to those who don't lint."""

import sys

from omnigraph.cli.render import print_error, use_color
from omnigraph.lang.diagnostic_rendering import render_text
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.lint import find_misspelt_annotations


def warn_misspelt_annotations(source: Source) -> None:
    """Tell on stderr of annotations that mean nothing and are nearly one that does; the schema has no errors."""
    found = tuple(find_misspelt_annotations(parse_schema(source).tree))
    if found:
        print_error(render_text(source, found, color=use_color("auto", sys.stderr)))
