"""Profiles sent to an OpenTelemetry collector while they are taken: each part of a growing file as a request of its own
(https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""

from __future__ import annotations

import gzip
import http.client
import io
import os
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from .. import __version__, formats
from ..errors import BadFile, BadOption, SpprofError
from .follow import Windows

_PATH = "/v1development/profiles"
_ADDRESS = re.compile(r"[!-~]+")  # of characters that a request's first line may have (RFC 3986); `%C3%A4` is for others
_NAME, _VALUE = (
    re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII),
    re.compile(r"[\t -~\xa0-\xff]*"),
)  # of a header (RFC 9110, 5.5, 5.6)
_AGAIN = (429, 502, 503, 504)  # of the specification: the request may be sent once more
_HOPELESS = {
    401: "credentials are missing or were refused: --header 'Authorization=...'",
    403: "we may not",
    404: "nobody takes profiles there: a collector does with --feature-gates=service.profilesSupport",
    405: "nobody takes profiles there",
    501: "nobody takes profiles there",
    415: "it wants another encoding",
}
_TIMEOUT_S = 20  # for a request and its whole answer
_MOST_BYTES = 1 << 16  # of an answer: a collector has a line to say, or nothing
_LAST_S = 2  # for what is left when a signal came
_LOOK_S = 0.1  # how often a request looks whether it is to end
_STILL_S = 15.0  # a program that lives writes its tick stats every 2 s
_LAST_TRIES = 3


class Refused(SpprofError):
    """The collector will not take any profile."""


class _Later(Exception):
    """The collector cannot be reached, or asks to be left alone for a while. `code`: the HTTP status or errno, which says
    whether two failures are the same."""

    def __init__(self, code: object, words: str) -> None:
        super().__init__(words)
        self.code = code


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A request that is sent on becomes one without a body (RFC 9110, 15.4), and its answer says nothing of the profile."""

    def redirect_request(self, *request: Any) -> None:
        return None


class Collector:
    """Where to send to."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """`url`: of the collector, or of what takes profiles there. Raises BadOption."""
        try:
            parts = urllib.parse.urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # of a port that is none, half an address in brackets
            known = False
        if not known or not _ADDRESS.fullmatch(url):
            raise BadOption(f"{url}: not the address of a collector; one looks like http://127.0.0.1:4318")
        self.url = urllib.parse.urlunsplit(parts._replace(path=_PATH)) if parts.path in ("", "/") else url
        self.headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"spprof/{__version__}",
            **headers,
        }
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, body: bytes, stopped: Callable[[], bool] = lambda: False, seconds: float = _TIMEOUT_S) -> str:
        """Sends a packed request; what the collector said of it, '' if nothing. Raises Refused, _Later: also after so many
        seconds, and at once when `stopped` says so.

        A thread does the work: whatever the collector does, and however slowly, it keeps no one waiting. Given up, it ends with
        its connection, or with the process."""
        results: List[Callable[[], str]] = []

        def work() -> None:
            try:
                said = self._ask(body)
                results.append(lambda: said)
            except BaseException as error:
                failed = error
                results.append(lambda: _raise(failed))

        worker = threading.Thread(target=work, name="spprof push", daemon=True)
        worker.start()
        due = time.monotonic() + seconds
        while worker.is_alive():
            worker.join(_LOOK_S)
            if worker.is_alive() and (stopped() or time.monotonic() >= due):
                raise _Later(TimeoutError, "no answer" if stopped() else f"no whole answer within {seconds:g} s")
        return results[0]()

    def _ask(self, body: bytes) -> str:
        """The same, for as long as it takes."""
        request = urllib.request.Request(self.url, body, self.headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                return _objection(_read(response))
        except urllib.error.HTTPError as error:
            said = " ".join(error.read(300).decode("utf-8", "replace").split())
            to = error.headers.get("Location")
            if error.code in _AGAIN:
                raise _Later(error.code, f"{error.code} {error.reason}") from None
            if error.code in _HOPELESS:
                raise Refused(f"{self.url}: {error.code} {error.reason}: {_HOPELESS[error.code]}") from None
            if to and 300 <= error.code < 400:
                raise Refused(f"{self.url}: {error.code} {error.reason}: profiles are not sent on, so give {to}") from None
            return f"{error.code} {error.reason} {said}".strip()
        except (OSError, http.client.HTTPException) as error:  # URLError too; a timeout
            reason = getattr(error, "reason", error)
            raise _Later(getattr(reason, "errno", None) or type(reason), _why(reason)) from None


def _why(error: object) -> str:
    """Why nobody answered, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names others"
    if isinstance(error, ssl.SSLError):
        return f"does not speak TLS as we do ({error.reason}): is it an http:// address?"
    if isinstance(error, socket.gaierror):
        return f"there is no such host ({error.strerror})"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there (connection refused)"
    if isinstance(error, ConnectionError):  # RemoteDisconnected too, which is a BadStatusLine
        return "the connection was closed without an answer"
    if isinstance(error, http.client.BadStatusLine):
        return "what answers there does not speak HTTP: collectors take HTTP at port 4318, gRPC at 4317"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _raise(error: BaseException) -> str:
    raise error


def _read(response: Any) -> bytes:
    """A whole answer. Raises _Later for one that is too long, or takes too long."""
    due, answer = time.monotonic() + _TIMEOUT_S, b""
    while len(answer) <= _MOST_BYTES and time.monotonic() < due:
        piece: bytes = response.read1(_MOST_BYTES)
        if not piece:
            return answer
        answer += piece
    raise _Later(TimeoutError, f"an answer without an end ({len(answer):,} bytes)")


def _objection(answer: bytes) -> str:
    """What an answer says against profiles that it was given."""
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

    try:
        partial = profiles_service_pb2.ExportProfilesServiceResponse.FromString(answer).partial_success
    except ValueError:  # protobuf's DecodeError
        return ""
    return f"{partial.rejected_profiles} rejected: {partial.error_message}" if partial.rejected_profiles else ""


class Pusher:
    """Follows a file and sends what comes. `counts` has what was sent, what the collector refused and what was left
    out while it could not be reached: profiles and samples of each."""

    def __init__(
        self, follower: Windows, collector: Collector, every_s: float, keep_bytes: int, say: Callable[[str], None]
    ) -> None:
        self.follower, self.collector, self.every_s, self.keep_bytes, self.say = follower, collector, every_s, keep_bytes, say
        self.waiting: Deque[Tuple[bytes, int]] = deque()  # packed requests, and their samples
        self.counts: Dict[str, List[int]] = {"sent": [0, 0], "refused": [0, 0], "left out": [0, 0]}
        self.interrupted = False  # a signal came while the collector did not answer
        self.trouble: object = None  # the code of the failure that was reported
        self.stopped = 0  # signals to end
        self.taken: Optional[BadFile] = None  # the file is a profile no more

    def run(self) -> None:
        """Until the profile has ended or was `taken`, or `stopped` is not 0 (a signal came). Raises Refused, OSError; BadFile if
        there never was one."""
        due = time.monotonic()
        while not self.stopped and not self._has_ended():
            due += self.every_s
            while not self.stopped and time.monotonic() < due and not self._has_ended():
                time.sleep(max(0.0, min(0.2, due - time.monotonic())))
                self._read_on()
            self._collect()
            self._send()
        signals = self.stopped
        self._read_on()
        self._collect()
        for trial in range(_LAST_TRIES):
            if not self.interrupted and self._send(signals, _LAST_S if signals else _TIMEOUT_S):
                return
            if signals or self.stopped or self.interrupted:
                break
            if trial + 1 < _LAST_TRIES:
                self._rest(2**trial, signals)
        while self.waiting:
            self._count("left out", self.waiting.popleft()[1])

    def _rest(self, seconds: float, signals: int) -> None:
        """Until a signal comes, at most so long."""
        due = time.monotonic() + seconds
        while self.stopped == signals and time.monotonic() < due:
            time.sleep(min(_LOOK_S, max(0.0, due - time.monotonic())))

    def _read_on(self) -> None:
        try:
            if self.taken is None:
                self.follower.read_on()
        except BadFile as error:
            if not self.follower.came:
                raise
            self.taken = error

    def _has_ended(self) -> bool:
        follower = self.follower
        if follower.ended or follower.warning or self.taken:
            return True
        if time.monotonic() - follower.grew_at < _STILL_S:
            return False
        return follower.is_left()

    def _count(self, what: str, samples: int) -> None:
        self.counts[what][0] += 1
        self.counts[what][1] += samples

    def _collect(self) -> None:
        for profile in self.follower.take():
            made = io.BytesIO()
            formats.write(profile, made, "otlp", formats.Options())
            self.waiting.append((gzip.compress(made.getvalue(), 5), sum(map(len, profile.each_type()))))
        while sum(len(body) for body, _ in self.waiting) > self.keep_bytes:
            self._count("left out", self.waiting.popleft()[1])

    def _send(self, signals: int = 0, seconds: float = _TIMEOUT_S) -> bool:
        """Sends what waits, the oldest first; whether nothing waits any more. Not after more signals than these, and each request
        for so many seconds."""
        while self.waiting:
            body, samples = self.waiting[0]
            try:
                objection = self.collector.send(body, lambda: self.stopped > signals, seconds)
            except _Later as error:
                self.interrupted = self.stopped > signals
                if error.code != self.trouble:
                    self.say(f"{self.collector.url}: {error}; what is sampled is kept, and sent later")
                self.trouble = error.code
                return False
            if self.trouble is not None:
                self.say(f"{self.collector.url}: takes profiles again")
                self.trouble = None
            self.waiting.popleft()
            self._count("refused" if objection else "sent", samples)
            if objection:
                self.say(f"{self.collector.url}: {objection}")
        return True


def headers_of(given: Optional[List[str]], environment: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """NAME=VALUE, from the command line and before it from OTEL_EXPORTER_OTLP_HEADERS, where values are written as in URLs
    (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). Raises BadOption."""
    pairs: List[Any] = []
    for text in filter(None, environment.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")):
        name, equals, value = text.partition("=")
        pairs.append((name, equals, urllib.parse.unquote(value)))
    pairs += [text.partition("=") for text in given or []]
    for name, equals, value in pairs:
        if not equals or not name.strip():
            raise BadOption(f"a header is given as NAME=VALUE, not as {name!r}")
        if not _NAME.fullmatch(name.strip()) or not _VALUE.fullmatch(value.strip()):  # the value may be a secret
            raise BadOption(f"the header {name.strip()!r} has a character that headers must not have")
    return {name.strip(): value.strip() for name, _, value in pairs}
