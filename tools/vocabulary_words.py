"""The words that the vocabulary of the source is measured by: which count as participles, verbs, or odd phrases."""

import re
from typing import Final

FORBIDDEN: Final = frozenset(
    {"told", "asked", "kept", "held", "found", "given", "made", "shown", "said", "one", "there"}
)
"""Words that name no module, class or function."""
SHORT_LIVED: Final = frozenset({"found", "one"})
"""Names of locals that may be used close to where they are bound only."""
MAX_LINES_FROM_BINDING: Final = 3

_IRREGULAR_PARTICIPLES = """
begun born bought broken brought built caught chosen dealt done drawn driven dug fallen fed felt forgotten fought
found frozen given gone got grown heard held hidden hung kept knit known laid led lent lit lost made meant met
overridden paid proven rebuilt redone rewritten risen said seen sent shaken shown shrunk slept sold sought spent
spoken spun stolen stood struck stuck sunk swept swum taken taught thought thrown told torn unbound understood undone
withdrawn woken won worn wound woven written
"""
IRREGULAR_PARTICIPLES: Final = frozenset(_IRREGULAR_PARTICIPLES.split())
"""Past participles that don't end in -ed. Not `bound`, `left` and `read`, which are a noun, a side and a verb too."""
_NO_PARTICIPLES = """
bed bleed breed embed exceed feed heed need proceed red reseed seed shed shred speed succeed unembed weed
"""
NO_PARTICIPLES: Final = frozenset(_NO_PARTICIPLES.split())
"""Words that end in -ed and are none."""

_VERBS = """
abort accept acquire act add adopt aggregate align allocate allow answer append apply arrange ask assert assign attach
balance begin bind block bring build cache calculate call cancel cast change check choose claim classify clean clear
clone close collect combine commit compact compare compile complete compute concatenate connect consume contract
convert copy count cover create cut deal declare decode decompress decrement deduplicate defer define delete deliver
deny derive describe detect determine discard distribute divide do download drain draw drop dump embed emit enable
encode end enforce ensure enter enumerate escape establish estimate evaluate evict examine exchange exclude execute
exit expand expect explain export expose extend extract factor fail fence fetch fill filter finalize find finish fit
flag flatten flush fold follow forbid force forget format forward free gather generate get give go grant grow guard
guess hand handle hash have heal hide hold ignore import include increment index infer inform initialize insert
inspect install interpret intersect introduce invalidate invert invoke issue iterate join judge keep know label launch
lay lead lease leave let lift limit list listen load locate lock log look lookup lower make map mark match measure
merge migrate mirror move narrow normalize notify obtain offer omit open optimise optimize order overwrite pack pad
page parse partition pass patch pause perform permit persist pick plan plot poll pop prefer prefix prepare preserve
prevent print probe process produce project promise propagate protect prove provide prune publish pull purge push put
quarantine query queue quote raise rank read rebase rebind rebuild recall receive reclaim recognise record recover
redirect reduce refer refresh refuse register reject release reload rely remember remove rename render renew reopen
repair repeat replace replay reply report request require rerank reserve reset resolve respond restart restore resume
retain retry return reuse reverse review rewrite roll round route run sample save say scale scan schedule score scrub
seal search see seed seek select send serialize serve set settle shard share shift show shuffle shut sign signal
simplify skip sleep slice solve sort spawn speak spill split spread stack stage stamp start stop store stream strip
submit substitute subtract sum summarise summarize supply suspend swap sweep switch synchronize tag take tell
terminate test throw tie tokenize touch trace track transfer transform translate traverse treat trim truncate try turn
undo unify union unlock unpack unregister update upload upsert use validate verify visit wait wake walk warm warn
watch weigh widen wind withhold work wrap write yield zip
"""
VERBS: Final = frozenset(_VERBS.split())
"""First words of a function's docstring. A verb that is missing may be added; a noun or a clause may not.

Words that open noun phrases far more often than orders, such as "Type" and "Number", are left out on purpose.
"""

ERROR_FIRST: Final = re.compile(r"\w+Error\b")
"""A docstring that begins with an error's name instead of what is checked."""

PHRASES: Final = {
    "is told": re.compile(r"\b(?:is|are|be|been|was|were|being) told\b", re.IGNORECASE),
    "somebody, nobody": re.compile(r"\b(?:some|no|any|every)body\b", re.IGNORECASE),
    "whoever": re.compile(r"\bwhoever\b|\bthose who\b", re.IGNORECASE),
    "behind": re.compile(r"\bbehind\b", re.IGNORECASE),
    "the most": re.compile(
        r"\bthe most\b(?! (?:recent|common|important|selective|expensive|used|frequent))", re.IGNORECASE
    ),
}
"""Phrases that texts for people avoid, see CONTRIBUTING.md: reports, another writer, a caller, after, limit."""

AST_IR_PAIRS: Final = frozenset(
    {
        "And",
        "Case",
        "Compare",
        "Delete",
        "DeleteMatched",
        "DriveMatch",
        "IsNull",
        "Not",
        "Or",
        "Update",
        "UpdateMatched",
        "Window",
    }
)
"""Class names that a node of the syntax tree (`lang`) and its bound form (`query`) may share, and no third class."""


def split_words(name: str) -> list[str]:
    """Return the words of a name in snake or camel case, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def is_participle(word: str) -> bool:
    """Return whether a word is a past participle."""
    return word in IRREGULAR_PARTICIPLES or (len(word) > 3 and word.endswith("ed") and word not in NO_PARTICIPLES)
