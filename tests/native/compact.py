"""Unwind rows of macOS's arm64 code against the code itself: compact.py LIBRARY ROWS.so FUNCTIONS SEED

Functions of a Mach-O library are run by an emulated processor (unicorn) with registers and memory made up, so that branches go
either way; calls are passed over. Before each instruction the rows of csrc/arch/compact_aarch64.c say where the caller's stack
pointer, frame pointer and return address are; what they were is known, since the function was entered with them. Fails unless at
least 99.9 % of the instants are right. tools/macos --unwind runs it.
"""

import bisect
import collections
import ctypes
import random
import struct
import sys
from pathlib import Path

from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_HOOK_MEM_READ_UNMAPPED, UC_HOOK_MEM_WRITE_UNMAPPED, UC_MODE_ARM, Uc, UcError
from unicorn.arm64_const import UC_ARM64_REG_PC, UC_ARM64_REG_SP, UC_ARM64_REG_X0, UC_ARM64_REG_X29, UC_ARM64_REG_X30

SAME, DWARF, ROWS = -(1 << 15), 0xFFFFFFFF, 64
PAGE = 0x1000
STACK, STACK_BYTES = 0x70_0000_0000, 0x40_0000


class Row(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_uint32),
        ("off", ctypes.c_int32),
        ("fp", ctypes.c_int16),
        ("ra", ctypes.c_int16),
        ("by_fp", ctypes.c_bool),
    )


class Function(ctypes.Structure):
    _fields_ = (("encoding", ctypes.c_uint32), ("code", ctypes.c_char_p), ("n", ctypes.c_uint32), ("begins", ctypes.c_bool))


class Library:
    """A Mach-O file's segments, where its functions begin, and the encoding of each."""

    def __init__(self, path):
        self.data = data = Path(path).read_bytes()
        self.segments, sections, at, starts = {}, {}, 32, None
        for _ in range(struct.unpack_from("<I", data, 16)[0]):
            kind, size = struct.unpack_from("<2I", data, at)
            if kind == 0x19:  # LC_SEGMENT_64: address, size, place in the file, size there
                self.segments[self._name(at + 8)] = struct.unpack_from("<4Q", data, at + 24)
                for i in range(struct.unpack_from("<I", data, at + 64)[0]):
                    sections[self._name(at + 72 + 80 * i)] = struct.unpack_from("<2QI", data, at + 72 + 80 * i + 32)
            elif kind == 0x26:  # LC_FUNCTION_STARTS
                starts = struct.unpack_from("<2I", data, at + 8)
            at += size
        self.base = self.segments["__TEXT"][0]
        low, n, _ = sections["__text"]
        self.starts = [a for a in self._starts(*starts) if low <= a < low + n] + [low + n]
        self.entries = list(self._entries(*sections["__unwind_info"]))
        self._places = [place for place, _ in self.entries]

    def _name(self, at):
        return self.data[at : at + 16].rstrip(b"\0").decode()

    def _starts(self, at, n):
        address, end = self.base, at + n
        while at < end:
            step = shift = 0
            while True:
                byte = self.data[at]
                at += 1
                step |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            if step == 0:
                return
            address += step
            yield address

    def _entries(self, _, n, at):
        info = self.data[at : at + n]
        shared, shared_n, _, _, index, index_n = struct.unpack_from("<6I", info, 4)
        for i in range(index_n - 1):
            first, page = struct.unpack_from("<2I", info, index + 12 * i)
            kind, entries, n = struct.unpack_from("<I2H", info, page) if page else (0, 0, 0)
            for k in range(n):
                if kind == 2:
                    place, encoding = struct.unpack_from("<2I", info, page + entries + 8 * k)
                else:
                    own = page + struct.unpack_from("<H", info, page + 8)[0]
                    word = struct.unpack_from("<I", info, page + entries + 4 * k)[0]
                    which = word >> 24
                    where = shared + 4 * which if which < shared_n else own + 4 * (which - shared_n)
                    place, encoding = first + (word & 0xFFFFFF), struct.unpack_from("<I", info, where)[0]
                yield self.base + place, encoding

    def encoding(self, address):
        return self.entries[bisect.bisect_right(self._places, address) - 1][1]

    def code(self, low, end):
        at = self.segments["__TEXT"][2] - self.base
        return self.data[at + low : at + end]


class Machine:
    """The library in an emulated processor's memory."""

    def __init__(self, library, seed):
        self.random = random.Random(seed)
        self.uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        end = max(at + n for at, n, _, _ in library.segments.values())
        self.uc.mem_map(library.base, (end - library.base + PAGE - 1) // PAGE * PAGE)
        for at, _, place, n in library.segments.values():
            self.uc.mem_write(at, library.data[place : place + n])
        self.uc.mem_map(STACK, STACK_BYTES)
        self.uc.hook_add(UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED, self._make_up)
        self.uc.hook_add(UC_HOOK_CODE, self._instruction)
        self.right, self.overwritten, self.wrong = 0, 0, collections.Counter()

    def _make_up(self, uc, access, address, size, value, data):
        made = False
        for page in {address // PAGE, (address + size - 1) // PAGE}:
            try:
                uc.mem_map(page * PAGE, PAGE)
                uc.mem_write(page * PAGE, self.random.randbytes(PAGE))
                made = True
            except UcError:
                pass
        return made

    def _word(self, address):
        try:
            return struct.unpack("<Q", self.uc.mem_read(address, 8))[0]
        except UcError:
            return None

    def _instruction(self, uc, address, size, data):
        if not self.low <= address < self.end:
            uc.emu_stop()
            return
        row = [row for row in self.rows if row.at <= address - self.low][-1]
        fp, lr = uc.reg_read(UC_ARM64_REG_X29), uc.reg_read(UC_ARM64_REG_X30)
        cfa = (fp if row.by_fp else uc.reg_read(UC_ARM64_REG_SP)) + row.off
        found = (cfa, fp if row.fp == SAME else self._word(cfa + row.fp), lr if row.ra == SAME else self._word(cfa + row.ra))
        places = (row.fp, row.ra)
        if found == self.truth:
            self.right += 1
            self.last = places
        elif cfa == self.truth[0] and places == self.last:  # a store by a made-up number went there
            self.overwritten += 1
            uc.emu_stop()
            return
        else:
            self.wrong[f"{self.low:#x}+{address - self.low:#x}"] += 1
        code = struct.unpack("<I", uc.mem_read(address, 4))[0]
        if code & 0xFC000000 == 0x94000000 or code & 0xFFFFFC1F == 0xD63F0000:  # bl, blr
            uc.reg_write(UC_ARM64_REG_X0, self.random.choice([0, 1, self.random.getrandbits(40)]))
            uc.reg_write(UC_ARM64_REG_X30, address + 4)
            uc.reg_write(UC_ARM64_REG_PC, address + 4)

    def run(self, low, end, rows):
        self.low, self.end, self.rows, self.last = low, end, rows, None
        draw = self.random
        self.truth = (STACK + 0x300000 - 16 * draw.randrange(100), STACK + 0x380000 + 16 * draw.randrange(100), 0x6666000000)
        for i in range(29):
            value = draw.choice([0, 1, 2, draw.getrandbits(8), 0x5000000000 + 8 * draw.getrandbits(20)])
            self.uc.reg_write(UC_ARM64_REG_X0 + i, value)
        for register, value in zip((UC_ARM64_REG_SP, UC_ARM64_REG_X29, UC_ARM64_REG_X30), self.truth):
            self.uc.reg_write(register, value)
        try:
            self.uc.emu_start(low, 0, count=1000)
        except UcError:
            pass  # it came to an instruction or an address that there is not: up to there it counts


def main():
    library, rows_of, count, seed = Library(sys.argv[1]), ctypes.CDLL(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rows_of.spp_compact_rows_aarch64.restype = ctypes.c_uint32
    machine, with_rows, kinds = Machine(library, seed), 0, collections.Counter()
    order = list(range(len(library.starts) - 1))
    machine.random.shuffle(order)
    for i in order[:count]:
        low, end = library.starts[i], library.starts[i + 1]
        rows, entry = (Row * ROWS)(), ctypes.c_uint32()
        function = Function(library.encoding(low), library.code(low, end), end - low, True)
        n = rows_of.spp_compact_rows_aarch64(ctypes.byref(function), rows, ctypes.byref(entry))
        kinds[function.encoding >> 24 & 15] += 1
        if n in (0, DWARF):
            continue
        with_rows += 1
        for _ in range(3):
            machine.run(low, end, list(rows[:n]))
    wrong = sum(machine.wrong.values())
    modes = ", ".join(f"{n} of mode {mode}" for mode, n in sorted(kinds.items()))
    print(f"{with_rows} of {count} functions have rows ({modes}); {machine.right + wrong} instants, {wrong} wrong")
    for place, n in machine.wrong.most_common(5):
        print(f"  wrong {n} times: {place}")
    return 0 if machine.right > 0 and wrong <= 0.001 * (machine.right + wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
