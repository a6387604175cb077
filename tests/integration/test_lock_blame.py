"""What held a lock while others waited for it: programs in which that is known."""

import json
import sysconfig

import pytest
from switches import core_of_linux

from spprof.cli import main

GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
pytestmark = pytest.mark.skipif(not core_of_linux(), reason="only Linux says what a thread waits for")

# The lock is made before the profile begins. `keeps` has it at known times, from a call of its own to deep in others; `wants`
# waits for it then, and says how long that was. They use pipes, so there is no other lock.
PROGRAM = """
import os, sys, threading, time
out, kind, work = sys.argv[1:]
LOCKS = {"lock": threading.Lock, "rlock": threading.RLock, "condition": threading.Condition}
lock, other = LOCKS[kind](), threading.Lock()
import spprof
begun, gone = os.pipe(), os.pipe()
def sleeps(): time.sleep(0.1)
def works():
    end = time.monotonic() + 0.1
    while time.monotonic() < end: pass
def deep(n): return deep(n - 1) if n else globals()[work]()
def keeps():
    for _ in range(6):
        with other, lock:
            os.write(begun[1], b"1")
            for _ in (1,):
                with threading.Lock(): deep(20)
        os.read(gone[0], 1)
def wants():
    global waited
    for _ in range(6):
        os.read(begun[0], 1)
        at = time.monotonic_ns()
        with lock: waited += time.monotonic_ns() - at
        os.write(gone[1], b"1")
waited = 0
spprof.start(1, "wall", out)
threads = [threading.Thread(target=each, name=each.__name__) for each in (keeps, wants)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
print(waited)
"""


def blamed(path, capsys, *options):
    """The rows of locks, and what was waited for them."""
    capsys.readouterr()
    assert main(["report", str(path), "--blame", "-f", "json", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    assert sum(row["ns"] for row in made["lock_rows"]) == made["lock_ns"]
    for row in made["lock_rows"]:
        assert sum(waiter["ns"] for waiter in row["waiters"]) == row["ns"]
        assert row["thread"] not in {waiter["thread"] for waiter in row["waiters"]}
    return made["lock_rows"], made["lock_ns"]


@pytest.mark.parametrize("work", ["sleeps", "works"])
@pytest.mark.parametrize("kind", ["lock", "rlock", "condition"])
def test_a_holder_of_a_lock_is_charged_with_the_waits_for_it(run_python, tmp_path, capsys, kind, work):
    """And nobody else with anything. The waits are those of the profile, to the nanosecond."""
    out = tmp_path / "out.spprof"
    profile = run_python("-c", PROGRAM, out, kind, work).profile
    rows, ns = blamed(out, capsys)
    lock = profile.reasons.index("lock")
    assert ns == sum(weight for weight, reason in zip(profile.column("weight"), profile.column("reason")) if reason == lock)
    found = {row["thread"] for row in rows} - {""}
    # Without a GIL a thread first tries again for forty turns of its processor: on a full machine that is all of the wait.
    assert found == {"keeps"} or (not found and not GIL)


@pytest.mark.statistical("of 0.6 s all but what a look is late, each of six times; on a full machine a part is no wait for it")
@pytest.mark.parametrize("work", ["sleeps", "works"])
@pytest.mark.parametrize("kind", ["lock", "rlock", "condition"])
def test_its_stack_has_the_time_that_was_waited(run_python, tmp_path, capsys, kind, work):
    out = tmp_path / "out.spprof"
    ran = run_python("-c", PROGRAM, out, kind, work)
    waited = int(ran.out)
    rows, ns = blamed(out, capsys, "--thread", "wants")
    right = [row for row in rows if row["thread"] == "keeps" and any(frame.startswith("keeps (") for frame in row["stack"])]
    assert 1.02 * waited > ns >= sum(row["ns"] for row in right) > 0.98 * ns > 0, (rows, ns, waited)


# A wait for what no thread owns.
NOTIFIED = """
import queue, sys, threading, time
import spprof
out, kind = sys.argv[1:]
event, items, semaphore, condition = threading.Event(), queue.Queue(), threading.Semaphore(0), threading.Condition()
def waits():
    if kind == "event": event.wait()
    if kind == "queue": items.get()
    if kind == "semaphore": semaphore.acquire()
    if kind == "condition":
        with condition: condition.wait_for(event.is_set)
thread = threading.Thread(target=waits, name="waits")
spprof.start(1, "wall", out)
thread.start()
time.sleep(0.3)
event.set()
items.put(1)
semaphore.release()
with condition: condition.notify()
thread.join()
spprof.stop()
"""


@pytest.mark.parametrize("kind", ["event", "queue", "semaphore", "condition"])
def test_what_has_no_owner_is_nobodys(run_python, tmp_path, capsys, kind):
    """But the lock of it, which a thread may wait for before that."""
    out = tmp_path / "out.spprof"
    run_python("-c", NOTIFIED, out, kind)
    rows, _ = blamed(out, capsys, "--thread", "waits")
    assert max(rows, key=lambda row: row["ns"])["has_owner"] is False
    assert main(["report", str(out), "--blame", "--thread", "waits"]) == 0
    assert "no owner" in capsys.readouterr().out


# `released` has entered `with lock`, but a condition has released it; the main thread has it, in one way or the other.
RELEASED = """
import os, sys, threading, time
import spprof
out, way = sys.argv[1:]
lock, begun = threading.Lock(), os.pipe()
condition = threading.Condition(lock)
def released():
    with lock:
        os.write(begun[1], b"1")
        condition.wait()
def wants():
    with lock: pass
def has():
    thread = threading.Thread(target=wants, name="wants")
    thread.start()
    time.sleep(0.3)
    return thread
spprof.start(1, "wall", out)
first = threading.Thread(target=released, name="released")
first.start()
os.read(begun[0], 1)
if way == "with":
    with lock: second = has()
else:
    lock.acquire()
    second = has()
    lock.release()
second.join()
with lock: condition.notify()
first.join()
spprof.stop()
"""


@pytest.mark.parametrize("way, holders", [("with", {"MainThread"}), ("acquire", set())])
def test_a_lock_that_a_condition_released_is_not_its_threads(run_python, tmp_path, capsys, way, holders):
    """A thread that took it by acquire() leaves no trace: that is unknown, and no guess."""
    out = tmp_path / "out.spprof"
    run_python("-c", RELEASED, out, way)
    rows, ns = blamed(out, capsys, "--thread", "wants")
    assert {row["thread"] for row in rows} - {""} == holders and ns > 0
    assert all(row["has_owner"] for row in rows)


# `keeps` has the lock for some 200 us at a time, until `wants` has waited for it for long enough in all; prints how long that is.
BRIEF = """
import os, sys, threading, time
import spprof
lock, begun, gone, waited = threading.Lock(), os.pipe(), os.pipe(), 0
def keeps():
    while waited < 200_000_000:
        with lock:
            os.write(begun[1], b"1")
            time.sleep(0.0002)
        os.read(gone[0], 1)
    os.write(begun[1], b"0")
def wants():
    global waited
    while os.read(begun[0], 1) == b"1":
        at = time.monotonic_ns()
        with lock: until = time.monotonic_ns()
        waited += until - at
        os.write(gone[1], b"1")
spprof.start(1, "wall", sys.argv[1])
threads = [threading.Thread(target=each, name=each.__name__) for each in (keeps, wants)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
print(waited)
"""


def test_only_its_holder_is_charged_with_waits_shorter_than_a_tick(run_python, tmp_path, capsys):
    out = tmp_path / "out.spprof"
    run_python("-c", BRIEF, out)
    rows, _ = blamed(out, capsys, "--thread", "wants")
    found = {row["thread"] for row in rows} - {""}
    assert found == {"keeps"} or (not found and not GIL)


@pytest.mark.statistical("of some 200 samples, each of a wait that ends before the next")
@pytest.mark.skipif(not GIL, reason="without a GIL a thread first tries again and again, which is no wait")
def test_waits_shorter_than_a_tick_have_their_time(run_python, tmp_path, capsys):
    out = tmp_path / "out.spprof"
    waited = int(run_python("-c", BRIEF, out).out)
    rows, ns = blamed(out, capsys, "--thread", "wants")
    assert abs(ns - waited) < 0.25 * waited, (ns, waited)
    right = [row for row in rows if row["thread"] == "keeps" and any(frame.startswith("keeps (") for frame in row["stack"])]
    assert sum(row["ns"] for row in right) > 0.9 * ns, rows
