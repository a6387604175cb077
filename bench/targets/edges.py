"""edges.py PROFILE SOURCE: checks every stack of a .spprof file against the calls that the comments of SOURCE allow.

Prints JSON: `checked` samples, `impossible` ones, `truncated` ones (marked so in the file: the root is missing, the rest
is checked), `outside` (no frame of SOURCE: start-up, thread bootstrap), `unchecked` (below a line that allows all),
`examples`. A stack is impossible if its first frame of SOURCE is not a root, if a frame's line is not in its function, or
if a line calls a function that its comment does not name."""

import ast
import json
import re
import sys
from array import array
from collections import Counter

from spprof import _core

# Weak references to dead threads are cleared wherever the last reference happens to go.
ANYWHERE = re.compile(r"\b_?weakref(set)?\b")
TRUNCATED = 1  # a sample's flag
GOOD, OUTSIDE, UNCHECKED = "good", "outside", "unchecked"


class Graph:
    """What SOURCE allows."""

    def __init__(self, path):
        with open(path) as file:
            text = file.read()
        self.file = path
        self.calls = {}
        self.roots = {"<module>"}
        for number, line in enumerate(text.splitlines(), 1):
            said = re.search(r"# -> (.*)", line)
            if said:
                self.calls[number] = set(said.group(1).split())
            elif line.startswith("# ROOTS "):
                self.roots |= set(line.split()[2:])
        self.spans = {}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([node.lineno, *[one.lineno for one in node.decorator_list]])
                self.spans.setdefault(node.name, []).append((first, node.end_lineno))

    def holds(self, name, line):
        """Whether that function has that line. Line 0: instructions without one, which compilers make for cleaning up."""
        if name.startswith("<") or line == 0:
            return True
        return any(first <= line <= last for first, last in self.spans.get(name, ()))

    def allowed(self, name, line):
        """What that line may call; without a line, all that the function may."""
        if line:
            return self.calls.get(line, set())
        spans = self.spans.get(name, ())
        return set().union(*(called for at, called in self.calls.items() if any(a <= at <= b for a, b in spans)))


def judge(data, graph, any_root):
    """For each node of the trie: GOOD, OUTSIDE, UNCHECKED, or a text that says what is impossible.

    `any_root`: the root may be cut off."""
    strings = data["strings"]
    names, files = array("I", data["code_name"]), array("I", data["code_file"])
    codes, lines = array("I", data["frame_code"]), array("i", data["frame_line"])
    parents, frames = array("I", data["node_parent"]), array("I", data["node_frame"])
    verdicts = [OUTSIDE]
    for node in range(1, len(parents)):
        above = verdicts[parents[node]]
        frame = frames[node]
        name, file, line = strings[names[codes[frame]]], strings[files[codes[frame]]], lines[frame]
        ours = file == graph.file
        if above not in (GOOD, OUTSIDE):
            verdict = above
        elif above == OUTSIDE:
            if not ours:
                verdict = OUTSIDE
            elif (any_root or name in graph.roots) and graph.holds(name, line):
                verdict = GOOD
            else:
                verdict = f"{name}:{line} as root"
        else:
            from_frame = frames[parents[node]]
            from_line = lines[from_frame]
            allowed = graph.allowed(strings[names[codes[from_frame]]], from_line)
            if "*" in allowed or (not ours and ANYWHERE.search(file)):
                verdict = UNCHECKED
            elif ours and name in allowed and graph.holds(name, line):
                verdict = GOOD
            else:
                caller = strings[names[codes[from_frame]]]
                verdict = f"{caller}:{from_line} > {name}:{line}" + ("" if ours else f" of {file}")
        verdicts.append(verdict)
    return verdicts


def main(profile, source):
    with open(profile, "rb") as file:
        data = _core.read(file.read())
    graph = Graph(source)
    whole, cut = judge(data, graph, False), judge(data, graph, True)
    counted, truncated = Counter(), 0
    for stack, count, flags in zip(array("I", data["stack"]), array("I", data["count"]), data["flags"]):
        counted[(cut if flags & TRUNCATED else whole)[stack]] += count
        truncated += count * (flags & TRUNCATED)
    good, outside, unchecked = (counted.pop(key, 0) for key in (GOOD, OUTSIDE, UNCHECKED))
    impossible, tick_stats = sum(counted.values()), json.loads(data["tick_stats"])
    json.dump(
        {
            "checked": good + impossible,
            "impossible": impossible,
            "truncated": truncated,
            "outside": outside,
            "unchecked": unchecked,
            "stacks": len(data["node_parent"]) // 4,
            "examples": counted.most_common(5),
            "tick_stats": tick_stats,
            "clock": tick_stats.get("clock") or json.loads(data["header"])["clock"],
        },
        sys.stdout,
    )


main(sys.argv[1], sys.argv[2])
