"""Check for damaged files when a public method fails unexpectedly, before the failure is reported as a bug."""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from omnigraph.errors import OmnigraphError
from omnigraph.graph import lazy_ops

C = TypeVar("C", bound=type)
# A panic inside Lance arrives as this class, which is a BaseException that Python code can't import.
_PANIC = "PanicException"


def blames_damage(cls: C) -> C:
    """Wrap the public methods of a class with a `_session`, so that unexpected failures are checked for damage."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _guard(method))
    return cls


def _guard(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on unchanged
        try:
            return method(self, *args, **kwargs)
        except OmnigraphError:
            raise
        except BaseException as error:
            # An interrupt or exit is no sign of damage.
            if isinstance(error, Exception) or type(error).__name__ == _PANIC:
                lazy_ops.damage_diagnosis.blame_damage(self._session, error)
            raise

    return call
