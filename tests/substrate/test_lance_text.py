"""How Lance's own full-text index analyses texts, beside ours: where they agree, and every way in which they don't.

Text predicates and `bm25` are answered by our own index, because of these differences. An upgrade of Lance that changes
one turns red here.
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.query import MatchQuery

from omnigraph.engine.search.tokenizer import tokenize

_PLAIN = (
    "graph graphs graphing engine engines run runs running ran quick quickly query queries table tables fast faster"
    " city cities fly flies dying skies sky news university universities general generally happiness relational"
    " conditional vietnamization operator feudalism hopefulness formality sensitivity electricity goodness revival"
    " allowance inference airliner gyroscopic adjustable defensible irritant replacement adoption communism activate"
    " knack knackeries knavish generations ties cries gas gaps kiwis hopping hoping fitted sized lying inning"
)
PLAIN = _PLAIN.split()
"""Words of ASCII that are no stop words, nor have the stem of one."""
_ACCENTED = "Ångström angstrom café cafes naïve naive Zürich zurich señor senor ＡＢＣ abc ﬁne fine"
ACCENTED = _ACCENTED.split()
"""Words whose accents have nothing to do with their stems."""


def found(texts: list[str], query: str, path: Path) -> set[int]:
    """The texts that Lance finds."""
    dataset = indexed(texts, path)
    rows = dataset.to_table(columns=["n", "_score"], full_text_query=MatchQuery(query, "text"))
    return set(rows["n"].to_pylist())


def indexed(texts: list[str], path: Path) -> LanceDataset:
    if not path.exists():
        dataset = lance.write_dataset(pa.table({"n": range(len(texts)), "text": texts}), str(path))
        dataset.create_scalar_index("text", "INVERTED", name="text_index")
    return lance.dataset(str(path))


def ours(texts: list[str], query: str) -> set[int]:
    """The texts that share a stem with the query."""
    asked = {word.stem for word in tokenize(query)}
    return {place for place, text in enumerate(texts) if asked & {word.stem for word in tokenize(text)}}


@pytest.mark.parametrize("texts", [PLAIN, ACCENTED], ids=["plain", "accented"])
def test_english_words_are_stemmed_and_folded_alike(tmp_path: Path, texts: list[str]) -> None:
    for query in texts:
        assert found(texts, query, tmp_path / "t") == ours(texts, query), query


@pytest.mark.parametrize(
    "texts, query, by_lance, by_us",
    [
        (["résumé", "resume"], "resume", {1}, {0, 1}),
        (["willing", "being"], "willing being", set(), {0, 1}),
        (["straße", "strasse"], "strasse", {1}, {0, 1}),
        (["e\u0301te\u0301", "été"], "été", {1}, {0, 1}),
        (["İstanbul", "istanbul"], "istanbul", {1}, {0, 1}),
        (["ΟΔΟΣ", "οδος"], "οδος", {1}, {0, 1}),
        (["x" * 40, "x" * 39], "x" * 40, set(), {0}),
    ],
    ids=["stem before fold", "stop words after stemming", "sharp s", "combining marks", "dotted i", "sigma", "long"],
)
def test_lance_and_we_differ_in_these_ways(
    tmp_path: Path, texts: list[str], query: str, by_lance: set[int], by_us: set[int]
) -> None:
    assert found(texts, query, tmp_path / "t") == by_lance
    assert ours(texts, query) == by_us
