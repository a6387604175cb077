"""What another process of the same user asks of this one (../listening.py): a profile for as long as it is connected, or what is
to become of the profile that is being taken.

It sends one line of JSON. For a profile that is {"version", "options"}, and with it comes the descriptor of the file that the
profile goes to. It gets {"pid"} or {"error"}. A further byte, or the end of the connection, ends the profile; if the other
process is still there, it gets {} or {"error"}.

{"version", "control", "file"} is for `spprof ctl`: `control` is one of CONTROLS, `file` the path of the profile that is meant, or
null. It gets {} or {"error"}, and that is all."""

from __future__ import annotations

import json
import os

from .. import __version__
from ..errors import NotActive, SpprofError, Unsupported

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

REQUEST_MOST = 4096  # bytes
CONTROLS = ("pause", "resume", "stop")


def serve(connection: Any) -> None:
    """Takes it. On a thread of its own."""
    try:
        taken = _begin(connection)
    except (SpprofError, OSError, ValueError) as error:
        _say(connection, {"error": str(error)})
        return
    if taken is None:
        _say(connection, {})
        return
    try:
        _say(connection, {"pid": os.getpid()})
        _wait(connection)
    finally:
        _say(connection, _end(taken))


def _begin(connection: Any) -> Optional[Tuple[Any, Any]]:
    """The profile that has begun; None: what was asked for is done."""
    from . import api  # if this interpreter has no core, that is an answer, too
    from .options import Options

    request, descriptor = _receive(connection)
    try:
        asked = json.loads(request)
        if descriptor < 0 and "control" not in asked:
            raise ValueError("a request without a file")
        if asked.get("version") != __version__:
            raise Unsupported(
                f"this process has spprof {__version__}, and the other one {asked.get('version')}: they must be equal"
            )
        if "control" in asked:
            api.control(asked["control"], asked["file"])
            return None
        return api.begin_into(Options.of_text(asked["options"]), descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _receive(connection: Any) -> Tuple[bytes, int]:
    """A line, and the descriptor that came with it; -1: none."""
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
    return line, descriptor


def _wait(connection: Any) -> None:
    try:
        connection.recv(1)
    except OSError:
        pass


def _end(taken: Tuple[Any, Any]) -> Dict[str, str]:
    from . import api

    try:
        api.end(taken)
    except NotActive:
        return {}  # the program ended it
    except SpprofError as error:
        return {"error": str(error)}
    return {}


def _say(connection: Any, what: Dict[str, Any]) -> None:
    import _socket

    try:  # SIGPIPE would end a program that has its default
        connection.sendall(json.dumps(what).encode() + b"\n", getattr(_socket, "MSG_NOSIGNAL", 0))
    except OSError:  # it is gone
        pass
