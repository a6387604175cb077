"""What is charged with waits for the GIL and for locks, in files that are written here."""

import json

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model.waits import REASONS

OFF, HOLDS = 4, 64
GIL, LOCK, SLEEP = (REASONS.index(name) for name in ("gil", "lock", "sleep"))
WAITS = [("<module>", "<module>", "/srv/app.py", 1, 9)]
PARSE = [("run", "run", "/srv/app.py", 20, 25), ("parse", "parse", "/srv/app.py", 10, 12)]
NAP = [("run", "run", "/srv/app.py", 20, 26), ("nap", "nap", "/srv/app.py", 30, 31)]
FREE = [("run", "run", "/srv/app.py", 20, 27)]
MAIN, WORKER, OTHER = 0, 1, 2
MS = 1_000


def profile_of(tmp_path, samples, **header):
    """Of samples of (thread, stack, end in ms, weight in ms, flags, reason, holder or None, label), 100 ms later."""
    writer = Writer(mode="wall", **header)
    for thread, stack, end, weight, flags, reason, holder, label in sorted(samples, key=lambda sample: sample[2]):
        text = None if label is None else json.dumps({"route": label})
        by = 0 if holder is None else holder + 1
        writer.sample(stack, round((100 + end) * MS), round(weight * MS), thread, flags=flags, reason=reason, label=text, by=by)
    writer.flush()
    names = ["MainThread", "worker", "other"]
    writer.block(b"T", json.dumps([{"id": id, "tid": 70 + id, "name": name} for id, name in enumerate(names)]).encode())
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    return Profile.load(path)


def waits(end, weight, holder, thread=MAIN, label=None):
    return (thread, WAITS, end, weight, OFF, GIL, holder, label)


def waits_for_lock(end, weight, holder, thread=MAIN, stack=WAITS):
    return (thread, stack, end, weight, OFF, LOCK, holder, None)


def holds(end, weight, stack, thread=WORKER, flags=HOLDS):
    return (thread, stack, end, weight, flags, SLEEP if flags & OFF else 0, None, None)


def charged(profile, *options, capsys):
    """(thread, leaf) -> ms."""
    assert main(["report", profile.path, "--blame", "-f", "json", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    assert sum(row["ns"] for row in made["rows"]) == made["waited_ns"]
    found = {}
    for row in made["rows"]:
        key = (row["thread"], row["stack"][-1] if row["stack"] else "")
        found[key] = found.get(key, 0) + row["ns"] / 1e6
        assert sum(waiter["ns"] for waiter in row["waiters"]) == row["ns"]
    return found


P, N = ("worker", "parse (/srv/app.py:12)"), ("worker", "nap (/srv/app.py:31)")


@pytest.mark.parametrize(
    "samples, expected",
    [
        ([waits(10, 4, WORKER), holds(9, 1, PARSE)], {P: 4}),  # one was taken in it
        ([waits(10, 4, WORKER), holds(7, 1, PARSE), holds(10, 3, NAP)], {P: 1, N: 3}),  # as much as each overlaps
        ([waits(10, 4, WORKER), holds(8, 5, PARSE), holds(30, 22, NAP, flags=HOLDS | OFF)], {P: 2, N: 2}),
        ([waits(10, 1, WORKER), holds(8, 1, PARSE), holds(14, 1, NAP)], {P: 1}),  # the nearest
        ([waits(10, 1, WORKER), holds(2, 1, PARSE), holds(11.5, 1, NAP)], {N: 1}),
        ([waits(10, 1, WORKER), holds(8, 1, PARSE)], {P: 1}),
        ([waits(10, 1, WORKER), holds(12, 1, PARSE)], {P: 1}),
        ([waits(50, 1, WORKER), holds(8, 1, PARSE), holds(90, 1, NAP)], {("worker", ""): 1}),  # none is near
        ([waits(10, 1, WORKER), holds(9.5, 1, FREE, flags=0)], {("worker", ""): 1}),  # it did not have it then
        ([waits(10, 1, WORKER), holds(9.5, 1, PARSE, thread=OTHER)], {("worker", ""): 1}),  # another one was the holder
        ([waits(10, 1, None), holds(9.5, 1, PARSE)], {("", ""): 1}),  # there was none, or nobody knows
        ([waits(10, 4, WORKER), waits(9, 1, WORKER, OTHER), holds(10, 5, PARSE)], {P: 5}),  # two waited
        ([waits(10, 1, WORKER), holds(9.5, 0, PARSE)], {P: 1}),  # without a weight
    ],
)
def test_a_wait_is_charged_to_what_had_it_meanwhile(tmp_path, capsys, samples, expected):
    profile = profile_of(tmp_path, samples)
    assert charged(profile, capsys=capsys) == expected


def test_no_nanosecond_is_lost_by_division(tmp_path, capsys):
    samples = [waits(10, 0.007, WORKER)] + [holds(9.993 + n / 1000, 0.001, PARSE if n % 2 else NAP) for n in range(1, 4)]
    found = charged(profile_of(tmp_path, samples), capsys=capsys)
    assert sum(found.values()) == 0.007 and set(found) == {P, N}


def test_of_a_part_the_holders_are_those_of_the_whole(tmp_path, capsys):
    samples = [waits(10, 4, WORKER, label="/cart"), waits(20, 2, WORKER, label="/"), holds(9, 1, PARSE), holds(19, 1, NAP)]
    profile = profile_of(tmp_path, samples)
    assert charged(profile, "--label", "route=/cart", capsys=capsys) == {P: 4}
    assert charged(profile, "--thread", "MainThread", capsys=capsys) == {P: 4, N: 2}
    assert charged(profile, "--waiting", "gil", capsys=capsys) == {P: 4, N: 2}


def test_the_table(tmp_path, capsys):
    samples = [waits(10, 3, WORKER), waits(9, 1, WORKER, OTHER), holds(10, 4, PARSE), waits(20, 1, None)]
    samples.append((MAIN, WAITS, 30, 2, OFF, LOCK, None, None))
    assert main(["report", profile_of(tmp_path, samples).path, "--blame"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("5.00 ms waited for the GIL. Its holders meanwhile:\n")
    rows = [line.split("  ")[-1] for line in text.splitlines()[2:6]]
    assert rows[0] == "worker (71) in parse (/srv/app.py:12)" and rows[1].strip() == "waited: MainThread 3.00 ms, other 1.00 ms"
    assert rows[2] == "unknown" and "80.0%" in text
    assert "\n\n2.00 ms waited for locks. Their holders meanwhile:\n\n" in text and "  unknown\n" in text.split("locks.")[1]


NOTIFIED = [*WAITS, ("wait", "Condition.wait", "/usr/lib/python3.12/threading.py", 300, 320)]


@pytest.mark.parametrize(
    "samples, expected",
    [
        ([waits_for_lock(10, 4, WORKER), holds(9, 1, PARSE, flags=0)], {P: 4}),  # whether it had the GIL, too, or not
        ([waits_for_lock(10, 4, WORKER), holds(7, 1, PARSE), holds(10, 3, NAP, flags=OFF)], {P: 1, N: 3}),
        ([waits_for_lock(10, 4, WORKER), holds(10, 4, PARSE, thread=OTHER)], {("worker", ""): 4}),
        ([waits_for_lock(10, 4, None), holds(10, 4, PARSE)], {("", ""): 4}),
        ([waits_for_lock(10, 4, None, stack=NOTIFIED), waits_for_lock(20, 1, None)], {("no owner", ""): 4, ("", ""): 1}),
        ([waits_for_lock(10, 4, WORKER, stack=NOTIFIED), holds(10, 4, PARSE)], {P: 4}),  # it takes the condition's lock again
        ([waits_for_lock(10, 4, WORKER), waits(20, 3, OTHER), holds(10, 4, PARSE)], {P: 4}),  # the GIL is another table's
    ],
)
def test_a_wait_for_a_lock_is_charged_to_what_its_holder_did(tmp_path, capsys, samples, expected):
    assert main(["report", profile_of(tmp_path, samples).path, "--blame", "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    found = {}
    for row in made["lock_rows"]:
        key = (row["thread"] if row["has_owner"] else "no owner", row["stack"][-1] if row["stack"] else "")
        found[key] = row["ns"] / 1e6
    assert found == expected and sum(row["ns"] for row in made["lock_rows"]) == made["lock_ns"]


def test_what_was_waited_for_longest_comes_first(tmp_path, capsys):
    samples = [waits(10, 1, WORKER), holds(9, 1, PARSE), waits_for_lock(20, 4, WORKER), holds(20, 4, PARSE)]
    assert main(["report", profile_of(tmp_path, samples).path, "--blame"]) == 0
    lock, gil = capsys.readouterr().out.split("\n\n1.00 ms waited for the GIL. Its holders meanwhile:\n")
    assert lock.startswith("4.00 ms waited for locks. Their holders meanwhile:\n") and gil.startswith("\n")


def test_the_words_name_the_holder_of_a_lock(tmp_path, capsys):
    samples = [waits_for_lock(10, 4, WORKER), holds(9, 1, PARSE), waits_for_lock(20, 1, None, stack=NOTIFIED)]
    assert main(["report", profile_of(tmp_path, samples, pid=70).path]) == 0
    words = "5.00 ms waiting for a lock (4.00 ms held by worker (71) in parse (/srv/app.py:12))."
    assert words in " ".join(capsys.readouterr().out.split())


def test_native_code_is_named_with_its_caller(tmp_path, capsys):
    native = [*PARSE, ("sre_match", "sre_match", "/lib/_sre.so", 64, 64, 0, -1, -1, 1)]
    assert main(["report", profile_of(tmp_path, [waits(10, 4, WORKER), holds(9, 1, native)]).path, "--blame"]) == 0
    assert "worker (71) in sre_match [_sre.so], called in parse (/srv/app.py:12)" in capsys.readouterr().out


def test_where_nobody_waited_it_says_so(tmp_path, capsys):
    assert main(["report", profile_of(tmp_path, [holds(9, 1, PARSE)]).path, "--blame"]) == 0
    assert capsys.readouterr().out.startswith("No thread waited for the GIL.\n")


@pytest.mark.parametrize("options, text", [(["--by", "line"], "a table of its own"), (["-f", "tree"], "a table of its own")])
def test_what_cannot_be_shown_is_refused(tmp_path, capsys, options, text):
    assert main(["report", profile_of(tmp_path, [holds(9, 1, PARSE)]).path, "--blame", *options]) != 0
    assert text in capsys.readouterr().err


def test_only_wall_time_has_waits(data, tmp_path, capsys):
    path = tmp_path / "cpu.spprof"
    path.write_bytes(data)
    assert main(["report", str(path), "--blame"]) != 0
    assert "--mode wall" in capsys.readouterr().err


def test_a_part_in_a_file_keeps_the_holder(tmp_path, capsys):
    profile = profile_of(tmp_path, [waits(10, 4, WORKER), holds(9, 1, PARSE), holds(30, 1, NAP)])
    part = tmp_path / "part.spprof"
    assert main(["convert", profile.path, "--to", "0.115", "-o", str(part)]) == 0
    assert charged(Profile.load(part), capsys=capsys) == {P: 4}
    assert main(["convert", profile.path, "--thread", "MainThread", "-o", str(part), "--force"]) == 0
    assert charged(Profile.load(part), capsys=capsys) == {("worker", ""): 4}


def test_of_several_processes_each_row_says_which(tmp_path, capsys):
    files = []
    for pid in (70, 90):
        (tmp_path / str(pid)).mkdir()
        samples = [waits(10, 4, WORKER), waits(20, 1, None), holds(9, 1, PARSE)]
        files.append(profile_of(tmp_path / str(pid), samples, pid=pid).path)
    assert main(["report", *files, "--blame"]) == 0
    said = capsys.readouterr().out
    for pid in (70, 90):
        assert f"worker (71, process {pid}) in parse (/srv/app.py:12)" in said and f"unknown, process {pid}\n" in said
    assert main(["report", *files, "--blame", "-f", "json", "--limit", "3"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [row["pid"] for row in made["rows"][:2]] == [70, 90] and made["more"] == 1
    assert main(["report", files[0], "--blame"]) == 0
    assert ", process 70" not in capsys.readouterr().out


def test_the_summary_says_it_in_words(tmp_path, capsys):
    """Of the main thread, the longest first; what is less than 1 % is left out."""
    samples = [waits(10, 4, WORKER), holds(9, 1, PARSE), waits(20, 1, None), (MAIN, WAITS, 30, 3, 0, 0, None, None)]
    samples += [(MAIN, WAITS, 40, 2, OFF, SLEEP, None, None), (MAIN, WAITS, 41, 0.05, OFF, LOCK, None, None)]
    path = profile_of(tmp_path, samples, pid=70).path
    words = "Of 10.05 ms of MainThread: 5.00 ms waiting for the GIL (4.00 ms held by worker (71) in parse (/srv/app.py:12)),"
    assert main(["report", path]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert words + " 3.00 ms running, 2.00 ms asleep. " in text
    for options in (["--thread", "worker"], ["--by", "line"], ["--waiting", "sleep", "--by", "thread"]):
        assert main(["report", path, *options]) == 0
        assert " of MainThread" not in capsys.readouterr().out


def test_there_are_no_words_where_nothing_is_known(tmp_path, capsys):
    """As of other systems, and of a program whose main thread has no samples."""
    unknown = [(MAIN, WAITS, 30, 3, 0, 0, None, None), (MAIN, WAITS, 40, 3, OFF, 0, None, None)]
    for samples, pid in ((unknown, 70), ([waits(10, 4, WORKER)], 99)):
        assert main(["report", profile_of(tmp_path, samples, pid=pid).path]) == 0
        assert " of MainThread" not in capsys.readouterr().out


INNER = [("run", "run", "/srv/app.py", 20, 25), ("inner", "inner", "/srv/app.py", 40, 41)]
WAIT = [("work", "work", "/srv/app.py", 50, 51), ("wait", "Condition.wait", "/usr/lib/python3.11/threading.py", 288, 320)]


def locks(profile, capsys, *options):
    """(holder, its leaf, whether there can be one) -> ms."""
    assert main(["report", profile.path, "--blame", "-f", "json", *options]) == 0
    rows = json.loads(capsys.readouterr().out)["lock_rows"]
    return {(row["thread"], "".join(row["stack"][-1:]), row["has_owner"]): row["ns"] / 1e6 for row in rows}


def test_holders_are_shown_without_the_functions_that_are_hidden(tmp_path, capsys):
    """Also those whose samples a part lacks; and a wait to be notified is one whatever is shown of it."""
    profile = profile_of(
        tmp_path,
        [
            waits(10, 2, WORKER),
            holds(9, 1, INNER),
            waits_for_lock(20, 3, WORKER),
            holds(20, 4, INNER, flags=OFF),
            waits_for_lock(30, 5, None, OTHER, WAIT),
        ],
    )
    run = "run (/srv/app.py:25)"
    for part in ([], ["--focus", "<module>", "--focus", "work"]):
        assert charged(profile, "--hide", "inner", *part, capsys=capsys) == {("worker", run): 2}
        assert locks(profile, capsys, "--hide", "inner", "--hide", "threading.py", *part) == {
            ("worker", run, True): 3,
            ("", "", False): 5,
        }
    assert locks(profile, capsys, "--hide", "inner", "--show", "run", "--thread", "MainThread") == {("worker", run, True): 3}
    assert locks(profile, capsys, "--show", "<module>", "--hide", "threading.py", "--waiting", "lock") == {
        ("worker", "[no Python frames]", True): 3,
        ("", "", False): 5,
    }


def test_threads_in_one_place_are_a_row_and_what_has_no_owner_comes_last(tmp_path, capsys):
    """A pool's threads that hold a lock in turn are one culprit; the main thread that joins them is none. Rows of nearly nothing
    are left out, unless --limit asks for them."""
    samples = [
        *(waits_for_lock(10 + 40 * n, 4, holder) for n, holder in enumerate([WORKER, OTHER, WORKER])),
        *(holds(9 + 40 * n, 1, PARSE, thread=holder) for n, holder in enumerate([WORKER, OTHER, WORKER])),
        waits_for_lock(200, 100, None, stack=NOTIFIED),
        waits_for_lock(300, 0.6, WORKER),
        holds(300, 1, NAP),
    ]
    path = profile_of(tmp_path, samples).path
    assert main(["report", path, "--blame"]) == 0
    lock = [
        line
        for line in capsys.readouterr().out.split("Their holders meanwhile:\n")[1].splitlines()
        if "±" in line or "more" in line
    ]
    assert [line.split("  ")[-1].strip() for line in lock] == [
        "2 threads in parse (/srv/app.py:12)",
        "no owner: a condition, an event, a queue, a semaphore, or the end of a thread",
        "1 more (--limit)",
    ]
    assert lock[0].split()[:2] == ["0.012", "s"] and lock[2].split()[:2] == ["0.001", "s"]
    assert main(["report", path, "--blame", "--limit", "9"]) == 0
    assert "worker (71) in nap (/srv/app.py:31)" in capsys.readouterr().out
    assert main(["report", path, "--blame", "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [(row["thread"], row["ns"] / 1e6) for row in made["lock_rows"]] == [
        ("worker", 8), ("other", 4), ("worker", 0.6), ("", 100),
    ]  # fmt: skip
