"""What held the GIL while others waited: programs in which that is known."""

import json
import sysconfig

import pytest
from switches import core_of_linux

from spprof.cli import main
from spprof.model.records import UNPAIRED

GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
pytestmark = [
    pytest.mark.skipif(not core_of_linux(), reason="only Linux says what a thread waits for"),
    pytest.mark.skipif(not GIL, reason="there is no GIL"),
]

# One thread sleeps with the GIL, in C code that does not release it; another one wants it all the time.
KEEPS = """
import ctypes, sys, threading
import spprof
keep = ctypes.PyDLL(None).usleep
begun, turns = threading.Event(), 0
def keeps():
    global turns
    begun.set()
    for turns in range(8):
        keep(100_000)
def wants():
    while turns < 7: sum(range(20))
spprof.start(1, "wall", sys.argv[1], native=sys.argv[2] == "native")
threads = [threading.Thread(target=each, name=each.__name__) for each in (keeps, wants)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
"""


def blamed(path, capsys, *options):
    assert main(["report", str(path), "--blame", "-f", "json", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    assert sum(row["ns"] for row in made["rows"]) == made["waited_ns"]
    assert all(sum(waiter["ns"] for waiter in row["waiters"]) == row["ns"] for row in made["rows"])
    return made


def assert_handed_over(profile, made):
    """While nobody has the GIL a thread was woken for it and has no processor, as on a full machine: the profile shows that."""
    ready = profile.reasons.index("ready")
    handed = sum(weight for weight, reason in zip(profile.column("weight"), profile.column("reason")) if reason == ready)
    nobodys = sum(row["ns"] for row in made["rows"] if not row["thread"])
    assert nobodys < 0.01 * made["waited_ns"] + 2 * handed  # two threads wait for a third one at the most


@pytest.mark.parametrize("native", ["python", "native"])
def test_a_keeper_of_the_gil_is_charged_with_the_waits_for_it(run_python, tmp_path, capsys, native):
    """And never a thread with its own wait. The waits are those of the profile, to the nanosecond."""
    out = tmp_path / "out.spprof"
    profile = run_python("-c", KEEPS, out, native).profile
    made = blamed(out, capsys)
    gil = profile.reasons.index("gil")
    weights = zip(profile.column("weight"), profile.column("reason"))
    assert made["waited_ns"] == sum(weight for weight, reason in weights if reason == gil) > 0
    found = {row["thread"] for row in made["rows"]}
    assert "keeps" in found
    for row in made["rows"]:
        assert row["thread"] not in {waiter["thread"] for waiter in row["waiters"]}


@pytest.mark.statistical("of 0.8 s all but changes of hands, each a tick or two")
@pytest.mark.parametrize("native", ["python", "native"])
def test_what_keeps_the_gil_is_named(run_python, tmp_path, capsys, native):
    out = tmp_path / "out.spprof"
    profile = run_python("-c", KEEPS, out, native).profile
    made = blamed(out, capsys)
    mine = [row for row in made["rows"] if row["thread"] and row["waiters"][0]["thread"] == "wants"]
    rows = [row for row in mine if row["thread"] == "keeps" and any(frame.startswith("keeps (") for frame in row["stack"])]
    assert sum(row["ns"] for row in rows) > 0.99 * sum(row["ns"] for row in mine) > 0
    assert_handed_over(profile, made)
    if native == "native" and not any(flags & UNPAIRED for flags in profile.column("flags")):  # then it has Python's alone
        named = [row for row in rows if any("sleep" in frame.split(" [")[0] for frame in row["stack"])]
        assert sum(row["ns"] for row in named) > 0.95 * sum(row["ns"] for row in rows)


@pytest.mark.statistical("each hog holds the GIL for some 5 ms at a time; a sample of the wrong one is one of a change of hands")
def test_hogs_are_charged_with_what_each_other_waited(run_python, tmp_path, capsys):
    out = tmp_path / "out.spprof"
    profile = run_python("-c", """
import sys, threading, time
import spprof
def one(): return sum(range(100))
def two(): return sum(range(100))
def hog(work):
    end = time.monotonic() + 2
    while time.monotonic() < end: work()
spprof.start(1, "wall", sys.argv[1])
threads = [threading.Thread(target=hog, args=(work,), name=work.__name__) for work in (one, two)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
""", out).profile  # fmt: skip
    made, other = blamed(out, capsys), {"one": "two", "two": "one"}
    right = 0
    for row in made["rows"]:
        waiters = {waiter["thread"]: waiter["ns"] for waiter in row["waiters"]}
        right += waiters.get(other.get(row["thread"]), 0) * any("hog (" in frame for frame in row["stack"])
    held = [row for row in made["rows"] if row["thread"]]
    waited = sum(waiter["ns"] for row in held for waiter in row["waiters"] if waiter["thread"] in other)
    assert right > 0.99 * waited > 0, profile.threads
    assert_handed_over(profile, made)


# Hogs that burn with the GIL, some of which rest without it, until each has used enough; beside them a thread that wants it
# always, and gives it away at once. Prints the CPU time of each hog.
CROWD = """
import json, sys, threading, time
import spprof
RESTS, ENOUGH = (0, 0, 0.01, 0.02), 0.3
used, done = [0.0] * len(RESTS), False
def hog(i):
    turn = 0
    while not done:
        for _ in range(20): sum(range(100))
        used[i] = time.thread_time()
        if RESTS[i] and used[i] > turn:
            time.sleep(RESTS[i])
            turn = used[i] + 0.005
def wants():
    while not done: time.sleep(0)
spprof.start(1, "wall", sys.argv[1])
threads = [threading.Thread(target=hog, args=(i,), name=f"hog_{i}") for i in range(len(RESTS))]
threads.append(threading.Thread(target=wants, name="wants"))
for thread in threads: thread.start()
while min(used) < ENOUGH: time.sleep(0.05)
done = True
for thread in threads: thread.join()
spprof.stop()
print(json.dumps(used))
"""


def crowd(run_python, out, capsys):
    """The CPU time of each hog, and the rows of what `wants` waited."""
    used = run_python("-c", CROWD, out).json
    return {f"hog_{i}": seconds for i, seconds in enumerate(used)}, blamed(out, capsys, "--thread", "wants")["rows"]


def test_each_of_many_hogs_is_blamed(run_python, tmp_path, capsys):
    """And nobody else but the thread that starts them."""
    used, rows = crowd(run_python, tmp_path / "out.spprof", capsys)
    found = {row["thread"] for row in rows if row["thread"]}
    assert set(used) <= found <= {*used, "MainThread"}
    assert all({waiter["thread"] for waiter in row["waiters"]} == {"wants"} for row in rows)


@pytest.mark.statistical("a hog without a processor keeps the GIL, too, and uses no CPU time")
def test_each_of_many_hogs_is_blamed_for_its_share(run_python, tmp_path, capsys):
    used, rows = crowd(run_python, tmp_path / "out.spprof", capsys)
    mine = [row for row in rows if row["thread"] in used]
    blame = {name: sum(row["ns"] for row in mine if row["thread"] == name) for name in used}
    assert sum(blame.values()) > 0.95 * sum(row["ns"] for row in rows if row["thread"])
    seen = [row for row in mine if row["stack"]]  # on a full machine a holder without a processor has no sample near
    right = [row for row in seen if any(frame.startswith("hog (") for frame in row["stack"])]
    assert sum(row["ns"] for row in right) > 0.99 * sum(row["ns"] for row in seen)
    for name, seconds in used.items():
        share, truth = blame[name] / sum(blame.values()), seconds / sum(used.values())
        assert abs(share - truth) < 0.08, (name, share, truth)
