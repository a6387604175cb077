"""Switches of the environment. All of our own are read here, by tests, targets and the torture rig."""

import os
import sys


def switch(name):
    """Whether the environment asks for it. Missing, empty, `0`, `false` and `no` mean no; all else means yes."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no")


def core_of_linux():
    """Whether ticks are signals to threads and waits have reasons. On Linux tools/matrix --mach builds what macOS runs."""
    from spprof import _core

    return sys.platform == "linux" and "suspend" not in _core.CLOCKS


def native_frames():
    """Whether stacks have native frames. A build of tools/matrix --mach says so, too, but its made-up kernel has no images."""
    import spprof

    return spprof.native_unwinding_available() and (sys.platform != "linux" or core_of_linux())
