"""System calls that are refused, as containers do it: a filter in the kernel, for a process and its children (seccomp(2)).

    python tests/refused.py perf_event_open COMMAND...

runs a command without the calls that are named, separated by commas; `refuse` refuses them to the process itself. `kill:NAMES`
and `kill=True`: a call ends the process, as sandboxes have it."""

import ctypes
import os
import platform
import struct
import sys
from errno import EPERM

CALLS = {
    "x86_64": {
        "perf_event_open": 298,
        "process_vm_readv": 310,
        "rt_tgsigqueueinfo": 297,
        "timer_create": 222,
        "openat": 257,
        "timer_settime": 223,
        "ioctl": 16,
    },
    "aarch64": {
        "perf_event_open": 241,
        "process_vm_readv": 270,
        "rt_tgsigqueueinfo": 240,
        "timer_create": 107,
        "openat": 56,
        "timer_settime": 110,
        "ioctl": 29,
    },
}.get(platform.machine() if sys.platform == "linux" else "", {})  # where none are known, none can be refused

CALL_OF_FILTERS = {"x86_64": 317, "aarch64": 277}.get(platform.machine())

# For `allow_only`: what a thread of Python's makes that computes, and the handler's calls (csrc/README.md).
MORE = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
        "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16, "sched_yield": 24, "mremap": 25, "madvise": 28,
        "getpid": 39, "exit": 60, "fcntl": 72, "rt_sigpending": 127, "gettid": 186, "futex": 202,
        "timer_settime": 223, "clock_gettime": 228, "clock_nanosleep": 230, "newfstatat": 262, "ppoll": 271,
        "set_robust_list": 273,
    },
}.get(platform.machine() if sys.platform == "linux" else "", {})  # fmt: skip


def refuse(names, error=EPERM, kill=False, all_threads=False):
    """From now on, and for good. The filter is as the kernel takes it (linux/filter.h, linux/seccomp.h): load the call's number,
    compare, refuse with an errno. Raises KeyError for a call that is not known here, OSError if the kernel takes no filter."""
    action = 0x80000000 if kill else 0x00050000 | error
    program = struct.pack("HBBI", 0x20, 0, 0, 0)
    for name in names:
        program += struct.pack("HBBI", 0x15, 0, 1, CALLS[name]) + struct.pack("HBBI", 0x06, 0, 0, action)
    _put(program + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), all_threads)


def allow_only(names, all_threads=False):
    """The calling thread, or all of the process's, are to make no other call; one ends the process."""
    program = struct.pack("HBBI", 0x20, 0, 0, 0)
    for name in names:
        program += struct.pack("HBBI", 0x15, 0, 1, MORE[name]) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    _put(program + struct.pack("HBBI", 0x06, 0, 0, 0x80000000), all_threads)


def _put(program, all_threads=False):
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    made = Filter(len(program) // 8, program)
    # PR_SET_NO_NEW_PRIVS; seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC); PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    failed = libc.prctl(38, 1, 0, 0, 0)
    if not failed and all_threads:
        failed = libc.syscall(CALL_OF_FILTERS, 1, 1, ctypes.byref(made))
    elif not failed:
        failed = libc.prctl(22, 2, ctypes.byref(made), 0, 0)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    refuse(sys.argv[1].replace("kill:", "").split(","), kill=sys.argv[1].startswith("kill:"))
    os.execvp(sys.argv[2], sys.argv[2:])
