"""Code made at run time, named in perf-PID.map as a JIT compiler does: jitted.py OUT SECONDS INTERVAL_MS WHEN (before or after
start)."""

import ctypes
import json
import mmap
import os
import platform
import struct
import sys

from drive import repeat

import spprof

out, seconds, interval_ms, when = sys.argv[1:]
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int)


def burn():
    return sum(i * i for i in range(300)) % 7


def called_by_jitted():
    return burn()


callback = CALLBACK(called_by_jitted)
target = struct.pack("<Q", ctypes.cast(callback, ctypes.c_void_p).value)
if platform.machine() == "aarch64":
    # stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x16, target; blr x16; ldp x29, x30, [sp], #16; ret
    code = struct.pack("<6I", 0xA9BF7BFD, 0x910003FD, 0x58000090, 0xD63F0200, 0xA8C17BFD, 0xD65F03C0) + target
else:
    # push %rbp; mov %rsp, %rbp; movabs $callback, %rax; call *%rax; pop %rbp; ret
    code = b"\x55\x48\x89\xe5\x48\xb8" + target + b"\xff\xd0\x5d\xc3"
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if platform.machine() == "aarch64":  # what was written is not yet what will be run
    ctypes.CDLL("libgcc_s.so.1").__clear_cache(ctypes.c_void_p(address), ctypes.c_void_p(address + len(code)))
jitted = CALLBACK(address)
path = f"/tmp/perf-{os.getpid()}.map"


def name_it():
    with open(path, "a") as file:
        file.write(f"{address:x} 1 an older function\n{address:x} {len(code):x} jitted [optimized] :3\n{address + 64:x} 8 cut")


def use_jitted(turns):
    for _ in range(turns):
        jitted()


if when == "before":
    name_it()
spprof.start(float(interval_ms), "cpu", out, native=True)
use_jitted(1000)
if when == "after":
    name_it()
repeat(lambda: use_jitted(100), float(seconds))
spprof.stop()
os.unlink(path)
print(json.dumps(spprof.stats()))
