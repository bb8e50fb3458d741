# ruff: noqa: S608 - names are quoted by the dialect, and values printed by it
"""Print a relational tree as one query of SQL, in the words of a dialect.

Relations are nested subqueries; one that several others read is a common table expression, so that it is computed once.
"""

from dataclasses import dataclass, field

from omnigraph.engine.relational.dialect import ReachText, SqlDialect
from omnigraph.engine.relational.tree import (
    AnyOf,
    BlockFold,
    ColumnTerm,
    CombinedFold,
    ComputedRows,
    ConvertedTerm,
    CountSum,
    DefaultTerm,
    DigitList,
    DigitSum,
    Distinct,
    ExprTerm,
    FloatTerm,
    Fold,
    GroupRows,
    JoinKind,
    JoinRows,
    ListOfValues,
    Measure,
    NumberTerm,
    OffsetTerm,
    OrderRows,
    PartialFold,
    ProductTerm,
    Project,
    Reach,
    Relation,
    ScanRows,
    Select,
    SingleRow,
    Term,
    TypedIdTerm,
    UnionAll,
    UnnestRows,
    get_inputs,
)

# SQL has no relation without columns: this one stands in for them.
NO_COLUMN = "#one"
# The column with the number of a row within its group, for a limit of each group.
_ROW_NUMBER = "#number"
# Spark counts the rows of a limit in 32 bits.
_MAX_LIMIT = 2**31 - 1
_JOIN_WORDS = {
    JoinKind.INNER: "join",
    JoinKind.LEFT: "left join",
    JoinKind.SEMI: "semi join",
    JoinKind.ANTI: "anti join",
}


def print_query(root: Relation, dialect: SqlDialect) -> str:
    """Return a query for the rows of a relation, with its columns in order.

    Raises:
        UnsupportedForm: The dialect can't say a part of it exactly.
    """
    printer = _Printer(dialect, _count_readers(root))
    text = f"select * from {printer.print_input(root)}"
    if not printer.shared:
        return text
    # In the order in which they were printed: each reads only those before it.
    shared = ",\n".join(f"{name} as ({body})" for name, body in printer.shared)
    return f"with {shared}\n{text}"


def _count_readers(root: Relation) -> dict[int, int]:
    """Return by `id` of a relation how many others read it."""
    # By `id`, which stays valid because the root holds every relation. Each is followed once.
    readers: dict[int, int] = {}
    pending = [root]
    while pending:
        for each in get_inputs(pending.pop()):
            readers[id(each)] = readers.get(id(each), 0) + 1
            if readers[id(each)] == 1:
                pending.append(each)
    return readers


@dataclass(slots=True)
class _Printer:
    dialect: SqlDialect
    readers: dict[int, int]
    shared: list[tuple[str, str]] = field(default_factory=list)
    # By `id` of a shared relation, the name that it was given.
    _names: dict[int, str] = field(default_factory=dict)

    def print_input(self, relation: Relation) -> str:
        """Return what follows `from`: a name, or a query in parentheses."""
        name = self._names.get(id(relation))
        if name is not None:
            return name
        text = self.print_relation(relation)
        is_plain = isinstance(relation, ScanRows | ComputedRows) and not text.lstrip().lower().startswith("select")
        if is_plain:
            return text
        if self.readers.get(id(relation), 0) < 2:
            return f"({text})"
        name = self.dialect.quote(f"#{len(self._names) + 1}")
        self._names[id(relation)] = name
        self.shared.append((name, text))
        return name

    def _print_source(self, relation: Relation) -> str:
        """Return the only relation after `from`, with an alias.

        Without one, Spark reads `(select …) where (FALSE)` as a table with the alias `where` and a column `FALSE`.
        """
        return f"{self.print_input(relation)} as q"

    def print_relation(self, relation: Relation) -> str:
        match relation:
            case ScanRows():
                return self.dialect.print_scan(relation)
            case ComputedRows():
                return self.dialect.print_computed(relation)
            case SingleRow():
                return f"select 1 as {self.dialect.quote(NO_COLUMN)}"
            case Project():
                items = [f"{self._print_term(term)} as {self.dialect.quote(name)}" for name, term in relation.items]
                return f"select {self._list(items)} from {self._print_source(relation.input)}"
            case Select():
                where = " and ".join(f"({self.dialect.print_expression(each)})" for each in relation.predicates)
                return f"select * from {self._print_source(relation.input)} where {where}"
            case JoinRows():
                return self._print_join(relation)
            case UnionAll():
                parts = [f"select {self._print_names(relation)} from {self._print_source(i)}" for i in relation.inputs]
                return " union all ".join(parts)
            case Distinct():
                return f"select distinct {self._print_names(relation)} from {self._print_source(relation.input)}"
            case GroupRows():
                return self._print_groups(relation)
            case OrderRows():
                return self._print_order(relation)
            case UnnestRows():
                return self.dialect.print_unnest(relation, self._print_source(relation.input))
            case Reach():
                return self._print_reach(relation)

    def _print_join(self, join: JoinRows) -> str:
        quote = self.dialect.quote
        left, right = self.print_input(join.left), self.print_input(join.right)
        equals = " is not distinct from " if join.is_null_equal else " = "
        if self.dialect.name == "spark" and join.is_null_equal:
            equals = " <=> "
        terms = [f"l.{quote(a)}{equals}r.{quote(b)}" for a, b in join.equal]
        terms += [f"({self.dialect.print_expression(each)})" for each in join.predicates]
        on = " and ".join(terms) or "true"
        own = [f"l.{quote(name)}" for name in join.left.names]
        if join.kind in (JoinKind.INNER, JoinKind.LEFT):
            # A name of both sides is a key, taken from the left: a left join may have null for it on the right.
            own += [f"r.{quote(name)}" for name in join.right.names if name not in join.left.names]
        word = _JOIN_WORDS[join.kind]
        if self.dialect.name == "spark" and join.kind in (JoinKind.SEMI, JoinKind.ANTI):
            word = f"left {word}"
        return f"select {self._list(own)} from {left} as l {word} {right} as r on {on}"

    def _print_groups(self, groups: GroupRows) -> str:
        quote = self.dialect.quote
        items = [quote(key) for key in groups.keys]
        items += [f"{self._print_measure(measure)} as {quote(name)}" for name, measure in groups.measures]
        by = f" group by {', '.join(map(quote, groups.keys))}" if groups.keys else ""
        if groups.drops_empty and not groups.keys:
            # Without keys, SQL has one row even if the input has none.
            by = " having count(*) > 0"
        return f"select {', '.join(items)} from {self._print_source(groups.input)}{by}"

    def _print_measure(self, measure: Measure) -> str:
        quote = self.dialect.quote
        match measure:
            case CountSum(column=None):
                return "count(*)"
            case CountSum(column=str() as column):
                return self.dialect.print_count_sum(quote(column))
            case AnyOf():
                return f"any_value({quote(measure.column)})"
            case Fold():
                multiplicity = None if measure.multiplicity is None else quote(measure.multiplicity)
                return self.dialect.print_fold(measure.aggregate, multiplicity)
            case PartialFold() | CombinedFold() | DigitSum() | DigitList():
                return self.dialect.print_partial(measure)
            case BlockFold() | ListOfValues():
                return self.dialect.print_block(measure)
            case _:
                raise AssertionError(measure)

    def _print_order(self, rows: OrderRows) -> str:
        names = self._print_names(rows)
        order = ", ".join(map(self.dialect.print_sort_term, rows.order))
        by = f" order by {order}" if order else ""
        source = self._print_source(rows.input)
        if not rows.per and (rows.limit or 0) <= _MAX_LIMIT:
            limit = "" if rows.limit is None else f" limit {rows.limit}"
            offset = f" offset {rows.offset}" if rows.offset else ""
            return f"select {names} from {source}{by}{limit}{offset}"
        # Sorted again outside: the order of a subquery is not that of the query.
        number = self.dialect.quote(_ROW_NUMBER)
        groups = f"partition by {', '.join(map(self.dialect.quote, rows.per))}" if rows.per else ""
        # Spark numbers rows in an order only.
        numbered = f"select *, row_number() over ({groups}{by or ' order by 1'}) as {number} from {source}"
        last = "" if rows.limit is None else f" and {number} <= {rows.offset + rows.limit}"
        return f"select {names} from ({numbered}) as q where {number} > {rows.offset}{last}{by}"

    def _print_reach(self, reach: Reach) -> str:
        quote = self.dialect.quote
        return self.dialect.print_reach(
            ReachText(
                sources=self.print_input(reach.sources),
                source=quote(reach.source),
                edges=self.print_input(reach.edges),
                near=quote(reach.near),
                far=quote(reach.far),
                target=quote(reach.target),
                low=reach.low,
                high=reach.high,
                through=None if reach.through is None else self.print_input(reach.through),
                is_undirected=reach.is_undirected,
            )
        )

    def _print_term(self, term: Term) -> str:
        match term:
            case ColumnTerm():
                return self.dialect.quote(term.name)
            case NumberTerm():
                return "null" if term.value is None else f"cast({term.value} as bigint)"
            case ProductTerm():
                return " * ".join(f"coalesce({self.dialect.quote(name)}, 1)" for name in term.factors)
            case DefaultTerm():
                return f"coalesce({self.dialect.quote(term.name)}, {self.dialect.print_expression(term.default)})"
            case TypedIdTerm():
                # No name of a type has such a character, and it is smaller than all that one may have.
                return f"'{term.type}!' || {self.dialect.quote(term.column)}"
            case OffsetTerm():
                return f"{self.dialect.quote(term.column)} + {term.offset}"
            case ConvertedTerm():
                value = "null" if term.column is None else self.dialect.quote(term.column)
                return f"cast({value} as {self.dialect.print_type(term.type)})"
            case FloatTerm():
                return self.dialect.print_float_part(term)
            case ExprTerm(is_key=True):
                return self.dialect.print_key(term.expr)
            case ExprTerm():
                return self.dialect.print_expression(term.expr)

    def _print_names(self, relation: Relation) -> str:
        return self._list([self.dialect.quote(name) for name in relation.names])

    def _list(self, items: list[str]) -> str:
        return ", ".join(items) or f"1 as {self.dialect.quote(NO_COLUMN)}"
