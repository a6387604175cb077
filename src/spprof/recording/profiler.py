"""Profiling a block (`Profiler`) or a function (`profile`)."""

from __future__ import annotations

from ..errors import AlreadyActive, NotActive
from . import api
from .options import MAX_DEPTH

TYPE_CHECKING = False  # see __init__; what only decorators need is imported by them, too
if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Any, AsyncIterator, Callable, Generator, Optional, Sequence, Type, TypeVar, Union, overload

    from ..files.profile import Profile

    Function = TypeVar("Function", bound=Callable[..., Any])


class Profiler:
    """Profiles a `with` block; afterwards `.profile` is the profile.

        with Profiler(rate=10_000) as profiler:
            work()
        profiler.profile.save("work.collapsed")

    Takes the parameters of `spprof.start`, and `__enter__` raises what it raises."""

    def __init__(
        self,
        interval_ms: Optional[float] = None,
        mode: str = "cpu",
        output_path: Optional[Union[str, os.PathLike[str]]] = None,
        *,
        rate: Optional[float] = None,
        clock: str = "auto",
        max_depth: int = MAX_DEPTH.default,
        native: Union[bool, str] = False,
        events: Sequence[str] = ("time",),
        calls: Union[bool, str] = False,
        time: Union[str, Sequence[str]] = (),
        time_cpu: bool = False,
        lines: Union[str, Sequence[str]] = (),
        exceptions: bool = False,
        imports: bool = False,
        specialization: bool = False,
        on_stall: Optional[float] = None,
    ) -> None:
        self._options: dict[str, Any] = {"interval_ms": interval_ms, "mode": mode, "output_path": output_path}
        self._options.update(rate=rate, clock=clock, max_depth=max_depth, native=native, events=events, calls=calls)
        self._options.update(time=time, time_cpu=time_cpu, lines=lines, exceptions=exceptions, imports=imports)
        self._options.update(specialization=specialization, on_stall=on_stall)
        self.profile: Optional[Profile] = None

    def start(self) -> None:
        """As `spprof.start`."""
        api.start(**self._options)

    def stop(self) -> Profile:
        """As `spprof.stop`; the profile is also kept as `.profile`."""
        self.profile = api.stop()
        return self.profile

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.stop()
        except NotActive:  # the block or another thread has stopped it, or this is the copy of the block in a forked child
            pass


class _Call:
    """One call of a decorated function: profiled, unless a profile is being taken already (recursion, other threads)."""

    def __init__(self, wrapper: Any, options: dict[str, Any]) -> None:
        self.wrapper = wrapper
        self.profiler: Optional[Profiler] = Profiler(**options)

    def __enter__(self) -> None:
        assert self.profiler is not None
        try:
            self.profiler.start()
        except AlreadyActive:
            self.profiler = None

    def __exit__(self, *error: object) -> None:
        if self.profiler:
            self.profiler.__exit__(None, None, None)
            self.wrapper.last_profile = self.profiler.profile


if TYPE_CHECKING:

    @overload
    def profile(function: Function) -> Function: ...
    @overload
    def profile(
        *,
        interval_ms: Optional[float] = ...,
        mode: str = ...,
        output_path: Optional[Union[str, os.PathLike[str]]] = ...,
        rate: Optional[float] = ...,
        clock: str = ...,
        max_depth: int = ...,
        native: Union[bool, str] = ...,
        events: Sequence[str] = ...,
        calls: Union[bool, str] = ...,
        time: Union[str, Sequence[str]] = ...,
        time_cpu: bool = ...,
        lines: Union[str, Sequence[str]] = ...,
        exceptions: bool = ...,
        imports: bool = ...,
        specialization: bool = ...,
        on_stall: Optional[float] = ...,
    ) -> Callable[[Function], Function]: ...


def profile(function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """Decorator: profiles each call of a function, coroutine, generator or async generator.

        @spprof.profile
        def work(): ...

        @spprof.profile(mode="wall", output_path="fetch.spprof")
        async def fetch(): ...

    Options are those of `spprof.start`. The profile of the last call is the function's `last_profile`; a file given as
    each call overwrites output_path. A generator is profiled from its first step until it ends, with whatever runs
    between the steps. A call made while a profile is already being taken is part of that one and starts none.
    Raises what `spprof.start` raises, when the function is called."""
    import functools

    if function is None:
        return functools.partial(profile, **options)
    Profiler(**options)  # a misspelt option is an error here, not at the first call
    wrapper: Any = functools.wraps(function)(_wrapper(function, options))
    wrapper.last_profile = None
    return wrapper


def _wrapper(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    import inspect

    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with _Call(coroutine, options):
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isasyncgenfunction(function):

        async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with _Call(async_generator, options):
                async with _Closing(function(*args, **kwargs)) as inner:
                    step = inner.asend(None)
                    while True:
                        try:
                            value = await step
                        except StopAsyncIteration:
                            return
                        try:
                            sent = yield value
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            step = inner.athrow(error)
                        else:
                            step = inner.asend(sent)

        return async_generator
    if inspect.isgeneratorfunction(function):

        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with _Call(generator, options):
                return (yield from function(*args, **kwargs))

        return generator

    def call(*args: Any, **kwargs: Any) -> Any:
        with _Call(call, options):
            return function(*args, **kwargs)

    return call


class _Closing:
    """Closes an async generator at the end of a block, as `contextlib.aclosing` of 3.10."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    async def __aenter__(self) -> Any:
        return self.generator

    async def __aexit__(self, *error: object) -> None:
        await self.generator.aclose()
