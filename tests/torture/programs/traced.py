"""sys.settrace, sys.setprofile and sys.monitoring, set and taken off all the time, in threads too."""

import sys
import threading

from _truth import burn, part

TRACED = True
ANYWHERE = ["tracer", "profiler", "entered"]
counts = {"line": 0, "call": 0, "c_call": 0, "entered": 0}


def tracer(frame, event, argument):
    if frame.f_code.co_name in ("half", "steps"):
        if event in counts:
            counts[event] += 1
        return tracer
    return None


def profiler(frame, event, argument):
    if event in counts and frame.f_code.co_name == "half":
        counts[event] += 1


def entered(code, offset):
    if code.co_name == "half":
        counts["entered"] += 1


def half(n):
    if n % 2:
        return burn(n)
    return sum(range(n))


def steps(n):
    for i in range(n):
        yield half(i)


def thrown(n):
    caught = 0
    for i in range(n):
        try:
            sum(100 // (i % 3) for _ in steps(3))
        except ZeroDivisionError:  # -> steps
            caught += 1  # -> steps
    return caught


def rounds(n):
    total = 0
    for i in range(n):
        sys.settrace(tracer if i % 3 == 0 else None)
        total += sum(steps(60)) + thrown(6)
        sys.settrace(None)
        sys.setprofile(profiler if i % 3 == 1 else None)
        total += sum(steps(60)) + thrown(6)
        sys.setprofile(None)
    return total


def monitored(n):
    if sys.version_info < (3, 12):
        return 0
    events = sys.monitoring.events
    total = 0
    sys.monitoring.use_tool_id(3, "program")
    sys.monitoring.register_callback(3, events.PY_START, entered)
    for i in range(n):
        sys.monitoring.set_events(3, events.PY_START if i % 2 else 0)
        total += sum(steps(100))
    sys.monitoring.set_events(3, 0)
    sys.monitoring.free_tool_id(3)
    return total


def heavy(n):
    return burn(n)


def main():
    results = {}

    def each(i):
        results[i] = rounds(25 + i)

    total = rounds(60)
    kept = dict(counts)
    threads = [threading.Thread(target=each, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts["entered"] = 0
    seen = monitored(200)
    with part("heavy"):
        total += heavy(5000000)
    print(total, sorted(results.items()), kept, seen, counts["entered"], sys.gettrace(), sys.getprofile())


if __name__ == "__main__":
    main()
