"""Programs whose exceptions are raised and caught in all kinds of ways. Each case can run many times, and does the same each time."""

import asyncio
import contextlib
import threading


class Own(Exception):
    class Inner(ValueError):
        pass


def fail(kind=ValueError):
    raise kind("no")


def same_frame():
    for _ in range(10):
        try:
            raise KeyError("a")
        except KeyError:
            pass


def through_frames(depth=30):
    def down(n):
        if n == 0:
            fail(Own)
        down(n - 1)

    try:
        down(depth)
    except Own:
        pass


def from_c():
    for text in ("1", "a", "b"):
        try:
            int(text)
        except ValueError:
            pass
    with contextlib.suppress(ZeroDivisionError):
        1 / 0


def second_clause():
    try:
        fail(Own.Inner)
    except KeyError:
        pass
    except (TypeError, ValueError):
        pass


def again():
    try:
        try:
            fail()
        except ValueError:
            raise
    except ValueError:
        pass


def named_again():
    try:
        try:
            fail()
        except ValueError as error:
            raise error
    except ValueError:
        pass


def another_one():
    try:
        try:
            fail()
        except ValueError as error:
            raise TypeError("t") from error
    except TypeError:
        pass


def finally_goes_on():
    def within():
        try:
            fail()
        finally:
            len("")

    try:
        within()
    except ValueError:
        pass


class Ends:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def exit_ends_it():
    def within():
        with Ends():
            fail()

    within()


def handler_with_others():
    """Others are raised and caught between a catch and its raise again."""
    try:
        try:
            fail()
        except ValueError:
            for _ in range(3):
                same_frame()
            raise
    except ValueError:
        pass


def same_object_twice():
    error = ValueError("kept")
    for _ in range(4):
        try:
            raise error
        except ValueError:
            pass


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


def iterator_in_python():
    for _ in Steps(3):
        pass
    list(Steps(2))


def generators():
    def numbers():
        yield 1
        yield 2

    for _ in numbers():
        pass
    one = numbers()
    try:
        while True:
            next(one)
    except StopIteration:
        pass
    assert next(one, None) is None


def delegated():
    def inner():
        yield 1
        fail()

    def outer():
        yield from inner()

    try:
        for _ in outer():
            pass
    except ValueError:
        pass


def thrown_into_generators():
    def catches():
        try:
            yield 1
        except KeyError:
            yield 2

    def outer():
        yield from catches()

    for make in (catches, outer):
        it = make()
        next(it)
        assert it.throw(KeyError("k")) == 2
        it.close()


@contextlib.contextmanager
def managed():
    try:
        yield
    except KeyError:
        pass


def context_managers():
    with managed():
        raise KeyError("k")
    try:
        with managed():
            fail()
    except ValueError:
        pass


class Missing:
    def __getattr__(self, name):
        raise AttributeError(name)


def swallowed_by_c():
    for _ in range(5):
        hasattr(Missing(), "x")
        getattr(Missing(), "y", None)


class Fails:
    def __init__(self):
        raise Own("in __init__")


def constructors():
    for _ in range(20):
        try:
            Fails()
        except Own:
            pass


def imports():
    try:
        import there_is_no_such_module  # noqa: F401
    except ImportError:
        pass
    try:
        import asyncio.there_is_no_such_module  # noqa: F401
    except ImportError:
        pass


def coroutines():
    async def fails(how):
        await asyncio.sleep(0)
        raise how("x")

    async def main():
        for how in (Own, LookupError):
            try:
                await fails(how)
            except Exception:
                pass
        done = await asyncio.gather(fails(Own), fails(KeyError), return_exceptions=True)
        assert len(done) == 2
        task = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def async_for():
    async def numbers():
        yield 1

    class Numbers:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise StopAsyncIteration

    async def main():
        async for _ in numbers():
            pass
        async for _ in Numbers():
            pass

    try:
        main().send(None)
    except StopIteration:
        pass


def sorted_by_what_fails():
    def key(n):
        if n == 2:
            fail()
        return n

    try:
        sorted([1, 2, 3], key=key)
    except ValueError:
        pass


def in_threads(n=4, each=50):
    def work():
        for _ in range(each):
            try:
                fail()
            except ValueError:
                pass

    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


CASES = [
    same_frame, through_frames, from_c, second_clause, again, named_again, another_one, finally_goes_on, exit_ends_it,
    handler_with_others, same_object_twice, iterator_in_python, generators, delegated, thrown_into_generators, context_managers,
    swallowed_by_c, constructors, imports, coroutines, async_for, sorted_by_what_fails, in_threads,
]  # fmt: skip
