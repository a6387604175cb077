"""Has another process run a script, before 3.14 and its `sys.remote_exec`: by a pending call (pending.py) to which the main
thread is led (waking.py) while the process is stopped (stopped.py). The script runs on a thread of its own, where no signal's
function runs: the main thread only starts it."""

from __future__ import annotations

import os
import sys
from typing import Optional

from ..errors import SpprofError, Unsupported
from . import pending, waking
from .images import Images
from .stopped import Stopped

_VERSION = "Py_Version"  # 3.11 and later
_ZERO = 9  # bytes from the start of an ELF file to one that is zero
_TEXT = """\
try:__import__('_thread').start_new(__import__('builtins').exec,("with open(%a,'rb')as f:c=f.read()\\nexec(c,{})",{}))
except RuntimeError:pass
"""


class Entering:
    """File `script` is to be run by process `pid`, of this process's version of Python: `version`. Raises Unsupported if that
    cannot be, SpprofError if the process cannot be stopped."""

    def __init__(self, pid: int, version: str, script: str) -> None:
        self.pid = pid
        self.begun = False
        layout = pending.layout_of(version)
        pending.prove(layout)
        images = Images(pid)
        path = images.interpreter()
        names = [pending.RUNTIME, pending.RUN, waking.ENSURE, waking.RELEASE]
        if sys.version_info >= (3, 11):
            names.append(_VERSION)
        symbols = images.symbols(path, names)
        first = next(mapping.start for mapping in images.mappings if mapping.path == path and mapping.offset == 0)
        self._places = waking.Places(path, symbols, first + _ZERO, waking.way_back(images))
        self._call: Optional[pending.Call] = pending.Call(layout, symbols, _TEXT % (script,))
        self._is_put = False

    def attempt(self) -> str:
        """Brings the main thread to it; again, if it was not enough. What the main thread does; '' if it has come."""
        images = Images(self.pid)
        with Stopped(self.pid) as process:
            return self._attempt(process, images)

    def _attempt(self, process: Stopped, images: Images) -> str:
        call = self._call
        assert call is not None
        if not self._is_put:
            self._check_version(process)
            self._is_put = call.put(process, images)
            if not self._is_put:
                return "has other pending calls to run"
        queue = call.queue(process)
        self.begun = not call.waits(queue)
        if self.begun:
            return ""
        call.announce(process, queue)
        return waking.wake(process, images, queue, self._places).does

    def _check_version(self, process: Stopped) -> None:
        at = self._places.symbols.get(_VERSION)
        if at is not None:
            version = int.from_bytes(process.read(at, 8), "little")
            if version >> 16 != sys.hexversion >> 16:
                raise Unsupported(f"process {self.pid} runs Python {version >> 24}.{version >> 16 & 255}")

    def end(self, has_run: bool) -> bool:
        """Leaves nothing of it in the process; if it has not been begun, it will not be. False: it may yet run.

        A child does it: a thread that stops too late to be let go is let go by the kernel when the child ends, but would stand
        for as long as we live. No other thread of ours is in Python meanwhile, so the fork finds no lock taken."""
        call, self._call = self._call, None
        if call is None or not self._is_put:
            return True
        child = os.fork()
        if not child:
            ended = False
            try:
                ended = self._end(call, has_run)
            finally:
                os._exit(0 if ended else 1)
        return os.waitpid(child, 0)[1] == 0

    def _end(self, call: pending.Call, has_run: bool) -> bool:
        for _ in range(10):
            try:
                with Stopped(self.pid) as process:
                    if call.forget(process) if has_run else call.take_back(process, self._places.empty):
                        return not call.is_there
            except (SpprofError, OSError):
                return False  # it has ended, or cannot be stopped
        return False
