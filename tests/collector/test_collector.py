"""An OpenTelemetry collector takes our OTLP profiles and prints what it understood. `make collector` builds it and runs this."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "unit"))

from spprof_file import Writer  # noqa: E402

COLLECTOR = HERE.parent.parent / "build" / "collector" / "collector"
MAIN, A, B = (
    ("<module>", "<module>", "/app/x.py", 1, 3),
    ("a", "A.a", "/app/x.py", 10, 11, 12, 4, 9),
    ("b", "b", "/app/y.py", 20, 21),
)
DEFLATE = ("deflate", "deflate", "/usr/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)

pytestmark = pytest.mark.skipif(not COLLECTOR.exists(), reason="no collector was built: `make collector` does, with Go")

SHOP = """
import threading

def sell():
    while not done.is_set():
        sum(range(100))

done = threading.Event()
thread = threading.Thread(target=sell)
thread.start()
input()
done.set()
thread.join()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def collector(tmp_path):
    """The base address of a running collector's HTTP receiver, and the file with what it prints."""
    ports = {"HTTP_PORT": str(free_port()), "GRPC_PORT": str(free_port())}
    log = tmp_path / "collector.log"
    command = [str(COLLECTOR), "--config", str(HERE / "collector.yaml"), "--feature-gates=service.profilesSupport"]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **ports}, stdout=out, stderr=out)
    try:
        wait_for(log, "Everything is ready", process)
        yield f"http://127.0.0.1:{ports['HTTP_PORT']}", log, process
    finally:
        process.terminate()
        process.wait(20)


def wait_for(log, text, process):
    deadline = time.monotonic() + 30
    while text not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def post(address, body):
    request = urllib.request.Request(address + "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"})
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.status


def convert(tmp_path, *options):
    writer = Writer(start_ns=5_000_000, start_unix_ns=1_700_000_000_000_000_000, pid=4711, argv=["/app/x.py", "-v"],
                    implementation="cpython", python="3.11.7")  # fmt: skip
    writer.sample([MAIN], 5100, 100)
    writer.sample([MAIN, A, DEFLATE], 5300, 200)
    writer.sample([MAIN, A, DEFLATE], 6300, 1000)
    writer.sample([MAIN, B], 9000, 500, thread=1, count=7, flags=4)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": "wörker"}])
    writer.json(b"E", {"stop_ns": 10_000_000, "reason": "stop"})
    source, target = tmp_path / "p.spprof", tmp_path / "p.otlp"
    source.write_bytes(writer.data)
    command = [sys.executable, "-m", "spprof", "convert", str(source), "-o", str(target), *options]
    subprocess.run(command, check=True, timeout=60)
    return target.read_bytes()


def received(tmp_path, body):
    """What the collector printed about one request, all of it: read after its end."""
    with collector(tmp_path) as (address, log, process):
        assert post(address, body) == 200
        wait_for(log, "Sample #0", process)
    return log.read_text()


def entries(text, title):
    """Number -> what is printed of an entry of a table, as one line."""
    found = re.findall(rf"^{title} #(\d+)\n((?:    .*\n)*)", text, re.M)
    return {int(number): " ".join(body.split()) for number, body in found}


def test_names_lines_and_values_arrive(tmp_path):
    text = received(tmp_path, convert(tmp_path))
    strings = [line.strip() for line in text.split("String table:\n")[1].split("ResourceProfiles")[0].splitlines()]
    assert strings[0] == "" and len(strings) == len(set(strings))

    def matched(pattern, number, table):
        return tuple(map(int, re.search(pattern, table[number]).groups()))

    functions, locations = entries(text, "Function"), entries(text, "Location")
    names = {}
    for number in locations:
        if number:
            function, line, column = matched(r"Function index: (\d+) Line: (\d+) Column: (\d+)", number, locations)
            name, file, first = matched(r"^Name: (\d+) .*Filename: (\d+) Start line: (\d+)", function, functions)
            names[strings[name]] = (strings[file], first, line, column)
    assert names == {
        "<module>": ("/app/x.py", 1, 3, 0),
        "A.a": ("/app/x.py", 10, 11, 5),
        "b": ("/app/y.py", 20, 21, 0),
        "deflate": ("", 0, 0, 0),
    }
    (library,) = (strings[matched(r"File name: (\d+)", number, entries(text, "Mapping"))[0]] for number in (1,))
    assert library == "/usr/lib/libz.so.1" and "Address: 291" in text
    for attribute in ("service.name: Str(x.py)", "process.pid: Int(4711)", "process.runtime.version: Str(3.11.7)"):
        assert attribute in text
    assert "Start time     : 2023-11-14 22:13:20 +0000 UTC" in text and "DurationNano   : 5000000" in text
    samples = re.findall(r"Sample #\d+\n +Values: \[(.*)\]\n +Attributes:\n((?: +-> .*\n)+)", text)
    assert [values for values, _ in samples] == ["100000", "200000 1000000", "500000"]
    assert ["thread.name: wörker" in about for _, about in samples] == [False, False, True]


def test_counts_arrive_instead_of_time(tmp_path):
    text = received(tmp_path, convert(tmp_path, "--weight", "samples"))
    assert re.findall(r"Values: \[(.*)\]", text) == ["1", "1 1", "7"]


def test_a_program_is_pushed_while_it_runs(tmp_path):
    """The collector shows its functions before the program has ended, and in the end as many samples as the file has."""
    script, path = tmp_path / "shop.py", tmp_path / "shop.spprof"
    script.write_text(SHOP)
    with collector(tmp_path) as (address, log, process):
        run = subprocess.Popen([sys.executable, "-m", "spprof", "run", "-q", "-o", path, script], stdin=subprocess.PIPE)
        push = subprocess.Popen([sys.executable, "-m", "spprof", "push", path, address, "--every", "0.5"])
        try:
            wait_for(log, "sell", process)
            assert run.poll() is None
            run.communicate(b"\n", timeout=60)
            assert push.wait(60) == 0
        finally:
            for one in (run, push):
                if one.poll() is None:
                    one.kill()
                    one.wait()
    values = re.findall(r"Values: \[(.*)\]", log.read_text())
    matched = subprocess.run(
        [sys.executable, "-m", "spprof", "report", "-f", "json", path], stdout=subprocess.PIPE, check=True, timeout=60
    )
    assert sum(len(each.split()) for each in values) == json.loads(matched.stdout)["samples"]


def test_the_collector_reports_what_is_no_request(tmp_path):
    body = convert(tmp_path)
    with collector(tmp_path) as (address, _, _), pytest.raises(urllib.error.HTTPError) as refusal:
        post(address, body[:-3])
    assert refusal.value.code == 400
