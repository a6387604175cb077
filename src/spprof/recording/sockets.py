"""Where processes that let others attach listen: for both sides, of which one may be without the core."""

from __future__ import annotations


def address(pid: int, uid: int) -> str:
    """The path of the socket of a process that listens. `pid` is its number in its own container."""
    return f"/tmp/spprof-{uid}/{pid}.sock"
