"""Profiles of single requests, for the middlewares of wsgi.py and asgi.py.

A process takes one profile at a time, so all requests share one: each runs under labels of its own. After its response was sent
a thread of this module cuts its part out of the file by them."""

from __future__ import annotations

import atexit
import collections
import hmac
import logging
import os
import queue
import re
import tempfile
import threading
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import parse_qsl

from .. import _core, formats
from ..errors import BadOption, NotActive, SpprofError, Unsupported
from ..files.profile import Profile
from ..listening import start_ours
from ..model.filtering import filtered
from ..recording import api, forks
from ..recording.labels import keep_request, label, new_id
from ..recording.options import Options, usual_mode

HEADER = "X-Spprof-Token"  # of the request that asks
ANSWER = "X-Spprof-Request"  # of its response: the id that its file's name ends with
SHORTEST_TOKEN = 16
ROLL_BYTES = 1 << 20  # a new profile is begun beyond: reading one of this size holds the GIL for some 50 ms

logger = logging.getLogger("spprof")


def _when(unix_ns: int) -> str:
    """A time in UTC, `20260131T235959`. By arithmetic alone: the program may have frozen or replaced what `time` and `datetime`
    have (https://howardhinnant.github.io/date_algorithms.html, civil_from_days)."""
    days, seconds = divmod(unix_ns // 1_000_000_000, 86400)
    era, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (month >= 10)
    clock = f"{seconds // 3600:02}{seconds // 60 % 60:02}{seconds % 60:02}"
    return f"{year:04}{month + 3 if month < 10 else month - 9:02}{day + 1:02}T{clock}"


class Settings(NamedTuple):
    """See `SpprofMiddleware`."""

    token: Optional[str] = None
    slower_than: Optional[float] = None
    folder: Union[str, os.PathLike[str]] = "spprof-requests"
    mode: Optional[str] = None
    rate: Optional[float] = None
    format: Optional[str] = None
    keep: int = 100
    query: Optional[str] = None
    events: Sequence[str] = ("time",)


class _Take:
    """One of the profiles that follow each other. The recorder's lock guards the counts."""

    def __init__(self) -> None:
        fd, self.path = tempfile.mkstemp(suffix=".spprof", prefix="spprof-requests-")
        os.close(fd)
        self.running = 0  # requests that it samples
        self.waiting = 0  # requests that are to be cut out of it
        self.over = False

    def is_active(self) -> bool:
        """Whether it is the profile that is being taken: the program may have stopped it, and begun one of its own."""
        return api.is_written_to(self.path) and api.is_active()

    def remove_if_done(self) -> None:
        if self.over and not self.running and not self.waiting:
            try:
                os.unlink(self.path)
            except FileNotFoundError:
                pass


class Request(NamedTuple):
    """A request that runs. `take` is None if only its labels are wanted, by a profile that is not ours."""

    id: str
    wanted: bool
    labels: Dict[str, str]
    start_ns: int
    take: Optional[_Take]

    def label(self) -> label:
        """The block in which the request's samples are taken."""
        return label(**self.labels)


class _Job(NamedTuple):
    request: Request
    take: _Take
    stop_ns: int


class Recorder:
    """Takes profiles while they are needed, and writes those of requests. Of each process its own. Raises BadOption."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if settings.token is not None and len(settings.token) < SHORTEST_TOKEN:
            raise BadOption(f"the token has less than {SHORTEST_TOKEN} characters; secrets.token_urlsafe() makes a good one")
        if settings.query is not None and settings.token is None:
            raise BadOption("query= names the parameter that carries the token: give a token too")
        rate = settings.rate or (1000.0 if settings.slower_than is None else 100.0)
        mode = settings.mode or usual_mode(settings.events)
        self.recording = Options(rate=rate, mode=mode, events=settings.events)
        try:
            api.require_events(self.recording.events)
        except Unsupported:  # logged when a request is to be profiled, as all that the system refuses
            pass
        if settings.keep < 1:
            raise BadOption(f"keep={settings.keep!r}: at least one file")
        self.format = settings.format or ("html" if "html" in formats.FORMATS else "speedscope")
        if self.format not in formats.FORMATS:
            raise BadOption(f"format={self.format!r} does not exist: choose one of {', '.join(formats.FORMATS)}")
        self.is_on = settings.token is not None or settings.slower_than is not None
        self._forget()
        if self.is_on:
            forks.in_child(self._forget)
            atexit.register(self.finish)
            with label():  # the first one takes 10 ms
                pass

    def _forget(self) -> None:
        """At first, and in a forked child: the profile, the requests and the thread are the parent's."""
        self.lock = threading.Lock()
        self.take: Optional[_Take] = None
        self.jobs: queue.Queue[Optional[_Job]] = queue.Queue(self.settings.keep)
        self.writer: Optional[threading.Thread] = None
        self.written: Deque[str] = collections.deque()
        self.complained = False

    def asked(self, header: Optional[str], query: str) -> bool:
        """Whether a request carries the token."""
        if self.settings.token is None:
            return False
        given = [header] if header else []
        if self.settings.query and self.settings.query in query:
            given += [value for name, value in parse_qsl(query) if name == self.settings.query]
        secret = self.settings.token.encode()
        return any(hmac.compare_digest(value.encode("utf-8", "replace"), secret) for value in given)

    def begin(self, method: str, path: str, wanted: bool, route: Callable[[], str]) -> Optional[Request]:
        """A request begins. None if nothing is to be known about it. `route`: is asked if it is profiled."""
        if not self.is_on and not api.is_active():
            return None
        take = self._take() if wanted or self.settings.slower_than is not None else None
        if take is None and not api.is_active():
            return None
        id = new_id()
        labels, template = {"request": id, "method": method, "path": path[:200]}, route()
        if template:
            labels["route"] = template[:200]
        return Request(id, wanted, labels, _core.now_ns(), take)

    def _take(self) -> Optional[_Take]:
        """The profile that is being taken, begun if need be; None if there is one that is not ours, or there can be none."""
        with self.lock:
            take = self.take
            if take is not None and self._is_full(take):
                self._end_take(take)
                take = None
            if take is None:
                try:
                    take = self._begin_take()
                except (SpprofError, OSError) as error:
                    if not self.complained:
                        logger.warning("requests are not profiled: %s", error)
                    self.complained = True
                    return None
                self.take = take
            take.running += 1
            return take

    def _begin_take(self) -> _Take:
        take = _Take()
        try:
            api.begin(self.recording, take.path)
        except BaseException:
            os.unlink(take.path)
            raise
        return take

    def _is_full(self, take: _Take) -> bool:
        """Requests that run lose their beginning with a new profile: so it begins when none runs, unless that takes too long."""
        size = os.path.getsize(take.path)
        return not take.is_active() or size > 4 * ROLL_BYTES or (size > ROLL_BYTES and not take.running)

    def _end_take(self, take: _Take) -> None:
        self.take = None
        if take.is_active():
            api.stop()
        take.over = True  # now: from here on its file is whole
        take.remove_if_done()

    def end(self, request: Request, stop_ns: int) -> None:
        """A request's response was sent at `stop_ns`."""
        keep_request(request.labels, request.start_ns, stop_ns)
        take = request.take
        if take is None:
            return
        slow = self.settings.slower_than is not None and stop_ns - request.start_ns >= self.settings.slower_than * 1e9
        with self.lock:
            take.running -= 1
            if request.wanted or slow:
                self._hand_over(_Job(request, take, stop_ns))
            if take is self.take and not take.running and self.settings.slower_than is None:
                self._end_take(take)
            take.remove_if_done()

    def _hand_over(self, job: _Job) -> None:
        if self.writer is None:
            start_ours(self._start, self._write, self.jobs)
        try:
            self.jobs.put_nowait(job)
            job.take.waiting += 1
        except queue.Full:
            logger.warning("too many requests to profile: that of %s is left out", job.request.labels["path"])

    def _start(self, function: Callable[..., None], given: Tuple[Any, ...]) -> None:
        self.writer = threading.Thread(target=function, args=given, name="spprof-requests", daemon=True)
        self.writer.start()

    def _write(self, jobs: queue.Queue[Optional[_Job]]) -> None:
        """Body of the thread."""
        path, profile, read_ns = "", Profile(b""), 0
        while True:
            job = jobs.get()
            if job is None:
                return
            try:
                if job.take.path != path or read_ns < job.stop_ns:
                    path, read_ns = job.take.path, self._flushed(job.take)
                    profile = Profile.load(path)
                part = filtered(profile, labels={"request": job.request.id})
                part._columns()["end"] = {"stop_ns": job.stop_ns, "reason": "request"}  # the profile itself goes on
                self._save(part, job)
            except Exception:  # a server must not lose this thread
                logger.exception("the profile of request %s was not written", job.request.id)
            with self.lock:
                job.take.waiting -= 1
                job.take.remove_if_done()

    def _flushed(self, take: _Take) -> int:
        """Sees to it that the profile's file has all until now, and says when that was."""
        now = _core.now_ns()
        if take.is_active():
            try:
                api.flush()
            except NotActive:  # it ended meanwhile, and an ended one is whole
                pass
        return now

    def _save(self, part: Profile, job: _Job) -> None:
        labels, start_ns = job.request.labels, job.request.start_ns
        when = _when(_core.unix_ns() - (_core.now_ns() - start_ns))
        where = re.sub(r"[^A-Za-z0-9.-]+", "_", labels["path"].strip("/"))[:60] or "root"
        method = re.sub(r"[^A-Z]", "", labels["method"])[:10]
        seconds = (job.stop_ns - start_ns) / 1e9
        name = f"{when}-{method}-{where}-{seconds:.3f}s-{job.request.id}{formats.FORMATS[self.format].extension}"
        os.makedirs(self.settings.folder, mode=0o700, exist_ok=True)
        file = os.path.join(self.settings.folder, name)
        part.save(file, self.format)
        self.written.append(file)
        if len(self.written) > self.settings.keep:
            try:
                os.unlink(self.written.popleft())
            except FileNotFoundError:
                pass

    def finish(self) -> None:
        """Ends the profile and writes what is still to be written; at the end of the process."""
        with self.lock:
            if self.take is not None:
                self._end_take(self.take)
            writer, self.writer = self.writer, None
        if writer is not None:
            self.jobs.put(None)
            writer.join()
