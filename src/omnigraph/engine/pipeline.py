"""Steps one after the other, into a sink: a step that would make too many rows runs for parts of its input.

If the sink wants its rows in an order that the bound variables decide, parts come in that order, small ones first: when
the sink is full, all that would come behind is never made.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.chunking import Ends, Sink, Truths, cut, even_ends, hop_ends, rows_between, snapped
from omnigraph.engine.operators.edge_access import Links
from omnigraph.engine.operators.expand import Closing, held
from omnigraph.engine.operators.join import Matched
from omnigraph.engine.physical_plan import Close, Compact, Expand, Filter, Join, Link, Product, Step

_NO_ENDS = np.zeros(0, np.int64)


class Steps(Protocol):
    """What runs single steps, and keeps what they share."""

    reading: Reading
    chunk_rows: int
    solved: dict[int, Bindings]
    """By number of a product or join, its other side."""
    matched: tuple[Join, Bindings, Matched] | None
    """What a join has found out about rows that it is about to take."""

    def step(self, step: Step, bindings: Bindings, closing: Closing | None, *, counts: bool) -> Bindings:
        """Run one step."""

    def closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """The condition behind a hop that can be asked together with it."""

    def inner(self, step: Product | Join, *, counts: bool) -> Bindings:
        """The other side, solved once."""

    def weighed(self, step: Join, bindings: Bindings, *, counts: bool) -> Bindings | None:
        """The rows that a join pairs, each once, with the number of their pairs."""

    def matches(self, step: Join, bindings: Bindings, *, counts: bool) -> Matched:
        """Which rows of the two sides a join puts together."""

    def links_of(self, link: Link) -> Links:
        """The edges of a hop."""


class Flow:
    """Brings the matches of some steps into one sink."""

    def __init__(self, steps: Steps, sink: Sink, *, counts: bool) -> None:
        self._steps, self._sink, self._counts = steps, sink, counts
        self._budget, self._chunk_rows = steps.reading.budget, steps.chunk_rows

    def run(
        self, steps: tuple[Step, ...], bindings: Bindings, *, is_led: bool | None = None, is_whole: bool = True
    ) -> None:
        """Run steps over rows, which stay the caller's, and hand over what they make.

        `is_led`: whether these rows are a part, and parts come in the order of the sink; None: they are no part.
        `is_whole`: whether no other part has rows that are equal to some of these in what the sink looks at.
        """
        is_own, place = False, 0
        while place < len(steps):
            step = steps[place]
            paired = self._paired(steps[place : place + 2], bindings, is_part=is_led is not None)
            ends = _NO_ENDS if paired is not None else self._ends(step, bindings)
            if self._is_large(step, bindings, ends, is_led=is_led):
                self._split(steps[place:], bindings, ends, is_led=is_led, is_whole=is_whole)
                self._budget.release(held(bindings) if is_own else 0)
                return
            closing = self._steps.closing(step, steps[place + 1 : place + 2])
            if self._sink.merges and is_led is not None and step is steps[-1] and _is_costly(step):
                made = _without(step, bindings)
            else:
                made = self._steps.step(step, bindings, closing, counts=self._counts) if paired is None else paired
            place += 1 if closing is None else 2
            self._budget.claim(held(made), "the matches of the pattern")
            self._budget.release(held(bindings) if is_own else 0)
            bindings, is_own = made, True
            if not bindings.size:
                return
        self._sink.add(bindings)

    def _paired(self, steps: tuple[Step, ...], bindings: Bindings, *, is_part: bool) -> Bindings | None:
        """The rows that a join pairs, each once, if nothing of the other side is read behind it: no pair is made.

        Or those of the other side, if only that is read.
        """
        if len(steps) < 2 or not isinstance(steps[0], Join) or not isinstance(steps[1], Compact):
            return None
        join, keep = steps[0], set(steps[1].keep)
        if keep <= bindings.columns.keys():
            return self._steps.weighed(join, bindings, counts=self._counts)
        other = self._inner(join)
        if is_part or not keep <= other.columns.keys():
            return None
        self._steps.solved[join.number] = bindings  # the two sides change places
        found = self._steps.weighed(_turned(join), other, counts=self._counts)
        self._steps.solved[join.number] = other
        return found

    # --- whether to split ------------------------------------------------------------------------------

    def _ends(self, step: Step, bindings: Bindings) -> Ends:
        """How many rows a step makes of the rows up to each one, about; empty where it can't be split."""
        if bindings.size < 2 or (isinstance(step, Product | Join) and not self._inner(step).size):
            return _NO_ENDS
        match step:
            case Expand():
                return hop_ends(self._steps.links_of(step.link), bindings.columns[step.source])
            case Close() | Filter():
                return even_ends(bindings.size)
            case Product():
                return even_ends(bindings.size, self._inner(step).size)
            case Join():
                return np.cumsum(self._steps.matches(step, bindings, counts=self._counts).counts)
            case _:
                return _NO_ENDS

    def _is_large(self, step: Step, bindings: Bindings, ends: Ends, *, is_led: bool | None) -> bool:
        """Whether a step makes too many rows at once, or more than may be asked for."""
        if not len(ends) or ends[-1] > self._chunk_rows:
            return bool(len(ends))
        if is_led is False or ends[-1] <= self._sink.part_rows:
            return False
        return self._sink.leads(bindings.columns) or self._is_led_by_other(step, bindings)

    def _is_led_by_other(self, step: Step, bindings: Bindings) -> bool:
        """Whether the order of the other side of a product or join is that of the sink."""
        if not isinstance(step, Product | Join) or self._sink.leads(bindings.columns):
            return False
        other = self._inner(step)
        return other.size > 1 and self._sink.leads(other.columns)

    def _inner(self, step: Product | Join) -> Bindings:
        return self._steps.inner(step, counts=self._counts)

    # --- parts -----------------------------------------------------------------------------------------

    def _split(
        self, steps: tuple[Step, ...], bindings: Bindings, ends: Ends, *, is_led: bool | None, is_whole: bool
    ) -> None:
        step = steps[0]
        if is_led is not None:
            self._run_parts(steps, bindings, ends, is_led=is_led, is_whole=is_whole)
            return
        shorter = self._cut_short(steps, bindings)
        if shorter is not None:
            self.run(steps, shorter)
        elif isinstance(step, Product | Join) and self._is_led_by_other(step, bindings):
            other = self._inner(step)
            turned = step if isinstance(step, Product) else _turned(step)
            self._steps.solved[step.number] = bindings  # the two sides change places
            self._run_parts((turned, *steps[1:]), other, self._ends(turned, other), is_led=True)
            self._steps.solved[step.number] = other
        else:
            self._run_parts(steps, bindings, ends, is_led=self._sink.leads(bindings.columns))

    def _cut_short(self, steps: tuple[Step, ...], bindings: Bindings) -> Bindings | None:
        """If nothing but products is left: what is needed of these rows and of the other sides; None: all of them."""
        products = [step for step in steps if isinstance(step, Product)]
        if len(products) < len(steps):
            return None
        shorter = self._sink.foremost(bindings)
        is_shorter = shorter is not bindings
        for step in products:
            other = self._inner(step)
            self._steps.solved[step.number] = self._sink.foremost(other)
            is_shorter = is_shorter or self._steps.solved[step.number] is not other
        return shorter if is_shorter else None

    def _run_parts(
        self, steps: tuple[Step, ...], bindings: Bindings, ends: Ends, *, is_led: bool, is_whole: bool = True
    ) -> None:
        """Run the steps for each part; led ones make the first rows first, and the rest goes when there are enough."""
        step, sink = steps[0], self._sink
        found = self._steps.matches(step, bindings, counts=self._counts) if isinstance(step, Join) else None
        is_new: Truths | None = None
        needed = held(bindings) + 4 * ends.nbytes if is_led else ends.nbytes
        self._budget.claim(needed, f"taking {bindings.size:,} rows in parts")
        if is_led:
            rows, is_new = sink.led(bindings)
            bindings, ends = bindings.take(rows), np.cumsum(np.diff(ends, prepend=0)[rows])
            found = None if found is None else found.of(rows)
        begin, since, is_start = 0, sink.received, True
        while begin < bindings.size and not sink.is_done:
            end = cut(ends, begin, sink.part_rows if is_led else self._chunk_rows)
            end = end if is_new is None else snapped(end, begin, is_new)
            part = rows_between(bindings, begin, end)
            if found is not None and isinstance(step, Join):
                self._steps.matched = (step, part, found.of(slice(begin, end)))
            is_end = end == bindings.size or (is_new is not None and bool(is_new[end]))
            self.run(steps, part, is_led=is_led, is_whole=is_whole and is_led and is_start and is_end)
            sink.ends_part(is_complete=is_whole and is_led and is_end)
            if is_led and is_end and sink.is_full(since):
                break
            begin, is_start = end, is_end
        self._budget.release(needed)


def _turned(step: Join) -> Join:
    """The same join, seen from its other side."""
    return replace(step, left=step.right, op=step.op.mirrored, right=step.left)


def _is_costly(step: Step) -> bool:
    """Whether it is not worth its while when the same is done again behind it."""
    return isinstance(step, Compact) and len(step.keep) > 1


def _without(step: Step, bindings: Bindings) -> Bindings:
    """The columns that are kept, all rows."""
    keep = step.keep if isinstance(step, Compact) else ()
    return Bindings({name: bindings.columns[name] for name in keep}, bindings.size, bindings.weight)
