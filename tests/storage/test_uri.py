"""Where a graph may live."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadArgumentError
from omnigraph.storage.layout import (
    build_table_path,
    format_detached_name,
    format_version_name,
    hash_fnv1a64,
    parse_version_number,
)
from omnigraph.storage.uri import parse_uri


@pytest.mark.parametrize(
    "text, uri",
    [
        ("/data/people.omni", "/data/people.omni"),
        ("file:///data/people.omni", "/data/people.omni"),
        ("file:///data/with%20space", "/data/with space"),
        ("/data/a/../b/", "/data/b"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket/deep/prefix/", "s3://bucket/deep/prefix"),
    ],
)
def test_a_place_has_one_address(text: str, uri: str) -> None:
    assert parse_uri(text).uri == uri


def test_a_relative_path_is_of_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse_uri("people.omni").uri == os.path.join(tmp_path, "people.omni")  # noqa: PTH118 - compared as text


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("http://host/graph", "server"),
        ("HTTPS://host/graph", "server"),
        ("gs://bucket/x", "not supported"),
        ("s3://bucket", "s3://bucket/prefix"),
        ("s3:///x", "s3://bucket/prefix"),
        ("s3://bucket/a/../b", "segment"),
        ("s3://bucket/a?b=c", "s3://bucket/prefix"),
        ("file://host/x", "three slashes"),
    ],
)
def test_what_is_no_place_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadArgumentError, match=reason):
        parse_uri(text)


def test_children_are_below(tmp_path: Path) -> None:
    place = parse_uri(str(tmp_path))

    assert place.join("nodes/x").uri == f"{tmp_path}/nodes/x"
    assert parse_uri("s3://b/p").join("nodes/x").uri == "s3://b/p/nodes/x"


def test_the_hash_of_a_name_is_fnv_1a() -> None:
    assert [hash_fnv1a64(text) for text in ("", "a", "foobar")] == [
        "cbf29ce484222325",
        "af63dc4c8601ec8c",
        "85944171f73967e8",
    ]


def test_a_name_used_again_gets_another_path() -> None:
    first, second = build_table_path("node", "Person"), build_table_path("node", "Person", 2)

    assert second == f"{first}-2"
    assert build_table_path("edge", "Person") != first


@given(st.text(max_size=40))
def test_a_path_never_leaves_its_directory(name: str) -> None:
    directory, file = build_table_path("node", name.encode(errors="ignore").decode()).split("/")

    assert directory == "nodes"
    assert file.isalnum()


@given(st.integers(1, 2**63))
def test_version_files_name_their_version(version: int) -> None:
    assert parse_version_number(format_version_name(version)) == version
    assert parse_version_number(format_detached_name(version)) == 0
