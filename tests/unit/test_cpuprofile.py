"""V8's CPU profile, read back by the reader of such files, and by the protocol's own description."""

from __future__ import annotations

import json

import pytest
from conftest import render
from spprof_file import Writer

from spprof import Profile
from spprof.errors import BadOption


@pytest.fixture
def document(data):
    return json.loads(render(Profile(data), "cpuprofile"))


def test_read_back_all_functions_have_their_times(data):
    profile, back = Profile(data), Profile(render(Profile(data), "cpuprofile"))
    figures = {row[1:3]: row[5::2] for row in profile.functions()}
    assert {row[1:3]: row[5::2] for row in back.functions()} == figures
    assert back.whole().weight == profile.whole().weight


def test_hits_give_the_same_times(data):
    """As Chrome's developer tools have them: of all time a node has the share that it has of all hits. Weights here differ."""
    profile, made = Profile(data), json.loads(render(Profile(data), "cpuprofile"))
    hits = sum(node["hitCount"] for node in made["nodes"])
    of_a_hit = (made["endTime"] - made["startTime"]) / hits
    found = {}
    for node in made["nodes"]:
        name = node["callFrame"]["functionName"]
        found[name] = found.get(name, 0) + node["hitCount"] * of_a_hit
    expected = {row.qualname: row.self_weight / 1000 for row in profile.functions()}
    assert {name: us for name, us in found.items() if us} == pytest.approx({name: us for name, us in expected.items() if us})


def test_it_is_as_the_protocol_says(document):
    """Profiler.Profile: required nodes, startTime, endTime; ids, hit counts, lines from 0 of a function, from 1 of a tick."""
    assert set(document) == {"nodes", "startTime", "endTime", "samples", "timeDeltas"}
    nodes = {node["id"]: node for node in document["nodes"]}
    for node in nodes.values():
        assert set(node["callFrame"]) == {"functionName", "scriptId", "url", "lineNumber", "columnNumber"}
        assert node["hitCount"] >= sum(each["ticks"] for each in node.get("positionTicks", []))
        assert all(child in nodes for child in node["children"])
    assert len(document["samples"]) == len(document["timeDeltas"]) and set(document["samples"]) <= set(nodes)
    assert all(type(delta) is int and delta >= 0 for delta in document["timeDeltas"])
    called = [child for node in nodes.values() for child in node["children"]]
    assert sorted(called) == sorted(set(nodes) - {1}), "a tree whose root is the first"


def test_places(document):
    frame = next(node for node in document["nodes"] if node["callFrame"]["functionName"] == "A.a")
    assert frame["callFrame"]["url"] == "file:///app/x%3By.py" and frame["callFrame"]["lineNumber"] == 9
    ticks = [
        node["positionTicks"] for node in document["nodes"] if node["callFrame"]["functionName"] == "A.a" and node["hitCount"]
    ]
    assert {"line": 11, "ticks": 200} in [each for of_node in ticks for each in of_node]


def test_a_script_is_a_file_or_library():
    """DevTools takes functions of one name, line and script for one."""
    writer = Writer()
    frames = [("f", "f", "/a.py", 1, 2), ("f", "f", "/b.py", 1, 2), ("g", "g", "/b.py", 5, 6)]
    writer.sample([*frames, ("f", "f", "/lib.so", 0, 64, 0, -1, -1, 1)], 6000, 1000)
    writer.flush()
    nodes = json.loads(render(Profile(writer.data), "cpuprofile"))["nodes"]
    assert [node["callFrame"]["scriptId"] for node in nodes] == ["0", "1", "2", "2", "3"]


def test_native_functions_have_no_url_and_files_no_lines_if_so_asked(native):
    document = json.loads(render(native, "cpuprofile", lines=False))
    assert "deflate [libz.so.1]" in {
        node["callFrame"]["functionName"] for node in document["nodes"] if not node["callFrame"]["url"]
    }
    assert not any("positionTicks" in node for node in document["nodes"])


def test_one_thread(data):
    profile = Profile(data)
    alone = Profile(render(profile, "cpuprofile", thread="Main"))
    assert alone.whole().weight == profile.whole("Main").weight
    with pytest.raises(BadOption, match="all threads as one"):
        render(profile, "cpuprofile", merge_threads=True)
