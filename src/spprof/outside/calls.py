"""What a thread waits for, in words, by what the kernel says of its system call (/proc/PID/task/TID/syscall)."""

from __future__ import annotations

import os
import platform
import socket
import struct
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from .memory import Memory, Unreadable, fields

_POLLED_MOST = 8  # descriptors that are named


class Call(NamedTuple):
    """A system call that a thread is in, with six arguments."""

    name: str
    kind: str
    arguments: List[int]


# Name, number on x86_64 and on aarch64 (asm/unistd.h), kind of arguments.
_CALLS = (
    ("read", 0, 63, "descriptor"), ("write", 1, 64, "descriptor"), ("open", 2, -1, ""), ("openat", 257, 56, ""),
    ("pread", 17, 67, "descriptor"), ("pwrite", 18, 68, "descriptor"), ("readv", 19, 65, "descriptor"),
    ("writev", 20, 66, "descriptor"), ("accept", 43, 202, "descriptor"), ("accept4", 288, 242, "descriptor"),
    ("connect", 42, 203, "descriptor"), ("send", 44, 206, "descriptor"), ("recv", 45, 207, "descriptor"),
    ("sendmsg", 46, 211, "descriptor"), ("recvmsg", 47, 212, "descriptor"), ("recvmmsg", 299, 243, "descriptor"),
    ("sendfile", 40, 71, "descriptor"), ("fcntl", 72, 25, "descriptor"), ("flock", 73, 32, "descriptor"),
    ("fsync", 74, 82, "descriptor"), ("fdatasync", 75, 83, "descriptor"), ("ioctl", 16, 29, "descriptor"),
    ("poll", 7, -1, "poll"), ("ppoll", 271, 73, "poll"), ("select", 23, -1, "select"), ("pselect", 270, 72, "select"),
    ("epoll_wait", 232, -1, "epoll"), ("epoll_pwait", 281, 22, "epoll"), ("epoll_pwait2", 441, 441, "epoll"),
    ("nanosleep", 35, 101, "sleep"), ("clock_nanosleep", 230, 115, "sleep"), ("restart_syscall", 219, 128, "again"),
    ("futex", 202, 98, "futex"), ("wait4", 61, 260, "child"), ("waitid", 247, 95, "child"),
    ("pause", 34, -1, "signal"), ("sigsuspend", 130, 133, "signal"), ("sigtimedwait", 128, 137, "signal"),
    ("io_getevents", 208, 4, ""), ("io_uring_enter", 426, 426, "descriptor"),
    ("msgrcv", 70, 188, ""), ("semop", 65, 193, ""), ("semtimedop", 220, 192, ""),
)  # fmt: skip


def _by_number(machine: str) -> Dict[int, tuple[str, str]]:
    column = {"x86_64": 1, "aarch64": 2}.get(machine, 0)
    return {row[column]: (row[0], row[3]) for row in _CALLS if column}  # type: ignore[misc]


_BY_NUMBER = _by_number(platform.machine())


def call_of(folder: str) -> Optional[Call]:
    """The call of the thread whose folder in /proc this is; None: it is in none, or the kernel does not say."""
    try:
        with open(f"{folder}/syscall") as file:
            words = file.read().split()
        numbers = [int(word, 0) for word in words]
    except (OSError, ValueError):
        return None
    return of_numbers(numbers[0], numbers[1:7]) if len(numbers) >= 7 else None


def of_numbers(number: int, arguments: List[int], machine: str = "") -> Optional[Call]:
    """The call of this number, on this machine or another; None: it is none."""
    if not 0 <= number < 1 << 31:
        return None
    by_number = _by_number(machine) if machine else _BY_NUMBER
    name, kind = by_number.get(number, (f"system call {number}", ""))
    return Call(name, kind, arguments)


def place_of(folder: str) -> Optional[Tuple[int, int]]:
    """The stack pointer and the program counter of a thread that waits; None: the kernel does not say."""
    try:
        with open(f"{folder}/syscall") as file:
            words = file.read().split()
        return (int(words[-2], 0), int(words[-1], 0)) if len(words) >= 3 else None
    except (OSError, ValueError):
        return None


def in_words(call: Call, memory: Memory, pid: int) -> str:
    """Such as 'waits for a child process, 4712: wait4'. `pid` 0: of a process that has ended."""
    first, second = call.arguments[:2]
    if call.kind == "descriptor":
        return f"waits in {call.name} of {descriptor(pid, first & 0xFFFFFFFF)}"
    if call.kind == "poll":
        return f"waits in {call.name} of {_polled(memory, pid, first, second)}"
    if call.kind == "select":
        read = _selected(memory, pid, first & 0xFFFFFFFF, second)
        return f"waits in {call.name} of {read}" if read else f"sleeps: {call.name}"
    if call.kind == "epoll":
        return f"waits in {call.name} of {_watched(pid, first & 0xFFFFFFFF)}"
    if call.kind == "sleep":
        return f"sleeps{_left(call, memory, pid)}: {call.name}"
    if call.kind == "again":
        return "waits in a call that a stop had interrupted"
    if call.kind == "child":
        return f"waits for a child process{_child(call)}: {call.name}"
    if call.kind == "signal":
        return f"waits for a signal: {call.name}"
    return f"waits in {call.name}"


def _child(call: Call) -> str:
    which = call.arguments[0 if call.name == "wait4" else 1] & 0xFFFFFFFF
    is_one = which < 1 << 31 and which > 0 and (call.name == "wait4" or call.arguments[0] == 1)
    return f", {which}" if is_one else ""


def _left(call: Call, memory: Memory, pid: int) -> str:
    """Of a sleep until a time of CLOCK_MONOTONIC, as Python 3.11 and later sleep."""
    clock, flags, request = call.arguments[:3]
    if not pid or call.name != "clock_nanosleep" or clock != time.CLOCK_MONOTONIC or flags != 1:
        return ""
    try:
        seconds, nanoseconds = fields("<qq", memory.read(request, 16))
    except Unreadable:
        return ""
    left = seconds + nanoseconds / 1e9 - time.clock_gettime(time.CLOCK_MONOTONIC)
    return f" for {left:,.1f} s more" if 0 <= left < 1e9 else ""


def _several(pid: int, numbers: List[int]) -> str:
    shown = ", ".join(descriptor(pid, number) for number in numbers[:_POLLED_MOST])
    more = len(numbers) - _POLLED_MOST
    return f"{shown} and {more} more" if more > 0 else shown


def _polled(memory: Memory, pid: int, array: int, count: int) -> str:
    try:
        data = memory.read(array, 8 * min(count, 1024))
    except Unreadable:
        return f"{count} descriptors"
    numbers = [number for number, _ in struct.iter_unpack("<iI", data) if number >= 0]
    return _several(pid, numbers) or "no descriptors"


def _selected(memory: Memory, pid: int, count: int, readable: int) -> str:
    """Those that it wants to read; '' if there are none, as of a sleep."""
    if not 0 < count <= 1024:
        return ""
    try:
        bits = int.from_bytes(memory.read(readable, (count + 63) // 64 * 8), "little") if readable else 0
    except Unreadable:
        return f"up to {count} descriptors"
    numbers = [number for number in range(count) if bits >> number & 1]
    return _several(pid, numbers) or "descriptors to write to"


def _watched(pid: int, number: int) -> str:
    try:
        with open(f"/proc/{pid}/fdinfo/{number}") as file:
            numbers = [int(line.split()[1]) for line in file if line.startswith("tfd:")]
    except (OSError, ValueError, IndexError):
        numbers = []
    return _several(pid, numbers) or f"descriptor {number}"


def descriptor(pid: int, number: int) -> str:
    """Such as 'descriptor 5, a pipe'."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return f"descriptor {number}"
    if target.startswith("socket:["):
        return f"descriptor {number}, {_socket(pid, target[8:-1])}"
    for kind, words in (("pipe:", "a pipe"), ("anon_inode:", "")):
        if target.startswith(kind):
            return f"descriptor {number}, {words or target[len(kind) :].strip('[]')}"
    return f"descriptor {number}, {target}"


def _socket(pid: int, inode: str) -> str:
    """A socket, by its peer if it has one."""
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for words in _table(pid, kind):
            if len(words) > 9 and words[9] == inode:
                state = words[3]
                if kind.startswith("tcp") and state == "0A":
                    return f"a socket that listens at {_address(words[1])}"
                is_connected = not words[2].endswith(":0000")
                return f"a socket to {_address(words[2])}" if is_connected else f"a socket at {_address(words[1])}"
    for words in _table(pid, "unix"):
        if len(words) > 6 and words[6] == inode:
            return f"a Unix socket {words[7]}" if len(words) > 7 else "a Unix socket"
    return "a socket"


def _table(pid: int, kind: str) -> List[List[str]]:
    try:
        with open(f"/proc/{pid}/net/{kind}", errors="replace") as file:
            return [line.split() for line in file][1:]
    except OSError:
        return []


def _address(text: str) -> str:
    """0100007F:1F90 is 127.0.0.1:8080."""
    try:
        host, port = text.split(":")
        data = b"".join(struct.pack("=I", int(host[i : i + 8], 16)) for i in range(0, len(host), 8))
        if len(data) == 4:
            return f"{socket.inet_ntop(socket.AF_INET, data)}:{int(port, 16)}"
        return f"[{socket.inet_ntop(socket.AF_INET6, data)}]:{int(port, 16)}"
    except (ValueError, OSError):
        return text
