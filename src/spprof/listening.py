"""The side of `spprof attach` that is in the program: a socket, and a thread that waits for another process of the same user.
What is said over it is in serving.py. With SPPROF_LISTEN this is the first that runs of a program: until somebody attaches it
imports nothing that it does not need.

The modules under `socket` and `threading` are used, since gevent and eventlet replace functions of those."""

import os
import sys
from _thread import get_native_id, stack_size
from time import sleep

TYPE_CHECKING = False  # see __init__; `__future__` is a file, too
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set

# Threads of spprof's own, by the system's number; an object for one that is being started: its number is not known yet, and a
# profile finds no new threads until it is. csrc/module/names.c reads it.
ours: "Set[object]" = set()
_open: "Dict[Any, int]" = {}  # sockets of this process: which one it was when its descriptor was ours
_listener: "Any" = None
_path: "Optional[str]" = None
_wanted = False  # whether it is to listen; while it cannot, there is no listener
_hooked = False  # a fork and the process's end are seen to
_RETRY_S = 1.0
_STACK = 1 << 20  # bytes, of our threads: what the program sets for its own (threading.stack_size) may be too little
_TURN_S, _MICROSECOND = 0.0001, 0.000001
_usual_turn_s: "Optional[float]" = None  # the program's switch interval, while ours is in its place


def address(pid: int, uid: int) -> str:
    """The path of the socket of a process that listens. `pid` is its number in its own container."""
    return f"/tmp/spprof-{uid}/{pid}.sock"


def listen() -> str:
    """Lets other processes of the same user (and root's) attach to this one: `spprof attach PID` works then on every version of
    Python, in a container too, with no right to trace processes, and also while the main thread waits in a call. A thread waits
    for them; it costs nothing until one comes. A forked child listens for itself. Calling it again changes nothing.

    Returns the path of the socket, which this user alone may open. Raises Unsupported (Windows; a subinterpreter, which could not
    be ended while its thread waits), CannotWrite (the socket)."""
    if _listener is None and not _is_main():
        _refuse("listen() is for the main interpreter, which listens for the whole process")
    return _listen()


def _listen() -> str:
    """Raises the same."""
    try:
        return _begin()
    except OSError as error:
        from .errors import CannotWrite

        path = address(os.getpid(), os.geteuid())
        raise CannotWrite(f"cannot listen at {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # ours
            raise
        return str(_refuse(f"no thread can be started here: {error}"))


def _begin() -> str:
    """Raises OSError, RuntimeError (no thread), Unsupported. It imports nothing of ours: no descriptor may be free."""
    global _listener, _path, _wanted
    if _listener is not None and _path is not None:
        return _path
    socket = _sockets()
    begin = _starter()
    path = address(os.getpid(), os.geteuid())
    folder, new = os.path.dirname(path), f"{path}.new"
    _make_folder(folder)
    _remove(new)  # of a process with this number that was killed
    _remove_dead(folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(new)
        os.chmod(new, 0o600)
        listener.listen(1)
        _hook()
        _open[listener] = _which(listener)
        _listener = listener
        start_ours(begin, _accept, listener, begin)
        os.rename(new, path)  # now that it is answered: what is there may be another interpreter's of this process
    except BaseException:
        _listener = None
        _open.pop(listener, None)
        listener.close()
        _remove(new)
        raise
    _path, _wanted = path, True
    return path


def at_start() -> None:
    """What spprof.pth calls when an interpreter starts with SPPROF_LISTEN=1. A subinterpreter cannot be ended while a thread of
    its own waits; the main one listens for the process."""
    try:
        if _is_first():
            _listen()
    except Exception as error:  # of ours; which ones they are is not imported for nothing
        _warn(f"spprof: SPPROF_LISTEN=1: {error}\n")


def _is_first() -> bool:
    """Whether this is the main thread of the main interpreter: what says so of an interpreter is a file (_is_main), and this is
    said by a call that is refused."""
    signals: Any = __import__("_signal")
    try:
        signals.signal(1, None)
    except TypeError:  # no function
        return True
    except ValueError:  # not here
        pass
    return False


def _is_main() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True


def _warn(text: str) -> None:
    if sys.stderr is None:  # what is raised instead would be printed to stdout
        return
    try:
        sys.stderr.write(text)
    except (OSError, ValueError):
        pass


def end() -> None:
    """Ends that. A profile that is being taken goes on."""
    global _listener, _path, _wanted
    listener, path = _listener, _path
    _listener, _path, _wanted = None, None, False
    if listener is None or path is None:
        return
    _remove(path)
    if _open[listener] == _which(listener):
        listener.shutdown(2)  # of both directions: the thread's call ends
    _close(listener)


class ShortTurns:
    """A context in which a thread that computes keeps the GIL for 0.1 ms instead of 5 when others want it. What begins a profile
    makes about a hundred short system calls without the GIL, and may lose it at each."""

    def __enter__(self) -> None:
        global _usual_turn_s
        usual = sys.getswitchinterval()
        if usual > _TURN_S + _MICROSECOND:
            _usual_turn_s = usual
            sys.setswitchinterval(_TURN_S)

    def __exit__(self, *error: object) -> None:
        global _usual_turn_s
        now, usual = sys.getswitchinterval(), _usual_turn_s
        if usual is not None and abs(now - _TURN_S) < 2 * _MICROSECOND:  # else the program has set another
            sys.setswitchinterval(usual + _MICROSECOND / 2)  # which is cut off to microseconds
        _usual_turn_s = None  # now: a child that is forked before does the same


_short_turns = ShortTurns()


def answer(path: str) -> None:
    """Takes a profile for the process that listens at `path`, on a thread of its own. Raises OSError, Unsupported."""
    socket = _sockets()
    begin = _starter()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        start_ours(begin, _serve, connection)
    except BaseException:
        connection.close()
        raise


def start_ours(start: "Callable[..., object]", body: "Callable[..., None]", *given: "Any") -> None:
    """Has `start`, which takes a function and its arguments, run `body` on a thread of spprof's own, which no profile has."""
    _hook()  # a forked child has none of them
    birth = object()
    ours.add(birth)
    _spprof_threads_change()
    usual = stack_size()
    if 0 < usual < _STACK:
        stack_size(_STACK)
    try:
        start(_as_ours, (birth, body, *given))
    except BaseException:
        ours.discard(birth)
        _spprof_threads_change()
        raise
    finally:
        if 0 < usual < _STACK and stack_size() == _STACK:  # else the program has set another
            stack_size(usual)


def _as_ours(birth: object, body: "Callable[..., None]", *given: "Any") -> None:
    """The thread's work."""
    number = get_native_id()
    ours.add(number)
    ours.discard(birth)
    _spprof_threads_change()
    try:
        body(*given)
    finally:
        _spprof_thread_ends(number)


def _spprof_threads_change() -> None:
    """During a run the core sees it by this call within a function of this name (csrc/module/names.c)."""
    get_native_id()


def _spprof_thread_ends(number: int) -> None:
    """As that."""
    ours.discard(number)
    get_native_id()


def _sockets() -> "Any":
    import _socket

    if not hasattr(_socket, "AF_UNIX") or not hasattr(_socket.socket, "recvmsg"):
        _refuse("this system has no sockets over which another process can attach")
    return _socket


def _starter() -> "Any":
    """What starts a thread of the system's, also where the program has greenlets for threads."""
    import _thread

    for name in ("start_new_thread", "start_new"):
        start = getattr(_thread, name, None)
        if type(start) is type(len):
            return start
    return _refuse("the program has replaced the functions that start threads")


def _refuse(why: str) -> "Any":
    from .errors import Unsupported

    raise Unsupported(why)


def _make_folder(folder: str) -> None:
    """Of this user alone, in a folder that is everybody's."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if found.st_mode != 0o40700 or found.st_uid != os.geteuid():
        raise OSError(0, f"{folder} is not a folder of this user's alone")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _remove_dead(folder: str) -> None:
    """What processes left that were killed or ended by os._exit, as the children of multiprocessing do."""
    for name in os.listdir(folder):
        number = name[: -len(".sock")]
        if number.isdecimal() and _is_dead(int(number), f"{folder}/{name}"):
            _remove(f"{folder}/{name}")


def _is_dead(pid: int, path: str) -> bool:
    """Of another container, too, that has the same /tmp and numbers of its own."""
    try:
        os.kill(pid, 0)
        return False
    except ProcessLookupError:
        pass
    except OSError:
        return False
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    finally:
        connection.close()
    return False


def _which(one: "Any") -> int:
    """Which socket it is; 0: none any more."""
    try:
        return os.fstat(one.fileno()).st_ino
    except OSError:
        return 0


def _close(one: "Any") -> None:
    """A daemon closes what it does not know of, and its next file may have the number."""
    if _open.pop(one, 0) == _which(one):
        one.close()
    else:
        one.detach()


def _leave() -> None:
    """At exit, in the process that listens."""
    if _path is not None and _path.endswith(f"/{os.getpid()}.sock"):
        _remove(_path)


def _hook() -> None:
    global _hooked
    if not _hooked:
        import atexit

        atexit.register(_leave)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_again)
        _hooked = True


def _again() -> None:
    """In a forked child: what is open is the parent's, and so are the threads. If that listens, so does the child."""
    ours.clear()
    _short_turns.__exit__()
    for one in list(_open):
        if one is not _listener:
            _close(one)
    if _wanted:
        _listen_again()


def _listen_again() -> None:
    """With a socket of its own in place of one that is the parent's, or that the program has closed."""
    global _listener, _path
    listener = _listener
    _listener = _path = None
    if listener is not None:
        _close(listener)
    try:
        if not _is_begun():
            start_ours(_starter(), _retry)
    except Exception:  # no thread either; or of ours, as in at_start
        pass


def _is_begun() -> bool:
    """False: no descriptor is free, say (EMFILE)."""
    try:
        _begin()
    except (OSError, RuntimeError):
        return False
    return True


def _retry() -> None:
    """A thread's work."""
    while _wanted and _listener is None:
        sleep(_RETRY_S)
        if _wanted:
            _is_begun()


def _accept(listener: "Any", begin: "Any") -> None:
    """A thread's work: each connection gets a thread of its own, so that a second one hears that there is a first. The socket's
    folder keeps others out; where the system says what user the other end is, that is looked at, too."""
    import _socket

    while listener is _listener:
        try:
            fd = listener._accept()[0] if _open.get(listener) == _which(listener) else -1  # of a file of the program's, else
        except OSError:
            fd = -1
        if listener is _listener and _open.get(listener) != _which(listener):
            _listen_again()  # the program has closed it, and only a call that had begun went on
        if fd < 0:
            if listener is _listener:  # no descriptor is free (EMFILE)
                sleep(_RETRY_S)
            continue
        connection = _socket.socket(fileno=fd)
        if _is_allowed(connection):
            try:
                start_ours(begin, _serve, connection)
            except RuntimeError:  # no thread can be started now
                connection.close()
                sleep(_RETRY_S)
        else:
            connection.close()


def _is_allowed(connection: "Any") -> bool:
    import _socket

    if not hasattr(_socket, "SO_PEERCRED"):
        return True
    ids = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # three ints: of the process, user and group
    return int.from_bytes(ids[4:8], sys.byteorder) in (0, os.geteuid())  # nothing is imported: no descriptor may be free


def _serve(connection: "Any") -> None:
    """A thread's work."""
    _open[connection] = _which(connection)
    try:
        with _short_turns:
            from .recording.serving import serve

        serve(connection, _short_turns)
    except Exception as error:  # its files are of another version now, or no descriptor is free to import them with
        import _socket

        text = f"it can take no profile: {type(error).__name__}: {error}"
        try:  # as in serving.py
            connection.sendall(os.fsencode(text) + b"\0", getattr(_socket, "MSG_NOSIGNAL", 0))
        except OSError:
            pass
    finally:
        if connection in _open:
            _close(connection)
