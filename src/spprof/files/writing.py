"""Whether a profile's file is still being written. A process that takes a profile keeps its file locked until it has finished it
or is gone; unlike its number, that lock is nobody else's, and holds in other containers too."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, Dict

_HEADER_MOST = 1 << 24  # bytes


def is_being_written(path: str) -> bool:
    """Whether a process has this file locked; on file systems without locks, whether it has no end and its process lives. False
    also where that cannot be known (Windows)."""
    try:
        import fcntl

        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (ImportError, OSError, ValueError):  # the last: no system has such a path
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)  # at once: a profile may be about to begin there
        return False
    except BlockingIOError:
        return True
    except OSError:
        pid = begun(path).get("pid")
        return isinstance(pid, int) and process_lives(pid) and not ending(path)
    finally:
        os.close(file)


def process_lives(pid: int) -> bool:
    """Whether there is such a process, as far as the system says; on Windows, where to ask would end it, False."""
    if os.name == "nt":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the last: a number that no process has
        return False
    except OSError:
        pass
    return True


def begun(path: str) -> Dict[str, Any]:
    """The header of a file that is perhaps just being begun; {} if there is none."""
    import json

    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            start = file.read(17)
            n = int.from_bytes(start[8:12], "little")
            if start[:8] != b"\x89SPPROF\n" or start[16:] != b"H" or n > _HEADER_MOST:
                return {}
            header = json.loads(file.read(n))
            return header if isinstance(header, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def ending(path: str) -> bytes:
    """The JSON of the file's end block, if that is its last one; else b""."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 240))
            tail = file.read()
            return tail[tail.rindex(b'{"stop_ns":') :] if b'{"stop_ns":' in tail else b""
    except OSError:
        return b""


def finish(path: str, reason: str) -> None:
    """Gives an end to the file of a process that is gone and had no time to (docs/file-format.md, block E): after its last whole
    block. Raises OSError if no space is left for it; the file is as whole as before, then."""
    if ending(path):
        return
    import time
    from zlib import crc32

    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(8) != b"\x89SPPROF\n":  # nothing could be written
            return
        at = 8
        while at + 9 <= size:
            file.seek(at)
            n = int.from_bytes(file.read(4), "little")
            if at + 9 + n > size:
                break
            at += 9 + n
        payload = b'{"stop_ns":%d,"reason":"%s","cut":true}' % (time.monotonic_ns(), reason.encode("ascii"))
        file.seek(at)
        try:
            file.write(len(payload).to_bytes(4, "little") + crc32(b"E" + payload).to_bytes(4, "little") + b"E" + payload)
            file.flush()
            file.truncate()
        except OSError:
            os.ftruncate(file.fileno(), at)
            raise
