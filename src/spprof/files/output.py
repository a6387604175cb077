"""The file at a path that somebody gave: what may be replaced, and how. Every file that a verb, an integration or
`Profile.save` writes is put in its place here. All that can refuse it is asked before anything is touched; it is written beside,
under a name that nobody can guess, and appears whole or not at all."""

from __future__ import annotations

import os
import stat

from .. import formats
from ..errors import BadOption, CannotWrite, Taken
from .names import beside, fits
from .writing import is_being_written

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import BinaryIO, Callable, Iterable, Optional, Union

    from ..model.data import ProfileData

_MADE = (
    os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


def token() -> str:
    """A part of a name that nobody can guess, and that two machines do not have in common."""
    return os.urandom(8).hex()


class Output:
    """`given`: the path. `force`: to replace whatever is there. `inputs`: files that are read for it, which are not replaced.
    Raises BadOption, CannotWrite."""

    def __init__(self, given: str, format: str, force: bool = False, inputs: Iterable[str] = ()) -> None:
        self.given, self.format, self.force = given, format, force
        self.is_special = os.path.exists(given) and _is_special(given)
        if os.path.isdir(given):
            raise BadOption(f"{given} is a folder: give a file in it")
        # What /dev/stdout leads to has a name that cannot be opened.
        self.path = absolute(given) if self.is_special else os.path.realpath(absolute(given))
        if self.is_special:
            if not os.access(self.path, os.W_OK):
                raise self._failed("Permission denied")
            return
        if os.path.islink(given) and not _may_follow(given):
            raise self._failed("the link there is another user's")
        if not fits(self.path):
            raise self._failed("the file's name is too long")
        check_folder(self.path, given)
        self._found = self._look(tuple(inputs))

    def beside(self, suffix: str) -> str:
        """A path in the same folder that nobody can guess."""
        return beside(self.path, f".{token()}{suffix}")

    def write(self, fill: Callable[[BinaryIO], object]) -> None:
        """Puts there what `fill` writes. If that raises, all is as before. Raises CannotWrite, BadOption."""
        taken = ""
        try:
            if self.is_special or self._is_empty():
                self._fill_in_place(fill)
                return
            taken = made = self.beside(".part")
            # With the rights of what it replaces from the first byte on, or fewer.
            with open(os.open(made, _MADE, 0o666 if self._found is None else 0o600), "wb") as out:
                fill(out)
            self._put(made)
            taken = ""
        except (BrokenPipeError, CannotWrite):
            raise
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        finally:
            if taken:
                try:
                    os.unlink(taken)
                except FileNotFoundError:  # interrupted before it was made
                    pass

    def take(self, path: str) -> None:
        """Moves a whole file there, of the same folder unless this is a device or a FIFO. Raises as `write`, and then the file is
        where it was."""
        if self.is_special or self._is_empty():
            self.write(lambda out: _copy(path, out))
            os.unlink(path)
            return
        try:
            self._put(path)
        except CannotWrite:
            raise
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error

    def _failed(self, why: str) -> CannotWrite:
        return CannotWrite(f"cannot write {self.given}: {why}")

    def _look(self, inputs: Iterable[str]) -> Optional[os.stat_result]:
        """What is there, if it may be replaced; None: nothing."""
        try:
            found = os.stat(self.path)
            with open(self.path, "rb") as file:
                if any(os.path.samestat(found, os.stat(path)) for path in inputs if os.path.exists(path)):
                    if not self.force:
                        raise BadOption(f"{self.given} is what is read: give another name, or --force")
                elif not self.force and found.st_size and not formats.is_like(self.format, file):
                    raise BadOption(
                        f"{self.given} is there and is not a profile of the format {self.format}: give another name, or --force"
                    )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        if is_being_written(self.path):
            raise self._failed("another profile is being written to it")
        if not os.access(self.path, os.W_OK):
            raise self._failed("Permission denied")
        if hasattr(os, "geteuid") and os.geteuid() not in (0, found.st_uid) and not self.force:
            raise BadOption(f"{self.given} is another user's, and would become yours: give another name, or --force")
        return found

    def _is_empty(self) -> bool:
        """Its creator may have it open (a temporary file), so it is not replaced but filled."""
        return self._found is not None and self._found.st_size == 0

    def _fill_in_place(self, fill: Callable[[BinaryIO], object]) -> None:
        """Behind what others wrote to it, if it is no device but a file by now (/dev/stdout)."""
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with open(os.open(self.path, flags if self.is_special else flags | getattr(os, "O_NOFOLLOW", 0)), "wb") as out:
            if not self.is_special:
                self._require_unchanged(os.fstat(out.fileno()))
            try:
                fill(out)
                out.flush()
            except BaseException:
                if not self.is_special:
                    os.ftruncate(out.fileno(), 0)
                raise

    def _put(self, made: str) -> None:
        """The file `made` takes the place, with the rights and the owner of what was there."""
        if self._found is None:
            try:
                os.link(made, self.path)  # unlike a move, never over a file that came meanwhile
                os.unlink(made)
                return
            except OSError:  # there is one; or a file system without such links
                pass
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            pass
        else:
            self._require_unchanged(now)
            _be_like(made, now)
        os.replace(made, self.path)

    def _require_unchanged(self, now: os.stat_result) -> None:
        """By device, inode and content, not by age: nothing of others' is lost that came since we looked."""
        then = self._found
        if not self.force and (then is None or not _is_same(then, now)):
            raise Taken(f"cannot write {self.given}: it was written or replaced meanwhile, by the program or by others")


def save(
    profile: ProfileData,
    path: str,
    format: Optional[str],
    options: formats.Options,
    force: bool = False,
    inputs: Iterable[str] = (),
) -> None:
    """Writes a profile to a file; without a format, the one of its name. Raises BadOption, CannotWrite."""
    if format is None:
        format = formats.format_for(path)
    len(profile)  # a file that cannot be read is said before all else
    formats.check(format, options, profile)
    source = profile.origin.path
    inputs = [*inputs, *(path for path in (source, *(each.path for each in profile.origin.joins)) if path)]
    whole = format == "spprof" and profile.part_of is None and options.thread is None
    if not (whole and source and os.path.exists(path) and os.path.samefile(source, path)):  # it is there already
        Output(path, format, force, inputs).write(lambda out: formats.write(profile, out, format or "", options))


def absolute(path: str) -> str:
    """Raises CannotWrite if the path begins in the working folder and that is gone."""
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: the working folder is gone; give -o with a whole path") from error


def check_folder(path: str, given: str) -> None:
    """Raises CannotWrite if nothing can be made in the folder of `path`."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CannotWrite(f"cannot write {given}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise CannotWrite(f"cannot write {given}: Permission denied in {folder}")


def _is_special(path: str) -> bool:
    """Whether it stays what it is, and is written to. (/dev/stdout may be a file, which others write to.)"""
    return (absolute(path).startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")) or not os.path.isfile(path)


def _may_follow(link: str) -> bool:
    """As the kernel decides for folders that all may write in (proc(5), protected_symlinks)."""
    folder = os.stat(os.path.dirname(absolute(link)))
    shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    return not shared or os.lstat(link).st_uid in (os.geteuid(), folder.st_uid)


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return os.path.samestat(one, other) and (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def _be_like(made: str, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode)
    if hasattr(os, "chown"):
        new = os.stat(made)
        try:
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.chown(made, old.st_uid, old.st_gid)
        except OSError:  # a group that we are not in: nobody of ours gets its rights
            mode &= ~stat.S_IRWXG
    os.chmod(made, mode)


def _copy(path: Union[str, os.PathLike[str]], out: BinaryIO) -> None:
    with open(path, "rb") as file:
        while piece := file.read(1 << 16):
            out.write(piece)
