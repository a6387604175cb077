"""Prints a hundred facts of its process, as JSON: what is the same alone and under `spprof run`."""

import atexit
import gc
import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import warnings

IMPORTED_BY_US = set(sys.modules)


def depth(n=0):
    try:
        return depth(n + 1)
    except RecursionError:
        return n


def status(*names):
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: lines[name].strip() for name in names if name in lines}


def next_descriptors():
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    for fd in opened:
        os.close(fd)
    return opened


def environ_of_c():
    import ctypes

    at, found = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ"), []
    while at[len(found)] is not None:
        found.append(at[len(found)].decode("utf-8", "replace"))
    return found


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        found = file.read()
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return found


def frames():
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name))
        frame = frame.f_back
    return found


facts = {"frames": frames(), "depth": depth(), "modules": sorted(IMPORTED_BY_US)}
for name in dir(sys):
    value = getattr(sys, name)
    if isinstance(value, (str, int, float, bool, tuple, list)) and name not in ("_git", "version"):
        facts["sys." + name] = repr(value)
for name in ("sys", "os", "__main__", "site", "builtins"):
    module = sys.modules.get(name)
    facts["dir." + name] = sorted(vars(module)) if module else None
facts["path_importer_cache"] = sorted(sys.path_importer_cache)
facts["meta_path"] = list(map(repr, sys.meta_path))
facts["path_hooks"] = len(sys.path_hooks)
facts["xoptions"] = sorted(sys._xoptions.items(), key=repr)
facts["hooks"] = [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__,
                  sys.gettrace() is None, sys.getprofile() is None, sys.breakpointhook is sys.__breakpointhook__]
facts["switchinterval"] = sys.getswitchinterval()
facts["main"] = {k: repr(v) for k, v in globals().items() if k in ("__name__", "__file__", "__package__", "__cached__", "__doc__")}
facts["main.spec"] = repr(getattr(sys.modules["__main__"], "__spec__", None))
facts["environ"] = list(os.environ.items())
facts["environ of C"] = environ_of_c()
facts["warnings"] = [list(map(repr, warnings.filters)), sorted(map(repr, warnings.onceregistry))]
facts["atexit"] = atexit._ncallbacks()
facts["gc"] = [gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug()]
facts["signals"] = {int(n): repr(signal.getsignal(n)) for n in signal.valid_signals()}
facts["mask"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
facts["pending"] = sorted(map(int, signal.sigpending()))
facts["wakeup"] = signal.set_wakeup_fd(-1)
facts["timers"] = [signal.getitimer(n) for n in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]
facts["threads"] = [(t.name, t.daemon, type(t).__name__) for t in threading.enumerate()]
facts["is main thread"] = threading.get_native_id() == os.getpid()
facts["limits"] = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
facts["umask"] = [os.umask(0o22), os.umask(0o22)]
facts["descriptors"] = next_descriptors()
facts["standard"] = [[os.fstat(fd).st_mode, os.get_inheritable(fd), os.get_blocking(fd), os.isatty(fd)] for fd in range(3)]
facts["streams"] = [[s.encoding, s.errors, s.line_buffering, s.name, s.mode, s.newlines] for s in (sys.stdin, sys.stdout, sys.stderr)]
facts["ids"] = [os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), os.getsid(0), os.getcwd()]
facts["process"] = [os.getppid(), os.getpgrp(), os.getsid(0)]
facts["children"] = [children(), resource.getrusage(resource.RUSAGE_CHILDREN)]
facts["affinity"] = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
facts["scheduler"] = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
facts["status"] = status("Name", "Umask", "SigQ", "SigBlk", "SigIgn", "ShdPnd", "NoNewPrivs", "Seccomp", "CapEff", "Cpus_allowed")
with open("/proc/self/cmdline", "rb") as file:
    facts["cmdline"] = file.read().decode("utf-8", "surrogateescape").split("\0")
with open("/proc/self/comm") as file:
    facts["comm"] = file.read()
facts["hash"] = hash("x") if os.environ.get("PYTHONHASHSEED") else None
facts["timeout"] = socket.getdefaulttimeout()
facts["stdin"] = sys.stdin.read()
print(re.sub("0x[0-9a-f]+", "0x", json.dumps(facts, default=repr)))  # addresses
