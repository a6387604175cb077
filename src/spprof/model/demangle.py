"""Names of C++ and Rust functions as people write them."""

from __future__ import annotations

import atexit
import functools
import re
from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    import subprocess

# The Itanium C++ ABI's demangler, which every C++ runtime has (its section 3.4, "Demangler API").
_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib")
# Rust's legacy mangling is C++'s with a hash of 16 digits at the end, and escapes of its own (rustc's symbol_mangling/legacy.rs).
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_RUST_ESCAPE = re.compile(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$")


def demangle(name: str) -> str:
    """A C++ or Rust function's name with its namespaces and parameters, as `c++filt` writes it; any other name as it is, and so
    too all names where no C++ runtime library is to be found. Rust's newer mangling (`_R...`, its RFC 2603) needs
    binutils' `c++filt`, of 2.36 or later."""
    if name.startswith("_R"):
        return _rust_v0(name) or name
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


# In crate[0123456789abcdef], what distinguishes two crates of the same name.
_RUST_CRATE_HASH = re.compile(r"(?<=\w)\[[0-9a-f]+\]")


@functools.lru_cache(1)
def _filter() -> Optional[subprocess.Popen[str]]:
    """One process for all names. It ends when this one does, as its input ends then."""
    import shutil  # both here: few profiles have such names
    import subprocess

    path = shutil.which("c++filt")
    if path is None:
        return None
    pipe, no = subprocess.PIPE, subprocess.DEVNULL
    try:
        process = subprocess.Popen([path], stdin=pipe, stdout=pipe, stderr=no, encoding="utf-8", errors="replace", bufsize=1)
    except OSError:
        return None
    atexit.register(process.communicate)
    return process


@functools.lru_cache(1 << 14)
def _rust_v0(name: str) -> Optional[str]:
    process = _filter()
    if process is None or process.stdin is None or process.stdout is None or not name.isidentifier():
        return None
    try:
        process.stdin.write(name + "\n")
        process.stdin.flush()
        return _RUST_CRATE_HASH.sub("", process.stdout.readline().rstrip("\n")) or None
    except (OSError, ValueError):
        return None


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
