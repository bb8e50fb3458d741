"""What fails unexpectedly asks whether a damaged file is to blame, before it is taken for a bug."""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError
from omnigraph.graph import lazy_ops

C = TypeVar("C", bound=type)
_PANIC = "PanicException"
"""What a fault inside of Lance arrives as, which is no Exception."""


def blames_damage(cls: C) -> C:
    """Let the own public methods of a class that has a `_session` look for damage when they fail unexpectedly."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _guard(method))
    return cls


def _guard(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def guarded(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - handed on as they are
        try:
            return method(self, *args, **named)
        except OmnigraphError:
            raise
        except BaseException as error:
            # An interrupt, or the end of a process, says nothing of what is stored.
            if isinstance(error, Exception) or type(error).__name__ == _PANIC:
                lazy_ops.damage_diagnosis.blame_damage(self._session, error)
            raise

    return guarded
