"""Names of C++ and Rust functions as people write them."""

from __future__ import annotations

import functools
import re
from typing import Any, Optional, Tuple

# The Itanium C++ ABI's demangler, which every C++ runtime has (its section 3.4, "Demangler API").
_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib")
# Rust's legacy mangling is C++'s with a hash of 16 digits at the end, and escapes of its own (rustc's symbol_mangling/legacy.rs).
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_RUST_ESCAPE = re.compile(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$")


def demangle(name: str) -> str:
    """A C++ or Rust function's name with its namespaces and parameters, as `c++filt` writes it; any other name as it is, and so
    too all names where no C++ runtime library is to be found. Rust's newer mangling (`_R...`) is left as it is."""
    if not name.startswith("_Z"):
        return name
    text = _itanium(name)
    if text is None:
        return name
    if _RUST_HASH.search(text):
        return _rust(_RUST_HASH.sub("", text))
    return text


def _rust(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return _RUST_ESCAPES[match[1]] if match[1] else chr(int(match[2], 16)) if int(match[2], 16) < 0x110000 else match[0]

    text = re.sub(r"(^|::)_\$", r"\1$", text)  # an escape cannot begin a name, so an underscore does
    return _RUST_ESCAPE.sub(plain, text.replace("..", "::"))


@functools.lru_cache(1)
def _runtime() -> Optional[Tuple[Any, Any, Any]]:
    try:
        import ctypes  # only here: a profile without such names does without it
    except ImportError:
        return None
    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        free = ctypes.CDLL(None).free
        function.argtypes, function.restype = (
            [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p],
            ctypes.c_void_p,
        )
        free.argtypes, free.restype = [ctypes.c_void_p], None
        return function, ctypes.string_at, free
    return None


@functools.lru_cache(1 << 14)
def _itanium(name: str) -> Optional[str]:
    runtime = _runtime()
    if runtime is None or "\0" in name:
        return None
    made = runtime[0](name.encode("utf-8", "surrogatepass"), None, None, None)
    if not made:
        return None
    try:
        return str(runtime[1](made).decode("utf-8", "replace"))
    finally:
        runtime[2](made)
