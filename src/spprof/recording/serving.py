"""What another process of the same user asks of this one (../listening.py): a profile for as long as it is connected, or what is
to become of the profile that is being taken.

It sends three words, each with a zero byte after it: its version, what it asks for, and about what. It gets one: what is wrong,
or nothing. (JSON would have the process import `re`, while its own threads want to run.) That the first word is the version, that
nothing after it is looked at if it is another one than ours, and how the answer ends, stays so in all versions: a process may run
with an older spprof, or a newer one, than that of the command.

PROFILE, options: with it comes the descriptor of the file that the profile goes to. A further byte, or the end of the connection,
ends the profile; if the other process is still there, it gets a second word. One of CONTROLS, path: for `spprof ctl`; the path of
the profile that is meant, or nothing. That is all."""

from __future__ import annotations

import os
import sys

from .. import __version__
from ..errors import NotActive, SpprofError, Unsupported

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

REQUEST_MOST = 8192  # bytes: a path and some
PROFILE = "profile"
CONTROLS = ("pause", "resume", "stop")
_INT = 4  # bytes of a descriptor
_WORDS = 3  # of a request


def request(what: str, about: str) -> bytes:
    """What the other process sends."""
    return b"".join(os.fsencode(word) + b"\0" for word in (__version__, what, about))


def differ(own: str, other: str) -> str:
    """What a process with version `own` says to a command of version `other`, which may be older or newer."""
    return (
        f"it runs with spprof {own}, and this command is of spprof {other}: "
        f"use spprof {own} here (pip install spprof=={own}), or start the program again with spprof {other}"
    )


def serve(connection: Any, hurry: Any = None) -> None:
    """Takes it. On a thread of its own. `hurry`: a context for what has to be done at once (None: by a process that has an older
    spprof in memory)."""
    try:
        if hurry is None:
            from contextlib import nullcontext

            hurry = nullcontext()
        taken = _begin(connection, hurry)
    except (SpprofError, OSError, ValueError) as error:
        _say(connection, str(error))
        return
    _say(connection, "")
    if taken is not None:
        try:
            _wait(connection)
        finally:
            _say(connection, _end(taken))


def _begin(connection: Any, hurry: Any) -> Optional[Tuple[Any, Any]]:
    """The profile that has begun; None: what was asked for is done."""
    descriptors: List[int] = []
    try:
        what, about = _receive(connection, descriptors)
        with hurry:
            from . import api  # if this interpreter has no core, that is an answer, too
            from .options import Options

            if what in CONTROLS:
                api.control(what, about or None)
                return None
            if what != PROFILE or not descriptors:
                raise ValueError("a request without a file")
            return api.begin_into(Options.of_text(about), descriptors[0])
    finally:
        for one in descriptors:
            os.close(one)


def _receive(connection: Any, descriptors: List[int]) -> Tuple[str, str]:
    """What is asked for, and about what. What comes with it is added to the descriptors."""
    import _socket

    data = b""
    while data.count(b"\0") < _WORDS:
        more, extra, _, _ = connection.recvmsg(REQUEST_MOST, _socket.CMSG_LEN(_INT))
        for level, kind, sent in extra:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors.append(int.from_bytes(sent[:_INT], sys.byteorder))
                os.set_inheritable(descriptors[-1], False)
        data += more
        version, end, _ = data.partition(b"\0")
        if end and os.fsdecode(version) != __version__:
            raise Unsupported(differ(__version__, os.fsdecode(version)))
        if not more or len(data) > REQUEST_MOST:
            raise ValueError("a request that ended early or is too long")
    _, what, about = data.split(b"\0")[:_WORDS]
    return os.fsdecode(what), os.fsdecode(about)


def _wait(connection: Any) -> None:
    try:
        connection.recv(1)
    except OSError:
        pass


def _end(taken: Tuple[Any, Any]) -> str:
    """What is wrong."""
    from . import api

    try:
        api.end(taken)
    except NotActive:
        pass  # the program ended it
    except SpprofError as error:
        return str(error)
    return ""


def _say(connection: Any, what: str) -> None:
    import _socket

    try:  # SIGPIPE would end a program that has its default
        connection.sendall(os.fsencode(what) + b"\0", getattr(_socket, "MSG_NOSIGNAL", 0))
    except OSError:  # it is gone
        pass
