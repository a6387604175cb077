"""`spprof push`: what a server receives adds up to the file, whatever the server does meanwhile."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import MAIN, A
from others import needed
from spprof_file import Writer

from spprof import BadOption, Profile
from spprof.live import follow
from spprof.live import push as pushing
from spprof.live.push import Collector, Pusher, headers_of

service = needed("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
if sys.version_info < (3, 10):
    pytest.skip("opentelemetry-proto for Python 3.9 has an older draft of profiles", allow_module_level=True)

UNIX = 1_700_000_000_000_000_000
NOBODY = (1 << 22) + 1  # no process has this id: those of Linux are smaller, and those of Windows even
B = ("b", "b", "/app/y.py", 20, 21)


class Server(ThreadingHTTPServer):
    """Answers with `answers` in turn, then with 200; keeps what it took."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.taken, self.asked = list(answers), [], 0
        self.came = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def wait(self, requests):
        with self.came:
            assert self.came.wait_for(lambda: self.asked >= requests, 60), self.asked


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        status, answer = server.answers.pop(0) if server.answers else (200, b"")
        if status == 200:
            assert self.headers["Content-Encoding"] == "gzip" and self.headers["Content-Type"] == "application/x-protobuf"
            server.taken.append((self.path, dict(self.headers), gzip.decompress(body)))
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", answer.decode())
        self.end_headers()
        self.wfile.write(answer)
        with contextlib.suppress(OSError):  # until it has been read
            self.connection.shutdown(socket.SHUT_WR)
            self.rfile.read(1)
        with server.came:
            server.asked += 1
            server.came.notify_all()


@pytest.fixture
def server():
    servers = []

    def start(*answers):
        servers.append(Server(*answers))
        return servers[-1]

    yield start
    for each in servers:
        each.shutdown()
        each.server_close()


@pytest.fixture
def push():
    running = []

    def start(*arguments, first="pass", **environment):
        """`first`: what is done in the process before."""
        code = f"import sys; from spprof.cli import main; {first}; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "push", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "no_proxy": "127.0.0.1", **environment},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def closed():
    """An address where nobody listens, nor can meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def parts(bodies):
    """Of each request its beginning, its end, and its samples: (names from root to leaf, thread, labels) -> weight, time."""
    for body in bodies:
        message = service.ExportProfilesServiceRequest.FromString(body)
        tables = message.dictionary
        text = tables.string_table
        (resource,) = message.resource_profiles
        (scope,) = resource.scope_profiles
        (profile,) = scope.profiles
        found = []
        for sample in profile.samples:
            locations = tables.stack_table[sample.stack_index].location_indices
            names = [
                text[tables.function_table[tables.location_table[i].lines[0].function_index].name_strindex]
                for i in reversed(locations)
            ]
            pairs = {}
            for i in sample.attribute_indices:
                value = tables.attribute_table[i].value
                pairs[text[tables.attribute_table[i].key_strindex]] = getattr(value, value.WhichOneof("value"))
            tid = pairs.pop("thread.id", 0)
            pairs.pop("thread.name", None)
            for value, at in zip(sample.values, sample.timestamps_unix_nano):
                found.append((tuple(names), tid, tuple(sorted(pairs.items())), value, at))
        yield profile, {pair.key: pair.value for pair in resource.resource.attributes}, found


def samples_of(server):
    """All that a server took."""
    return [sample for _, _, samples in parts(body for _, _, body in server.taken) for sample in samples]


def samples_in(path):
    """The same of the file."""
    profile = Profile.load(path)
    header = profile.header
    since = header["start_unix_ns"] - header["start_ns"]
    for sample in profile.samples():
        names = tuple(frame.qualname for frame in sample.frames)
        labels = tuple(sorted(sample.labels.items()))
        yield names, profile.thread_tid(sample.thread), labels, sample.weight, sample.timestamp_ns + since


def writer_of(path, **more):
    writer = Writer(start_unix_ns=UNIX, pid=os.getpid(), implementation="cpython", python="3.11.7", **more)
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": "other"}])
    path.write_bytes(writer.data)
    return writer


def grow(path, writer):
    """Appends what is new, as spprof does."""
    writer.flush()
    with open(path, "ab") as file:
        file.write(writer.data[path.stat().st_size :])


def finish(path, writer):
    writer.json(b"E", {"stop_ns": 10_000_000, "reason": "stop"})
    grow(path, writer)


def test_what_arrives_is_the_file(tmp_path, server, push):
    """Three windows while the file grows, the last one at its end."""
    path, to = tmp_path / "p.spprof", server()
    writer = writer_of(path)
    process = push(path, to.url, "--every", "0.3")
    for i in range(3):
        for j in range(50):
            now = 6000 + 1000 * i + 10 * j
            writer.sample(
                [(*MAIN, 3), (*A, 11)] if j % 3 else [(*MAIN, 3), B],
                now,
                10,
                thread=j % 2,
                label='{"route": "/x"}' if j % 5 else None,
            )
        grow(path, writer)
        to.wait(i + 1)
    finish(path, writer)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "") and said == "spprof: 150 samples in 3 profiles sent\n"
    assert {request[0] for request in to.taken} == {"/v1development/profiles"}
    came = samples_of(to)
    assert Counter(came) == Counter(samples_in(path)) and len(came) == 150
    profiles = [profile for profile, _, _ in parts(body for _, _, body in to.taken)]
    assert len({profile.profile_id for profile in profiles}) == 3
    # They follow one another, and each sample lies in its own.
    assert profiles[0].time_unix_nano == UNIX
    for a, b in zip(profiles, profiles[1:]):
        assert a.time_unix_nano + a.duration_nano == b.time_unix_nano
    for profile, _, samples in parts(body for _, _, body in to.taken):
        assert all(profile.time_unix_nano <= at <= profile.time_unix_nano + profile.duration_nano for *_, at in samples)


def test_a_server_that_is_away_gets_it_later(tmp_path, server, push):
    path, to = tmp_path / "p.spprof", server((503, b""), (503, b""), (429, b""))
    writer = writer_of(path)
    process = push(path, to.url, "--every", "0.2")
    for i in range(2):
        writer.sample([(*MAIN, 3), (*A, 11)], 6000 + 1000 * i, 10)
        grow(path, writer)
        to.wait(i + 1)
    to.wait(4)
    finish(path, writer)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert "503 Service Unavailable; what is sampled is kept" in said and "takes profiles again" in said
    came = samples_of(to)
    assert Counter(came) == Counter(samples_in(path)) and len(came) == 2


def test_what_cannot_be_kept_is_counted(tmp_path, closed, push):
    path = tmp_path / "p.spprof"
    writer = writer_of(path)
    writer.sample([(*MAIN, 3)], 6000, 10)
    writer.sample([(*MAIN, 3)], 6100, 10)
    finish(path, writer)
    process = push(path, closed, "--every", "0.1", first="import time; time.sleep = lambda seconds: None")  # between its tries
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "0 samples in 0 profiles sent, 2 samples in 1 profile left out" in said
    assert f"{closed}/v1development/profiles: nobody listens there" in said and f"{path} has them all" in said


def test_refusals(tmp_path, server, push):
    path = tmp_path / "p.spprof"
    writer = writer_of(path)
    writer.sample([(*MAIN, 3)], 6000, 10)
    finish(path, writer)
    process = push(path, server((404, b"")).url, "--every", "0.1")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "404 Not Found: nobody takes profiles there" in said
    process = push(path, server((400, b"no such thing")).url, "--every", "0.1")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "400 Bad Request no such thing" in said and "1 sample in 1 profile refused" in said
    process = push(path, server((302, b"http://h/there")).url, "--every", "0.1")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "302 Found: profiles are not sent on, so give http://h/there\n" in said
    partial = service.ExportProfilesServiceResponse()
    partial.partial_success.rejected_profiles, partial.partial_success.error_message = 1, "too old"
    process = push(path, server((200, partial.SerializeToString())).url, "--every", "0.1")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "1 rejected: too old" in said


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_a_signal_sends_what_is_left(tmp_path, server, push):
    path, to = tmp_path / "p.spprof", server()
    process = push(path, to.url + "/here", "--every", "0.2", "--header", "X-Key=a b", OTEL_SERVICE_NAME="shop")
    assert process.stderr.readline() == f"spprof: waits for {path}\n"
    writer = writer_of(path)
    writer.sample([(*MAIN, 3)], 6000, 10)
    grow(path, writer)
    to.wait(1)
    writer.sample([(*MAIN, 3)], 7000, 10)
    grow(path, writer)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "2 samples in 2 profiles sent" in said
    address, headers, _ = to.taken[0]
    assert address == "/here" and headers["X-Key"] == "a b"
    ((_, resource, _), _) = parts(body for _, _, body in to.taken)
    assert resource["service.name"].string_value == "shop"


class Endless(threading.Thread):
    """A collector whose answers have no end: a byte now and then, or as many as are taken. The first request sets `asked`."""

    def __init__(self, piece, pause):
        super().__init__(daemon=True)
        self.piece, self.pause, self.asked, self.done = piece, pause, threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while not self.done.is_set():
            with contextlib.suppress(OSError):
                connection = self.listener.accept()[0]
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.recv(1 << 20)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            self.asked.set()
            while not self.done.wait(self.pause):
                connection.sendall(self.piece)


@pytest.fixture
def endless():
    running = []

    def start(piece, pause):
        running.append(Endless(piece, pause))
        return running[-1]

    yield start
    for each in running:
        each.done.set()
        each.listener.close()


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_a_signal_ends_a_request_whose_answer_has_no_end(tmp_path, endless, push):
    """The limit of 1,000 s is never waited for: only the signal ends it."""
    path, to = tmp_path / "p.spprof", endless(b"\0", 0.01)
    writer = writer_of(path)
    writer.sample([(*MAIN, 3)], 6000, 10)
    grow(path, writer)
    process = push(path, to.url, "--every", "0.1", first="import spprof.live.push as push; "
                   "push._TIMEOUT_S = 1000; push.Collector.send.__defaults__ = (lambda: False, 1000); "
                   "push.Pusher._send.__defaults__ = (0, 1000)")  # fmt: skip
    assert to.asked.wait(60)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "1 sample in 1 profile left out" in said


def test_an_answer_is_read_for_a_time_and_to_a_size(endless):
    with pytest.raises(pushing._Later, match="an answer without an end"):
        Collector(endless(bytes(1 << 16), 0).url, {}).send(b"x")
    with pytest.raises(pushing._Later, match=r"no whole answer within 0\.5 s"):
        Collector(endless(b"\0", 0.01).url, {}).send(b"x", seconds=0.5)


def test_a_program_that_starts_again_is_followed(tmp_path, server, push):
    """The same name, another file: what was in the first one is sent too."""
    path, to = tmp_path / "p.spprof", server()
    first = writer_of(path)
    process = push(path, to.url, "--every", "0.2")
    first.sample([(*MAIN, 3)], 6000, 10)
    grow(path, first)
    to.wait(1)
    first.sample([(*MAIN, 3), B], 7000, 10)
    grow(path, first)
    expected = list(samples_in(path))
    to.wait(2)
    first.sample([(*MAIN, 3), B, B], 8000, 10)  # nobody waits for this one
    other = tmp_path / "other"
    second = writer_of(other, argv=["again.py"])
    second.sample([(*MAIN, 3), (*A, 11)], 6500, 20)
    finish(other, second)
    expected += samples_in(other)
    grow(path, first)
    expected += list(samples_in(path))[2:]
    other.replace(path)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    came = samples_of(to)
    assert Counter(came) == Counter(expected) and len(came) == 4


@pytest.mark.parametrize("how", ["replaced", "emptied"])
def test_what_was_sampled_before_the_file_was_taken_is_sent(tmp_path, server, push, how):
    """By a program that writes its own result there: a line and an exit code of its own."""
    path, to = tmp_path / "p.spprof", server()
    writer = writer_of(path)
    process = push(path, to.url, "--every", "0.2")
    writer.sample([(*MAIN, 3)], 6000, 10)
    grow(path, writer)
    to.wait(1)
    if how == "replaced":
        writer.sample([(*MAIN, 3), B], 7000, 10)
        grow(path, writer)
        expected = list(samples_in(path))
        (tmp_path / "other").write_text("the result of the program")
        (tmp_path / "other").replace(path)
    else:
        expected = list(samples_in(path))
        path.write_text("the result")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 4 and "meanwhile" in said, said
    assert Counter(samples_of(to)) == Counter(expected) and path.read_text().startswith("the result")


def test_a_real_program(tmp_path, server, push):
    """Pushed while it runs; it and its pusher end by themselves."""
    path, to = tmp_path / "p.spprof", server()
    program = "import threading\ndef f():\n    while not done.is_set(): sum(range(100))\ndone = threading.Event()\n"
    program += "import threading; t = threading.Thread(target=f); t.start(); input(); done.set(); t.join()"
    script = tmp_path / "work.py"
    script.write_text(program)
    run = subprocess.Popen(
        [sys.executable, "-m", "spprof", "run", "-q", "-o", str(path), str(script)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pusher = push(path, to.url, "--every", "0.3")
    try:
        to.wait(3)
        run.communicate(b"\n", timeout=60)
        said = pusher.communicate(timeout=60)[1]
        assert pusher.returncode == 0, said
        came = samples_of(to)
        assert Counter(came) == Counter(samples_in(path)) and len(to.taken) >= 3
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()


def without_end(path):
    writer = Writer(start_unix_ns=UNIX, pid=NOBODY)
    writer.sample([(*MAIN, 3)], 6000, 10)
    path.write_bytes(writer.data)
    grow(path, writer)


def test_a_killed_program_ends_it(tmp_path, server, push):
    path, to = tmp_path / "p.spprof", server()
    without_end(path)
    process = push(path, to.url, "--every", "0.1", first="from spprof.live import push; push._STILL_S = 0.2")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "has no end, and its program is gone" in said and "1 sample in 1 profile sent" in said


class Clock:
    """Goes on when somebody sleeps, and only then."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)


def test_a_program_is_given_up_when_a_living_one_would_have_written_something(tmp_path, server, monkeypatch):
    path, to, clock, said = tmp_path / "p.spprof", server(), Clock(), []
    without_end(path)
    monkeypatch.setattr(pushing, "time", clock)
    monkeypatch.setattr(follow, "time", clock)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pusher = Pusher(follow.Windows(path), Collector(to.url, {}), 1.0, 10**6, said.append)
    pusher.run()
    assert pusher.counts == {"sent": [1, 1], "refused": [0, 0], "left out": [0, 0]} and said == []
    assert 10 < clock.now - 1000 < 20  # it writes its tick stats every 2 s


def test_addresses_and_headers():
    assert Collector("http://h:4318", {}).url == Collector("http://h:4318/", {}).url == "http://h:4318/v1development/profiles"
    assert Collector("https://h/x/y?z=1", {}).url == "https://h/x/y?z=1"
    for wrong in (
        "h:4318",
        "ftp://h",
        "http://",
        "",
        "http://h:99999",
        "http://h:port",
        "http://[::1",
        "http://h/a b",
        "http://ä",
    ):
        with pytest.raises(BadOption, match="not the address"):
            Collector(wrong, {})
    assert headers_of(["a=1", "b=2=3"], {"OTEL_EXPORTER_OTLP_HEADERS": "a=0,c=x%20y"}) == {"a": "1", "b": "2=3", "c": "x y"}
    with pytest.raises(BadOption, match="NAME=VALUE"):
        headers_of(["a"], {})
    for wrong in ("a b=1", "a=1\n2", "a=\u20ac"):
        with pytest.raises(BadOption, match=r"the header 'a( b)?' has a character"):
            headers_of([wrong], {})


class Speaks(threading.Thread):
    """Says `words` to the first that connects, after its first bytes, and nothing more."""

    def __init__(self, words):
        super().__init__(daemon=True)
        self.words, self.listener = words, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        with self.listener, self.listener.accept()[0] as connection, contextlib.suppress(OSError):  # the other end may leave
            connection.recv(1)
            connection.sendall(self.words)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass


@pytest.mark.parametrize(
    "scheme, words, why",
    [
        (
            "http",
            b"\0\0\6\4\0\0\0\0\0\0\5\0\0\x40\0",
            "what answers there does not speak HTTP: collectors take HTTP at port 4318",
        ),
        ("http", b"", "the connection was closed without an answer"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS as we do .*: is it an http:// address?"),
    ],
    ids=["gRPC", "nothing", "no TLS"],
)
def test_why_nobody_takes_profiles_there(scheme, words, why, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Speaks(words)
    with pytest.raises(pushing._Later, match=why):
        Collector(f"{scheme}://{server.address}", {}).send(b"profiles")
    server.join(60)


def test_a_file_that_is_no_profile(tmp_path, closed, push):
    path = tmp_path / "p.spprof"
    path.write_bytes(b"no profile at all, but something else")
    process = push(path, closed)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "not a .spprof file" in said
