"""Which names branches may have."""

import pytest

from omnigraph.commit.branch_errors import BranchExistsError
from omnigraph.commit.ref_names import check_branch_name, check_name_free
from omnigraph.errors import BadArgumentError


@pytest.mark.parametrize("name", ["a", "review/x", "a.b-c_d/E9/0", "-x", "main2", "Main", "x" * 128, "a__b", "a/__b"])
def test_a_name_is_of_letters_digits_and_three_signs_in_parts(name: str) -> None:
    check_branch_name(name)


@pytest.mark.parametrize(
    "name, reason",
    [
        ("", "it is empty"),
        ("x" * 129, "129 characters"),
        ("main", "every graph has `main`"),
        ("__x", "are reserved"),
        ("__x/y", "are reserved"),
        ("/a", "is empty"),
        ("a/", "is empty"),
        ("a//b", "is empty"),
        ("a/../b", r"must not be `\.\.`"),
        (".", r"must not be `\.`"),
        ("a b", "letters"),
        ("a\n", "letters"),
        ("é", "letters"),
        ("a\\b", "letters"),
        ("a\x00", "letters"),
    ],
)
def test_any_other_name_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(BadArgumentError, match=reason):
        check_branch_name(name)


@pytest.mark.parametrize("taken", ["a/b", "a/b/c", "a", "a/b/c/d"])
def test_no_name_is_the_path_of_another(taken: str) -> None:
    with pytest.raises(BranchExistsError) as clash:
        check_name_free("a/b", ["x", taken])

    assert clash.value.existing == taken


def test_names_that_only_begin_alike_are_free() -> None:
    check_name_free("a/b", ["a/bc", "ab", "a/c", "A/b"])


def test_nothing_lies_below_main() -> None:
    with pytest.raises(BranchExistsError, match="next to the branch `main`"):
        check_name_free("main/x", [])
