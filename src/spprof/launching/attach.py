"""`spprof attach`: a profile of a process that runs already, until Ctrl-C. The process takes it (listening.py) and
writes it to a file that is opened here. It is asked over its own socket if it listens; else it is entered by an
interpreter of its version (entering.py), which may be another one than this (otherwise.py).

Root attaches to processes of others, who may do with their files what they like: none that they could have put there is followed,
written to or run."""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Union

from .. import __version__, formats
from ..errors import SpprofError, Unsupported
from ..files.writing import finish, is_being_written
from ..outside.proc import status
from ..outside.rights import missing_right, python_of
from ..outside.ways import obstacle, own_version
from ..listening import address
from . import commands, outputs, program
from .entering import LISTENING
from .run import Run, say

if TYPE_CHECKING:
    import argparse

    from ..files.profile import Profile
    from ..recording.options import Options
    from .entering import Entering, Remote
    from .otherwise import Other

_PATIENCE_S = 2.0  # until a word is said about what is waited for
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANSWER_MOST = 65536  # bytes
_ANSWER_S = 20.0  # a process that listens answers within this, or is stopped

_DOES = {"T": "is stopped", "t": "is stopped by a debugger", "S": "waits in a call", "D": "waits for a disk"}

# What the process runs. It is given a package that it may not have on its path, and a socket.
_SCRIPT = """\
def attach(socket, script, package):
    import os, sys
    try:
        os.unlink(script)
    except OSError:
        return
    try:
        known = sys.modules.get("spprof")
        if known and not os.path.exists(known.__path__[0]):  # a copy that is gone, of an attachment before
            for name, module in list(sys.modules.items()):
                if name.split(".")[0] == "spprof" and hasattr(module, "__path__"):
                    module.__path__[:] = [package + name[6:].replace(".", "/")]
        if not known:
            from importlib.util import module_from_spec, spec_from_file_location
            found = spec_from_file_location("spprof", package + "/__init__.py", submodule_search_locations=[package])
            sys.modules["spprof"] = module_from_spec(found)
            found.loader.exec_module(sys.modules["spprof"])
        from spprof.listening import answer
        answer(socket)
    except Exception as error:
        import _socket, json
        try:
            way = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            way.connect(socket)
            way.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\\n")
        except OSError:
            pass
attach(*%r)
"""


class Attach(Run):
    """A profile of process `pid`; `recording`: how; `options`: those of `spprof attach`; `show`: shows the file that is being
    written, until its user has seen enough. Raises SpprofError."""

    def __init__(
        self, pid: int, recording: Options, options: argparse.Namespace, show: Optional[Callable[[str], object]] = None
    ) -> None:
        self.show = show
        options.delay = None  # of `run`
        self.pid, self.recording, self.options = pid, recording, options
        self.lost = False
        self._may_run = False  # the script that the process was given
        self._folder: Optional[_Folder] = None  # with what the process was given
        self._script = -1  # of that, open: its name is the process's user's
        self.uid = _uid(pid)
        self.conversion = formats.Options(merge_threads=options.merge_threads, thread=options.thread, sources=True)
        self.outputs = outputs.Outputs(options.output, options.format, _name(pid), False, options.force)
        if self.outputs.format != "spprof":
            formats.check(self.outputs.format, self.conversion)
        self.outputs.started(pid)

    def run(self) -> int:
        """Until Ctrl-C, --duration, or the end of the process."""
        self._interrupted, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.signal(signal.SIGINT, lambda *_: os.write(writing, b"!"))
        try:
            return self._record()
        finally:
            self._clear()
            signal.signal(signal.SIGINT, before)

    def _record(self) -> int:
        connection = self._connect()
        if connection is None:
            say("spprof: nothing was recorded\n")
            return 130
        with connection:
            path = self.outputs.stream
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(path, flags, 0o600)
            try:
                self._ask(connection, file)
            except BaseException:
                os.unlink(path)
                raise
            finally:
                os.close(file)
            gone = self._wait(connection)
        if gone and not is_being_written(path):
            finish(path, "killed")
        self._finish("exit" if gone else None, False)
        return 4 if self.lost else 0

    def _ask(self, connection: socket.socket, file: int) -> None:
        request = json.dumps({"version": __version__, "options": self.recording.to_text()}).encode() + b"\n"
        connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
        connection.settimeout(_ANSWER_S)
        reported = _answer(connection)
        if reported is None:
            raise SpprofError(f"process {self.pid} did not answer: it has ended, or is stopped")
        if "error" in reported:
            raise SpprofError(f"process {self.pid}: {reported['error']}")

    def _wait(self, connection: socket.socket) -> bool:
        """Until the profile is complete, or nobody writes it any more. Whether the process has gone."""
        until = "" if self.options.duration else "; Ctrl-C ends it"
        if not self.options.quiet:
            say(f"spprof: process {self.pid} is being profiled{until}\n")
        if self.show is not None:
            self.show(self.outputs.stream)
        else:
            # The process says nothing before it ends.
            select.select([connection.fileno(), self._interrupted], [], [], self.options.duration)
        try:
            connection.settimeout(_ANSWER_S)
            connection.sendall(b"\n")
            reported = _answer(connection)
        except OSError:
            reported = None
        if reported is not None and "error" in reported:
            say(f"spprof: process {self.pid}: {reported['error']}\n")
        return reported is None

    def _connect(self) -> Optional[socket.socket]:
        own = _number_within(self.pid)
        path = f"/proc/{self.pid}/root{address(own, self.uid)}"
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_S)
        try:
            connection.connect(path)
            if self._is_at(connection):
                return connection
        except OSError:
            pass
        connection.close()
        return self._enter()

    def _is_at(self, connection: socket.socket) -> bool:
        """Whether it is the process that is at the other end, and not one of another user who has taken its place."""
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return bool(pid == self.pid)

    def _enter(self) -> Optional[socket.socket]:
        """Has the process connect to us. None: Ctrl-C."""
        version = _check_ways(self.pid, self.uid)
        root = f"/proc/{self.pid}/root"
        # Where the process sees it, which may be in another container.
        folder = self._folder = _folder_in(root)
        script = f"{folder.place}/script.py"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"{folder.path}/socket")
            listener.listen(1)
            package = self._package(folder, version, root)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._script = os.open("script.py", flags, 0o600, dir_fd=folder.fd)
            with open(self._script, "w", closefd=False) as file:
                file.write(_SCRIPT % ((f"{folder.place}/socket", script, package),))
            if os.geteuid() != self.uid:
                _give(folder.fd, self.uid)
            return self._accept(listener, self._way(version, root + package, script))

    def _package(self, folder: _Folder, version: str, root: str) -> str:
        """Ours, or a copy with the core for that version if the process does not see it, or its user may not read it; as the
        process sees it."""
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        try:
            if os.geteuid() == self.uid and os.path.samefile(own, root + own):
                return own
        except OSError:
            pass
        import shutil

        core = f"_core.cpython-{version.replace('.', '')}-"

        def unused(_: str, files: List[str]) -> List[str]:
            return [name for name in files if name == "viewers" or (name.startswith("_core.c") and not name.startswith(core))]

        shutil.copytree(own, f"{folder.path}/spprof", ignore=unused)
        return f"{folder.place}/spprof"

    def _clear(self) -> None:
        """Removes what the process was given. A script that may yet run must be found, or the process prints that it is not; and
        it does nothing then."""
        import shutil

        folder = self._folder
        if folder is None:
            return
        if self._may_run and _state(self.pid) and os.path.lexists(f"{folder.path}/script.py"):
            os.ftruncate(self._script, 0)
            shutil.rmtree(f"{folder.path}/spprof", ignore_errors=True)
        else:
            shutil.rmtree(f"/proc/self/fd/{folder.parent}/{os.path.basename(folder.place)}", ignore_errors=True)
        for fd in (self._script, folder.fd, folder.parent):
            if fd >= 0:
                os.close(fd)

    def _way(self, version: str, package: str, script: str) -> Union[Entering, Remote, Other]:
        try:
            if version == own_version():
                from .entering import begin

                return begin(self.pid, version, script)
            from .otherwise import Other

            return Other(self.pid, self.uid, int(_status(self.pid)["Gid"].split()[1]), version, package, script)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SpprofError:
        why = f"cannot be entered: {error.strerror}" if _state(self.pid) else "has ended"
        return SpprofError(f"process {self.pid} {why}")

    def _accept(self, listener: socket.socket, entering: Union[Entering, Remote, Other]) -> Optional[socket.socket]:
        """The process's connection, when its main thread has come to it. None: Ctrl-C."""
        connection = None
        try:
            connection = self._come(listener, entering)
        finally:
            self._may_run = not entering.end(connection is not None)
        return connection

    def _come(self, listener: socket.socket, entering: Union[Entering, Remote, Other]) -> Optional[socket.socket]:
        said, began = False, time.monotonic()
        while True:
            does = ""
            if not entering.begun:
                try:
                    does = entering.attempt()
                except OSError as error:
                    raise self._refused(error) from error
            ready = select.select([listener.fileno(), self._interrupted], [], [], 0.1)[0]
            if ready:
                connection = listener.accept()[0] if listener.fileno() in ready else None
                if connection is None or self._is_at(connection):
                    return connection
                connection.close()
            state = _state(self.pid)
            if not state:
                raise SpprofError(f"process {self.pid} has ended")
            if said or time.monotonic() - began < _PATIENCE_S:
                continue
            if does:
                raise Unsupported(
                    f"nothing can be run in process {self.pid}: its main thread {does}. `spprof dump {self.pid}` shows where"
                )
            said = True
            does = _DOES.get(state, "is in native code")
            say(f"spprof: the main thread of process {self.pid} {does}: waiting until it runs Python code; Ctrl-C gives up\n")

    def _unseen(self) -> str:
        return ""

    def _queued(self, profile: Profile) -> str:
        return ""  # it may have been so before

    def _say_what_goes_on(self) -> None:
        pass

    def _say_where(self, why: str) -> None:
        if os.path.exists(self.outputs.stream):
            say(f"spprof: the profile is in {self.outputs.stream}\n")

    def _put(self, ended: bool) -> None:
        path = self.outputs.stream
        text = ""
        profiles = []
        if not self.options.quiet:
            from ..files.profile import Profile

            profiles = [Profile.load(path)]
            text = self._summary(profiles)
        places = [self.outputs.place(1, path, self.conversion)]
        if profiles:
            say(text + self._places(places, [], profiles))


def _answer(connection: socket.socket) -> Optional[Dict[str, Any]]:
    """A line of the process's; None: it is gone, or silent."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            data = connection.recv(4096)
            line += data
            if not data or len(line) > _ANSWER_MOST:
                return None
        reported = json.loads(line)
    except (OSError, ValueError):
        return None
    return reported if isinstance(reported, dict) else None


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


def _state(pid: int) -> str:
    """One letter, as in proc(5); '' if it has ended."""
    try:
        state = _status(pid)["State"][0]
    except SpprofError:
        return ""
    return "" if state in "ZX" else state


def _name(pid: int) -> str:
    """What the program is called, for its files."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        words = []
    return program.name(*commands.target(words)) if words else str(pid)


class _Folder(NamedTuple):
    """One for us alone, reached by descriptors: names on the way to it may come to mean something else."""

    fd: int
    parent: int
    place: str  # as the process sees it

    @property
    def path(self) -> str:
        """For this process alone."""
        return f"/proc/self/fd/{self.fd}"


def _folder_in(root: str) -> _Folder:
    """Where libraries can be loaded from. Raises Unsupported."""
    why = "there is no folder there for temporary files"
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        try:
            parent = _open_folder(root, place)
        except OSError as error:
            why = f"{place}: {error.strerror}"
            continue
        try:
            if not os.fstatvfs(parent).f_flag & os.ST_NOEXEC:
                return _made(parent, place)
        except OSError as error:
            why = f"{place}: {error.strerror}"
        os.close(parent)
    raise Unsupported(f"nothing can be given to the process: {why}{LISTENING}")


def _made(parent: int, place: str) -> _Folder:
    import tempfile

    name = os.path.basename(tempfile.mkdtemp(prefix="spprof-", dir=f"/proc/self/fd/{parent}"))
    fd = os.open(name, _FOLDER, dir_fd=parent)
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(fd)
        raise OSError(0, "another folder took the place of ours")
    return _Folder(fd, parent, f"{place}/{name}")


def _open_folder(root: str, place: str) -> int:
    """Its descriptor. Of its names, none may be a link. Raises OSError."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in place.split("/")[1:]:
        above = fd
        try:
            fd = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return fd


def _give(folder: int, uid: int) -> None:
    """Gives the folder and all in it to that user: the top last, since he may change what names below it mean from then on."""
    for _, _, files, fd in os.fwalk(".", topdown=False, dir_fd=folder):
        for name in files:
            os.chown(name, uid, -1, dir_fd=fd, follow_symlinks=False)
        os.fchown(fd, uid, -1)


def _check_ways(pid: int, uid: int) -> str:
    """Its version of Python, if it can be entered. Raises Unsupported with what to do."""
    try:
        version = python_of(pid)
        if not version:
            raise Unsupported(f"process {pid} {'runs no Python' if _state(pid) else 'has ended'}")
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC))
        why = obstacle(pid, version)
    except (FileNotFoundError, ProcessLookupError):
        raise SpprofError(f"process {pid} has ended") from None
    except PermissionError:
        raise Unsupported(f"this user may not enter process {pid}: {missing_right(uid)}{LISTENING}") from None
    if why:
        raise Unsupported(f"process {pid}, of Python {version}, cannot be entered: {why}{LISTENING}")
    return version
