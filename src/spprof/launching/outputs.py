"""The files of a run: which it writes while the program runs, and what becomes of them. They are known by the run's number, which
is in their headers, not by their names or times: several machines may write to one folder."""

from __future__ import annotations

import os

from .. import formats
from ..files.names import beside, fits
from ..files.output import Output, absolute, check_folder, token
from ..files.writing import begun, ending, finish, is_being_written

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Set, Tuple

    from ..files.profile import Profile

PID = "\0"  # which is in no path
_NUMBERS = ".4294967295", ".9999"  # the longest that follow a name: a process id, and which of its programs it is
# What is counted or timed beside the samples, by the names that profiles have for it.
_EXACT = {
    "calls": "counts of calls",
    "hot": "counts of the hottest calls",
    "times": "exact times",
    "line_counts": "counts of lines",
    "exceptions": "exceptions",
    "imports": "times of imports",
    "unspecialized": "instructions",
}


class Outputs:
    """`given`: what -o says. `name`: of the program. `stem`: whether child processes are recorded too. `force`: to replace
    whatever is there. Raises BadOption, CannotWrite."""

    def __init__(self, given: Optional[str], format: Optional[str], name: str, stem: bool, force: bool) -> None:
        self.run, self.force = token(), force
        special = given is not None and Output(given, "spprof", True).is_special
        self.format = format or (formats.format_for(given) if given and not special else "spprof")
        self._extension = formats.FORMATS[self.format].extension
        self.output = Output(given, self.format, force) if given else None
        base = given[:-7] if given and given.endswith(".spprof") else given
        follows = "".join(_NUMBERS) + max(self._extension, ".spprof", key=len)
        # With a path of its own the output needs no working folder, which may be gone.
        path = self.output.path if self.output else ""
        self._name = beside(os.path.join(os.path.dirname(path), name) if path else absolute(name), "", follows)
        self.stem = beside(absolute(base or name), "", follows) if stem else ""
        # The file that is written while the program runs, or, if something is there, it with a number. The recorder puts its
        # process id in place of PID. Child processes write STEM.PID.spprof.
        self.stream = f"{self.stem or self._name}.{PID}.spprof"
        if special:
            import tempfile

            self.stream = beside(os.path.join(tempfile.gettempdir(), os.path.basename(name)), f".{self.run}.spprof", _NUMBERS[1])
        elif path:
            own = self.format == "spprof" and not os.path.lexists(path) and fits(path, _NUMBERS[1])
            self.stream = path if own else beside(path, f".{self.run}.spprof", _NUMBERS[1])
        check_folder(self.stream, given or "a profile")

    @property
    def is_special(self) -> bool:
        return self.output is not None and self.output.is_special

    def started(self, pid: int) -> None:
        """The program has this process id."""
        self.stream = self.stream.replace(PID, str(pid))
        self._name += f".{pid}"

    def streams(self) -> List[str]:
        """The files that the program has written so far: one, and one for each program that took its place (os.exec)."""
        import glob

        base = self.stream[:-7]
        middles = [path[len(base) + 1 : -7] for path in glob.glob(f"{glob.escape(base)}.*.spprof")]
        numbers = sorted(int(middle) for middle in middles if middle.isdecimal())  # others' may lie between, and go
        paths = [self.stream, *(f"{base}.{number}.spprof" for number in numbers)]
        return [path for path in paths if self._is_ours(path, "run")]

    def _is_ours(self, path: str, how: str) -> bool:
        header = begun(path)
        return header.get("run") == self.run and header.get("begun") == how

    def children(self, pids: Optional[Set[int]] = None) -> List[str]:
        """The files of its child processes, or of those that have these process ids."""
        if not self.stem:
            return []
        import glob

        found = sorted(glob.glob(f"{glob.escape(self.stem)}.*.spprof"))
        return [path for path in found if self._is_ours(path, "child") and (pids is None or begun(path).get("pid") in pids)]

    def of_children(self, pids: Set[int]) -> Dict[int, str]:
        """The file of each child process that has one of these process ids; of several, as after os.exec, that which grows."""
        found: Dict[int, str] = {}
        for path in self.children(pids):
            pid = begun(path).get("pid")
            if isinstance(pid, int) and (pid not in found or is_being_written(path)):
                found[pid] = path
        return found

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

    def are_without(self, what: str) -> bool:
        """Whether the recorder found that there was none to run: no "program" in a package, or no "module" (or one that exited
        while it was imported)."""
        return all(f'"reason":"no {what}"'.encode() in ending(path) for path in self.streams())

    def discard(self) -> None:
        """There was no program."""
        for path in self.streams():
            os.unlink(path)

    def place(self, number: int, path: str, conversion: formats.Options) -> str:
        """Puts the profile in `path`, the `number`th of the program's, where it was asked for. Gives its place. Raises
        SpprofError, OSError, and then `path` is as before."""
        output = self._wanted(number, path)
        if output is None:
            return path
        if self.format == "spprof":
            output.take(path)
        else:
            from ..files.profile import Profile

            self._convert(output, Profile.load(path), conversion)
            os.unlink(path)
        return output.path

    def place_as_one(
        self, paths: List[str], profiles: Sequence[Profile], growing: List[str], conversion: formats.Options
    ) -> Tuple[str, List[str]]:
        """The same of the profiles of all processes: as one file, of another format than ours. `growing`: the files that were
        still being written before they were read. Gives the place, and the names of what the profiles have and the file lacks.
        Files that have more than it stay."""
        from ..model.joining import joined

        output = self._wanted(1, paths[0])
        assert output is not None
        whole = formats.Options(conversion.weight, conversion.lines, conversion.merge_threads, sources=conversion.sources)
        profile = joined(profiles, conversion.thread)
        lacks = [words for name, words in _EXACT.items() if getattr(profile, name) is None and _have(profiles, name)]
        self._convert(output, profile, whole)
        for path in paths:
            if not lacks and path not in growing:
                os.unlink(path)
        return output.path, lacks

    def _convert(self, output: Output, profile: Profile, conversion: formats.Options) -> None:
        formats.check(self.format, conversion, profile)
        output.write(lambda out: formats.write(profile, out, self.format, conversion))

    def _wanted(self, number: int, path: str) -> Optional[Output]:
        """Where the `number`th profile of the program's is to be; None: where it is, which is `path`."""
        output = self.output
        if (output is None and self.format == "spprof") or (output is not None and output.path == path):
            return None
        if output is None:  # nobody asked for this name: whatever has it stays
            wanted, n = f"{self._name}{self._extension}", 2
            while os.path.lexists(wanted):
                wanted, n = f"{self._name}.{n}{self._extension}", n + 1
            number, output = 1, Output(wanted, self.format)
        if number > 1 and not output.is_special:
            known = output.path.endswith(self._extension)
            base = output.path[: -len(self._extension)] if known else output.path
            wanted = beside(base, f".{number}{self._extension if known else ''}")
            if wanted == path:
                return None
            output = Output(wanted, self.format, self.force)
        return output


def _have(profiles: Sequence[Profile], name: str) -> bool:
    return any(getattr(profile, name) is not None for profile in profiles)


def _finish(path: str, reason: str) -> None:
    """If no space is left for an end, the file stays without one, and its readers say so."""
    try:
        finish(path, reason)
    except OSError:
        pass
