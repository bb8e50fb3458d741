"""Random trees of queries: the growers of `language_trees`, with every form that a query may have."""

from collections.abc import Callable

from hypothesis import strategies as st

from language_trees import ALL_WORDS, NOWHERE, Grower
from omnigraph.lang import query_ast as q
from omnigraph.lang.literals import Name, TypeExpr


class ExpressionGrower(Grower):
    """Grows clauses and expressions."""

    def variable(self) -> q.Variable:
        return q.Variable(name=self.pick(("a", "b", "p", "_", "in", "x1")), span=NOWHERE)

    def meta(self) -> Name:
        return Name(self.pick(("id", "src", "dst", "type")), NOWHERE)

    def property_ref(self) -> q.PropertyRef:
        return q.PropertyRef(variable=self.variable(), name=self.property(), span=NOWHERE)

    def expr(self, depth: int = 2) -> q.Expr:
        if depth and not self.number(0, 3):
            return self.computed(depth - 1)
        options: tuple[Callable[[], q.Expr], ...] = (
            self.variable,
            self.property_ref,
            lambda: q.PropertyRef(variable=self.variable(), name=self.meta(), is_meta=True, span=NOWHERE),
            lambda: q.BareName(name=self.name(), span=NOWHERE),
            lambda: q.BareName(name=self.meta(), is_meta=True, span=NOWHERE),
            lambda: q.LiteralExpr(value=self.literal(), span=NOWHERE),
            lambda: q.AllProperties(variable=self.variable(), span=NOWHERE),
        )
        return self.grow(*options)

    def computed(self, depth: int) -> q.Expr:
        def inner() -> q.Expr:
            return self.expr(depth)

        def branch() -> q.CaseBranch:
            return q.CaseBranch(condition=inner(), value=inner(), span=NOWHERE)

        def field() -> q.RecordItem:
            return q.RecordItem(name=self.property(), value=inner(), span=NOWHERE)

        options: tuple[Callable[[], q.Expr], ...] = (
            lambda: self.call(depth),
            lambda: q.Arithmetic(
                op=self.pick(list(q.ArithmeticOp)), left=inner(), right=inner(), op_span=NOWHERE, span=NOWHERE
            ),
            lambda: q.Negate(operand=inner(), span=NOWHERE),
            lambda: q.Index(operand=inner(), index=inner(), span=NOWHERE),
            lambda: q.ListExpr(items=(self.variable(), *self.some(inner)), span=NOWHERE),
            lambda: q.Case(branches=self.some(branch, 1, 2), otherwise=self.maybe(inner), span=NOWHERE),
            lambda: self.predicate(inner, 1),
            lambda: self.field(depth),
            lambda: q.Record(items=self.some(field, 1, 2), span=NOWHERE),
            lambda: self.block(depth),
        )
        return self.grow(*options)

    def field(self, depth: int) -> q.Field:
        operand = self.expr(depth)
        # `$r.name` is a property of the variable, not a field.
        if isinstance(operand, q.Variable):
            operand = self.property_ref()
        if self.chance():
            return q.Field(operand=operand, name=self.meta(), is_meta=True, span=NOWHERE)
        return q.Field(operand=operand, name=self.property(), span=NOWHERE)

    def block(self, depth: int) -> q.Block:
        kind = self.pick(list(q.BlockKind))
        clauses = self.some(lambda: self.clause(min(depth, 1)), 1, 2)
        if kind in (q.BlockKind.EXISTS, q.BlockKind.COUNT) and self.chance():
            return q.Block(kind=kind, clauses=clauses, span=NOWHERE)
        return q.Block(
            kind=kind,
            clauses=clauses,
            value=self.expr(depth),
            distinct=self.chance(),
            order=self.some(lambda: self.order_key(depth), 0, 1),
            limit=self.maybe(self.count),
            span=NOWHERE,
        )

    def call(self, depth: int) -> q.Call:
        function = self.name()
        if function.text in ("date", "datetime"):
            function = Name("dates", NOWHERE)
        window = None if self.number(0, 4) else self.window(depth)
        if not self.number(0, 3):
            return q.Call(function=function, arguments=(q.Star(span=NOWHERE),), window=window, span=NOWHERE)
        arguments = self.some(lambda: self.expr(depth))
        has_parts = bool(arguments) and not self.number(0, 3)
        return q.Call(
            function=function,
            arguments=arguments,
            distinct=not self.number(0, 3),
            options=self.some(lambda: (self.name(), self.expr(depth)), 0, 1),
            where=self.predicate(lambda: self.expr(0), 1) if has_parts and self.chance() else None,
            order=self.some(lambda: self.order_key(depth), 0, 1) if has_parts else (),
            limit=self.maybe(self.count) if has_parts else None,
            window=window,
            span=NOWHERE,
        )

    def window(self, depth: int) -> q.Window:
        per = self.some(lambda: self.expr(depth))
        return q.Window(per=per, order=self.some(lambda: self.order_key(depth)), span=NOWHERE)

    def predicate(self, left: Callable[[], q.Expr], depth: int = 3) -> q.Expr:
        def inner() -> q.Expr:
            return self.predicate(left, depth - 1)

        options: tuple[Callable[[], q.Expr], ...] = (
            lambda: q.Compare(
                op=self.pick(list(q.CompareOp)), left=left(), right=self.expr(1), op_span=NOWHERE, span=NOWHERE
            ),
            lambda: q.IsNull(operand=left(), negated=self.chance(), span=NOWHERE),
            lambda: self.call(1),
        )
        if depth:
            options += (
                lambda: q.Not(term=inner(), span=NOWHERE),
                lambda: q.And(terms=self.some(inner, 2, 3), span=NOWHERE),
                lambda: q.Or(terms=self.some(inner, 2, 3), span=NOWHERE),
                self.exists,
            )
        return self.grow(*options)

    def exists(self) -> q.Block:
        return q.Block(kind=q.BlockKind.EXISTS, clauses=self.some(lambda: self.clause(0), 1, 2), span=NOWHERE)

    def order_key(self, depth: int = 2) -> q.OrderKey:
        return q.OrderKey(value=self.expr(depth), descending=self.pick((None, False, True)), span=NOWHERE)

    def count(self) -> q.Expr:
        return self.variable() if self.chance() else q.LiteralExpr(value=self.integer(), span=NOWHERE)

    # --- clauses -------------------------------------------------------------------------------------

    def clause(self, depth: int = 2) -> q.Clause:
        def some(low: int = 1) -> tuple[q.Clause, ...]:
            return self.some(lambda: self.clause(depth - 1), low, 3)

        if depth and not self.number(0, 2):
            blocks: tuple[Callable[[], q.Clause], ...] = (
                lambda: q.NotBlock(clauses=some(), span=NOWHERE),
                lambda: q.OptionalBlock(clauses=some(), span=NOWHERE),
                lambda: q.Either(alternatives=self.some(some, 2, 3), span=NOWHERE),
            )
            return self.grow(*blocks)
        options: tuple[Callable[[], q.Clause], ...] = (
            self.binding,
            self.traversal,
            self.path,
            lambda: q.Where(predicate=self.predicate(lambda: self.expr(1), depth), span=NOWHERE),
            lambda: q.Let(variable=self.variable(), value=self.expr(1), span=NOWHERE),
            lambda: q.Each(variable=self.variable(), value=self.expr(1), span=NOWHERE),
        )
        return self.grow(*options)

    def binding(self) -> q.Binding:
        filters = self.some(self.assignment)
        return q.Binding(variable=self.variable(), types=self.types(), filters=filters, span=NOWHERE)

    def types(self) -> tuple[Name, ...]:
        return self.some(self.type_name, 1, self.pick((1, 1, 3)))

    def assignment(self) -> q.Assignment:
        return q.Assignment(name=self.property(), value=self.expr(1), span=NOWHERE)

    def edge(self) -> q.EdgeName:
        is_text = not self.number(0, 3)
        name = Name(self.string(), NOWHERE) if is_text else self.name()
        if not is_text and not self.number(0, 3):
            name = Name(self.pick(("Knows", "Person", "A")), NOWHERE)
        return q.EdgeName(name=name, is_text=is_text, span=NOWHERE)

    def traversal(self) -> q.TraversalClause:
        return q.TraversalClause(
            source=self.variable(),
            edges=self.some(self.edge, self.pick((0, 1, 1)), self.pick((1, 1, 3))),
            target=self.variable(),
            edge_variable=self.maybe(self.variable),
            is_undirected=self.chance(),
            bounds=self.maybe(self.bounds),
            along=self.conditions(),
            through=self.conditions(),
            edge_span=NOWHERE,
            span=NOWHERE,
        )

    def bounds(self) -> q.HopBounds:
        return q.HopBounds(low=self.number(-1, 70), high=self.maybe(lambda: self.number(-1, 70)), span=NOWHERE)

    def conditions(self) -> tuple[q.Expr, ...]:
        return () if self.number(0, 3) else self.some(self.condition, 1, 2)

    def path(self) -> q.PathClause:
        return q.PathClause(
            kind=self.pick(list(q.PathKind)),
            variable=self.variable(),
            hop=self.traversal(),
            weight=self.maybe(self.column),
            span=NOWHERE,
        )

    def condition(self) -> q.Expr:
        """A condition whose words are properties."""
        return self.predicate(self.column, self.pick((0, 0, 1)))

    def column(self) -> q.Expr:
        """The left side of a comparison in a mutation: nearly every word names a property there."""
        words = [word for word in ALL_WORDS if word not in ("not", "true", "false", "null")]
        return q.BareName(name=Name(self.pick(words), NOWHERE), span=NOWHERE) if self.chance() else self.expr(1)


class QueryGrower(ExpressionGrower):
    """Grows a file of queries."""

    def file(self) -> q.QueryFile:
        # Mostly one declaration: a tree costs more to draw than to print, parse and format.
        queries = self.some(self.query, 0, self.pick((1, 1, 1, 2)))
        patterns = () if self.number(0, 4) else (self.pattern(),)
        return q.QueryFile(queries=queries, patterns=patterns, span=NOWHERE)

    def query(self) -> q.Query:
        annotations = tuple(
            q.QueryAnnotation(name=Name(name, NOWHERE), text=self.string(), span=NOWHERE)
            for name in ("description", "instruction")
            if not self.number(0, 2)
        )
        options: tuple[Callable[[], q.Read | q.Union | tuple[q.Mutation, ...]], ...] = (
            self.read,
            self.read,
            self.mutations,
            self.read,
            self.mutations,
            self.union,
        )
        body = self.grow(*options)
        is_mutation = isinstance(body, tuple)
        return q.Query(
            name=self.name(),
            params=self.some(self.param),
            annotations=annotations,
            body=body,
            returning=self.some(self.projection) if is_mutation else (),
            span=NOWHERE,
        )

    def param(self) -> q.ParamDecl:
        type_: TypeExpr = self.param_type() if self.number(0, 3) else self.record_type()
        return q.ParamDecl(name=self.property(), type=type_, nullable=self.chance(), span=NOWHERE)

    def pattern(self) -> q.PatternDecl:
        def param() -> q.PatternParam:
            return q.PatternParam(variable=self.variable(), types=self.types(), span=NOWHERE)

        return q.PatternDecl(
            name=self.name(), params=self.some(param, 1, 3), clauses=self.some(self.clause, 1, 2), span=NOWHERE
        )

    # --- reads ---------------------------------------------------------------------------------------

    def read(self, *, has_tail: bool = True) -> q.Read:
        stages = self.stages()
        limit = self.maybe(self.count) if has_tail else None
        return q.Read(
            clauses=self.some(self.clause, 0 if stages else 1, 3),
            projections=self.some(self.projection, 1, 2),
            distinct=self.chance(),
            having=self.having(),
            order=self.some(self.order_key, 0, 1) if has_tail else (),
            limit=limit,
            per=self.some(self.expr, 0, 1) if limit else (),
            offset=self.maybe(self.count) if has_tail else None,
            stages=stages,
            span=NOWHERE,
        )

    def stages(self) -> tuple[q.Stage, ...]:
        if self.number(0, 4):
            return ()
        first = self.stage(1)
        return (first, *self.some(lambda: self.stage(0), 0, 1))

    def stage(self, clauses: int) -> q.Stage:
        limit = self.maybe(self.count)
        return q.Stage(
            clauses=self.some(self.clause, clauses, 2),
            projections=self.some(self.projection, 1, 2),
            distinct=self.chance(),
            having=self.having(),
            order=self.some(self.order_key, 0, 1),
            limit=limit,
            per=self.some(self.expr, 0, 1) if limit else (),
            offset=self.maybe(self.count),
            span=NOWHERE,
        )

    def having(self) -> q.Expr | None:
        return None if self.number(0, 3) else self.predicate(lambda: self.expr(1), 1)

    def union(self) -> q.Union:
        first = self.some(self.read, 1, self.pick((1, 1, 2)))
        reads = (*first, self.read(has_tail=False))
        return q.Union(
            reads=reads,
            keeps_equal=tuple(self.chance() for _ in first),
            order=self.some(self.order_key, 0, 1),
            limit=self.maybe(self.count),
            offset=self.maybe(self.count),
            span=NOWHERE,
        )

    def projection(self) -> q.Projection:
        return q.Projection(value=self.expr(), alias=self.maybe(self.name), span=NOWHERE)

    # --- mutations -----------------------------------------------------------------------------------

    def mutations(self) -> tuple[q.Mutation, ...]:
        if self.chance():
            return self.some(self.mutation, 1, 3)
        return (self.drive(), self.driven(), *self.some(self.driven, 0, 2))

    def mutation(self) -> q.Mutation:
        type_ = self.type_name()
        options: tuple[Callable[[], q.Mutation], ...] = (
            lambda: q.Insert(
                type=type_,
                assignments=self.some(self.assignment, 0, 3),
                if_absent=self.chance(),
                variable=self.maybe(self.variable),
                span=NOWHERE,
            ),
            lambda: q.Update(type=type_, assignments=self.some(self.assignment), where=self.condition(), span=NOWHERE),
            lambda: q.Delete(type=type_, where=self.condition(), span=NOWHERE),
        )
        return self.grow(*options)

    def drive(self) -> q.DriveMatch:
        stages = self.stages()
        return q.DriveMatch(clauses=self.some(self.clause, 0 if stages else 1, 2), stages=stages, span=NOWHERE)

    def driven(self) -> q.Mutation:
        options: tuple[Callable[[], q.Mutation], ...] = (
            self.mutation,
            lambda: q.UpdateMatched(variable=self.variable(), assignments=self.some(self.assignment), span=NOWHERE),
            lambda: q.DeleteMatched(variable=self.variable(), span=NOWHERE),
        )
        return self.grow(*options)


@st.composite
def query_files(draw: st.DrawFn) -> q.QueryFile:
    return QueryGrower(draw).file()
