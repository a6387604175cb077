"""Has another process of this version run a script: by `sys.remote_exec`, before 3.14 by a pending call (pending.py) to which the
main thread is led (waking.py) while the process is stopped (stopped.py). The script then runs on a thread of its own, where no
signal's function runs: the main thread only starts it."""

from __future__ import annotations

import os
import sys

from ..errors import SpprofError, Unsupported
from ..outside.elf import Symbols
from ..outside.interpreter import is_at_its_end, name_of, of_process, states
from ..outside.layouts import SAID
from ..outside.memory import Memory, Unreadable, fields
from ..outside.proc import Maps
from ..outside.rights import opened
from . import pending, waking
from .stopped import Halted, Stopped

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Tuple, Union

LISTENING = "; a program that listens can be attached to on every version (SPPROF_LISTEN=1, or spprof.listen())"
_VERSION = "Py_Version"  # 3.11 and later
_ZERO = 9  # bytes from the start of an ELF file to one that is zero
_NO_MAIN_THREAD = "main thread"  # in the words of sys.remote_exec, which cannot find it
STOPPED = "is stopped, until `kill -CONT`"
BEGUN = "has run what it was given, which does not answer: the process may be ending, or can start no thread"
# No thread may be left to start, or the process may be at its end and import nothing any more: an error that came out of the call
# would become a SystemError of the program's. Three system calls, since each may lose the GIL for 5 ms (`open` makes nine). A
# child that is forked meanwhile runs it too, later: the file may be gone.
_READ = r"p=__import__('posix')\ntry:f=p.open(%a,0);c=p.read(f,65536);p.close(f)\nexcept OSError:c=''\nexec(c,{})"
_TEXT = f"""\
try:__import__('_thread').start_new(__import__('builtins').exec,("{_READ}",{{}}))
except Exception:pass
"""


def begin(pid: int, version: str, script: str) -> Union[Entering, Remote]:
    """The way into process `pid` of that version, by which it is to run the file. Raises Unsupported, SpprofError, OSError."""
    return Remote(pid, script) if hasattr(sys, "remote_exec") else Entering(pid, version, script)


class Remote:
    """By Python's own way (PEP 768)."""

    begun = False

    def __init__(self, pid: int, script: str) -> None:
        self.pid, self.script = pid, script

    def attempt(self) -> str:
        """Asks for it, once; what the main thread does is not known. Raises SpprofError."""
        self.begun = True
        folder = os.path.dirname(self.script)
        is_copy = not os.path.exists(self.script)  # in another container; Python looks whether it is here, and no further
        if is_copy:
            os.mkdir(folder, 0o700)
            os.close(os.open(self.script, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            sys.remote_exec(self.pid, self.script)  # type: ignore[attr-defined,unused-ignore]
        except ProcessLookupError:
            raise SpprofError(f"process {self.pid} has ended") from None
        except (RuntimeError, OSError) as error:
            if _NO_MAIN_THREAD in str(error):
                return self._without_main_thread()
            raise Unsupported(f"process {self.pid} cannot be entered: {error}{LISTENING}") from error
        finally:
            if is_copy:
                os.unlink(self.script)
                os.rmdir(folder)
        return ""

    def _without_main_thread(self) -> str:
        """Before the program's first line there is none yet, and after the last one none any more. Raises Unsupported at Python's
        end."""
        self.begun = False
        file = opened(self.pid)
        try:
            memory = Memory(file)
            if is_at_its_end(memory, of_process(memory, self.pid)):
                raise Unsupported(f"nothing can be run in process {self.pid}: Python is at its end there")
        except Unreadable:
            pass
        finally:
            os.close(file)
        return "runs what comes before or after the program (site, atexit)"

    def end(self, has_run: bool) -> bool:
        """Takes it back if it has not been begun. False: it may yet run."""
        return has_run or not self.begun or _in_child(self._take_back)

    def _take_back(self) -> bool:
        with Stopped(self.pid) as process:
            file = opened(self.pid)
            try:
                return self._forget(process, Memory(file))
            finally:
                os.close(file)

    def _forget(self, process: Stopped, memory: Memory) -> bool:
        """A thread that has begun it has taken the mark away first."""
        python = of_process(memory, self.pid)
        support, _, mark_at, path_at = fields("<4Q", memory.read(python.runtime + SAID[python.name]["interp_entered"] - 8, 32))
        path = os.fsencode(self.script) + b"\0"
        for state in states(memory, python):
            at = state.address + support
            if memory.read(at + path_at, len(path)) == path and memory.half(at + mark_at) == 1:
                process.write(at + mark_at, bytes(4))
                process.write(at + path_at, bytes(len(path)))
                return True
        return False


class Entering:
    """File `script` is to be run by process `pid`, of this process's version of Python: `version`. Raises Unsupported if that
    cannot be, SpprofError if the process cannot be stopped."""

    def __init__(self, pid: int, version: str, script: str) -> None:
        self.pid = pid
        self.begun = False
        layout = pending.layout_of(version)
        pending.prove(layout)
        maps = Maps(pid)
        path = maps.interpreter()
        names = [pending.RUNTIME, pending.RUN, waking.ENSURE, waking.RELEASE]
        if sys.version_info >= (3, 11):
            names.append(_VERSION)
        symbols, first = _symbols(maps, path, names)
        self._places = waking.Places(path, symbols, first + _ZERO, waking.way_back(maps))
        self._call: Optional[pending.Call] = pending.Call(layout, symbols, _TEXT % (script,))
        self._is_put = False
        self._last = waking.Woken("")

    def attempt(self) -> str:
        """Brings the main thread to it; again, if it was not enough, but not where it has been in vain. What it does."""
        if self._last.stays is not None and not self._last.stays.is_left():
            return self._last.does
        maps, call = Maps(self.pid), self._call
        assert call is not None
        try:
            with Stopped(self.pid, lambda process: self._check(process, call, maps)) as process:
                return self._attempt(process, call, maps)
        except Halted:
            return STOPPED

    def _check(self, process: Stopped, call: pending.Call, maps: Maps) -> pending.Queue:
        self._check_version(process)
        return call.checked(process, maps)

    def _attempt(self, process: Stopped, call: pending.Call, maps: Maps) -> str:
        queue = self._check(process, call, maps)
        if not self._is_put:
            self._is_put = call.put(process, queue)
            if not self._is_put:
                return "has other pending calls to run"
            queue = call.queue(process)
        self.begun = not call.waits(queue)
        if self.begun:
            return BEGUN
        call.announce(process, queue)
        self._last = waking.wake(process, maps, queue, self._places)
        return self._last.does

    def _check_version(self, process: Stopped) -> None:
        at = self._places.symbols.get(_VERSION)
        if at is not None:
            version = int.from_bytes(process.read(at, 8), "little")
            if version >> 16 != sys.hexversion >> 16:
                raise Unsupported(f"process {self.pid} runs Python {name_of(version)}")

    def end(self, has_run: bool) -> bool:
        """Leaves nothing of it in the process; if it has not been begun, it will not be. False: it may yet run."""
        call, self._call = self._call, None
        if call is None or not self._is_put:
            return True
        return _in_child(lambda: self._end(call, has_run))

    def _end(self, call: pending.Call, has_run: bool) -> bool:
        for _ in range(10):
            try:
                with Stopped(self.pid, call.queue) as process:
                    if call.forget(process) if has_run else call.take_back(process, self._places.empty):
                        return not call.is_there
            except (SpprofError, OSError):
                return False  # it has ended, or cannot be stopped
        return False


def _in_child(work: Callable[[], bool]) -> bool:
    """What it returns; False if it raises. A thread that stops too late to be let go is let go by the kernel when the child ends,
    but would wait for as long as we live. No other thread of ours is in Python meanwhile, so the fork finds no lock taken."""
    child = os.fork()
    if not child:
        ended = False
        try:
            ended = work()
        finally:
            os._exit(0 if ended else 1)
    return os.waitpid(child, 0)[1] == 0


def _symbols(maps: Maps, path: str, names: List[str]) -> Tuple[Dict[str, int], int]:
    """Where the process has what this file of its exports, and where the file begins. Raises Unsupported, OSError."""
    first = maps.objects().get(path)
    if first is None:
        raise Unsupported(f"process {maps.pid} runs no Python that spprof can read")
    file = opened(maps.pid)
    try:
        symbols = Symbols(Memory(file), first)
        found = {name: symbols.find(name) or 0 for name in names}
    except Unreadable as error:
        raise Unsupported(f"{path} is no ELF file that spprof can read: {error}") from error
    finally:
        os.close(file)
    missing = sorted(name for name in names if not found[name])
    if missing:
        raise Unsupported(f"{path} does not export {', '.join(missing)}")
    return found, first
