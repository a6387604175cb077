"""The files of a run: which it writes while the program runs, and what becomes of them. Nothing at the asked-for path is touched
before there is something whole to put there."""

from __future__ import annotations

import os
import stat
import time

from .. import formats
from ..errors import BadOption, CannotWrite
from ..files.names import beside, fits
from ..files.writing import ending, finish, is_being_written

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import List, Optional, Tuple

# How files of a format begin. Those that are not here are told by their names alone.
_BEGINNINGS = {
    "spprof": (b"\x89SPPROF",), "html": (b"<",), "svg": (b"<",), "speedscope": (b"{",), "gecko": (b"{",), "chrome": (b"{", b"["),
    "jsonl": (b"{",), "pprof": (b"\x1f\x8b",), "parquet": (b"PAR1",), "pstats": (b"\xfb", b"{"),
    "callgrind": (b"# callgrind", b"version:", b"creator:"),
}  # fmt: skip
# What is said soon after, in files whose kind has others too.
_SAYS = {"html": b"spprof", "speedscope": b"speedscope", "gecko": b'"meta"', "chrome": b'"ph"', "jsonl": b'"type"'}


PID = "\0"  # which is in no path
_NUMBERS = ".4294967295", ".9999"  # the longest that follow a name: a process id, and which of its programs it is


class Outputs:
    """`given`: what -o says. `name`: of the program. `force`: to replace whatever is there. Raises BadOption, CannotWrite."""

    def __init__(self, given: Optional[str], format: Optional[str], name: str, stem: bool, force: bool) -> None:
        self.is_special = given is not None and os.path.exists(given) and _is_special(given)
        if given is not None and os.path.isdir(given):
            raise BadOption(f"{given} is a folder: give a file in it")
        self.format = format or (formats.format_for(given) if given and not self.is_special else "spprof")
        self._extension = formats.FORMATS[self.format].extension
        self._begun_ns = time.time_ns() - 20_000_000  # file systems' clocks are behind
        # What /dev/stdout leads to has a name that cannot be opened.
        self.output = (_absolute(given) if self.is_special else os.path.realpath(_absolute(given))) if given else None
        base = given[:-7] if given and given.endswith(".spprof") else given
        follows = "".join(_NUMBERS) + max(self._extension, ".spprof", key=len)
        # With a path of its own the output needs no working folder, which may be gone.
        self._name = beside(os.path.join(os.path.dirname(self.output), name) if self.output else _absolute(name), "", follows)
        self.stem = beside(_absolute(base or name), "", follows) if stem else ""
        # The file that is written while the program runs; the recorder puts its process id where PID stands.
        self.stream = f"{self.stem or self._name}.{PID}.spprof"
        self._checked: Optional[Tuple[str, str]] = None
        if self.output is None:
            self._check_folder(os.path.dirname(self._name))
            return
        if not fits(self.output):
            raise CannotWrite(f"cannot write {given}: the file's name is too long")
        taken = os.path.lexists(self.output)
        own = f".{os.getpid()}.spprof"
        if self.is_special:
            import tempfile

            self.stream = beside(os.path.join(tempfile.gettempdir(), os.path.basename(name)), own, _NUMBERS[1])
        elif self.format == "spprof" and not taken and fits(self.output, _NUMBERS[1]):
            self.stream = self.output
        else:
            self.stream = beside(self.output, own, _NUMBERS[1])
        self._checked = (given or "", self.output) if taken and not self.is_special and not force else None
        self._check_folder(os.path.dirname(self.stream))

    def check(self) -> None:
        """Whether what is there already may be replaced. Raises BadOption, CannotWrite."""
        if self._checked is None:
            return
        given, path = self._checked
        try:
            with open(path, "rb") as file:
                beginning = file.read(4096)
        except OSError as error:
            raise CannotWrite(f"cannot write {given}: {error.strerror or error}") from error
        expected = _BEGINNINGS.get(self.format, (b"",) if path.endswith(self._extension) else ())
        if beginning and not (beginning.startswith(expected) and _SAYS.get(self.format, b"") in beginning):
            raise BadOption(f"{given} is there and is not a profile of the format {self.format}: give another name, or --force")
        if is_being_written(path):
            raise CannotWrite(f"cannot write {given}: another profile is being written to it")
        if not os.access(path, os.W_OK):
            raise CannotWrite(f"cannot write {given}: Permission denied")

    @staticmethod
    def _check_folder(folder: str) -> None:
        if not os.path.isdir(folder):
            raise CannotWrite(f"cannot write in {folder}: there is no such folder")
        if not os.access(folder, os.W_OK):
            raise CannotWrite(f"cannot write in {folder}: Permission denied")

    def started(self, pid: int) -> None:
        """The program has this process id."""
        self.stream = self.stream.replace(PID, str(pid))
        if self.output is None:
            self.output = f"{self._name}.{pid}{self._extension}"

    def streams(self) -> List[str]:
        """The files that the program has written so far: one, and one for each program that took its place (os.exec)."""
        found, number, path = [], 2, self.stream
        while os.path.exists(path):
            if self._is_new(path):
                found.append(path)
            path, number = f"{self.stream[:-7]}.{number}.spprof", number + 1
        return found

    def _is_new(self, path: str) -> bool:
        return os.stat(path).st_mtime_ns >= self._begun_ns

    def children(self) -> List[str]:
        """The files of its child processes."""
        if not self.stem:
            return []
        import glob

        own = set(self.streams())
        return sorted(path for path in glob.glob(f"{glob.escape(self.stem)}.*.spprof") if path not in own and self._is_new(path))

    def finish(self, reason: str) -> None:
        """All that the program will write is written: gives an end to files that have none."""
        streams = self.streams()
        for path in streams:
            if not is_being_written(path):
                _finish(path, reason if path == streams[-1] else "exec")
        for path in self.children():
            if not is_being_written(path):
                _finish(path, "killed")

    def is_over(self) -> bool:
        """Whether the recorder has ended (--duration, or the program ended it)."""
        streams = self.streams()
        return bool(streams) and bool(ending(streams[-1]))

    def is_without_program(self) -> bool:
        """Whether the recorder found that there was no program to run."""
        return all(b'"reason":"no program"' in ending(path) for path in self.streams())

    def discard(self) -> None:
        """There was no program."""
        for path in self.streams():
            os.unlink(path)

    def place(self, number: int, path: str, conversion: formats.Options) -> str:
        """Puts the profile in `path`, the `number`th of the program's, where it was asked for. Gives its place. Raises
        SpprofError, OSError, and then `path` is as before."""
        wanted = self.output or path
        if number > 1:
            known = wanted.endswith(self._extension)
            base = wanted[: -len(self._extension)] if known else wanted
            wanted = beside(base, f".{number}{self._extension if known else ''}")
        if wanted == path:
            return path
        if self.is_special:
            self._copy(path, wanted, conversion)
        elif self.format == "spprof":
            os.replace(path, wanted)
            return wanted
        else:
            made = beside(wanted, f".{os.getpid()}.part")
            try:
                self._convert(path, made, conversion)
                if os.path.exists(wanted):
                    os.chmod(made, stat.S_IMODE(os.stat(wanted).st_mode))
                os.replace(made, wanted)
            except BaseException:
                if os.path.exists(made):
                    os.unlink(made)
                raise
        os.unlink(path)
        return wanted

    def _convert(self, path: str, wanted: str, conversion: formats.Options) -> None:
        from ..files.profile import Profile

        formats.save(Profile.load(path), wanted, self.format, conversion)

    def _copy(self, path: str, wanted: str, conversion: formats.Options) -> None:
        """To a device or a FIFO: it is written to, and stays. What the program wrote there stays too, if it is a file by now
        (/dev/stdout)."""
        from ..files.profile import Profile

        with open(os.open(wanted, os.O_WRONLY | os.O_APPEND), "wb") as out:
            if self.format != "spprof":
                formats.write(Profile.load(path), out, self.format, conversion)
                return
            with open(path, "rb") as file:
                while piece := file.read(1 << 16):
                    out.write(piece)


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: the working folder is gone; give -o with a whole path") from error


def _is_special(path: str) -> bool:
    """Whether it stays what it is, and is written to. (/dev/stdout may be a file, which others write to.)"""
    return (_absolute(path).startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/")) or not os.path.isfile(path)


def _finish(path: str, reason: str) -> None:
    """Without room for an end the file stays without one, which its readers say."""
    try:
        finish(path, reason)
    except OSError:
        pass
