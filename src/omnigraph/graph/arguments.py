"""Texts and places that callers hand in: what they are, or an error that says what was meant."""

import os
from collections.abc import Mapping

from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.schema.values import format_value


def build_query_source(given: object) -> Source:
    """The text of queries; BadArgumentError for anything but a text, and for the name of a file."""
    return _build_source(given, "source", "query.gq", "queries")


def build_schema_source(given: object) -> Source:
    """The text of a schema; BadArgumentError for anything but a text, and for the name of a file."""
    return _build_source(given, "schema", "schema.pg", "a schema")


def check_parameters(given: object) -> Mapping[str, object]:
    """The parameters of a query by their names; BadArgumentError for anything but a mapping."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadArgumentError(
            "params", _describe_type(given), 'it is a mapping from names to values, such as {"name": "Ada"}'
        )
    for name in given:
        if not isinstance(name, str):
            raise BadArgumentError("params", f"{{{name!r}: …}}", 'names are text, as the query has them: {"n": 1}')
    return given


def check_uri(given: object, argument: str = "uri") -> str:
    """An address as text, also of a path object; BadArgumentError for anything else."""
    if isinstance(given, str):
        return given
    if isinstance(given, os.PathLike) and isinstance(path := os.fspath(given), str):
        return path
    raise BadArgumentError(argument, _describe_type(given), "it is a path, `file://…` or `s3://bucket/prefix`")


def _build_source(given: object, argument: str, name: str, what: str) -> Source:
    if isinstance(given, Source):
        return given
    if not isinstance(given, str):
        raise BadArgumentError(
            argument, _describe_type(given), f"it is the text of {what}, such as Path(…).read_text()"
        )
    if given.endswith(name[name.index(".") :]) and not any(mark in given for mark in "{}\n"):
        way_out = f"that is the name of a file: give what it holds, Path({given!r}).read_text()"
        raise BadArgumentError(argument, format_value(given), way_out)
    return Source(given, name)


def _describe_type(given: object) -> str:
    return "None" if given is None else f"of type {type(given).__name__}"
