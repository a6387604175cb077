"""Requests: the profile has each with its labels and times, and each sample of a function that works for one has its id, whatever
passed the work on: tasks, threads, pools."""

import contextlib

import pytest
from judging import until_seen
from ran import TARGETS

import spprof
from spprof.cli import main
from spprof.integrations.wsgi import SpprofMiddleware

WAYS = {"awaits", "task", "to_thread", "executor", "thread", "outside"}


def test_requests_are_whole_and_their_samples_are_theirs(run_python, tmp_path):
    found = set()
    for seconds in until_seen(found, WAYS, seconds=0.5):
        ran = run_python(TARGETS / "requested.py", "out.spprof", seconds)
        truth, functions = ran.json["truth"], ran.json["functions"]
        requests = {request.id: request for request in ran.profile.requests}
        assert len(requests) == len(ran.profile.requests) == len(truth)  # the one that still runs at the end is not there
        for labels, before, begun, end, after in truth:
            request = requests[labels["request"]]
            assert request.labels == labels
            assert before <= request.time_ns <= begun and end <= request.time_ns + request.duration_ns <= after
        for sample in ran.profile:
            for frame in sample.frames:
                if frame.name in functions:
                    assert sample.labels.get("request") == functions[frame.name], f"impossible: {sample}"
                    found.add(frame.name.rpartition("_")[0])
    inner = next(labels for labels, *_ in truth if "inner" in labels)
    assert inner["request"] != "mine" and "mine" in requests


@contextlib.contextmanager
def taken(path):
    spprof.start(output_path=str(path), mode="wall")
    try:
        yield
    finally:
        spprof.stop()


def test_the_middleware_makes_requests_of_its_requests(tmp_path, capsys):
    def app(environ, start_response):
        start_response("200 OK", [])
        return iter([b"a", b"b"]) if environ["PATH_INFO"] == "/parts" else [b"ab"]

    path = tmp_path / "p.spprof"
    with taken(path):
        for place in ("/whole", "/parts", "/whole"):
            environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": place, "QUERY_STRING": ""}
            body = SpprofMiddleware(app)(environ, lambda status, headers, exc_info=None: None)
            assert b"".join(body) == b"ab"
            getattr(body, "close", lambda: None)()
    requests = spprof.Profile.load(path).requests
    assert [request.labels["path"] for request in requests] == ["/whole", "/parts", "/whole"]
    assert len({request.id for request in requests}) == 3
    assert main(["report", str(path), "--tail", "p50"]) == 0
    assert capsys.readouterr().out.startswith("3 requests. The slowest 1 took ")


def test_requests_outside_of_a_profile_are_labels_alone():
    with spprof.request(route="/x"):
        labels = spprof.current_labels()
    assert labels["route"] == "/x" and len(labels["request"]) == 12
    block = spprof.request()
    with block, block:  # again, with another id
        inner = spprof.current_labels()["request"]
    with block:
        assert spprof.current_labels()["request"] not in ("", inner, labels["request"])


def test_a_request_that_fails_ends(tmp_path):
    path = tmp_path / "p.spprof"
    with taken(path), pytest.raises(KeyError), spprof.request(request="7"):
        raise KeyError
    assert [request.id for request in spprof.Profile.load(path).requests] == ["7"]
