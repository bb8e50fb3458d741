"""Characters that a reader can't see, and how to show them."""

import unicodedata

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_INVISIBLE_OTHERS = frozenset(
    # joiners, fillers and blanks that count as letters, marks or symbols
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))  # variation selectors
)


def is_invisible(char: str) -> bool:
    """True for controls, direction marks, surrogates, blanks other than the space, and zero-width characters."""
    if " " <= char <= "~":
        return False
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _INVISIBLE_OTHERS


def reveal(text: str) -> str:
    """The text with every invisible character written as `<U+202E>`: safe to print, and it can't lie."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(char):04X}>" if is_invisible(char) else char for char in text)
