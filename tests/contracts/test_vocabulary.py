"""The source speaks the field's own words, and each change leaves fewer odd ones: a ratchet.

`vocabulary.json` holds how many places each measure of tools/vocabulary.py counts, by room. A count that rose fails,
and one that fell fails too until the file is lowered, so that it never rises again.
"""

from pathlib import Path

import pytest

import vocabulary
from vocabulary import BESIDE, COMMENTS, Survey, survey
from vocabulary_words import is_participle

LOWER = "run `python tools/vocabulary.py --lower`, or after merging other work `--renew`"
WHERE = "`python tools/vocabulary.py --list NAME` shows every place"


@pytest.fixture(scope="module")
def now() -> Survey:
    return survey()


def test_no_count_has_risen(now: Survey) -> None:
    worse, _ = vocabulary.compare(vocabulary.read_numbers(), now.numbers)

    assert worse == [], WHERE


def test_what_got_better_is_stored(now: Survey) -> None:
    _, better = vocabulary.compare(vocabulary.read_numbers(), now.numbers)

    assert better == [], LOWER


MAX_PARTICIPLE_SHARE = 0.01
"""Of all functions: a few names are public, or those of another library's interface."""
MIN_COMMENTS = 4.0
"""Comments per 100 lines of code, over the whole package."""
# The only names with a forbidden word: callbacks whose names another library gives.
FOREIGN_NAMES = {"connection_made"}
AT_ZERO = (
    BESIDE,
    "D401",
    "docstrings with error first",
    "docstrings without verb",
    "distant locals",
    "most and least",
    "nested conditionals",
    "parallel assignments",
    *(name for name in vocabulary.OF_A_MODULE if name.startswith("phrase in source")),
    "shared class names",
)


@pytest.mark.parametrize("name", AT_ZERO)
def test_a_measure_has_reached_zero(name: str, now: Survey) -> None:
    assert [str(place) for place in now.places[name]] == []


def test_forbidden_words_name_nothing_of_ours(now: Survey) -> None:
    assert {place.what for place in now.places["forbidden names"]} <= FOREIGN_NAMES


def test_hardly_any_function_is_named_by_a_participle(now: Survey) -> None:
    assert len(now.places["participle names"]) < MAX_PARTICIPLE_SHARE * now.functions


def test_code_is_commented(now: Survey) -> None:
    assert 100 * now.comments.total() / now.code.total() >= MIN_COMMENTS


PLANTED = {
    "participle names": "def opened_graph() -> None:\n    pass\n",
    "forbidden names": "class KeptPlans:\n    pass\n",
    "distant locals": "def f(x):\n    found = x\n    a = 1\n    b = 2\n    c = 3\n    return found, a, b, c\n",
    "most and least": "MOST_ROWS = 3\n",
    "parallel assignments": "class A:\n    def f(self):\n        self.a, self.b, self.c = 1, 2, 3\n",
    "nested conditionals": "def f(x):\n    return 1 if x else 2 if x > 1 else 3\n",
    "docstrings without verb": 'def f(x):\n    """Whether it is there."""\n',
    "docstrings with error first": 'def f(x):\n    """TooSlowError when it was collected."""\n',
    "phrase in source: is told": "HELP = 'the caller is told of it'\n",
    "phrase in source: somebody, nobody": "HELP = 'nobody sees it'\n",
    "phrase in source: whoever": "HELP = 'Whoever asks'\n",
    "phrase in source: behind": "HELP = f'the row behind {1}'\n",
    "phrase in source: the most": "HELP = '10 rows, the most of a page'\n",
    "D401": 'def f(x):\n    """Returns rows."""\n',
    "shared class names": "class Place:\n    pass\n\n\nclass B:\n    class Place:\n        pass\n",
}
FINE = {
    "participle names": [
        "def embed_rows() -> None: ...\ndef is_opened(): ...\ndef feed(): ...\ndef check_cancelled(): ...\n",
        "class A:\n    @property\n    def opened(self) -> bool: ...\n",
    ],
    "forbidden names": ["class Phone:\n    def is_kept(self): ...\n    @property\n    def found(self): ...\n"],
    "distant locals": [
        "def f(x):\n    found = x\n    a = 1\n    return found, a\n",
        "def f(x):\n    found = x\n    use(found)\n    a = 1\n    b = 2\n    found = a\n    return found, b\n",
        "def f(x):\n    one = x[0](one)\n    a = 1\n    b = 2\n    c = 3\n    return [one for one in (a, b, c)]\n",
    ],
    "most and least": ["MAX_ROWS = 3\nALMOST = 4\n"],
    "parallel assignments": [
        "class A:\n    def f(self, p):\n        self.a, self.b = 1, 2\n        x, y, z = 1, 2, 3\n"
    ],
    "nested conditionals": ["def f(x):\n    return (1 if x else 2) + (3 if x else 4)\n"],
    "docstrings without verb": [
        'def f(x):\n    """Return whether it is there."""\n',
        'class A:\n    @property\n    def is_there(self):\n        """Whether it is there."""\n',
    ],
    "docstrings with error first": [
        'def f(x):\n    """Check it.\n\n    Raises:\n        TooSlowError: It was slow.\n    """\n'
    ],
    "phrase in source: the most": ["HELP = 'the most recent commit'\n"],
    "phrase in source: behind": ["# behind\nbehind = 3\n"],
}


def measure_text(directory: Path, text: str, name: str = "ops/a.py") -> Survey:
    source = directory / "src"
    path = source / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return survey(directory, source)


def test_every_measure_is_planted() -> None:
    of_pages = {name for name in vocabulary.read_numbers() if name.startswith("phrase in pages")}

    assert vocabulary.read_numbers().keys() == PLANTED.keys() | of_pages | {COMMENTS, BESIDE}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_counted(name: str, tmp_path: Path) -> None:
    found = measure_text(tmp_path, PLANTED[name])

    assert len(found.places[name]) == 1
    assert vocabulary.compare({}, {name: found.numbers[name]})[0] != []


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in FINE.items() for text in texts])
def test_what_is_fine_is_not_counted(name: str, text: str, tmp_path: Path) -> None:
    assert measure_text(tmp_path, text).places[name] == []


def test_a_module_may_not_be_called_by_a_forbidden_word(tmp_path: Path) -> None:
    found = measure_text(tmp_path, "", "engine/kept_groups.py")

    assert [str(place) for place in found.places["forbidden names"]] == ["engine/kept_groups.py:1: kept_groups"]


def test_a_node_of_the_syntax_tree_and_its_bound_form_may_share_a_name_but_no_third_class(tmp_path: Path) -> None:
    measure_text(tmp_path, "class Compare: ...\n", "lang/query_ast.py")
    pair = measure_text(tmp_path, "class Compare: ...\n", "query/expr.py")
    three = measure_text(tmp_path, "class Compare: ...\n", "ops/diff.py")

    assert pair.places["shared class names"] == []
    assert len(three.places["shared class names"]) == 1


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/load.md"])
def test_pages_are_read_too_but_not_those_that_are_written_from_the_source(page: str, tmp_path: Path) -> None:
    for path in (tmp_path / page, tmp_path / "docs/reference/cli.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Whoever asks is told.\n", encoding="utf-8")

    found = measure_text(tmp_path, "")

    assert [place.path for place in found.places["phrase in pages: is told"]] == [page]


def test_scripts_beside_the_package_are_held_to_d401(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "loads.py").write_text(PLANTED["D401"], encoding="utf-8")

    found = measure_text(tmp_path, PLANTED["D401"])

    assert [place.path for place in found.places[BESIDE]] == ["bench/loads.py"]


def test_comments_are_prose_beside_code(tmp_path: Path) -> None:
    text = '"""A docstring."""\n\n# Measured: 3 ms.\nA = 3\nB = 4  # noqa: X1\nC = 5  # ---\nD = 6  # noqa: X1 - why\n'

    found = measure_text(tmp_path, text)

    assert (found.comments["ops"], found.code["ops"]) == (2, 4)
    assert found.numbers[COMMENTS] == {"ops": 50.0}


@pytest.mark.parametrize(
    "stored, now, expected",
    [
        ({"D401": {"ops": 3}}, {"D401": {"ops": 4}}, (1, 0)),
        ({"D401": {"ops": 3}}, {"D401": {"ops": 2}}, (0, 1)),
        ({"D401": {"ops": 3}}, {"D401": {}}, (0, 1)),
        ({"D401": {"ops": 3}}, {"D401": {"ops": 2, "cli": 1}}, (1, 1)),
        ({"D401": {"ops": 3}}, {"D401": {"ops": 3}}, (0, 0)),
        ({COMMENTS: {"ops": 1.0}}, {COMMENTS: {"ops": 0.7}}, (1, 0)),
        ({COMMENTS: {"ops": 1.0}}, {COMMENTS: {"ops": 0.9}}, (0, 0)),
        ({COMMENTS: {"ops": 1.0}}, {COMMENTS: {"ops": 1.3}}, (0, 1)),
        ({COMMENTS: {"ops": 1.0}}, {COMMENTS: {}}, (0, 1)),
    ],
)
def test_worse_and_better_are_told_apart(
    stored: vocabulary.Numbers, now: vocabulary.Numbers, expected: tuple[int, int]
) -> None:
    worse, better = vocabulary.compare(stored, now)

    assert (len(worse), len(better)) == expected


@pytest.mark.parametrize("word", ["told", "opened", "chosen", "rewritten", "led"])
def test_participles_are_known(word: str) -> None:
    assert is_participle(word)


@pytest.mark.parametrize("word", ["embed", "need", "feed", "read", "open", "bed", "bound"])
def test_words_that_only_look_like_participles_are_not(word: str) -> None:
    assert not is_participle(word)
