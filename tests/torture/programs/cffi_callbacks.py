"""Callbacks by cffi: nested, raising, from threads that C began, and with a buffer of C's that Python fills."""

import threading

import cffi
from _truth import burn, part

PYPI = ["cffi"]
ROOTS = ["begun", "compare"]
ANYWHERE = ["_raised"]

ffi = cffi.FFI()
ffi.cdef("""
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
typedef unsigned long pthread_t;
int pthread_create(pthread_t *thread, const void *attributes, void *(*start)(void *), void *argument);
int pthread_join(pthread_t thread, void **result);
int usleep(unsigned int us);
""")
libc = ffi.dlopen(None)


@ffi.callback("int(const void *, const void *)")
def compare(a, b):
    burn(15)
    return ffi.cast("int *", a)[0] - ffi.cast("int *", b)[0]


@ffi.callback("int(const void *, const void *)")
def nested(a, b):
    if ffi.cast("int *", a)[0] % 8 == 0:
        ordered(12, compare)
    return ffi.cast("int *", a)[0] - ffi.cast("int *", b)[0]


@ffi.callback("int(const void *, const void *)", error=1, onerror=lambda *error: True)
def raises(a, b):
    raise KeyError


@ffi.callback("void *(void *)")
def begun(argument):
    given = ffi.from_handle(argument)
    libc.usleep(2000)
    given.append(burn(20000) + ordered(30, compare))
    return ffi.NULL


def ordered(n, function):
    numbers = ffi.new("int[]", [i * 7919 % 997 for i in range(n)])
    libc.qsort(numbers, n, ffi.sizeof("int"), function)  # -> compare nested raises <lambda>
    return numbers[0]


def sorts(n):
    return sum(ordered(100, compare) + ordered(60, nested) + ordered(20, raises) for _ in range(n))


def main():
    results, threads, handles = [], ffi.new("pthread_t[6]"), []
    for i in range(6):
        handles.append(ffi.new_handle(results))
        libc.pthread_create(ffi.addressof(threads, i), ffi.NULL, begun, handles[i])
    own = [threading.Thread(target=lambda: results.append(ordered(800, compare))) for _ in range(2)]  # -> <lambda>
    for thread in own:
        thread.start()
    for thread in own:
        thread.join()
    for i in range(6):
        libc.pthread_join(threads[i], ffi.NULL)
    with part("sorts"):
        total = sorts(30)
    print(sorted(results), total >= 0)


if __name__ == "__main__":
    main()
