"""Note how mutations ran, to decide whether the next run of one waits for its turn.

Python runs one thread at a time. With 64 threads that evaluate, each change of threads costs more than the evaluation
of one row: 64 threads took 6 ms of CPU for each insert, and 3 ms if the one that publishes evaluates for all of them.
So the writes of a few rows by their keys are evaluated by the leader of their group, one after the other.
"""

from collections.abc import Mapping

from omnigraph.concurrency import ProcessState
from omnigraph.engine.tables.key_predicates import has_key_predicate
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.lru_cache import LruCache
from omnigraph.query.expr_tree import split_conjuncts
from omnigraph.query.mutation_plan import InsertEdge, InsertNode, MutationQuery, Update

# Calls that were run again, and texts, are noted for the next ones; more than these are forgotten.
MAX_NOTED_CALLS = 1_024
MAX_NOTED_TEXTS = 1_024
# A mutation whose latest run cost more is evaluated by its own thread: others would wait for it.
MAX_TURN_SECONDS = 0.02
# The same for one with larger parameters, and for an update by a longer list of keys.
MAX_TURN_LENGTH = 16_384
MAX_TURN_KEYS = 64

# A branch of a graph, and the text and the name of a mutation.
MutationKey = tuple[str, str, str, str | None]


class RunNotes:
    """The mutations whose latest run was outdated by another writer, and those whose runs are short. Thread-safe.

    64 threads that increment one row would run each increment twice: first in vain, and again in its turn.
    """

    def __init__(self) -> None:
        self._outdated: LruCache[tuple[MutationKey, str], bool] = LruCache(MAX_NOTED_CALLS)
        # With the most keys that a parameter may list.
        self._short: LruCache[MutationKey, int] = LruCache(MAX_NOTED_TEXTS)

    def note_outdated(self, key: MutationKey, params: Mapping[str, object], *, is_outdated: bool) -> None:
        """Record whether a call with these parameters was run again."""
        # By text, because a parameter may be a list or a record.
        if is_outdated:
            self._outdated.put((key, repr(params)), True)
        else:
            self._outdated.pop((key, repr(params)))

    def is_outdated(self, key: MutationKey, params: Mapping[str, object]) -> bool:
        """Return whether the latest run of the same call was outdated."""
        return self._outdated.get((key, repr(params))) is not None

    def note_cost(self, key: MutationKey, seconds: float, max_length: int | None) -> None:
        """Record what the latest run of a mutation cost, and its longest list, from `find_max_length`."""
        if max_length is not None and seconds <= MAX_TURN_SECONDS:
            self._short.put(key, max_length)
        else:
            self._short.pop(key)

    def is_short(self, key: MutationKey, params: Mapping[str, object]) -> bool:
        """Return whether a run will hardly keep others waiting: it is of a few rows, and the latest one was fast."""
        longest = self._short.get(key)
        if longest is None:
            return False
        values = params.values()
        lists = [len(value) for value in values if isinstance(value, list | tuple)]
        texts = [len(value) for value in values if isinstance(value, str | bytes)]
        return max(lists, default=0) <= longest and sum(lists) + sum(texts) <= MAX_TURN_LENGTH


RUN_NOTES = ProcessState(RunNotes)


def find_max_length(query: MutationQuery, view: View) -> int | None:
    """Return the longest list with which a mutation writes few rows; None if the number follows from what is stored.

    It writes a row for each statement, or those of given keys, and copies no files.
    """
    longest = MAX_TURN_LENGTH
    for statement in query.statements:
        if not isinstance(statement, InsertNode | InsertEdge | Update):
            return None
        type_ = view.get_type(statement.type.name)
        if list_blob_properties(type_):
            return None
        if isinstance(statement, Update):
            if not has_key_predicate(type_, split_conjuncts(statement.where)):
                return None
            longest = MAX_TURN_KEYS
    return longest
