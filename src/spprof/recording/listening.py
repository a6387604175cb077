"""The side of `spprof attach` that is in the program: a thread that takes a profile for another process of the same user, from
its request until the connection ends.

The other process sends one line of JSON, {"version", "options"}, and with it the descriptor of the file that the profile goes to.
It gets {"pid"} or {"error"}. A further byte, or the end of the connection, ends the profile; if the other process is still there,
it gets {} or {"error"}.

The modules under `socket` and `threading` are used, since gevent and eventlet replace functions of those."""

from __future__ import annotations

import os

from .. import __version__
from ..errors import CannotWrite, NotActive, SpprofError, Unsupported
from . import api, forks
from .options import Options
from .sockets import address

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

REQUEST_MOST = 4096  # bytes
_open: List[Any] = []  # sockets of this process
_listener: Any = None
_path: Optional[str] = None
_hooked = False  # a fork and the process's end are seen to


def listen() -> str:
    """Lets other processes of the same user (and root's) attach to this one: `spprof attach PID` works then on every version of
    Python, in a container too, with no right to trace processes, and also while the main thread waits in a call. A thread waits
    for them; it costs nothing until one comes. A forked child listens for itself. Calling it again changes nothing.

    Returns the path of the socket, which this user alone may open. Raises Unsupported (Windows), CannotWrite (the socket)."""
    global _listener, _path
    if _listener is not None and _path is not None:
        return _path
    socket = _sockets()
    begin = _starter()
    path = address(os.getpid(), os.geteuid())
    try:
        _make_folder(os.path.dirname(path))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _remove(path)  # of a process with this number that was killed
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen(1)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise CannotWrite(f"cannot listen at {path}: {error.strerror or error}") from error
    _listener, _path = listener, path
    _hook()
    begin(_accept, (listener, begin))
    return path


def answer(path: str) -> None:
    """Takes a profile for the process that listens at `path`, on a thread of its own. Raises OSError, Unsupported."""
    socket = _sockets()
    begin = _starter()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    _hook()
    begin(_serve, (connection,))


def _sockets() -> Any:
    import _socket

    if not hasattr(_socket, "AF_UNIX") or not hasattr(_socket.socket, "recvmsg"):
        raise Unsupported("this system has no sockets over which another process can attach")
    return _socket


def _starter() -> Any:
    """What starts a thread of the system's, also where the program has greenlets for threads."""
    import _thread

    for name in ("start_new_thread", "start_new"):
        start = getattr(_thread, name, None)
        if type(start) is type(len):
            return start
    raise Unsupported("the program has replaced the functions that start threads")


def _make_folder(folder: str) -> None:
    """Of this user alone, in a folder that is everybody's."""
    import stat

    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OSError(0, f"{folder} is not a folder of this user's alone")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _leave() -> None:
    """At exit, in the process that listens."""
    if _path is not None and _path == address(os.getpid(), os.geteuid()):
        _remove(_path)


def _hook() -> None:
    global _hooked
    if not _hooked:
        import atexit

        atexit.register(_leave)
        forks.in_child(_again)
        _hooked = True


def _again() -> None:
    """In a forked child: what is open is the parent's. If that listens, so does the child."""
    global _listener, _path
    listened = _listener is not None
    for one in (*_open, _listener):
        if one is not None:
            one.close()
    _open.clear()
    _listener = _path = None
    if listened:
        try:
            listen()
        except SpprofError:
            pass


def _accept(listener: Any, begin: Any) -> None:
    """A thread's work: each connection gets a thread of its own, so that a second one hears that there is a first. The socket's
    folder keeps others out; where the system says who is at the other end, that is looked at, too."""
    import _socket

    while listener is _listener:
        try:
            fd, _ = listener._accept()
        except OSError:
            return
        connection = _socket.socket(fileno=fd)
        if _is_allowed(connection):
            begin(_serve, (connection,))
        else:
            connection.close()


def _is_allowed(connection: Any) -> bool:
    import _socket
    from struct import unpack

    if not hasattr(_socket, "SO_PEERCRED"):
        return True
    uid = unpack("3i", connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))[1]
    return uid in (0, os.geteuid())


def _serve(connection: Any) -> None:
    """A thread's work: one profile."""
    _open.append(connection)
    taken = None
    try:
        try:
            taken = _begin(connection)
        except (SpprofError, OSError, ValueError) as error:
            _say(connection, {"error": str(error)})
            return
        _say(connection, {"pid": os.getpid()})
        _wait(connection)
    finally:
        try:
            if taken is not None:
                _say(connection, _end(taken))
        finally:
            if connection in _open:
                _open.remove(connection)
            connection.close()


def _begin(connection: Any) -> Tuple[Any, Any]:
    import json

    request, descriptor = _receive(connection)
    try:
        asked = json.loads(request)
        if asked.get("version") != __version__:
            raise Unsupported(
                f"this process has spprof {__version__}, and the other one {asked.get('version')}: they must be equal"
            )
        return api.begin_into(Options.of_text(asked["options"]), descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _receive(connection: Any) -> Tuple[bytes, int]:
    """A line, and the descriptor that came with it."""
    import _socket
    from struct import calcsize, unpack

    line, descriptor = b"", -1
    while not line.endswith(b"\n"):
        data, extra, _, _ = connection.recvmsg(REQUEST_MOST, _socket.CMSG_SPACE(calcsize("i")))
        for level, kind, sent in extra:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS and descriptor < 0:
                (descriptor,) = unpack("i", sent[: calcsize("i")])
                os.set_inheritable(descriptor, False)
        line += data
        if not data or len(line) > REQUEST_MOST:
            raise ValueError("a request that ended early or is too long")
    if descriptor < 0:
        raise ValueError("a request without a file")
    return line, descriptor


def _wait(connection: Any) -> None:
    try:
        connection.recv(1)
    except OSError:
        pass


def _end(taken: Tuple[Any, Any]) -> Dict[str, str]:
    try:
        api.end(taken)
    except NotActive:
        return {}  # the program ended it
    except SpprofError as error:
        return {"error": str(error)}
    return {}


def _say(connection: Any, what: Dict[str, Any]) -> None:
    import json

    try:
        connection.sendall(json.dumps(what).encode() + b"\n")
    except OSError:  # it is gone
        pass
