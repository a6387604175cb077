"""An independent writer of .spprof files for tests: written from docs/file-format.md, sharing nothing with spprof."""

from __future__ import annotations

import json
import struct
import zlib

OPTIONAL = ["code_kind", "label", "reason", "waits_on", "task", "held_by", "span", "awaited_by"]
MAGIC = b"\x89SPPROF\n"
COLUMNS = (
    "string_len string_bytes code_name code_qualname code_file code_line frame_code frame_line frame_end_line frame_col "
    "frame_end_col node_parent node_frame thread time weight stack count flags"
).split()


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return value * 2 if value >= 0 else -value * 2 - 1


def plane(values):
    if not any(values):
        return varint(0)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(values) + deflate.flush()
    if len(packed) >= len(values):
        packed = values
    return varint(len(packed)) + packed


def column(values):
    width = (max(values, default=0).bit_length() + 7) // 8
    planes = [plane(bytes(value >> 8 * k & 255 for value in values)) for k in range(width)]
    return varint(len(values)) + bytes([width]) + b"".join(planes)


def block(kind, payload):
    return struct.pack("<II", len(payload), zlib.crc32(kind + payload)) + kind + payload


class _Names:
    """The strings and functions of blocks C and K."""

    def __init__(self):
        self.strings, self.functions = {}, {}

    def of(self, function):
        texts = (self.strings.setdefault(text, len(self.strings)) for text in function[:3])
        return self.functions.setdefault((*texts, *function[3:]), len(self.functions))

    def columns(self):
        raw = [text.encode() for text in self.strings]
        return [[len(text) for text in raw], b"".join(raw), *(zip(*self.functions) if self.functions else [[]] * 5)]


class Writer:
    """Frames are (name, qualname, file, first line, line, end_line, col, end_col, kind); stacks are lists of them, root first."""

    def __init__(self, **header):
        self.header = {"version": 1, "start_ns": 5_000_000, "mode": "cpu", "interval_ns": 1_000_000, "argv": ["x.py"]}
        self.header.update(header)
        self.data = MAGIC + block(b"H", json.dumps(self.header).encode())
        self.ids = {"string": {}, "code": {}, "frame": {}, "node": {(): 0}}
        self.clocks = {}
        self.latest = {}
        self.value_clocks = {}
        self._clear()

    def _clear(self):
        self.columns = {name: [] for name in [*COLUMNS, *OPTIONAL]}
        self.values = []

    def _string(self, text):
        if text not in self.ids["string"]:
            self.ids["string"][text] = len(self.ids["string"])
            raw = text.encode("utf-8", "surrogatepass")
            self.columns["string_len"].append(len(raw))
            self.columns["string_bytes"] += raw
        return self.ids["string"][text]

    def _code(self, *code):
        if code not in self.ids["code"]:
            name, qualname, file = map(self._string, code[:3])
            self.ids["code"][code] = len(self.ids["code"])
            for key, value in zip([*COLUMNS[2:6], "code_kind"], (name, qualname, file, *code[3:])):
                self.columns[key].append(value)
        return self.ids["code"][code]

    def _frame(self, name, qualname, file, first, line, end_line=0, col=-1, end_col=-1, kind=0):
        frame = (name, qualname, file, first, line, end_line, col, end_col, kind)
        if frame not in self.ids["frame"]:
            code = self._code(name, qualname, file, first, kind)
            self.ids["frame"][frame] = len(self.ids["frame"])
            values = (
                code,
                zigzag(line - first) + 1 if line else 0,
                end_line - line + 1 if end_line else 0,
                col + 1,
                end_col + 1,
            )
            for key, value in zip(COLUMNS[6:11], values):
                self.columns[key].append(value)
        return self.ids["frame"][frame]

    def node(self, stack):
        path = tuple(stack)
        if path not in self.ids["node"]:
            parent, frame = self.node(path[:-1]), self._frame(*path[-1])
            node = self.ids["node"][path] = len(self.ids["node"])
            self.columns["node_parent"].append(node - parent)
            latest = self.latest.setdefault((self._frame(*path[-2]) + 1) % 65536 if len(path) > 1 else 0, [])
            self.columns["node_frame"].append(latest.index(frame) if frame in latest else frame + 16)
            latest[:] = [frame, *(one for one in latest if one != frame)][:16]
        return self.ids["node"][path]

    def sample(
        self, stack, time_us, weight_us, thread=0, count=1, flags=0, label=None, reason=0, on=None, task=None, by=0, span=None
    ):
        t, d = self.clocks.get(thread, (self.header["start_ns"] // 1000, 0))
        step = time_us - t
        error = step - d // 4
        self.clocks[thread] = (time_us, d + error)
        values = (thread, zigzag(error), zigzag(weight_us - step), self.node(stack), count - 1, flags)
        for key, value in zip(COLUMNS[13:], values):
            self.columns[key].append(value)
        self.columns["label"].append(0 if label is None else self._string(label) + 1)
        self.columns["reason"].append(reason)
        self.columns["waits_on"].append(0 if on is None else self._string(on) + 1)
        self.columns["task"].append(0 if task is None else self._string(task) + 1)
        self.columns["held_by"].append(by)  # a thread + 1
        self.columns["span"].append(0 if span is None else self._string(span) + 1)
        self.columns["awaited_by"].append(0)

    def value(
        self, stack, time_us, weight, thread=0, count=1, flags=0, label=None, type=1, reason=0, on=None, task=None, by=None
    ):
        """A sample of another type than time."""
        step = time_us - self.value_clocks.get(thread, self.header["start_ns"] // 1000)
        self.value_clocks[thread] = time_us
        label, on, task, by = (0 if text is None else self._string(text) + 1 for text in (label, on, task, by))
        self.values.append((type, thread, step, weight, self.node(stack), count - 1, flags, label, reason, on, task, by))

    def flush(self):
        """Closes a block of samples."""
        last = max((at + 1 for at, name in enumerate(OPTIONAL) if any(self.columns[name])), default=0)
        names = [*COLUMNS, *OPTIONAL[:last]]
        self.data += block(b"S", b"".join(column(self.columns[name]) for name in names))
        if self.values:
            columns = [*zip(*self.values)]
            while len(columns) > 8 and not any(columns[-1]):
                columns.pop()
            self.data += block(b"V", b"".join(map(column, columns)))
        self._clear()

    def collections(self, *runs):
        """Each of them: thread + 1, beginning ns, duration ns, generation, collected, uncollectable."""
        self.data += block(b"G", b"".join(map(column, zip(*runs))))

    def requests(self, *rows):
        """Each of them: beginning ns, duration ns, its labels as JSON. In the block S before."""
        numbered = [(began, took, self._string(labels) + 1) for began, took, labels in rows]
        self.flush()
        self.data += block(b"R", b"".join(map(column, zip(*numbered))))

    def calls(self, *rows, uncounted=0, taken=0):
        """Block C. Each row: function, caller (or None), line, calls, resumes; a function: (name, qualname, file, line, kind)."""
        names = _Names()
        edges = [(names.of(of), names.of(caller) + 1 if caller else 0, *rest) for of, caller, *rest in rows]
        self.block(b"C", b"".join(map(column, [*names.columns(), *zip(*edges), [uncounted, taken]])))

    def line_counts(self, *rows, uncounted=0, lost=0):
        """Block B. Each row: function (as in `calls`), calls, {line: executions}, ways (from, to, line, next line, count)."""
        names = _Names()
        codes = [(names.of(of), calls) for of, calls, *_ in rows]
        lines = [(i, *pair) for i, row in enumerate(rows) for pair in row[2].items()]
        ways = [(i, *way) for i, row in enumerate(rows) for way in row[3]]
        tables = [each for table, n in ((codes, 2), (lines, 3), (ways, 6)) for each in (zip(*table) if table else [[]] * n)]
        self.block(b"B", b"".join(map(column, [*names.columns(), *tables, [uncounted, lost]])))

    def imports(self, *rows):
        """Block I. Each row: name, file, thread's system id, beginning, time, whether it failed; in the order of their ends."""
        names = _Names()
        numbered = [(*(names.strings.setdefault(text, len(names.strings)) for text in row[:2]), *row[2:]) for row in rows]
        self.block(b"I", b"".join(map(column, [*names.columns()[:2], *zip(*numbered)])))

    def unspecialized(self, *rows, unread=0):
        """Block Q. Each row: function (as in `calls`), line, end line, column, end column, name, missed, runs."""
        names = _Names()
        table = [
            (names.of(of), line, end, col + 1, end_col + 1, names.strings.setdefault(name, len(names.strings)), *rest)
            for of, line, end, col, end_col, name, *rest in rows
        ]
        self.block(b"Q", b"".join(map(column, [*names.columns(), *(zip(*table) if table else [[]] * 8), [unread]])))

    def exceptions(self, *rows, uncounted=0, forgotten=0):
        """Block K. Each row: type, function that raises, line, function that catches (or None), line, how, count, frames, ns."""
        names = _Names()
        ways = []
        for kind, raised, line, caught, *rest in rows:
            text = names.strings.setdefault(kind, len(names.strings))
            ways.append((text, names.of(raised), line, names.of(caught) + 1 if caught else 0, *rest))
        self.block(b"K", b"".join(map(column, [*names.columns(), *zip(*ways), [uncounted, forgotten]])))

    def times(self, *rows, untimed=0, lost=0, cpu=0):
        """Block M. Each row: a dict of the function (as in `calls`), its histograms `wall`, `running` and `cpu` (bucket: count),
        `steps`, `raised`, `open`, the `total` and `max` of the first, and dicts of the `slowest` (stacks: (function, line))."""
        strings, functions = {}, {}

        def string(text):
            return strings.setdefault(text, len(strings))

        def named(of):
            return functions.setdefault((*map(string, of[:3]), *of[3:]), len(functions))

        timed, buckets, slow, frames = [], [], [], []
        for i, row in enumerate(rows):
            times = [row.get(kind, {}) for kind in ("wall", "running", "cpu")]
            calls = sum(times[0].values())
            numbers = [row.get(key, 0) for key in ("steps", "raised", "open", "total", "max")]
            timed.append((named(row["function"]), numbers[0], calls, *numbers[1:3], numbers[3], 0, 0, numbers[4], 0, 0))
            buckets += [(i, k, bucket, count) for k, of in enumerate(times) for bucket, count in of.items()]
            for call in row.get("slowest", ()):
                label = string(json.dumps(call["labels"])) + 1 if call.get("labels") else 0
                stack = call["stack"]
                slow.append((i, call["began"], call["wall"], 0, 0, call["tid"], call.get("flags", 0), label, len(stack)))
                frames += [(named(function), line) for function, line in stack]
        raw = [text.encode() for text in strings]
        tables = [(functions, 5), (timed, 11), (buckets, 4), (slow, 9), (frames, 2)]
        columns = [[len(text) for text in raw], b"".join(raw)]
        for table, n in tables:
            columns += zip(*table) if table else [[]] * n
        self.block(b"M", b"".join(map(column, [*columns, [untimed, lost, cpu]])))

    def json(self, kind, value):
        self.block(kind, json.dumps(value).encode())

    def block(self, kind, payload):
        self.data += block(kind, payload)
