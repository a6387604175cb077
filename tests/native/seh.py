"""Unwind rows of Windows' arm64 code against the code itself: seh.py LIBRARY ROWS.so FUNCTIONS SEED

As compact.py does for macOS: functions of a DLL are run by an emulated processor (unicorn), and before each instruction the rows
of csrc/arch/seh_aarch64.c say where the caller's stack pointer, frame pointer and return address are. Fails unless at least
99.9 % of the instants are right, and all functions are understood. tools/windows --arm64 runs it.
"""

import collections
import ctypes
import struct
import sys
from pathlib import Path

from compact import Machine, Row

SAVED = ("neither x29 nor x30", "x30", "x29 and x30 signed", "x29 and x30")
SEE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Row))


class Library:
    """A DLL's sections, and its table of functions."""

    def __init__(self, path):
        self.data = data = Path(path).read_bytes()
        at = struct.unpack_from("<I", data, 0x3C)[0]
        machine, n, header = *struct.unpack_from("<2H", data, at + 4), struct.unpack_from("<H", data, at + 20)[0]
        assert machine == 0xAA64, hex(machine)
        self.base = struct.unpack_from("<Q", data, at + 48)[0]
        low, size = struct.unpack_from("<2I", data, at + 24 + 112 + 8 * 3)  # the directory of exceptions
        self.segments = {}
        for i in range(n):
            of = at + 24 + header + 40 * i
            virtual, address, there, place = struct.unpack_from("<4I", data, of + 8)
            self.segments[data[of : of + 8]] = (self.base + address, virtual, place, min(there, virtual))
        self.functions = list(struct.iter_unpack("<2I", self.bytes_at(low, size)))

    def bytes_at(self, address, n=None):
        for low, _, place, size in self.segments.values():
            if low <= self.base + address < low + size:
                at = place + self.base + address - low
                return self.data[at : place + size if n is None else at + n]
        raise ValueError(hex(address))


def main():
    library, rows_of, count, seed = Library(sys.argv[1]), ctypes.CDLL(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rows_of.spp_seh_rows_aarch64.restype = ctypes.c_uint32
    machine, kinds, refused = Machine(library, seed), collections.Counter(), []
    machine.random.shuffle(library.functions)
    for begin, data in library.functions[:count]:
        rows, record = [], b"" if data & 3 else library.bytes_at(data)
        see = SEE(lambda _, row, rows=rows: rows.append(Row.from_buffer_copy(row.contents)))
        length = rows_of.spp_seh_rows_aarch64(ctypes.c_uint32(data), record, ctypes.c_size_t(len(record)), see, None)
        kinds[f"packed with {SAVED[data >> 21 & 3]}" if data & 3 else "records"] += 1
        if length == 0:
            refused.append(hex(begin))
            continue
        for _ in range(3):
            machine.run(library.base + begin, library.base + begin + length, rows)
    wrong = sum(machine.wrong.values())
    functions = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(
        f"{sum(kinds.values())} functions ({functions}), {len(refused)} not understood; {machine.right + wrong} instants,",
        end=" ",
    )
    print(f"{wrong} wrong; {machine.overwritten} runs ended since they wrote over what they had saved")
    for place, n in machine.wrong.most_common(5):
        print(f"  wrong {n} times: {place}")
    return 0 if machine.right > 0 and not refused and wrong <= 0.001 * (machine.right + wrong) else 1


if __name__ == "__main__":
    sys.exit(main())
