"""The middlewares, in real servers: the profile of a request holds what that request did, and nothing of those beside it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
from hosts import host
from work import burn

import spprof
from spprof import BadOption, Profile, is_active
from spprof.integrations import web
from spprof.integrations.asgi import SpprofMiddleware as Asgi
from spprof.integrations.wsgi import SpprofMiddleware as Wsgi

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOKEN = "0123456789abcdef"

# Each request burns CPU in a function of its own, in turns with others, and says how much it was.
ASGI_APP = """
import asyncio, json, sys, time, threading
import spprof, uvicorn
from spprof.integrations.asgi import SpprofMiddleware
def burn(ms):
    if exact:  # until it was sampled: not by the clock
        wanted = spprof.stats()["taken"] + 2 if spprof.is_active() else 0
        while spprof.is_active() and spprof.stats()["taken"] < wanted:
            sum(range(2000))
        return 1
    begin = time.thread_time_ns()
    end = begin + ms * 1000000 * (10 if spprof.stats()["clock"] == "timer" else 1)  # its ticks are 4 to 10 ms apart
    while (left := end - time.thread_time_ns()) > 0:
        until = time.monotonic_ns() + left
        while time.monotonic_ns() < until:
            pass
    return time.thread_time_ns() - begin
def render(ms): return burn(ms)
def parse(ms): return burn(ms)
def pack(ms): return burn(ms)
arrived, exact = 0, sys.argv[2:] == ["exact"]
async def app(scope, receive, send):
    global arrived
    if scope["type"] != "http":
        return
    arrived += 1
    while arrived < 3:  # all overlap
        await asyncio.sleep(0.001)
    work, turns = {"/render": (render, 30), "/parse": (parse, 10), "/pack": (pack, 60)}[scope["path"]]
    turns = 10 if exact else turns
    spent = 0
    for _ in range(turns):
        if work is pack:
            spent += await asyncio.to_thread(work, 10)
        else:
            spent += work(10)
            await asyncio.sleep(0)
    body = json.dumps({"spent": spent}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body[:3], "more_body": True})
    await send({"type": "http.response.body", "body": body[3:]})
app = SpprofMiddleware(app, token="0123456789abcdef", mode="cpu", rate=1000, format="speedscope", folder="out")
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    """A program that serves at a port, with a folder of its own."""

    def __init__(self, folder, program, *arguments, more=()):
        self.port, self.folder = free_port(), folder
        command = [sys.executable, *arguments, str(program), str(self.port), *more]
        self.process = subprocess.Popen(command, cwd=folder, env={**os.environ, "SPPROF_TOKEN": TOKEN})
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end
                time.sleep(0.02)

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        connection.close()
        return response, body

    def files(self, count, folder="spprof-requests"):
        """The files of requests, once there are so many."""
        end = time.monotonic() + 60
        while True:
            found = [each for each in (self.folder / folder).glob("*") if each.suffix != ".part"]
            if len(found) >= count:
                return found
            assert time.monotonic() < end, found
            time.sleep(0.02)

    def file(self, part):
        """The file of a request, by a part of its name, once it is there."""
        end = time.monotonic() + 60
        while True:
            for each in self.files(1):
                if part in each.name:
                    return each
            assert time.monotonic() < end, part
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()


# Runs a program whose middleware writes what this test can read, instead of the page that is the default.
READABLE = """
import runpy, sys
from spprof.integrations import web
begin = web.Recorder.__init__
def readable(self, options):
    begin(self, options)
    assert self.format == "html"
    begin(self, options._replace(format="speedscope", slower_than=0.9))  # on a full machine others may take half a second
web.Recorder.__init__ = readable
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def speedscope(file):
    """Stack of function names -> nanoseconds, over all threads."""
    data = json.loads(file.read_text())
    names, sums = [frame["name"] for frame in data["shared"]["frames"]], {}
    for profile in data["profiles"]:
        for stack, weight in zip(profile["samples"], profile["weights"]):
            key = tuple(names[frame] for frame in stack)
            sums[key] = sums.get(key, 0) + weight
    return sums


def time_in(file, function):
    return sum(ns for stack, ns in speedscope(file).items() if function in stack)


def all_at_once(server, paths, **headers):
    answers = {}

    def ask(path):
        answers[path] = server.get(path, **headers)

    threads = [threading.Thread(target=ask, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def overlapping(tmp_path, *more):
    """Three requests at once, each with a function of its own: function, what it spent, its file."""
    host("uvicorn")
    (tmp_path / "app.py").write_text(ASGI_APP)
    functions = ("render", "parse", "pack")
    with Server(tmp_path, "app.py", more=more) as server:
        answers = all_at_once(server, [f"/{name}" for name in functions], X_Spprof_Token=TOKEN)
        files = server.files(3, "out")
        _, body = server.get("/parse")  # without the token
    assert json.loads(body)["spent"] > 0 and len(list((tmp_path / "out").iterdir())) == 3
    for name in functions:
        response, body = answers[f"/{name}"]
        (file,) = (each for each in files if response.headers["X-Spprof-Request"] in each.name)
        assert re.fullmatch(rf"\d{{8}}T\d{{6}}-GET-{name}-[\d.]+s-[0-9a-f]{{12}}\.speedscope\.json", file.name)
        assert [time_in(file, other) for other in functions if other != name] == [0, 0]
        yield name, json.loads(body)["spent"], file


def test_overlapping_async_requests_are_kept_apart(tmp_path):
    for name, _, file in overlapping(tmp_path, "exact"):
        assert time_in(file, name) > 0, name


@pytest.mark.statistical(
    "one in 100,000 by chance: a tick a millisecond, and each of 10 to 60 turns of 10 ms may begin and end within one, a sample"
    " more or less for each; on a full machine a late tick may take one from another request"
)
def test_overlapping_async_requests_get_what_they_spent(tmp_path):
    for name, spent, file in overlapping(tmp_path):
        assert spent * 0.85 < time_in(file, name) < spent * 1.1, (name, spent, time_in(file, name))


@pytest.mark.parametrize(
    "name, package",
    [
        ("flask_app", "flask"),
        pytest.param("django_app", "django", marks=pytest.mark.stress),
        pytest.param("fastapi_app", "fastapi", marks=pytest.mark.stress),
    ],
)
def test_the_examples(tmp_path, name, package):
    host(package)
    (tmp_path / "readable.py").write_text(READABLE)
    with Server(tmp_path, EXAMPLES / f"{name}.py", "readable.py") as server:
        server.get("/fast", X_Spprof_Token="wrong")
        all_at_once(server, ["/slow", "/fast"])
        slow = server.file("-GET-slow-")
        assert time_in(slow, "count_primes") > 0 and time_in(slow, "slow") > 0 == time_in(slow, "fast")
        response, _ = server.get("/fast", X_Spprof_Token=TOKEN)
        asked = {slow, server.file(f"-{response.headers['X-Spprof-Request']}.speedscope.json")}
        assert (tmp_path / "spprof-requests").stat().st_mode & 0o777 == 0o700
        if name == "fastapi_app":
            server.get("/blocking")  # in another thread
            blocking = server.file("-blocking-")
            asked.add(blocking)
            # The loop's own part, which waits for the GIL meanwhile, belongs to the request too.
            assert time_in(blocking, "blocking") > 0
    # Of the others none was kept, or a full machine made it as slow.
    others = {*(tmp_path / "spprof-requests").iterdir()} - asked
    assert all(float(re.search(r"-([\d.]+)s-", each.name)[1]) >= 0.9 for each in others), others


# Without a server: what servers do, step by step.


@pytest.fixture(autouse=True)
def nothing_left_running():
    yield
    if is_active():
        spprof.stop()  # so that no other test fails by it
        pytest.fail("left running")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(web.tempfile, "tempdir", str(tmp_path / "takes"))
    (tmp_path / "takes").mkdir()
    return tmp_path / "out"


def ask(app, path="/p", query="", token=None):
    """One request of a WSGI server: headers and body."""
    reported = []
    environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query}
    if token:
        environ["HTTP_X_SPPROF_TOKEN"] = token
    body = app(environ, lambda status, headers, exc_info=None: reported.append(dict(headers)))
    try:
        return reported[0], b"".join(body)
    finally:
        getattr(body, "close", lambda: None)()


def plain(environ, start_response):
    start_response("200 OK", [])
    burn(0.03, samples=5 if is_active() else 0)
    return [b"done"]


def made_by(app, **options):
    """The middleware, one that is finished after the block of a `with`."""
    middleware = Wsgi(app, **options)
    return middleware, middleware.recorder


def test_off_by_default(folder):
    app, _ = made_by(plain, folder=folder)
    assert ask(app, token=TOKEN) == ({}, b"done") and not folder.exists() and not is_active()


def test_a_profile_of_somebody_else_gets_the_labels_alone(folder):
    app, recorder = made_by(plain, folder=folder, slower_than=0.0, token=TOKEN)
    with spprof.Profiler() as profiler:
        assert ask(Wsgi(plain), "/quiet\n") == ({}, b"done")
        assert ask(app, "/x" * 200, token=TOKEN) == ({}, b"done")
        recorder.finish()
        assert is_active()
    paths = {each.get("path") for each in profiler.profile.label_sets}
    assert paths == {None, "/quiet\n", "/x" * 100} and not folder.exists()


def test_tokens(folder):
    app, recorder = made_by(plain, folder=folder, token=TOKEN, query="profile", format="collapsed")
    for query, token in (("", "0123456789abcdeF"), ("profile=0123", None), (f"other={TOKEN}", None), ("profile", "\udcff")):
        assert "X-Spprof-Request" not in ask(app, query=query, token=token)[0] and not is_active()
    ids = [ask(app, **given)[0]["X-Spprof-Request"] for given in ({"token": TOKEN}, {"query": f"a=1&profile={TOKEN}"})]
    assert not is_active()  # it is taken while such requests run
    recorder.finish()
    assert sorted(file.name.rpartition("-")[2] for file in folder.iterdir()) == sorted(f"{id}.collapsed" for id in ids)
    assert all(re.search(r"plain \(.*burn \(", file.read_text()) for file in folder.iterdir())
    assert os.listdir(folder.parent / "takes") == []
    # Without query= a token in a query is nothing.
    app, _ = made_by(plain, folder=folder, token=TOKEN)
    assert ask(app, query=f"profile={TOKEN}")[0] == {}


def test_only_slow_ones_are_kept_and_only_so_many(folder):
    def app(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] != "/fast":
            time.sleep(0.5)
        return [b""]

    for trial in range(20):  # until a full machine makes no fast one slow
        place = folder / str(trial)
        place.parent.mkdir(exist_ok=True)
        middleware, recorder = made_by(app, folder=place, slower_than=0.45, keep=2, rate=1000, format="collapsed")
        longest = 0.0
        for path in ("/a", "/fast", "/../b/é", "/fast", "/"):
            began = time.monotonic()
            ask(middleware, path)
            longest = max(longest, time.monotonic() - began if path == "/fast" else 0)
        assert is_active()  # it goes on between requests
        recorder.finish()
        names = sorted(re.sub(r"^.*GET-(.*)-[\d.]+s-.*$", r"\1", file.name) for file in place.iterdir())
        assert len(names) == 2 and "root" in names  # it was the last, and /a the oldest
        assert os.listdir(folder.parent / "takes") == []
        if longest < 0.45:
            break
    assert names == [".._b_", "root"]
    for file in place.iterdir():  # wall time: where it waited
        assert re.search(r"app \(.*test_web.py:\d+\) \d+$", file.read_text(), re.M)


def test_a_page_of_a_request_ended_when_the_request_did(folder):
    """Not "the program died": the profile that it is a part of goes on."""
    middleware, recorder = made_by(plain, folder=folder, slower_than=0.0, rate=1000)
    began = time.monotonic_ns()
    ask(middleware)
    ended = time.monotonic_ns()
    assert is_active()
    recorder.finish()
    (file,) = folder.iterdir()
    (packed,) = re.findall(r'id="profile"[^>]*>([A-Za-z0-9+/=]+)<', file.read_text())
    data = zlib.decompress(base64.b64decode(packed))
    about = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    assert about["end"]["reason"] == "request" and began <= about["end"]["stop_ns"] <= ended


def test_a_body_that_is_made_while_it_is_sent_belongs_to_the_request(folder):
    class Parts:
        closed = 0

        def __iter__(self):
            for number in (b"1", b"2"):
                yield self.make(number)

        def make(self, number):
            burn(samples=5)
            return number

        def close(self):
            self.closed += 1

    parts = Parts()

    def app(environ, start_response):
        start_response("200 OK", [])
        return parts

    middleware, recorder = made_by(app, folder=folder, token=TOKEN, format="speedscope")
    assert ask(middleware, token=TOKEN)[1] == b"12" and parts.closed == 1
    recorder.finish()
    (file,) = folder.iterdir()
    made = sum(ns for stack, ns in speedscope(file).items() if any(name.endswith("make") for name in stack))
    assert made > 0 and not is_active()


def test_an_application_that_fails(folder):
    def app(environ, start_response):
        burn(0.02, samples=5)
        raise KeyError("on purpose")

    middleware, recorder = made_by(app, folder=folder, token=TOKEN, format="collapsed")
    with pytest.raises(KeyError):
        ask(middleware, token=TOKEN)
    assert not is_active()
    recorder.finish()
    assert len(list(folder.iterdir())) == 1


def test_a_request_is_a_spprof_file_too(folder):
    app, recorder = made_by(plain, folder=folder, slower_than=0.0, rate=1000, format="spprof")
    ask(app)
    recorder.finish()
    (file,) = folder.iterdir()
    profile = Profile.load(file)
    assert profile.header["part"].startswith("request=") and profile.end["reason"] == "request" and profile.warning is None
    assert "burn" in {row.name for row in profile.functions()} and all("request" in sample.labels for sample in profile)


def test_a_new_profile_is_begun_when_one_is_long(folder, monkeypatch):
    monkeypatch.setattr(web, "ROLL_BYTES", 1)
    app, recorder = made_by(plain, folder=folder, slower_than=0.0, rate=1000, format="collapsed")
    takes, begin = [], recorder._begin_take
    monkeypatch.setattr(recorder, "_begin_take", lambda: takes.append(begin()) or takes[-1])
    for _ in range(3):
        ask(app)
    recorder.finish()
    assert len({take.path for take in takes}) == 3
    assert len(list(folder.iterdir())) == 3 and os.listdir(folder.parent / "takes") == []
    assert all("burn (" in file.read_text() for file in folder.iterdir())


def test_an_output_that_cannot_be_written_harms_no_request(folder, caplog):
    folder.write_text("no folder")
    app, recorder = made_by(plain, folder=folder, token=TOKEN)
    assert ask(app, token=TOKEN)[1] == b"done"
    recorder.finish()
    assert "was not written" in caplog.text and os.listdir(folder.parent / "takes") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_takes_its_own(folder):
    app, recorder = made_by(plain, folder=folder, slower_than=0.0, format="collapsed", rate=1000)
    ask(app)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ask(app, "/child")
            recorder.finish()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    recorder.finish()
    assert sorted(file.name.split("-")[2] for file in folder.iterdir()) == ["child", "p"]
    assert all("burn (" in file.read_text() for file in folder.iterdir())


def test_what_is_no_http_passes_through(folder):
    import asyncio

    seen = []

    async def app(scope, receive, send):
        seen.append((scope, receive, send))

    asyncio.run(Asgi(app, slower_than=0.0, folder=folder)({"type": "lifespan"}, 1, 2))
    assert seen == [({"type": "lifespan"}, 1, 2)] and not is_active()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"token": "short"}, "less than 16 characters"),
        ({"query": "profile"}, "give a token too"),
        ({"slower_than": 1, "rate": 0.5}, "1 to 20000"),
        ({"format": "png"}, "does not exist"),
        ({"mode": "walk"}, "choose 'cpu' or 'wall'"),
        ({"keep": 0}, "at least one"),
        ({"events": ["faults"]}, "no such event"),
        ({"events": ["page-faults"], "mode": "wall"}, "mode='wall' is about time"),
    ],
)
def test_bad_options_are_refused_at_start(options, words):
    for kind in (Wsgi, Asgi):
        with pytest.raises(BadOption, match=words):
            kind(plain, **options)


def test_a_profile_can_be_shown_by_path_afterwards(folder, tmp_path, capsys):
    from spprof.cli import main

    with spprof.Profiler(output_path=tmp_path / "p.spprof"):
        ask(Wsgi(plain), "/one")
        ask(Wsgi(plain), "/two")
    assert main(["report", str(tmp_path / "p.spprof"), "--label", "path=/one"]) == 0
    shown = capsys.readouterr().out
    one = Profile.load(tmp_path / "p.spprof")
    expected = sum(sample.weight for sample in one if sample.labels.get("path") == "/one")
    number, unit = re.search(r"([\d.]+) (m?s) of CPU time", shown).groups()
    assert shown.startswith("Only path=/one;")
    assert float(number) * {"s": 1e9, "ms": 1e6}[unit] == pytest.approx(expected, abs=5_000_001 if unit == "s" else 5001)
