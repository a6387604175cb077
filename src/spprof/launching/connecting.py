"""The way of `spprof attach` to one process, which is to take its own profile (listening.py): it is asked over its own
socket if it listens; else it is entered by an interpreter of its version (entering.py), which may be another one than this
(otherwise.py), and connects to us.

Root attaches to processes of other users, and these may change their files at any time: none that they could have put there is
followed, written to or run."""

from __future__ import annotations

import _socket
import os
import select
import struct
import sys
import time

from .. import __version__
from ..errors import SpprofError, Unsupported
from ..listening import address
from ..outside.proc import status
from ..outside.rights import missing_right, python_of
from ..outside.ways import cores_of, obstacle, own_version
from ..recording.serving import differ
from . import given
from .entering import BEGUN, LISTENING, STOPPED
from .run import say
from .waking import ENDED

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Union

    from .entering import Entering, Remote
    from .otherwise import Other

ANSWER_S = 20.0  # a process that listens answers within this, or is stopped
_ANSWER_MOST = 65536  # bytes
_OTHER_WAY = f"it answers as another version of spprof than {__version__}: use that, or start the program again with this one"
PATIENCE_S = 2.0  # until a word is said about what is waited for
_signals: Any = __import__("_signal")  # `signal` and `socket` make enumerations of all their numbers, for 5 ms
_STEP_S, _SECOND_S = 0.1, 1.0  # from one attempt to the next, before that and after it

_DOES = {"T": STOPPED, "t": "is stopped by a debugger", "S": "waits in a call", "D": "waits for a disk"}

# What the process runs. It is given a package that it may not have on its path, and a socket.
_SCRIPT = """\
def attach(socket, script, package, version, differ):
    import os, sys
    try:
        os.unlink(script)
    except OSError:
        return
    try:
        known = sys.modules.get("spprof")
        theirs = getattr(known, "__version__", version)
        if theirs != version:
            raise Exception(differ.replace("{}", theirs))
        if known and not os.path.exists(known.__path__[0]):  # a copy that is gone, of an attachment before
            for name, module in list(sys.modules.items()):
                if name.split(".")[0] == "spprof" and hasattr(module, "__path__"):
                    module.__path__[:] = [package + name[6:].replace(".", "/")]
        if not known:
            import _frozen_importlib, _frozen_importlib_external
            found = _frozen_importlib_external.spec_from_file_location(
                "spprof", package + "/__init__.py", submodule_search_locations=[package])
            sys.modules["spprof"] = _frozen_importlib.module_from_spec(found)
            found.loader.exec_module(sys.modules["spprof"])
        from spprof.listening import answer
        answer(socket)
    except Exception as error:
        import _socket
        try:
            way = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                way.connect(socket)
                kind = "" if type(error) is Exception else f"{type(error).__name__}: "
                way.sendall(os.fsencode(f"{kind}{error}") + b"\\0")
            finally:
                way.close()
        except OSError:
            pass
attach(*%r)
"""
_NOTHING = f"""\
import os
try:
    os.unlink(%r + "/{given.SCRIPT}")
    os.rmdir(%r)
except OSError:
    pass
"""


class Interrupted:
    """Can be read, for `select`, after Ctrl-C: a context, for one time, in which that does nothing else. A handler of Python's
    would not run before a `select` that begins as the signal comes has ended."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def fileno(self) -> int:
        return self._reading

    def __enter__(self) -> Interrupted:
        self._woken = _signals.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = _signals.signal(_signals.SIGINT, lambda *_: None)
        return self

    def __exit__(self, *error: object) -> None:
        _signals.signal(_signals.SIGINT, self._before)
        _signals.set_wakeup_fd(self._woken)
        os.close(self._reading)
        os.close(self._writing)


def answer(connection: _socket.socket, interrupted: Optional[Interrupted] = None) -> Optional[str]:
    """What the process says is wrong; None: it is gone, or silent, or we were interrupted."""
    line, ends, late = b"", [connection.fileno()], time.monotonic() + ANSWER_S
    if interrupted is not None:
        ends.append(interrupted.fileno())
    try:
        while not line.endswith(b"\0"):
            if connection.fileno() not in select.select(ends, [], [], max(0.0, late - time.monotonic()))[0]:
                return None
            data = connection.recv(4096)
            line += data
            if not data or len(line) > _ANSWER_MOST:
                return _OTHER_WAY if line else None
    except OSError:
        return None
    return os.fsdecode(line[:-1])


class Waiting:
    """What is said as long as a process's main thread is waited for: a line when it does something else than before, and on a
    terminal each second how long that has been."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._does, self._seconds = "", 0

    def say(self, does: str, took: float) -> None:
        """It `does` something else than to come, and has been waited for so many seconds."""
        if does != self._does:
            self._end_line()
            say(
                f"spprof: the main thread of process {self._pid} {does}: waiting until it runs Python code; "
                f"`spprof dump {self._pid}` shows where it is, Ctrl-C gives up\n"
            )
            self._does = does
        if int(took) != self._seconds and sys.stderr is not None and sys.stderr.isatty():
            self._seconds = int(took)
            say(f"\rspprof: waiting for {self._seconds} s")

    def _end_line(self) -> None:
        if self._seconds:
            say("\n")
            self._seconds = 0

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_line()


class Way:
    """To process `pid`, until `interrupted` can be read; `patience`: for how many seconds its main thread is waited for, not
    less than PATIENCE_S. Raises SpprofError."""

    def __init__(self, pid: int, interrupted: Interrupted, patience: Optional[float] = None) -> None:
        self.pid, self.uid = pid, _uid(pid)
        self._interrupted, self._patience = interrupted, patience
        self._has_come = False  # the process, by the script that it was given
        self._may_run = False  # that
        self._entering: Union[Entering, Remote, Other, None] = None  # what has to be ended
        self._folder: Optional[given.Folder] = None  # with what the process was given
        self._script = -1  # of that, open: its name is the process's user's

    def is_interrupted(self) -> bool:
        return bool(select.select([self._interrupted.fileno()], [], [], 0)[0])

    def ask(self, connection: _socket.socket, words: bytes, file: int = -1) -> Optional[str]:
        """Sends a request, with a descriptor if there is one. The answer, as `answer`, until we are interrupted. What the process
        was entered by is taken away while it works on that."""
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, file.to_bytes(4, sys.byteorder))] if file >= 0 else []
        try:
            connection.sendmsg([words], ancillary)
        except (BrokenPipeError, ConnectionResetError):  # it may have said why it takes none, and closed
            pass
        self._end_entering()
        return answer(connection, self._interrupted)

    def connect(self) -> Optional[_socket.socket]:
        """A connection to the process; None: we were interrupted. `clear` is to follow, when that has ended."""
        own = _number_within(self.pid)
        path = f"/proc/{self.pid}/root{address(own, self.uid)}"
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(path)
            if self._is_at(connection):
                return connection
        except OSError:
            pass
        connection.close()
        return self._enter()

    def _is_at(self, connection: _socket.socket) -> bool:
        """Whether it is the process that is at the other end, and not one of another user who has taken its place."""
        pid, _, _ = struct.unpack("3i", connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))
        return bool(pid == self.pid)

    def _enter(self) -> Optional[_socket.socket]:
        """Has the process connect to us. None: Ctrl-C."""
        version = _check_ways(self.pid, self.uid)
        root = f"/proc/{self.pid}/root"
        # Where the process sees it, which may be in another container.
        folder = self._folder = self._given(root)
        script = f"{folder.place}/{given.SCRIPT}"
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            listener.bind(f"{folder.path}/socket")
            listener.listen(1)
            package = self._package(folder, version, root)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._script = os.open(given.SCRIPT, flags, 0o600, dir_fd=folder.fd)
            with open(self._script, "w", closefd=False) as file:
                file.write(_SCRIPT % ((f"{folder.place}/socket", script, package, __version__, differ("{}", __version__)),))
            if os.geteuid() != self.uid:
                folder.give(self.uid)
            return self._accept(listener, self._way(version, root + package, script))
        finally:
            listener.close()

    def _given(self, root: str) -> given.Folder:
        try:
            return given.make(root, _number_within(self.pid), self.uid)
        except Unsupported as error:
            raise Unsupported(f"{error}{LISTENING}") from None

    def _package(self, folder: given.Folder, version: str, root: str) -> str:
        """Ours, or a copy with the core for that version if the process does not see it, or its user may not read it; as the
        process sees it."""
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        try:
            if os.geteuid() == self.uid and os.path.samefile(own, root + own):
                return own
        except OSError:
            pass
        import shutil

        cores = cores_of(version)

        def unused(_: str, files: List[str]) -> List[str]:
            return [name for name in files if name == "viewers" or (name.startswith("_core.c") and not name.startswith(cores))]

        shutil.copytree(own, f"{folder.path}/spprof", ignore=unused)
        return f"{folder.place}/spprof"

    def clear(self) -> None:
        """Removes what the process was given. A script that may yet run must be found, or the process prints that it is not; and
        it only removes itself then."""
        import shutil

        self._end_entering()
        folder = self._folder
        if folder is None:
            return
        if self._may_run and state(self.pid) and os.path.lexists(f"{folder.path}/{given.SCRIPT}"):
            os.ftruncate(self._script, 0)
            os.pwrite(self._script, (_NOTHING % (folder.place, folder.place)).encode(), 0)
            shutil.rmtree(f"{folder.path}/spprof", ignore_errors=True)
            try:
                os.unlink("socket", dir_fd=folder.fd)
            except OSError:
                pass
        else:
            folder.remove()
        if self._has_come:
            folder.remove_before(self.uid)
        if self._script >= 0:
            os.close(self._script)
        folder.close()

    def _way(self, version: str, package: str, script: str) -> Union[Entering, Remote, Other]:
        try:
            if version == own_version():
                from .entering import begin

                return begin(self.pid, version, script)
            from .otherwise import Other

            gid = int(_status(self.pid)["Gid"].split()[1])
            return Other(self.pid, self.uid, gid, version, package, script, self._interrupted.fileno())
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SpprofError:
        why = f"cannot be entered: {error.strerror}" if state(self.pid) else "has ended"
        return SpprofError(f"process {self.pid} {why}")

    def _accept(self, listener: _socket.socket, entering: Union[Entering, Remote, Other]) -> Optional[_socket.socket]:
        """The process's connection, when its main thread has come to it. None: Ctrl-C."""
        self._entering = entering
        connection = self._come(listener, entering)
        self._has_come = connection is not None
        return connection

    def _end_entering(self) -> None:
        entering, self._entering = self._entering, None
        if entering is not None:
            self._may_run = not entering.end(self._has_come)

    def _come(self, listener: _socket.socket, entering: Union[Entering, Remote, Other]) -> Optional[_socket.socket]:
        does, what, again, began, words = "", "", 0.0, time.monotonic(), Waiting(self.pid)
        with words:
            while True:
                took = time.monotonic() - began
                if not entering.begun and took >= again:
                    again = took + (_STEP_S if took < PATIENCE_S else _SECOND_S)
                    try:
                        does = entering.attempt()
                    except OSError as error:
                        raise self._refused(error) from error
                ready = select.select([listener.fileno(), self._interrupted.fileno()], [], [], _STEP_S)[0]
                if ready:
                    connection = _accepted(listener) if listener.fileno() in ready else None
                    if connection is None or self._is_at(connection):
                        return connection
                    connection.close()
                now = state(self.pid)
                if not now:
                    raise SpprofError(f"process {self.pid} has ended")
                _require_main_thread(self.pid, now)
                before, what = what, does or _DOES.get(now, "is in native code")
                if before == STOPPED != what:
                    began, again = time.monotonic(), _STEP_S  # it can come only now
                elif took >= PATIENCE_S:
                    # Another thread than the main one runs it then, and may get no processor.
                    least = ANSWER_S if what == BEGUN else 0.0
                    if what == ENDED or (self._patience is not None and took >= max(self._patience, least)):
                        does = f"is stopped: `kill -CONT {self.pid}` lets it go on" if what == STOPPED else what
                        why = f"its main thread {does}. `spprof dump {self.pid}` shows where"
                        raise Unsupported(f"nothing can be run in process {self.pid}: {why}")
                    words.say(what, took)


def _accepted(listener: Any) -> _socket.socket:
    return _socket.socket(fileno=listener._accept()[0])


def _status(pid: int) -> Dict[str, str]:
    """Raises SpprofError."""
    try:
        return status(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise SpprofError(f"there is no process {pid}") from None


def _uid(pid: int) -> int:
    """Whose process it is. Raises SpprofError, also for the id of another thread than the first: it has files of a process."""
    words = _status(pid)
    if int(words["Tgid"]) != pid:
        raise SpprofError(f"{pid} is a thread of process {words['Tgid']}: spprof attach {words['Tgid']}")
    return int(words["Uid"].split()[1])


def _number_within(pid: int) -> int:
    """Its number in its own container."""
    return int(_status(pid).get("NSpid", str(pid)).split()[-1])


def state(pid: int) -> str:
    """One letter, as in proc(5), Z if its main thread alone has ended; '' if the process has."""
    try:
        letter = _status(pid)["State"][0]
    except SpprofError:
        return ""
    return "" if letter in "ZX" and not _has_threads(pid) else letter


def _has_threads(pid: int) -> bool:
    """That live."""
    try:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return False
    return any(_thread_state(pid, tid) not in "ZX" for tid in tids)


def _thread_state(pid: int, tid: int) -> str:
    try:
        return status(pid, tid)["State"][0]
    except OSError:
        return "X"


def _require_main_thread(pid: int, state: str) -> None:
    """Raises Unsupported."""
    if state == "Z":
        raise Unsupported(f"nothing can be run in process {pid}: its main thread has ended, and other threads go on")


def _check_ways(pid: int, uid: int) -> str:
    """Its version of Python, if it can be entered. Raises Unsupported with what to do."""
    _require_main_thread(pid, state(pid))
    try:
        version = python_of(pid)
        if not version:
            raise Unsupported(f"process {pid} {'runs no Python' if state(pid) else 'has ended'}")
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC))
        why = obstacle(pid, version)
    except (FileNotFoundError, ProcessLookupError):
        raise SpprofError(f"process {pid} has ended") from None
    except PermissionError:
        raise Unsupported(f"this user may not enter process {pid}: {missing_right(uid)}{LISTENING}") from None
    if why:
        raise Unsupported(f"process {pid}, of Python {version}, cannot be entered: {why}{LISTENING}")
    return version
