"""Turn texts into capital and small letters by Unicode's full mappings, the same in every locale and engine."""

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

# Unicode's letters whose capital form is several letters (`ß`, `ﬁ`, `ΐ`) lie between these two.
_FIRST_EXPANDING = 0xDF
_LAST_EXPANDING = 0xFB17
# The only letter whose small form is two code points, whatever stands beside it.
_DOTTED_CAPITAL_I = "\u0130"
_DOTTED_SMALL_I = "i\u0307"


def upper_texts(texts: pa.Array) -> pa.Array:
    """Return the texts in capital letters: `straße` becomes `STRASSE`."""
    if pc.all(pc.string_is_ascii(texts)).as_py():
        return pc.ascii_upper(texts)
    # Arrow maps one code point to one; the letters that become several are replaced before.
    has_expanding = pc.match_substring_regex(texts, pattern=f"[{''.join(_expanding_letters())}]")
    for letter in sorted(_expanding_letters() & set("".join(texts.filter(has_expanding).to_pylist()))):
        texts = pc.replace_substring(texts, pattern=letter, replacement=letter.upper())
    return pc.utf8_upper(texts)


def lower_texts(texts: pa.Array) -> pa.Array:
    """Return the texts in small letters, each by itself: `Σ` is `σ` at the end of a word too."""
    if pc.all(pc.string_is_ascii(texts)).as_py():
        return pc.ascii_lower(texts)
    return pc.utf8_lower(pc.replace_substring(texts, pattern=_DOTTED_CAPITAL_I, replacement=_DOTTED_SMALL_I))


@cache
def _expanding_letters() -> frozenset[str]:
    return frozenset(c for c in map(chr, range(_FIRST_EXPANDING, _LAST_EXPANDING + 1)) if len(c.upper()) > 1)
