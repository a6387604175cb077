"""Python > C > Python in a known order: native_calls.py OUT SECONDS INTERVAL_MS NATIVE LIBRARY MODE.

Each callback `cb_X` is called by the native function `apply_X` (or by CPython's C code), which `use_X` called."""

import ctypes
import functools
import json
import os
import re
import sqlite3
import sys
import time
import zlib
from xml.etree import ElementTree

import spprof

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from switches import switch  # noqa: E402

out, seconds, interval_ms, native, library, mode = sys.argv[1:]
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
uses = []


def burn(n):
    return sum([i * i for i in range(n)])


def nested(n):
    """A callback's callback: use_plain below cb_qsort."""
    return use_plain(2) if n == 3 else burn(20)


def cb_plain(n):
    return burn(20) % 7


def cb_alloca(n):
    return burn(20) % 7


def cb_wide(n):
    return burn(20) % 7


def cb_deep(n):
    return burn(20) % 7


def cb_thread(n):
    return burn(20) % 7


def cb_throwing(n):
    return burn(20) % 7


def cb_wait(n):
    time.sleep(0.03)
    return n


def cb_qsort(n):
    return nested(n) % 97


def cb_reduce(a, b):
    return a + burn(10)


def cb_key(n):
    return -burn(10) * n


def cb_sub(match):
    return str(burn(10))


def cb_sqlite(n):
    return burn(10) + n


class Target:
    def start(self, tag, attributes):  # cb_xml's
        burn(10)

    def close(self):
        return None


def cb_generator(n):
    for i in range(n):
        burn(10)
        yield i


def inner_generator(n):
    yield from cb_generator(n)


wrapped = {}


def apply(name, n):
    if name not in wrapped:
        wrapped[name] = CALLBACK(globals()["cb_" + name])
    return getattr(lib, "apply_" + name)(wrapped[name], n)


def use_plain(n):
    return apply("plain", n)


def use_alloca(n):
    return apply("alloca", n)


def use_wide(n):
    return apply("wide", n)


def use_deep(n):
    for _ in range(20):
        apply("deep", n)


def use_thread(n):
    return apply("thread", 4 * n)  # milliseconds: long enough to be found


def use_throwing(n):
    return apply("throwing", n)


def use_wait(n):
    return apply("wait", n)


def use_qsort(n):
    return apply("qsort", n)


def use_reduce(n):
    return functools.reduce(cb_reduce, range(n))


def use_sorted(n):
    return sorted(range(n), key=cb_key)


def use_sub(n):
    return re.sub("a", cb_sub, "a" * n)


def use_sqlite(n):
    connection = sqlite3.connect(":memory:")
    connection.create_function("f", 1, cb_sqlite)
    rows = "with recursive t(x) as (select 1 union all select x + 1 from t where x < ?) select sum(f(x)) from t"
    connection.execute(rows, (n,)).fetchall()
    connection.close()


def use_xml(n):
    parser = ElementTree.XMLParser(target=Target())
    parser.feed("<a>" + "<b/>" * n + "</a>")
    parser.close()


def use_generator(n):
    return sum(inner_generator(n))


def use_zlib(n):
    return zlib.compress(b"abcdefgh" * n * 50)


def main():
    end = time.process_time() + float(seconds)
    left_out = {"use_wait"} if mode == "cpu" else set()
    if switch("SPPROF_SANITIZED"):
        left_out.add("use_throwing")  # AddressSanitizer wants the C++ library loaded before Python
    if not hasattr(lib, "apply_throwing"):
        left_out.add("use_throwing")  # made without a C++ compiler
    names = [name for name in sorted(globals()) if name.startswith("use_") and name not in left_out]
    turn = 0
    while (left := end - time.process_time()) > 0:  # read when it may be used up: a full machine's timers meet this more often then
        until = time.monotonic() + left
        while time.monotonic() < until:
            for name in names:
                if name != "use_thread" or turn % 40 == 0:
                    globals()[name](30)
            turn += 1


if __name__ == "__main__":
    spprof.start(float(interval_ms), mode, out, native={"True": True}.get(native, native))
    lib = ctypes.CDLL(library)  # loaded when profiling has begun
    time.sleep(0.1)
    main()
    spprof.stop()
    print(json.dumps(spprof.stats()))
