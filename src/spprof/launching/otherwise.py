"""Enters a process by an interpreter of that process's version, where this one is of another: it proves in itself what it relies
on (entering.py). It is the process's own, or one of this user's; root never runs a file that others could have written. Whatever
it is, it is waited for no longer than a limit, and ended then."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Dict, Optional, Tuple

from ..errors import SpprofError, Unsupported
from . import commands

_MOST = 65536  # bytes of an answer
_ANSWER_S = 20.0  # its longest work is ten stops of a process, of a second each (entering.py)
_END_S = 2.0  # for it to end, once it has nothing more to do
_START = "import sys; sys.path.append({!r}); from spprof.launching.otherwise import serve; serve(*sys.argv[1:])"


class Other:
    """As entering.Entering; `uid`, `gid`: of the process, whose user may read `package`; `interrupted`: a descriptor that can be
    read when nothing is to be waited for any more. Raises Unsupported if there is no such interpreter."""

    begun = False

    def __init__(self, pid: int, uid: int, gid: int, version: str, package: str, script: str, interrupted: int) -> None:
        path, user = _interpreter(pid, uid, gid, version)
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        start = _START.format(os.path.dirname(package if user else own))
        self._what = f"{path}, by which process {pid} is to be entered,"
        self._bad = Unsupported(f"{path} does not work as Python {version}, by which process {pid} is to be entered")
        self._works = False
        self._interrupted = interrupted
        self._given_up = False  # an answer, which then comes before that to the end
        self._process = subprocess.Popen(
            [path, "-I", "-S", "-B", "-c", start, str(pid), version, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is ours alone
            **user,
        )

    def attempt(self) -> str:
        """As that."""
        answer = self._ask("attempt")
        if self._given_up:
            return ""
        try:
            self.begun = bool(answer["begun"])
            return str(answer["does"])
        except KeyError:
            raise self._bad from None

    def end(self, has_run: bool) -> bool:
        """As that."""
        try:
            if self._given_up:
                self._line(_END_S)
            return bool(self._ask("has run" if has_run else "end")["ended"])
        except KeyError:
            return False
        except (SpprofError, OSError, ValueError):
            return not self._works
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """The kernel lets go what it has stopped."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with suppress(PermissionError, subprocess.TimeoutExpired):  # another user's; it waits for a disk
                process.kill()
                process.wait(_END_S)
        process.stdout.close()

    def _ask(self, what: str) -> Dict[str, Any]:
        """{}: we were interrupted."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(what.encode() + b"\n")
            line = self._line(_ANSWER_S, self._interrupted if what == "attempt" else None)
            self._given_up = not line
            answer = json.loads(line) if line else {}
            if not isinstance(answer, dict):
                raise ValueError
        except (OSError, ValueError):
            raise self._bad from None
        self._works = True
        if "error" in answer:
            raise Unsupported(str(answer["error"]))
        return answer

    def _line(self, seconds: float, interrupted: Optional[int] = None) -> bytes:
        """An answer; nothing: we were interrupted. One that is late is not waited for again: it would be taken for the next."""
        assert self._process.stdout is not None
        file, line, late = self._process.stdout.fileno(), b"", time.monotonic() + seconds
        ends = [file] if interrupted is None else [file, interrupted]
        while not line.endswith(b"\n"):
            ready = select.select(ends, [], [], max(0.0, late - time.monotonic()))[0]
            if interrupted in ready:
                return b""
            if not ready:
                self._works = True  # as far as is known: what was asked for may have been done
                self._process.kill()
                raise SpprofError(f"{self._what} has not answered within {seconds:g} s")
            data = os.read(file, _MOST)
            line += data
            if not data or len(line) > _MOST:
                raise ValueError
        return line


def _interpreter(pid: int, uid: int, gid: int, version: str) -> Tuple[str, Dict[str, Any]]:
    """Its path, and which user it is to run as."""
    own = os.path.realpath(os.readlink(f"/proc/{pid}/exe"))
    try:
        is_python = os.path.basename(own).startswith("python") and os.path.samefile(own, f"/proc/{pid}/exe")
    except OSError:  # it has been removed, or is in another container
        is_python = False
    if is_python and (os.geteuid() != 0 or _is_roots(own)):
        return own, {}
    found = commands.which(f"python{version}")
    if found:
        return found, {}
    if is_python:
        # Without our environment, which its user could read.
        return own, {"user": uid, "group": gid, "extra_groups": [], "env": {}}
    raise Unsupported(f"process {pid} is entered by an interpreter of its version, and there is no python{version} on the PATH")


def _is_roots(path: str) -> bool:
    """Whether root alone can have written the file, and what lies beside it."""
    while True:
        found = os.stat(path)
        if found.st_uid != 0 or found.st_mode & 0o022:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def serve(pid: str, version: str, script: str) -> None:
    """The work of the other interpreter: what it reads line by line, until that ends."""
    from .entering import begin

    entering = None
    for line in sys.stdin:
        answer: Dict[str, Any]
        try:
            if entering is None:
                entering = begin(int(pid), version, script)
            if line == "attempt\n":
                answer = {"does": entering.attempt(), "begun": entering.begun}
            else:
                answer = {"ended": entering.end(line == "has run\n")}
                entering = None
        except OSError as error:
            answer = {"error": f"process {pid} cannot be entered: {error.strerror}"}
        except SpprofError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    if entering is not None:  # we were given up
        entering.end(False)
