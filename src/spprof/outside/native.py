"""Native frames of a thread, and where its Python frames belong among them, as in csrc/core/capture/frames_native.h.

A thread that is stopped has its registers read; of one that waits the kernel says pc and sp (/proc/PID/task/TID/syscall). Its
stack is copied, and unwound when the thread goes on. Where a rule needs the frame pointer, and that of a thread that waits is not
known, it is searched for on the stack."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from . import unwinding
from .functions import Functions, build_id
from .interpreter import Interpreter
from .memory import Memory, Unreadable, fields
from .proc import Maps
from .stacks import Frame, Walk
from .unwinding import Processor, Rule, Tables

STACK_MOST = 512 << 10  # bytes that are read of a stack
_DEPTH_MOST = 2000
_BELOW = 128  # bytes below sp that may be in use (x86_64's red zone)
_SEARCH_MOST = 64 << 10  # bytes, for a frame pointer
PC = -1  # the number of the program counter, which DWARF has none for
_EVALUATOR = "_PyEval_EvalFrameDefault"
_OWN = ("Py", "_Py", "py::", "py_trampoline_")  # CPython's functions between a caller and what it calls
_ASTRAY = "the callers of its native frames cannot be found"
_SEARCHED = "a frame pointer was searched for: native frames may be missing"
_NO_STACK = "its frames of C could not be read"
_DO_NOT_FIT = "its native frames do not fit these, and are not shown"


class Stack(NamedTuple):
    """What was read of a thread while it was stopped."""

    registers: Dict[int, int]  # by DWARF's numbers, and PC
    begin: int
    data: bytes


class Mixed(NamedTuple):
    """Frames in the order of calls, the leaf first."""

    frames: List[Frame]
    cut: str  # what is missing; '': nothing


class _Step(NamedTuple):
    pc: int  # within the instruction that runs or calls
    low: int  # where the frame begins
    high: int  # and its caller's


def registers_of(processor: Processor, data: bytes) -> Dict[int, int]:
    """By a `user_regs_struct`. Raises Unreadable."""
    words = fields(f"<{len(data) // 8}Q", data)
    if len(words) <= max(processor.pc, len(processor.order) - 1):
        raise Unreadable("too few registers")
    found = {number: words[place] for place, number in enumerate(processor.order) if number >= 0}
    return {**found, PC: words[processor.pc]}


def stack_of(memory: Memory, processor: Processor, registers: Dict[int, int]) -> Stack:
    """A copy of the stack. Raises Unreadable."""
    begin = max(registers[processor.sp] - _BELOW, 1) & ~7
    return Stack(registers, begin, memory.some(begin, STACK_MOST))


class Native:
    """Of all threads of a process."""

    def __init__(self, memory: Memory, python: Interpreter, maps: Maps, processor: Processor, root: str) -> None:
        """`memory`: for what does not change."""
        self.processor = processor
        self._memory, self._python, self._maps, self._root = memory, python, maps, root
        self._tables = Tables(memory, maps, processor)
        self._functions: Dict[int, Tuple[str, int, Functions]] = {}
        self._interpreter = python.start

    # ---- the walk

    def _steps(self, stack: Stack) -> Tuple[List[_Step], str]:
        """From the leaf on; and why there are no more."""
        processor, registers = self.processor, dict(stack.registers)
        pc = registers.pop(PC)
        steps: List[_Step] = []
        called, searched = False, ""

        def word(address: int) -> int:
            place = address - stack.begin
            if address & 7 or not 0 <= place <= len(stack.data) - 8:
                raise Unreadable("not on the stack")
            return int.from_bytes(stack.data[place : place + 8], "little")

        while len(steps) < _DEPTH_MOST:
            look, sp = pc - called, registers[processor.sp]
            rule = self._tables.rule(look)
            try:
                if rule is None:
                    return [*steps, _Step(look, sp, sp)], _ASTRAY
                if rule.register == processor.fp and processor.fp not in registers:
                    registers[processor.fp] = self._searched(rule, stack, sp, word)
                    searched = _SEARCHED
                found = unwinding.caller(rule, processor, registers, word)
            except Unreadable:
                return [*steps, _Step(look, sp, sp)], _ASTRAY
            high = found[processor.sp] if found is not None else sp
            steps.append(_Step(look, sp, max(high, sp)))
            if found is None or found[processor.back] == 0:
                return steps, searched
            if high < sp or (high == sp and called):
                return steps, _ASTRAY
            pc, called, registers = found[processor.back], not rule.signal, found
        return steps, f"deeper than {_DEPTH_MOST} frames"

    def _searched(self, rule: Rule, stack: Stack, sp: int, word: Callable[[int], int]) -> int:
        """The frame pointer of a function that is known to have one, on x86_64: the first place above sp with a return address
        behind it that a call to this function has left. Raises Unreadable."""
        saved = rule.saved.get(self.processor.fp)
        if not self.processor.pushes or not isinstance(saved, int) or rule.saved.get(self.processor.back) != -8:
            raise Unreadable("no frame pointer")
        first = sp - stack.begin
        words = fields(f"<{(min(len(stack.data), first + _SEARCH_MOST) - first) // 8}Q", stack.data[first:])
        distance = rule.offset // 8 - 1  # from the place to the return address
        for number in range(len(words) - distance):
            back = words[number + distance]
            if self._calls(back, rule):
                return sp + 8 * number
        raise Unreadable("no frame pointer")

    def _calls(self, back: int, rule: Rule) -> bool:
        """Whether the instruction before an address calls this function, or one whose address was not known to the compiler."""
        if not self._tables.start_of(back):
            return False
        try:
            code = self._memory.read(back - 7, 7)
            if code[2] == 0xE8:
                return self._leads_to(back + fields("<i", code[3:])[0], rule)
            if code[1:3] == b"\xff\x15":
                return self._memory.word(back + fields("<i", code[3:])[0]) == rule.start
        except Unreadable:
            return False
        by_register = code[5] == 0xFF and code[6] & 0xF8 == 0xD0
        by_memory = any(code[at] == 0xFF and code[at + 1] & 0x38 == 0x10 for at in (0, 1, 3, 4, 5))
        return (by_register or by_memory) and not rule.start <= back < rule.end

    def _leads_to(self, target: int, rule: Rule) -> bool:
        """By itself, or by an entry of the procedure linkage table."""
        if target == rule.start:
            return True
        code = self._memory.read(target, 16)
        at = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
        at += 1 if code[at] == 0xF2 else 0
        if code[at : at + 2] != b"\xff\x25":
            return False
        return self._memory.word(target + at + 6 + fields("<i", code[at + 2 :])[0]) == rule.start

    # ---- names

    def _object(self, address: int) -> Tuple[str, int, Optional[Functions]]:
        """Its file's name, where it begins, and its functions."""
        start = self._tables.start_of(address)
        if not start:
            mapping = self._maps.at(address)
            return (mapping.name if mapping is not None else ""), 0, None
        if start not in self._functions:
            mapping = self._maps.at(start)
            path = mapping.path if mapping is not None else ""
            try:
                wanted = build_id(self._memory, start)
            except Unreadable:
                wanted = b""
            name = mapping.name or path.strip("[]") if mapping is not None else ""
            self._functions[start] = name, self._tables.bias(start), Functions(self._root, path, wanted)
        return self._functions[start]

    def _name(self, step: _Step) -> Tuple[str, str, bool]:
        """The function, its object, and whether that is the interpreter."""
        library, bias, functions = self._object(step.pc)
        name = functions.at(step.pc - bias) if functions is not None else ""
        return name, library, bool(self._interpreter) and self._tables.start_of(step.pc) == self._interpreter

    def _frame(self, step: _Step, evaluates: bool) -> Optional[Frame]:
        """None: it is not shown."""
        name, library, is_python = self._name(step)
        if is_python and (not name or evaluates or name.startswith(_OWN)):
            return None
        if not name:
            _, bias, functions = self._object(step.pc)
            rule = self._tables.rule(step.pc)
            start = rule.start if rule is not None else step.pc
            name, library = (f"[{library}+{start - bias:#x}]" if functions is not None else "[unknown]"), ""
        return Frame(name, library, 0, None, True)

    # ---- in the order of calls

    def mixed(self, stack: Optional[Stack], walk: Walk, python: List[Optional[Frame]]) -> Mixed:
        """`python`: the frames of the walk; None: one that cannot be read."""
        if stack is None:
            return self._unmixed(python, _NO_STACK)
        steps, cut = self._steps(stack)
        if self._python.at["frame_owner"] < 0:
            return self._by_number(steps, cut, walk, python)
        frames: List[Frame] = []
        used = k = 0
        anchors = [one for one in walk.anchors if stack.begin <= one[0] < stack.begin + len(stack.data)]
        for step in steps:
            evaluates = k < len(anchors) and anchors[k][0] < step.high
            if evaluates:
                if anchors[k][0] < step.low:
                    return self._unmixed(python, _DO_NOT_FIT)
                frames += [one for one in python[used : anchors[k][1]] if one is not None]
                used = max(used, anchors[k][1])
                k += 1
            shown = self._frame(step, evaluates)
            frames += [shown] if shown is not None else []
            if walk.cut and k == len(anchors):
                break
        if used < len(python) and not cut and not walk.cut:
            return self._unmixed(python, _DO_NOT_FIT)
        frames += [one for one in python[used:] if one is not None]
        return Mixed(frames, cut)

    def _by_number(self, steps: List[_Step], cut: str, walk: Walk, python: List[Optional[Frame]]) -> Mixed:
        """3.9, 3.10: each Python frame has an evaluator of its own; there may be one more, without a frame yet or any more."""
        evaluates = [is_python and name == _EVALUATOR for name, _, is_python in map(self._name, steps)]
        more = sum(evaluates) - len(python)
        if python and (cut not in ("", _SEARCHED) or walk.cut or more not in (0, 1)):
            return self._unmixed(python, _DO_NOT_FIT)
        frames: List[Frame] = []
        left = list(python)
        for step, evaluator in zip(steps, evaluates):
            if evaluator and more > 0:
                more -= 1
            elif evaluator and left:
                frames += [one for one in [left.pop(0)] if one is not None]
            shown = self._frame(step, evaluator)
            frames += [shown] if shown is not None else []
        return Mixed(frames, cut)

    @staticmethod
    def _unmixed(python: List[Optional[Frame]], cut: str) -> Mixed:
        return Mixed([one for one in python if one is not None], cut)
