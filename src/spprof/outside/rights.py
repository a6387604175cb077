"""What another process is, and whether this user may read it."""

from __future__ import annotations

import os

from .proc import Maps, status


def opened(pid: int) -> int:
    """Its memory. Raises OSError."""
    return os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)


def missing_right(uid: int) -> str:
    """Which right is missing, and what gives it."""
    if os.geteuid() not in (0, uid):
        return "it is another user's: run spprof as that user, or as root"
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = int(file.read())
    except (OSError, ValueError):
        scope = 0
    if scope == 3:
        return "kernel.yama.ptrace_scope is 3: until this machine restarts nobody may"
    if scope and os.geteuid() != 0:
        return f"kernel.yama.ptrace_scope is {scope}: run spprof as root, or set it to 0"
    return "the capability SYS_PTRACE is missing (Docker: --cap-add SYS_PTRACE; Kubernetes: securityContext.capabilities.add)"


def python_of(pid: int) -> str:
    """The version of Python that a process runs, such as '3.14' or '3.13t', by the names of its files; '' if it runs none. Raises
    PermissionError if this user may not know."""
    names = sorted({mapping.name for mapping in Maps(pid).mappings})
    for of_name in (_of_library, _of_program, _of_extension):
        for name in names:
            version = of_name(name)
            if version:
                return version
    return ""


def _begins(text: str) -> str:
    """The version that it begins with: '3.13t' of '3.13td.so'; '' if it begins otherwise."""
    rest = text[2:].lstrip("0123456789")
    if not text.startswith("3.") or rest == text[2:]:
        return ""
    return text[: len(text) - len(rest)] + ("t" if rest.startswith("t") else "")


def _of_library(name: str) -> str:
    return _begins(name[len("libpython") :]) if name.startswith("libpython") else ""


def _of_program(name: str) -> str:
    version = _begins(name[len("python") :]) if name.startswith("python") else ""
    return version if name[len("python") + len(version) :][:1] in ("", "d") else ""


def _of_extension(name: str) -> str:
    text = "3." + name.partition(".cpython-3")[2]
    version = _begins(text)
    return version if text[len(version) :].startswith(("-", "d-")) else ""


def command_of(pid: int) -> str:
    """Its words; '?' if it has none (any more)."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return " ".join(os.fsdecode(word) for word in file.read(1 << 16).split(b"\0")[:-1]) or "?"
    except OSError:
        return "?"


def own_number(pid: int, tid: int) -> int:
    """A thread's id in its own container."""
    try:
        return int(status(pid, tid).get("NSpid", str(tid)).split()[-1])
    except (OSError, ValueError):
        return tid
