"""The caller of a native frame, by the unwind tables that every object has in memory: `.eh_frame_hdr` and `.eh_frame` (DWARF 5,
section 6.4, with the changes of the Linux Standard Base). csrc/core/native/unwind_table.c reads whole tables ahead; here only the
entry of each address that is asked for is read.

Nothing that is read is believed: reads are guarded, and programs of a table are bounded."""

from __future__ import annotations

import struct
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from .memory import Memory, Unreadable, fields
from .proc import Maps

_EH_FRAME = 0x6474E550  # p_type
_LOAD = 1
_ENTRY_MOST = 1 << 16  # bytes
_KEPT_MOST = 8  # states that a program remembers
_SIGNED_BITS = 48  # of an address: what is above may be a signature (aarch64)


class Processor(NamedTuple):
    """What differs between processors. Registers have DWARF's numbers."""

    sp: int
    fp: int
    back: int  # the column of the return address
    pushes: bool  # a call pushes that on the stack, so it has no register
    order: Tuple[int, ...]  # of registers in a `user_regs_struct`; -1: none of them
    pc: int  # where that is there


# Their numbers in ELF (e_machine).
PROCESSORS = {
    62: Processor(7, 6, 16, True, (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, -1, -1, -1, 7), 16),
    183: Processor(31, 29, 30, False, tuple(range(32)), 32),
}

Expression = bytes
# Where a register of the caller is: at a distance from the CFA, or at or as what an expression says.
Saved = Union[int, Tuple[bool, Expression], None]


class Rule(NamedTuple):
    """What an entry says of an address."""

    register: int  # the CFA is this and `offset`; -1: what `expression` says
    offset: int
    expression: Expression
    saved: Dict[int, Saved]  # None: unknown from here on
    signal: bool  # the kernel's frame of a signal: its caller was interrupted, not left by a call
    start: int  # of the function
    end: int


class _Common(NamedTuple):
    """A common information entry: what its functions share."""

    code_step: int
    data_step: int
    encoding: int
    augmented: bool
    signal: bool
    program: bytes


class _Table(NamedTuple):
    """Of an object: the index of its functions."""

    at: int
    first: int  # of the sorted pairs
    pairs: int


class _Bytes:
    """Reads numbers from bytes, one after the other. Raises Unreadable at their end."""

    def __init__(self, data: bytes, address: int) -> None:
        self.data, self.address, self.at = data, address, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Unreadable("an entry is too short")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int:
        return fields("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
            if shift > 63:
                raise Unreadable("no number")
        return value - (1 << shift) if signed and byte & 64 else value

    def block(self) -> bytes:
        return self.take(self.leb())

    def encoded(self, encoding: int, index: int = 0) -> int:
        """A pointer (DW_EH_PE_*). `index`: the address of the index, from which some are counted."""
        place = self.address + self.at
        if encoding & 15 in (1, 9):
            value = self.leb(encoding & 15 == 9)
        else:
            form = {0: "Q", 2: "H", 3: "I", 4: "Q", 10: "h", 11: "i", 12: "q"}.get(encoding & 15)
            if form is None:
                raise Unreadable("an unknown encoding")
            value = self.number(form)
        base = {0x00: 0, 0x10: place, 0x30: index}.get(encoding & 0x70)
        if base is None:
            raise Unreadable("an unknown encoding")
        return (value + base) & ((1 << 64) - 1)


class Tables:
    """Of all objects of a process."""

    def __init__(self, memory: Memory, maps: Maps, processor: Processor) -> None:
        self.memory, self.maps, self.processor = memory, maps, processor
        self.objects = maps.objects()
        self._tables: Dict[int, Optional[_Table]] = {}
        self._rules: Dict[int, Optional[Rule]] = {}

    def start_of(self, address: int) -> int:
        """Where the object begins whose code has this address; 0: none does."""
        mapping = self.maps.at(address)
        return self.objects.get(mapping.path, 0) if mapping is not None and "x" in mapping.access else 0

    def bias(self, start: int) -> int:
        """What is added to addresses in the file of the object that begins there; 0: it is none."""
        try:
            first, _ = self._segments(start)
        except Unreadable:
            return 0
        return start - first

    def rule(self, address: int) -> Optional[Rule]:
        """None: no object says anything of it."""
        if address not in self._rules:
            try:
                self._rules[address] = self._rule(address)
            except Unreadable:
                self._rules[address] = None
        return self._rules[address]

    def _rule(self, address: int) -> Optional[Rule]:
        start = self.start_of(address)
        if not start:
            return None
        if start not in self._tables:
            self._tables[start] = None
            self._tables[start] = self._table(start)
        table = self._tables[start]
        return self._entry(table, address) if table is not None else None

    def _segments(self, start: int) -> Tuple[int, int]:
        """The address that the file has for its beginning, and for its index of functions (0: it has none). Raises Unreadable."""
        head = self.memory.read(start, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise Unreadable("no 64-bit ELF")
        (at,), (size, count) = fields("<Q", head[32:]), fields("<HH", head[54:])
        first: Optional[int] = None
        index = 0
        for number in range(min(count, 64)):
            kind, _, _, place = fields("<IIQQ", self.memory.read(start + at + number * size, 24))
            if kind == _LOAD and first is None:
                first = place & ~4095
            elif kind == _EH_FRAME:
                index = place
        if first is None:
            raise Unreadable("nothing of it is loaded")
        return first, index

    def _table(self, start: int) -> Optional[_Table]:
        first, place = self._segments(start)
        if not place:
            return None
        index = place + start - first
        data = _Bytes(self.memory.read(index, 32), index)
        version, frames, count_encoding, encoding = data.take(4)
        if version != 1 or encoding != 0x3B:  # linkers write no other: pairs of 32-bit distances from the index
            return None
        data.encoded(frames, index)
        count = data.encoded(count_encoding, index)
        return _Table(index, index + data.at, count)

    def _entry(self, table: _Table, address: int) -> Optional[Rule]:
        low, high = 0, table.pairs
        while low < high:
            middle = (low + high) // 2
            if table.at + self.memory.half(table.first + 8 * middle) <= address:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        return self._function(table.at + self.memory.half(table.first + 8 * (low - 1) + 4), address)

    def _data(self, place: int) -> _Bytes:
        """The entry that begins there, after its length."""
        size = self.memory.half(place)
        if not 0 < size <= _ENTRY_MOST:
            raise Unreadable("no entry")
        return _Bytes(self.memory.read(place + 4, size), place + 4)

    def _function(self, place: int, address: int) -> Optional[Rule]:
        data = self._data(place)
        back = data.number("I")
        common = self._common(place + 4 - back)
        start = data.encoded(common.encoding)
        end = start + data.encoded(common.encoding & 15)
        if not start <= address < end:
            return None
        if common.augmented:
            data.block()
        self.memory.spend(len(data.data) + len(common.program))
        program = _Program(self.processor, common)
        program.run(_Bytes(common.program, 0), 1)
        program.initial = dict(program.saved)
        program.run(_Bytes(data.data[data.at :], 0), address - start + 1)
        return Rule(program.register, program.offset, program.expression, program.saved, common.signal, start, end)

    def _common(self, place: int) -> _Common:
        data = self._data(place)
        zero, version = data.number("I"), data.take(1)[0]
        if zero or version not in (1, 3):
            raise Unreadable("no common entry")
        letters = b""
        while not letters.endswith(b"\0"):
            letters += data.take(1)
        code_step, data_step = data.leb(), data.leb(True)
        if (data.take(1)[0] if version == 1 else data.leb()) != self.processor.back:
            raise Unreadable("another return address")
        encoding, signal = 0, b"S" in letters
        if letters[:1] == b"z":
            more = _Bytes(data.block(), 0)
            for letter in letters[1:-1]:
                if letter == ord("R"):
                    encoding = more.take(1)[0]
                elif letter == ord("P"):
                    more.encoded(more.take(1)[0] & 15)
                elif letter == ord("L"):
                    more.take(1)
                elif letter not in b"SB":
                    raise Unreadable("an unknown letter")
        elif letters != b"\0":
            raise Unreadable("an unknown letter")
        return _Common(code_step, data_step, encoding, letters[:1] == b"z", signal, data.data[data.at :])


class _Program:
    """Runs the instructions of an entry up to an address."""

    def __init__(self, processor: Processor, common: _Common) -> None:
        self._common = common
        self.register, self.offset, self.expression = processor.sp, 0, b""
        self.saved: Dict[int, Saved] = {}
        self.initial: Dict[int, Saved] = {}
        self._kept: List[Tuple[int, int, bytes, Dict[int, Saved]]] = []

    def run(self, data: _Bytes, until: int) -> None:
        """`until`: so many bytes of code from the function's beginning on. Raises Unreadable."""
        place = 0
        while data.at < len(data.data):
            op = data.take(1)[0]
            high, low = op & 192, op & 63
            if high == 0x40 or op in (2, 3, 4):  # advance_loc
                place += (low if high == 0x40 else data.number({2: "B", 3: "H", 4: "I"}[op])) * self._common.code_step
                if place >= until:
                    return
            elif high == 0x80:  # offset
                self.saved[low] = data.leb() * self._common.data_step
            elif high == 0xC0:  # restore
                self._restore(low)
            else:
                self._other(op, data)

    def _restore(self, register: int) -> None:
        if register in self.initial:
            self.saved[register] = self.initial[register]
        else:
            self.saved.pop(register, None)

    def _other(self, op: int, data: _Bytes) -> None:
        step = self._common.data_step
        if op in (0x00, 0x2D):  # nop; signatures of return addresses are taken off anyway
            pass
        elif op == 0x2E:  # GNU_args_size
            data.leb()
        elif op == 0x0A:  # remember_state
            if len(self._kept) >= _KEPT_MOST:
                raise Unreadable("too many states")
            self._kept.append((self.register, self.offset, self.expression, dict(self.saved)))
        elif op == 0x0B:  # restore_state
            if not self._kept:
                raise Unreadable("no state")
            self.register, self.offset, self.expression, self.saved = self._kept.pop()
        elif op == 0x0C:  # def_cfa
            self.register, self.offset = data.leb(), data.leb()
        elif op == 0x0D:  # def_cfa_register
            self.register = data.leb()
        elif op == 0x0E:  # def_cfa_offset
            self.offset = data.leb()
        elif op == 0x0F:  # def_cfa_expression
            self.register, self.expression = -1, data.block()
        elif op == 0x12:  # def_cfa_sf
            self.register, self.offset = data.leb(), data.leb(True) * step
        elif op == 0x13:  # def_cfa_offset_sf
            self.offset = data.leb(True) * step
        elif op in (0x05, 0x06, 0x07, 0x08, 0x10, 0x11, 0x16):
            self._register(op, data.leb(), data)
        else:
            raise Unreadable("an unknown instruction")

    def _register(self, op: int, register: int, data: _Bytes) -> None:
        if op == 0x05:  # offset_extended
            self.saved[register] = data.leb() * self._common.data_step
        elif op == 0x11:  # offset_extended_sf
            self.saved[register] = data.leb(True) * self._common.data_step
        elif op == 0x06:  # restore_extended
            self._restore(register)
        elif op == 0x07:  # undefined
            self.saved[register] = None
        elif op == 0x08:  # same_value
            self.saved.pop(register, None)
        else:  # expression, val_expression
            self.saved[register] = (op == 0x10, data.block())


def value_of(expression: Expression, registers: Dict[int, int], word: Callable[[int], int], first: Optional[int] = None) -> int:
    """What an expression says; `first` is on its stack to begin with. The operations that compilers, linkers and C libraries
    write. Raises Unreadable."""
    data, stack, mask = _Bytes(expression, 0), [] if first is None else [first], (1 << 64) - 1

    def pop() -> int:
        if not stack:
            raise Unreadable("an empty stack")
        return stack.pop()

    while data.at < len(expression):
        op = data.take(1)[0]
        if 0x70 <= op <= 0x8F:  # breg0 .. breg31
            if op - 0x70 not in registers:
                raise Unreadable("an unknown register")
            stack.append((registers[op - 0x70] + data.leb(True)) & mask)
        elif 0x30 <= op <= 0x4F:  # lit0 .. lit31
            stack.append(op - 0x30)
        elif op in (0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E):  # const1u .. const8u
            stack.append(data.number("BbHhIiQ"[op - 8]) & mask)
        elif op in (0x10, 0x11):  # constu, consts
            stack.append(data.leb(op == 0x11) & mask)
        elif op == 0x23:  # plus_uconst
            stack.append((pop() + data.leb()) & mask)
        elif op == 0x06:  # deref
            stack.append(word(pop()))
        elif op == 0x12:  # dup
            stack += [pop()] * 2
        elif op in (0x1A, 0x1C, 0x22, 0x24, 0x2A):
            right, left = pop(), pop()
            if op == 0x24 and right > 63:
                raise Unreadable("too far")
            results = {0x1A: left & right, 0x1C: left - right, 0x22: left + right, 0x2A: int(left >= right)}
            stack.append((left << right if op == 0x24 else results[op]) & mask)
        else:
            raise Unreadable("an unknown operation")
        if len(stack) > 64:
            raise Unreadable("a stack is too high")
    return pop()


def caller(rule: Rule, processor: Processor, registers: Dict[int, int], word: Callable[[int], int]) -> Optional[Dict[int, int]]:
    """The caller's registers that are known, its pc under the number of the return address; None: there is no caller. Raises
    Unreadable."""
    if processor.back in rule.saved and rule.saved[processor.back] is None:
        return None
    if rule.register < 0:
        frame = value_of(rule.expression, registers, word)
    elif rule.register in registers:
        frame = (registers[rule.register] + rule.offset) & ((1 << 64) - 1)
    else:
        raise Unreadable("an unknown register")
    # What no rule names is as it was. Of registers that a call need not keep that may be wrong; no caller's rule asks for them.
    found = {number: value for number, value in registers.items() if number not in (processor.sp, processor.back)}
    if not processor.pushes and processor.back in registers and processor.back not in rule.saved:
        found[processor.back] = registers[processor.back]  # aarch64: in its register still
    for number, saved in rule.saved.items():
        found.pop(number, None)
        if isinstance(saved, int):
            found[number] = word((frame + saved) & ((1 << 64) - 1))
        elif saved is not None:
            is_place, expression = saved
            value = value_of(expression, registers, word, frame)
            found[number] = word(value) if is_place else value
    found.setdefault(processor.sp, frame)
    if processor.back not in found:
        raise Unreadable("no return address")
    if not processor.pushes:
        found[processor.back] &= (1 << _SIGNED_BITS) - 1
    return found
