"""Run the calls of a client in threads for an event loop, so that a task that is cancelled ends its request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from omnigraph.server.client.http_transport import CURRENT_CALL, CallHandle

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
U = TypeVar("U")


class CallRunner:
    """Threads for calls that wait for a server."""

    def __init__(self, max_calls: int) -> None:
        self._threads = ThreadPoolExecutor(max_calls, thread_name_prefix="omnigraph call")

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call in a thread. If the waiting task is cancelled, the server cancels what it reads for it."""
        call = CallHandle()
        context = copy_context()
        context.run(CURRENT_CALL.set, call)
        future = asyncio.get_running_loop().run_in_executor(self._threads, partial(context.run, work))
        try:
            return await future
        except asyncio.CancelledError:
            call.abort()
            raise

    async def iterate(self, items: Iterator[T], *, batch: int = 1) -> AsyncIterator[T]:
        """Yield what an iterator yields. A thread fetches `batch` items at a time, or all that are left."""
        while fetched := await self.run(lambda: list(islice(items, batch))):
            for item in fetched:
                yield item

    def close(self) -> None:
        """End the threads; calls in progress are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Wrapper(Protocol[S_co]):
    """An object whose methods call those of another in threads."""

    @property
    def _runner(self) -> CallRunner: ...

    @property
    def _target(self) -> S_co: ...


class AsyncMethod(Generic[S, P, T]):
    """A method of a synchronous class as a coroutine of its wrapper, with the same parameters and errors."""

    def __init__(self, method: Callable[Concatenate[S, P], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    @overload
    def __get__(self, wrapper: None, owner: type[Any]) -> "AsyncMethod[S, P, T]": ...

    @overload
    def __get__(self, wrapper: Wrapper[S], owner: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(
        self, wrapper: Wrapper[S] | None, owner: type[Any]
    ) -> "AsyncMethod[S, P, T] | Callable[P, Coroutine[Any, Any, T]]":
        """Return the coroutine function of a wrapper."""
        if wrapper is None:
            return self

        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            work = partial(self._method, wrapper._target, *args, **kwargs)  # noqa: SLF001 - its own
            return await wrapper._runner.run(work)  # noqa: SLF001 - its own

        call.__doc__ = self.__doc__
        return call


class AsyncOpener(Generic[S, P, T, U]):
    """A method like `AsyncMethod`, whose result is wrapped because using it waits for the server, too."""

    def __init__(self, method: Callable[Concatenate[S, P], T], wrap: Callable[[T, CallRunner], U]) -> None:
        self._method = method
        self._wrap = wrap
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    @overload
    def __get__(self, wrapper: None, owner: type[Any]) -> "AsyncOpener[S, P, T, U]": ...

    @overload
    def __get__(self, wrapper: Wrapper[S], owner: type[Any]) -> Callable[P, Coroutine[Any, Any, U]]: ...

    def __get__(
        self, wrapper: Wrapper[S] | None, owner: type[Any]
    ) -> "AsyncOpener[S, P, T, U] | Callable[P, Coroutine[Any, Any, U]]":
        """Return the coroutine function of a wrapper."""
        if wrapper is None:
            return self
        runner = wrapper._runner  # noqa: SLF001 - its own

        async def call(*args: P.args, **kwargs: P.kwargs) -> U:
            work = partial(self._method, wrapper._target, *args, **kwargs)  # noqa: SLF001 - its own
            return self._wrap(await runner.run(work), runner)

        call.__doc__ = self.__doc__
        return call
