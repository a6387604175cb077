"""The folder in which `spprof attach` gives a process what it needs: a script, a socket, perhaps a copy of this package. It is
where the process sees it, which may be in another container, and its name has the process's number there.

It is locked as long as the attachment lives. So the next one knows what was left by those that were killed, and removes it,
unless the process may yet run the script: it would print that there is none."""

from __future__ import annotations

import fcntl
import os

from ..errors import Unsupported
from ..outside.named import NamedTuple

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Callable

SCRIPT = "script.py"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BEGINS, _MARK = "spprof", 8  # of its name, which is spprof-NUMBER-MARK: the mark's characters
_TRIES = 3


class Folder(NamedTuple):
    """One for us alone, reached by descriptors: names on the way to it may come to mean something else."""

    fd: int
    parent: int
    place: str  # as the process sees it

    @property
    def path(self) -> str:
        """For this process alone."""
        return f"/proc/self/fd/{self.fd}"

    def give(self, uid: int) -> None:
        """It and all in it to that user: the top last, since he may change what names below it mean from then on."""
        for _, _, files, fd in os.fwalk(".", topdown=False, dir_fd=self.fd):
            for name in files:
                os.chown(name, uid, -1, dir_fd=fd, follow_symlinks=False)
            os.fchown(fd, uid, -1)

    def remove(self) -> None:
        """It and all in it."""
        _remove(self.parent, os.path.basename(self.place))

    def remove_before(self, uid: int) -> None:
        """What those left that were killed before and meant the same process, once it has run what is here: requests are run in
        order, or the last one alone, so it will not come to theirs any more."""
        own = os.path.basename(self.place).split("-")[1]
        _remove_left(self.parent, uid, lambda number: number != own)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.parent)


def make(root: str, number: int, uid: int) -> Folder:
    """Where libraries can be loaded from, for process `number` of user `uid`, whose files begin at `root`. Raises Unsupported."""
    why = "there is no folder there for temporary files"
    has_numbers = os.path.isdir(f"{root}/proc/{number}")  # of a process that lives
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        try:
            parent = _opened(root, place)
        except OSError as error:
            why = f"{place}: {error.strerror}"
            continue
        try:
            if not os.fstatvfs(parent).f_flag & os.ST_NOEXEC:
                _remove_left(parent, uid, lambda of: not has_numbers or os.path.isdir(f"{root}/proc/{of}"))
                return _made(parent, place, number)
        except OSError as error:
            why = f"{place}: {error.strerror}"
        os.close(parent)
    raise Unsupported(f"nothing can be given to the process: {why}")


def _opened(root: str, place: str) -> int:
    """Its descriptor. Of its names, none may be a link. Raises OSError."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in place.split("/")[1:]:
        above = fd
        try:
            fd = os.open(name, _OPEN, dir_fd=above)
        finally:
            os.close(above)
    return fd


def _made(parent: int, place: str, number: int) -> Folder:
    """Another one if it was taken for one of the dead before it was locked."""
    for _ in range(_TRIES):
        name = f"{_BEGINS}-{number}-{os.urandom(_MARK // 2).hex()}"
        os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, _OPEN, dir_fd=parent)
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(fd)
            raise OSError(0, "another folder took the place of ours")
        if _is_locked(fd) and _is_at(parent, name, found):
            return Folder(fd, parent, f"{place}/{name}")
        os.close(fd)
    raise OSError(0, "folders there are removed as soon as they are made")


def _is_locked(fd: int) -> bool:
    """By us, from now on, until nobody has the descriptor any more."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(parent: int, name: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), found)
    except FileNotFoundError:
        return False


def _remove_left(parent: int, uid: int, may_run: Callable[[str], bool]) -> None:
    """`may_run`: whether the process of that number may yet run a script that is there."""
    for name in os.listdir(parent):
        begins, _, words = name.partition("-")
        number, _, mark = words.partition("-")
        if begins != _BEGINS or not number.isdecimal() or len(mark) != _MARK or not mark.isalnum():
            continue
        try:
            fd = os.open(name, _OPEN, dir_fd=parent)
        except OSError:  # another user's; gone
            continue
        try:
            if (
                os.fstat(fd).st_uid in (os.geteuid(), uid)
                and _is_locked(fd)
                and not (may_run(number) and os.path.lexists(f"/proc/self/fd/{fd}/{SCRIPT}"))
            ):
                _remove(parent, name)
        finally:
            os.close(fd)


def _remove(parent: int, name: str) -> None:
    import shutil

    shutil.rmtree(f"/proc/self/fd/{parent}/{name}", ignore_errors=True)
