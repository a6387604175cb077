"""A profile that grows: its file is read on from where reading stopped, never again from the start."""

from __future__ import annotations

import json
import os
import time
from array import array
from collections import Counter
from itertools import compress
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ..errors import BadFile
from ..files.profile import Profile
from ..files.writing import is_being_written, process_lives
from ..model.filtering import has_labels
from ..model.layout import VALUE_COLUMNS, changed, columns_of
from ..model.records import OFF_CPU, TRUNCATED
from ..model.sums import Sums, merged, moved, sums_by_thread
from ..model.types import TIME, listed_types
from ..model.waits import reasons
from ..readers.about import header_of
from ..readers.loading import prepared, typed
from ..readers.spprof import _BLOCK, MAGIC, Reading, _block

_CHUNK = 1 << 22

# A sample's thread and stack, its flags TRUNCATED and OFF_CPU; reason, waits_on, held_by: as in the file.
_Why = Tuple[int, int, int, int, int, int]


class Follower:
    """Reads a .spprof file as it grows. Of its samples of one type (None: of the first that the file has) only the sums are kept,
    so memory grows with distinct stacks alone; for another choice of labels the file is read from the start.

    A file that is not there yet is waited for; one that was replaced or emptied is read again.
    `warning` says why reading ended early, if it did."""

    def __init__(self, path: Union[str, os.PathLike[str]], type: Optional[str] = None) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.type = type
        self._fd = -1
        self.labels: Dict[str, str] = {}
        self._left_out: Counter[int] = Counter()
        self._begin()

    def only(self, labels: Mapping[str, str]) -> None:
        """From now on only samples that carry all these labels count; values may have `*` and `?`."""
        self.labels = dict(labels)
        self._begin()

    def _begin(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._at = 0  # bytes that were read
        self._rest: List[bytes] = []  # those of them that are no whole block yet, in the pieces in which they came
        self._missing = 1  # bytes that have to come before there is something to do
        self._reading: Optional[Reading] = None
        self._sums: Tuple[Dict[int, Sums], Dict[int, Sums]] = ({}, {})  # by thread, of whole and of truncated stacks
        self._waited: Dict[_Why, int] = {}  # what of them was waited
        self._seen: Counter[int] = Counter()  # samples of each thread
        self._number = TIME  # of the type, in the file
        self._matches: Dict[int, bool] = {}  # text of a set of labels -> whether it is one of those that count
        self.warning: Optional[str] = None

    def read(self) -> int:
        """Reads on, 4 MiB at most; the number of bytes that were new. Raises BadFile if it is no .spprof file, OSError."""
        if self._is_another():
            self._change_file()
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            except FileNotFoundError:
                return 0
        return self._read_piece()

    def _change_file(self) -> None:
        """Another file has the name now, or the file was emptied."""
        self._left_out.clear()
        self._begin()

    def _read_piece(self) -> int:
        os.lseek(self._fd, self._at, os.SEEK_SET)  # Windows has no pread
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError as error:  # of a folder, say
            raise OSError(error.errno, error.strerror, self.path) from None
        self._at += len(data)
        if self.warning is None:
            self._rest.append(data)
            self._missing -= len(data)
            if self._missing <= 0:
                self._take(b"".join(self._rest))
        return len(data)

    def _is_another(self) -> bool:
        try:
            return self._fd >= 0 and (
                not os.path.samestat(os.stat(self.path), os.fstat(self._fd)) or os.fstat(self._fd).st_size < self._at
            )
        except FileNotFoundError:  # removed: what we have open may still grow
            return False

    def _take(self, data: bytes) -> None:
        at, wanted = 0, _BLOCK.size
        if self._reading is None:
            if not MAGIC.startswith(data[: len(MAGIC)]):
                raise BadFile(f"{self.path}: not a .spprof file")
            if len(data) >= len(MAGIC):
                self._reading, at = Reading(), len(MAGIC)
        while self._reading and len(data) - at >= _BLOCK.size and not self.warning:
            wanted = _BLOCK.size + _BLOCK.unpack_from(data, at)[0]
            if len(data) - at < wanted:
                break
            kind, payload, self.warning = _block(data, at)
            self.warning = self.warning or self._reading.add(kind, payload)
            at, wanted = at + wanted, _BLOCK.size
            if kind == ord("H"):
                self._number = self._number_of_type(payload)
            elif kind in b"SV":
                self._add_up(self._reading)
        self._rest = [data[at:]]
        self._missing = max(1, wanted - len(self._rest[0])) if self._reading else 1  # what is no profile is said at once

    def _add_up(self, reading: Reading) -> None:
        """Moves the new samples into the sums."""
        columns = self._fresh(reading)
        flags = [each & (TRUNCATED | OFF_CPU) for each in columns["flags"]]
        whys = [columns.get(name, bytes(len(flags))) for name in ("reason", "waits_on", "held_by")]
        names = ("thread", "stack", "count", "weight")
        chosen_columns: Sequence[Sequence[int]] = (*map(columns.__getitem__, names), flags, *whys)
        if self.labels or self._left_out:
            chosen = [self._counts(*each, reading) for each in zip(columns["thread"], columns["label"])]
            chosen_columns = [list(compress(column, chosen)) for column in chosen_columns]
        else:
            self._seen.update(columns["thread"])
        threads, stacks, _, weights, chosen_flags, *chosen_whys = chosen_columns
        for weight, *why in zip(weights, threads, stacks, chosen_flags, *chosen_whys):
            if why[2] & OFF_CPU or why[3]:
                key: _Why = tuple(why)
                self._waited[key] = self._waited.get(key, 0) + weight
        cut = [each & TRUNCATED for each in chosen_flags]
        for truncated in sorted(set(cut)):
            chosen = [each == truncated for each in cut]
            fresh = sums_by_thread(*(list(compress(column, chosen)) for column in chosen_columns[: len(names)]))
            for thread, sums in fresh.items():
                known = self._sums[truncated].setdefault(thread, ({}, {}))
                for total, part in zip(known, sums):
                    for stack, value in part.items():
                        total[stack] = total.get(stack, 0) + value
        _clear_samples(reading)

    def _number_of_type(self, header: bytes) -> int:
        """Raises BadFile if the file has no samples of the type."""
        try:
            chosen_columns = listed_types(header_of(header))
        except (ValueError, KeyError, TypeError, RecursionError):
            return TIME  # _profile() says what is wrong
        found = {about["name"]: int(about["type"]) for about in reversed(chosen_columns)}
        if self.type is not None and self.type not in found:
            raise BadFile(f"{self.path}: has no samples of {self.type!r}, but of {', '.join(reversed(found))}")
        return found[self.type or chosen_columns[0]["name"]]

    def _fresh(self, reading: Reading) -> Dict[str, Sequence[int]]:
        """The new samples of the type."""
        columns = reading.tables.columns
        if self._number == TIME:
            return {name: columns[name] for name in columns_of("sample")}
        chosen = [each == self._number for each in columns["value_type"]]
        return {name: array(columns[other].typecode, compress(columns[other], chosen)) for name, other in VALUE_COLUMNS.items()}

    def _counts(self, thread: int, label: int, reading: Reading) -> bool:
        """Whether the next sample of a thread is to be added up."""
        self._seen[thread] += 1
        if self._seen[thread] <= self._left_out[thread]:
            return False
        if label not in self._matches:
            text = reading.tables.strings[label - 1] if label else "{}"
            found = json.loads(text)
            self._matches[label] = has_labels(found, self.labels)
        return self._matches[label]

    @property
    def pid(self) -> Optional[int]:
        """Of the program, once the header was read."""
        header = self._reading.last[ord("H")] if self._reading else None
        try:
            pid = header_of(header).get("pid") if header is not None else None
        except (ValueError, KeyError, TypeError, RecursionError):  # _profile() says what is wrong
            return None
        return pid if isinstance(pid, int) and pid > 0 else None

    def is_left(self) -> bool:
        """Whether the program is gone, as far as the system says: nothing more comes. To be asked where the file has no end and
        did not grow for a while."""
        return self.pid is not None and not process_lives(self.pid) and not is_being_written(self.path)

    def forget(self) -> None:
        """Begins new sums: what was taken until now no longer counts."""
        self._sums, self._waited = ({}, {}), {}
        self._left_out = self._seen.copy()

    def _profile(self, whole: Optional[Set[int]] = None, cut: Optional[Set[int]] = None) -> Optional[Profile]:
        """Of the samples that are kept. None before the header was read. Raises BadFile for a header that makes no sense."""
        if self._reading is None or self._reading.last[ord("H")] is None:
            return None
        try:
            columns = typed({**self._reading.result(), "warning": self.warning})
            return Profile.of_columns(prepared(columns, whole=whole, cut=cut))
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(f"{self.path}: {error}") from None

    def profile(self) -> Optional[Profile]:
        """The sums so far, as a profile without single samples: for `functions`, `threads`, `aggregate`. None before the header
        was read. Raises BadFile for a header that makes no sense."""
        stacks = ({stack for sums in part.values() for stack in sums[0]} for part in self._sums)
        profile = self._profile(*stacks)
        if profile is None:
            return None
        if self.type is not None:
            profile = profile.of(self.type)
        parts = list(zip(self._sums, profile._columns()["moved"]))
        threads = {thread for part in self._sums for thread in part}
        profile._sums = {each: merged(moved(part[each], to) for part, to in parts if each in part) for each in sorted(threads)}
        profile._columns()["thread"] = list(profile._sums)
        profile._columns()["waited"] = self._waited_in(profile)
        return profile

    def _waited_in(self, profile: Profile) -> Dict[Tuple[int, int, int, int, int], int]:
        """See `Columns`."""
        moved = profile._columns()["moved"]
        keys = [moved[(flags & TRUNCATED) != 0].get(stack, stack) for _, stack, flags, *_ in self._waited]
        columns = {"flags": [why[2] for why in self._waited], "reason": [why[3] for why in self._waited]}
        explained = reasons(changed(profile._columns(), columns), keys, profile.stack_frames)
        found: Dict[Tuple[int, int, int, int, int], int] = {}
        for (why, weight), key, reason in zip(self._waited.items(), keys, explained):
            of = (why[0], key, reason, *why[4:])
            found[of] = found.get(of, 0) + weight
        return found


def _clear_samples(reading: Reading) -> None:
    """Forgets the samples, and keeps the tables that they refer to."""
    columns = reading.tables.columns
    for name in columns:
        if not name.startswith(("code_", "frame_", "node_")):
            del columns[name][:]


class Windows(Follower):
    """Reads a .spprof file as it grows, and gives its samples, of all types, part by part: each once, as a profile of the
    time in which they were read. `grew_at` is when something new came last (`time.monotonic()`)."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._done: List[Profile] = []  # of files that were replaced
        self._since_ns = 0  # from which the next part counts; 0: the beginning of the file
        self.came = False  # whether there was a profile
        super().__init__(path)
        self.grew_at = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether the profile was finished, and all of it was read."""
        return self._reading is not None and self._reading.last[ord("E")] is not None

    def read_on(self) -> None:
        """Reads all that there is now. Raises as `read` does."""
        while self.read():
            self.came = self.came or self._reading is not None
            self.grew_at = time.monotonic()

    def take(self) -> List[Profile]:
        """What was sampled since the last call: no profile or one, or more if the file was replaced meanwhile. Raises BadFile."""
        self._finish_part()
        done, self._done = self._done, []
        return done

    def _change_file(self) -> None:
        """The old one is read to its end first."""
        while self._read_piece():
            pass
        self._finish_part()
        self._since_ns = 0
        super()._change_file()

    def _add_up(self, reading: Reading) -> None:
        """Samples stay, until they are taken."""

    def _finish_part(self) -> None:
        reading = self._reading
        if reading is None or not (reading.tables.columns["stack"] or reading.tables.columns["value_stack"]):
            return
        profile = self._profile()
        assert profile is not None  # the header comes first: without it there are no samples
        _clear_samples(reading)
        header, end = profile.header, max(max(each.column("time_ns")) for each in profile.each_type() if len(each))
        start = self._since_ns or int(header["start_ns"])
        if header.get("start_unix_ns"):
            header["start_unix_ns"] += start - int(header["start_ns"])
        header["start_ns"], self._since_ns = start, max(start, end)
        profile._columns()["end"] = {"stop_ns": self._since_ns, "reason": "part"}
        self._done.append(profile)
