"""`Profile`: a profile and the file that it is read from and written to."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Protocol, Union

from ..errors import BadFile
from ..model.data import ProfileData
from ..model.layout import Columns
from ..model.records import Marker
from ..readers.loading import load

TYPE_CHECKING = False  # see __init__: what a run without exact counts does not need
if TYPE_CHECKING:
    from ..model.calls import Calls
    from ..model.exceptions import Exceptions
    from ..model.hot import HotCalls
    from ..model.imports import Import
    from ..model.line_counts import LineCounts
    from ..model.requests import Request
    from ..model.specialization import Unspecialized
    from ..model.times import Times


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class _OpenFile:
    """A descriptor that we own and close with the last profile that reads it, or an object that closes its own."""

    def __init__(self, source: Union[int, _HasDescriptor]) -> None:
        self.owner = source
        self.fd = source if isinstance(source, int) else source.fileno()

    def read(self) -> bytes:
        chunks: List[bytes] = []
        os.lseek(self.fd, 0, os.SEEK_SET)  # Windows has no pread
        while chunk := os.read(self.fd, 1 << 24):
            chunks.append(chunk)
        return b"".join(chunks)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at exit `os` may be gone
        if isinstance(getattr(self, "owner", None), int):  # an exception may have come before it was there
            close(self.fd)


class Profile(ProfileData):
    """A profile. `spprof.stop()` gives one, `Profile.load(path)` reads one; the columns are read when first needed.

    `source`: a path, the bytes of a .spprof file, or an open descriptor (owned by the profile from then on), or an object that
    has one."""

    _bytes: Optional[bytes] = None
    _open: Optional[_OpenFile] = None
    _unwritten: Optional[str] = None

    def __init__(self, source: Union[str, os.PathLike[str], bytes, int, _HasDescriptor]) -> None:
        super().__init__()
        if isinstance(source, bytes):
            self._bytes = source
        elif isinstance(source, (str, os.PathLike)):
            self.path = os.path.abspath(os.fspath(source))
        else:
            self._open = _OpenFile(source)

    @classmethod
    def _just_written(cls, source: Union[str, _HasDescriptor], unwritten: Optional[str]) -> Profile:
        """`unwritten`: why a part could not be written. The file does not show that if it ends with a whole block."""
        profile = cls(source)
        profile._unwritten = unwritten
        return profile

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Profile:
        """Reads a .spprof file now, or one of another profiler (see `spprof.readers`). A damaged .spprof file is read up to
        its last good block: see `warning`.

        Raises BadFile if it is none of these, OSError if it cannot be read."""
        profile = cls(path)
        profile._columns()
        return profile

    def save(self, path: Union[str, os.PathLike[str]], format: Optional[str] = None, force: bool = False, **options: Any) -> None:
        """Writes the profile to `path` as `format` ('html', 'speedscope', ...: docs/formats.md; by default from the name).

        `options`: weight ('samples' or 'value'), lines, merge_threads (bool), thread (a pattern as in `functions`), sources
        (bool, for html: the text of source files too). What is no profile of this format is replaced only with `force`.
        Raises BadOption for a format that does not exist, an option that it cannot follow or a file that is not to be replaced,
        OSError if the file cannot be written."""
        from .. import formats
        from .output import save

        save(self, os.fspath(path), format, formats.Options(**options), force)

    def raw(self) -> bytes:
        """The bytes of the .spprof file; those of the whole if this is a part, none if it is no file."""
        if self.part_of is not None:
            return self.part_of.raw()
        if self._bytes is not None:
            return self._bytes
        if self._open is not None:
            return self._open.read()
        if self.path is None:
            return b""
        with open(self.path, "rb") as file:
            return file.read()

    def _collections(self) -> List[Marker]:
        from ..readers.spprof import collections

        names = ("generation", "collected", "uncollectable")
        found = [
            Marker("gc", thread, time_ns, duration_ns, dict(zip(names, counts)))
            for thread, time_ns, duration_ns, *counts in collections(self.raw())
        ]
        return sorted(found, key=lambda marker: marker.time_ns)

    def _ended_requests(self) -> List[Request]:
        from ..model.requests import made
        from ..readers.spprof import requests

        start_ns = int(self.header.get("start_ns") or 0)
        whole = [row for row in requests(self.raw()) if row[0] >= start_ns]  # of others nobody knows what they did at first
        return made(whole, self.origin._columns()["strings"])

    def _timed_imports(self) -> Optional[List[Import]]:
        from ..readers.exact import imports

        return imports(self.raw()) if self.header.get("imports") else None

    def _counted_exceptions(self) -> Optional[Exceptions]:
        from ..readers.exact import exceptions

        return exceptions(self.raw()) if self.header.get("exceptions") else None

    def _counted_calls(self) -> Optional[Calls]:
        from ..readers.exact import calls

        return calls(self.raw()) if self.header.get("calls") else None

    def _counted_hot_calls(self) -> Optional[HotCalls]:
        from ..readers.exact import hot_calls

        return hot_calls(self.raw()) if self.header.get("calls") == "hot" else None

    def _timed_calls(self) -> Optional[Times]:
        from ..readers.exact import times

        return times(self.raw())  # functions may be marked after the header was written

    def _counted_lines(self) -> Optional[LineCounts]:
        from ..readers.exact import lines

        return lines(self.raw()) if self.header.get("lines") else None

    def _read_unspecialized(self) -> Optional[Unspecialized]:
        from ..readers.exact import unspecialized

        return unspecialized(self.raw()) if self.header.get("specialization") else None

    def _columns(self) -> Columns:
        if self._loaded is None:
            try:
                columns = load(self.raw())
                if self.path is not None and self.path.endswith(".py") and "source" in columns["header"]:  # `x = 1` is a stack
                    raise ValueError("not a .spprof file, but a program: `spprof run` takes a profile of it")
                self._loaded = columns
                if self._loaded["end"] is None and self.path is not None:
                    self._loaded = self._asked_again(self.path)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadFile(f"{self.path or 'the profile'}: {error}") from None
            if self._unwritten and self._loaded["warning"] is None:
                self._loaded["warning"] = f"not all of it could be written: {self._unwritten}"
        return self._loaded

    def _asked_again(self, path: str) -> Columns:
        """The columns of a file without an end. Checks whether it is being written before reading it again: a program that has
        ended by then has written everything it will."""
        from .writing import is_being_written

        writing = is_being_written(path)
        again = load(self.raw())
        again["being_written"] = writing and again["end"] is None
        return again
