"""What other query languages write, and how it is written here: help lines for Cypher and SQL."""

import re
from collections.abc import Iterable
from dataclasses import replace

from omnigraph.lang.cursor import Cursor
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.lexer import RESERVED_WORDS, Comment, TokenKind, abbreviate
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Source, Span

MATCH_FORM = "a pattern is written `match { $a: Person $a knows $b } return { $b.name }`"
CASE_FORM = 'a case is written `case { $p.age < 18 => "child" else => "adult" }`'
OPTIONAL_FORM = "an optional part is a block of the match: `match { $p: Person optional { $p worksAt $c } }`"
JOIN_FORM = "an edge joins: `match { $p worksAt $c }`"
ELEMENTS_FORM = (
    'elements of a list become a list in a block: `collect { each $x in $p.tags $x != "a" return upper($x) }`'
)
ALTERNATIVES_FORM = "clauses need none between them, and alternatives are `either { … } or { … }`"
SLICE_FORM = "a part of a list is written `slice(list, from, length)`, of a text `substring(text, from, length)`"
SUBQUERY_FORM = (
    "a value of another match is a block: `count { $q: Person }`, `avg { $q: Person return $q.age }`, "
    "`$p.name in collect { $q: Person return $q.name }`"
)
CLEAR_FORM = "a property is cleared by `match { … } update $p set { email: null }`"
CHOSEN_FORM = "rows are chosen in a stage: `match { … } with { $p } order { $p.name } limit 10 delete $p`"
RANGE_FORM = "numbers are written as a list, `[1, 2, 3]`, or passed in a parameter, `$numbers: [I64]`"
TYPES_FORM = "several types are written `(Person|Company)`"
BLOCK_VALUE_FORM = (
    "a block returns one value, `return $a.name`; several are a record: `return { name: $a.name, n: $a.n }`"
)
QUANTIFIER_FORM = (
    'some element is like that: `exists { each $x in $p.tags $x = "a" }`; '
    'all are: `not { each $x in $p.tags $x != "a" }`'
)

STATEMENT_HINTS = {
    "select": "a read is written `match { $p: Person } return { $p.name }`",
    "from": "a read is written `match { $p: Person } return { $p.name }`",
    "unwind": "the elements of a list are rows of a match: `match { each $x in $list }`",
    "foreach": "the elements of a list are rows of a match: `match { each $x in $list } insert …`",
    "each": "the elements of a list are rows of a match: `match { each $x in $list } insert …`",
    "merge": "`insert Person { … }` writes over the row with the same key; with `if absent` it leaves that alone",
    "upsert": "`insert Person { … }` writes over the row with the same key",
    "optional": OPTIONAL_FORM,
    "where": "a predicate stands in the match block: `match { $p: Person $p.age > 3 }`",
    "with": "a query starts with `match { … }`; a list is one too: `match { each $x in [1, 2] }`",
    "set": "properties are set by `match { … } update $p set { name: … }`, or `update Person set { … } where …`",
    "detach": "a node is deleted with its edges: `delete Person where …`, or `match { … } delete $p`",
    "let": "an abbreviation stands in the match block: `match { $p: Person let $x = $p.age + 1 }`",
    "returning": "the columns of a mutation are written `returning { $p.name }`",
    "on": "`insert Person { … } if absent` leaves a row alone that is there already",
    "drop": "types are dropped by a schema without them, `omnigraph schema apply`; rows by `delete Person where …`",
    "limit": CHOSEN_FORM,
    "order": CHOSEN_FORM,
}
"""Words that start a statement elsewhere, in small letters, and what to write."""

PART_HINTS = {
    "optional": OPTIONAL_FORM,
    "unwind": STATEMENT_HINTS["unwind"],
    "merge": STATEMENT_HINTS["merge"],
    "upsert": STATEMENT_HINTS["upsert"],
    "join": JOIN_FORM,
    "inner": JOIN_FORM,
    "cross": "a match of two variables without an edge between them has all pairs: `match { $p: Person $c: City }`",
    "left": OPTIONAL_FORM,
    "right": OPTIONAL_FORM,
    "full": OPTIONAL_FORM,
    "let": STATEMENT_HINTS["let"],
    "detach": STATEMENT_HINTS["detach"],
    "set": "properties are set by `match { … } update $p set { name: … }`",
    "create": "rows are written by `match { … } insert Person { … }`",
    "remove": CLEAR_FORM + "; rows are deleted by `delete $p`",
    "foreach": "statements after a match run for each of its rows: `match { … } update $p set { … }`",
    "group": "the projections that are no aggregates are the group keys: delete it",
    "intersect": "what both find is one match with the clauses of both",
    "except": "what the second must not find is a block of the match: `not { … }`",
}
"""Words that continue a read elsewhere, in small letters, and what to write."""

END_HINTS = {
    **dict.fromkeys(("per", "by"), "the best of each group are written `limit 3 per { $c }`"),
    **dict.fromkeys(("asc", "desc", "ascending", "descending"), "it follows its key: `order { $p.name desc }`"),
    ".": "a property is named inside the braces: `return { $p.name }`",
}
"""Words that follow a read elsewhere, in small letters, and what to write."""

CALL_HINTS = {
    "exists": "clauses stand in braces, `exists { $p worksAt $c }`; a value is tested with `$p.age is not null`",
    "shortest": "a path is written `shortest $w = $a knows{1,*} $b`",
    "shortestpath": "a path is written `shortest $w = $a knows{1,*} $b`",
    "allshortestpaths": "paths are written `all_shortest $w = $a knows{1,*} $b`",
    "over": "a window is written `sum($n) over { per { $c } order { $d } }`",
    "filter": "the filter of an aggregate stands inside it: `count($p where $p.age > 3)`",
    "cast": "a value is converted with `to_string(v)`, `to_int(v)`, `to_float(v)`, `to_date(v)` or `to_datetime(v)`",
    "extract": "a part of a date is written `year($p.born)`, `month($p.born)` or `day($p.born)`",
}
"""Functions, in small letters, whose arguments other languages write in their own way, and what to write."""

QUANTIFIERS = ("all", "any", "none", "single", "every", "some")
"""Functions that ask about the elements of a list elsewhere: `all(x in list where …)`."""

VALUE_HINTS = {
    "interval": "a duration is written `days(3)`, `months(1)` or `hours(12)`, after `+` or `-`",
    "current_date": "today is written `today()`",
    "current_timestamp": "this instant is written `now()`",
}
"""Names that are values elsewhere, and what to write."""

VALUE_ARROW_HINT = "a property is written `$p.name`; a hop is a clause of the match, `$p knows $q`"
ARROW_HINT = "a hop is written `$p knows $q`, with the edge's name between the variables and without arrows"

_BLOCK_HINTS = {
    "optional": "write the clauses in braces: `optional { $p worksAt $c }`",
    "exists": "write the clauses in braces: `exists { $p worksAt $c }`",
    "either": "write the alternatives in braces: `either { $p knows $q } or { $q knows $p }`",
    "unwind": "write `each $x in $list`",
    "path": "a path is written `path $w = $a knows{1,4} $b`",
    "shortest": "a path is written `shortest $w = $a knows{1,4} $b`",
    "all_shortest": "a path is written `all_shortest $w = $a knows{1,4} $b`",
    "cheapest": "a path is written `cheapest $w = $a road{1,*} $b by { length }`",
    "shortest_path": "a path is written `shortest $w = $a knows{1,4} $b`",
    "let": "write `let $x = $p.age + 1`",
    "each": "write `each $x in $p.tags`",
    "for": "write `each $x in $p.tags`",
    "foreach": "write `each $x in $p.tags`",
}
_METHODS = {
    "startswith": "starts_with",
    "endswith": "ends_with",
    "tolower": "lower",
    "lowercase": "lower",
    "touppercase": "upper",
    "toupper": "upper",
    "len": "length",
    "indexof": "index_of",
}
_WEIGHT_HINT = "the weight of an edge is written in braces: `by { km }`"
_PATH_KINDS = {
    "path": "path",
    "shortest": "shortest",
    "shortestpath": "shortest",
    "all_shortest": "all_shortest",
    "allshortestpaths": "all_shortest",
    "cheapest": "cheapest",
}


def refuse_foreign_clause(cursor: Cursor) -> None:
    """Refuse a clause of another language at the cursor, if it is one; the words are names anywhere else."""
    token, following = cursor.peek(), cursor.peek(1)
    if token.text == "(":
        if _is_node_pattern(cursor):
            cursor.refuse(token.span, "unexpected `(` before a node", f"{MATCH_FORM}, without parentheses and arrows")
        return
    word = token.text.lower()
    if word == "by" and following.kind is TokenKind.IDENT and not token.starts_line:
        cursor.refuse(following.span, f"unexpected `{abbreviate(following.text)}` after `by`", _WEIGHT_HINT)
    if _is_join(cursor):
        cursor.refuse(token.span, f"unexpected `{token.text}`", PART_HINTS[word])
    has_when = "when" in (following.text.lower(), cursor.peek(2).text.lower())
    if word == "case" and has_when and following.kind is not TokenKind.SIGN:
        cursor.fail("an expression", CASE_FORM)
    if following.starts_line:
        return
    if word not in _BLOCK_HINTS:
        _refuse_half_hop(cursor)
        return
    if word in ("let", "each") and following.kind is TokenKind.IDENT and cursor.peek(2).text in ("=", "in"):
        name = abbreviate(following.text)
        hint = f"variables start with `$`: `{word} ${name} {cursor.peek(2).text} …`"
        cursor.refuse(following.span, f"unexpected `{name}` after `{word}`", hint)
    is_path_after = word == "shortest" and following.text == "path"
    if following.kind is TokenKind.VARIABLE or following.text.lower() == "match" or is_path_after:
        message = f"unexpected `{abbreviate(following.text)}` after `{token.text}`"
        cursor.refuse(following.span, message, _BLOCK_HINTS[word])


def _refuse_half_hop(cursor: Cursor) -> None:
    """Refuse `cites $q` where a clause starts at the cursor: a hop without its first variable."""
    edge, variable, end = (cursor.peek(ahead) for ahead in range(3))
    is_word = edge.kind is TokenKind.IDENT and edge.text not in RESERVED_WORDS
    is_end = end.text in ("}", ";") or end.starts_line or end.kind is TokenKind.END
    if is_word and variable.kind is TokenKind.VARIABLE and is_end:
        hop = f"{abbreviate(edge.text)} {abbreviate(variable.text)}"
        first = "$q" if variable.text == "$p" else "$p"
        cursor.refuse(edge.span, f"missing the variable before `{hop}`", f"a hop has one at both ends: `{first} {hop}`")


def refuse_path_value(cursor: Cursor) -> None:
    """Refuse `$w = shortest …` and `$w = shortestPath(…)`, whose variable is at the cursor."""
    word = cursor.peek(2)
    kind = _PATH_KINDS.get(word.text.lower())
    if cursor.peek(1).text == "=" and kind is not None and cursor.peek(3).text.startswith(("$", "(")):
        cursor.refuse(word.span, f"unexpected `{word.text}` after `=`", _BLOCK_HINTS[kind])


def _is_join(cursor: Cursor) -> bool:
    """Return whether `join Person`, `left join …` or `left outer join …` starts at the cursor."""
    word, following = cursor.peek().text.lower(), cursor.peek(1)
    if word == "join":
        return following.kind is TokenKind.TYPE or following.text == "{"
    return word in ("inner", "cross", "left", "right", "full") and following.text.lower() in ("join", "outer")


def refuse_foreign_hop(cursor: Cursor) -> None:
    """Refuse `$p * $q`, `$p !knows $q` and `$p <-knows- $q`, whose first variable is at the cursor."""
    sign, second, third = (cursor.peek(ahead) for ahead in range(1, 4))
    name = abbreviate(cursor.peek().text)
    if sign.starts_line:
        return
    if sign.text == "*":
        has_bounds = second.text == "{" and third.kind is TokenKind.INT
        is_last = third.text in ("}", ";") or third.starts_line
        if has_bounds or (second.kind is TokenKind.VARIABLE and is_last):
            cursor.refuse(
                sign.span, "unexpected `*`", f"any edge is written `{name} (*) $other`, `{name} (*){{1,3}} $other`"
            )
    if sign.text == "!" and second.kind is TokenKind.IDENT and third.kind is TokenKind.VARIABLE:
        hop = f"{name} {abbreviate(second.text)} {abbreviate(third.text)}"
        cursor.refuse(
            sign.span, "unexpected `!` before an edge", f"a block that must not match is written `not {{ {hop} }}`"
        )
    is_arrow = sign.text == "<" and second.text == "-" and sign.span.end == second.span.start
    if is_arrow and (third.text == "[" or third.kind in (TokenKind.IDENT, TokenKind.TYPE)):
        cursor.refuse(sign.span.to(second.span), "unexpected `<-`", ARROW_HINT)


def refuse_method_call(cursor: Cursor, method: Name, value: Span) -> None:
    """Refuse `$p.name.startsWith("A")`, if the `(` directly after the property is at the cursor."""
    if not cursor.is_at("(") or not cursor.is_glued():
        return
    name = _METHODS.get(method.text.lower(), abbreviate(method.text))
    shown = abbreviate(cursor.source.slice(value))
    arguments = shown if cursor.is_followed_by(")") else f"{shown}, …"
    hint = f"a function takes the value as its first argument: `{name}({arguments})`"
    cursor.refuse(method.span, "unexpected call of a property", hint)


def refuse_edge_with_colon(cursor: Cursor) -> None:
    """Refuse `$p :knows $q`, `$p [:knows] $q`, `$p [k:knows] $q` and `$p <:knows> $q`, whose `$p` is at the cursor."""
    sign = cursor.peek(1)
    at = 2
    if sign.text == "[" and cursor.peek(3).text == ":" and cursor.peek(5).text == "]" and not sign.starts_line:
        name, variable, edge = (abbreviate(cursor.peek(ahead).text) for ahead in (0, 2, 4))
        edge = f"${variable.removeprefix('$')}:{edge[:1].lower()}{edge[1:]}"
        cursor.refuse(sign.span, "unexpected `[` before an edge", f"an edge variable is written `{name} {edge} $other`")
    if sign.text in ("[", "<") and cursor.peek(2).text == ":" and not sign.starts_line:
        at = 3
    elif sign.text != ":" or not _is_edge_after_colon(cursor):
        return
    name, edge = abbreviate(cursor.peek().text), abbreviate(cursor.peek(at).text)
    edge = edge[:1].lower() + edge[1:]
    edge = f"<{edge}>" if sign.text == "<" else edge
    cursor.refuse(cursor.peek(at - 1).span, "unexpected `:` before an edge", f"a hop is written `{name} {edge} $other`")


def _is_edge_after_colon(cursor: Cursor) -> bool:
    """Return whether an edge, and not a type, follows the variable and the `:` at the cursor: a hop goes on."""
    variable, colon, name, end, following = (cursor.peek(ahead) for ahead in range(5))
    if end.text == "{":
        return name.kind is TokenKind.IDENT and following.kind is TokenKind.INT
    if end.kind is not TokenKind.VARIABLE or end.starts_line:
        return False
    if following.text in ("}", ";", ",") or following.kind is TokenKind.END:
        # A type may be followed by a Bool parameter alone; only `$p :Knows $q` looks like an edge.
        is_spaced = variable.span.end < colon.span.start and colon.span.end == name.span.start
        return name.kind is TokenKind.IDENT or (name.kind is TokenKind.TYPE and is_spaced)
    # A type that was meant has another clause after it, which starts with the variable.
    return name.kind is TokenKind.IDENT and (following.starts_line or following.kind is TokenKind.VARIABLE)


def is_comprehension(cursor: Cursor) -> bool:
    """Return whether `[x in list | …]` or `[x in list where …]` starts at the `[` at the cursor."""
    if cursor.peek(1).kind not in (TokenKind.IDENT, TokenKind.VARIABLE) or cursor.peek(2).text.lower() != "in":
        return False
    depth, ahead = 0, 3
    while (token := cursor.peek(ahead)).kind is not TokenKind.END:
        if depth == 0 and (token.text in ("|", ",", "]") or token.text.lower() == "where"):
            return token.text not in (",", "]")
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        ahead += 1
    return False


_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def _is_node_pattern(cursor: Cursor) -> bool:
    """Return whether `(a)-[…`, `(a:Person)` or `()--` of Cypher starts at the cursor."""
    ahead = 1
    if cursor.peek(ahead).kind in (TokenKind.IDENT, TokenKind.TYPE):
        ahead += 1
    if cursor.peek(ahead).text == ":":
        return True
    if cursor.peek(ahead).text != ")":
        return False
    first, second = cursor.peek(ahead + 1), cursor.peek(ahead + 2)
    if first.text in ("--", "->"):
        return True
    return (first.text == "-" and second.text in ("[", "-", "->", ">", "(")) or (
        first.text == "<" and second.text in ("-", "--")
    )


# --- `//`, which divides elsewhere -----------------------------------------------------------------

_OPERAND = re.compile(r"//\s*(?:[0-9$(]|[a-z_]\w*\s*\()")
_VALUE_BEFORE = re.compile(r"[\w)\]][ \t]*\Z")
_VISIBLE = re.compile(r"\S")
# A value that far before its `//` is not searched for, so that many comments cost time in proportion to their number.
_MAX_GAP = 40
_DIVISION_HINT = "`//` starts a comment; numbers are divided with `/`, and whole numbers with `div(a, b)`"


def explain_division(
    source: Source, comments: Iterable[Comment], diagnostics: tuple[Diagnostic, ...]
) -> tuple[Diagnostic, ...]:
    """Give the mistake that a `//` between two operands leads to a help line of its own."""
    for comment in comments:
        value = _VALUE_BEFORE.search(source.text, max(comment.span.start - _MAX_GAP, 0), comment.span.start)
        if value is None or not _OPERAND.match(comment.text):
            continue
        # The comment hides an operand, and often the closing brace: then the mistake is found far after it.
        hides_brace = "}" in comment.text or ")" in comment.text
        following = _VISIBLE.search(source.text, comment.span.end)
        last = len(source.text) if following is None else following.start()
        for index, diagnostic in enumerate(diagnostics):
            place = diagnostic.span.start
            if diagnostic.is_error and value.start() < place and (hides_brace or place <= last):
                explained = replace(diagnostic, help=_DIVISION_HINT)
                return (*diagnostics[:index], explained, *diagnostics[index + 1 :])
    return diagnostics
