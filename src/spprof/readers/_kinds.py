"""What kind a file is: one that is read, or one that has a name and a way to a file that is read."""

from __future__ import annotations

import json
import re
from typing import Any, List, NamedTuple, NoReturn, Optional, Tuple

from ._text import text_of
from .perf import is_perf

READ = (
    "collapsed stacks, speedscope's and pprof's files, austin's and `perf script`'s text, Chrome's trace events, "
    "V8's and Firefox's profiles, cProfile's files"
)

_RUN = "profile the program with `spprof run`"
_EXPORT = "open it in speedscope, whose `Export` writes a file that spprof reads"
_COLLAPSED = "`python -m profiling.sampling run --collapsed -o OUT` writes collapsed stacks"
_UNPACK = "unpack it with `{}` and give what was in it"


class Kind(NamedTuple):
    """A reader's module, and what it reads: bytes, text or a JSON document. `certain`: the file is of this kind, if damaged."""

    module: str
    content: Any
    warning: Optional[str] = None
    certain: bool = True


def refuse(title: str, way: str) -> NoReturn:
    """Raises ValueError for a kind that is known and not read."""
    raise ValueError(f"this is {title}, which spprof does not read: {way}")


_LZ4 = b"\x04\x22\x4d\x18"
_FIRST_WORDS = 64  # bytes

# How a file begins -> what it is, and the way to one that is read.
_BEGINNINGS: Tuple[Tuple[bytes, str, str], ...] = (
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK.format("zstd -d FILE")),
    (b"BZh", "compressed by bzip2", _UNPACK.format("bunzip2 FILE")),
    (b"\xfd7zXZ\0", "compressed by xz", _UNPACK.format("unxz FILE")),
    (_LZ4, "compressed by lz4", _UNPACK.format("lz4 -d FILE")),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK.format("7z x FILE")),
    (b"PK\x03\x04", "a zip archive", _UNPACK.format("unzip FILE")),
    (b"PK\x05\x06", "an empty zip archive", _RUN),
    (b"\x89SPPROF", "a .spprof file that was gzipped", _UNPACK.format("gunzip FILE")),
    (b"HCAT", "the binary form of CPython's own sampling profiler", _COLLAPSED),
    (b"MOJ", "austin's binary form (MOJO)", "`mojo2austin FILE OUT` of the package austin-python writes text that spprof reads"),
    (b"PERFILE2", "perf's own file", "`perf script -i FILE > OUT` writes text that spprof reads"),
    (b"PAR1", "a Parquet file", "spprof writes them and reads none: keep the .spprof file"),
    (b"FLR\0", "a recording of Java Flight Recorder", "async-profiler's `jfrconv -o collapsed FILE OUT` writes collapsed stacks"),
    (b"memray", "a memray file", "memray counts memory; for time " + _RUN),
    (b"SQLite format 3\0", "an SQLite database", "have the program that wrote it export a profile"),
    (b"Nettrace", "a .nettrace file of .NET", "`dotnet-trace convert --format speedscope FILE` writes a file that spprof reads"),
    (b"\x7fELF", "a program or library", _RUN),
    (b"%PDF", "a PDF document", _RUN),
    (b"\x89PNG", "a picture", _RUN),
)  # fmt: skip
_PICKLES = tuple(bytes([0x80, version]) for version in range(2, 6))
# A marshalled dictionary and the tuple that is its first key, or the end of an empty one.
_MARSHALLED = re.compile(rb"[\x7b\xfb](?:[\x28\x29\xa8\xa9]|0\Z)")
_CALLS = f"it has sums of calls and no stacks: look at it with `python -m pstats FILE`, or {_RUN}"

# What a text begins with, or a line of its first ones -> the same.
_TEXTS: Tuple[Tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.I | re.M), title, way)
    for pattern, title, way in (
        (r"\A\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*|<!doctype svg[^>]*>\s*)*<svg\b", "a picture (SVG)",
         "give the file that the flame graph was made of"),
        (r"\A\s*(?:<!doctype html|<html\b)", "a web page", "give the file that it was made of"),
        (r"\A\s*<\?xml\b", "an XML file", "have the program that wrote it export collapsed stacks or speedscope's format"),
        (r"\A# callgrind format$|\A(?=[\s\S]*^events: )(?=[\s\S]*^fn=)", "a callgrind file",
         f"it has sums of calls and no stacks: look at it with `callgrind_annotate FILE`, or {_RUN}"),
        (r"^\s*\d+ function calls (?:\(\d+ primitive calls\) )?in [\d.]+ (?:CPU )?seconds", "cProfile's table", _CALLS),
        (r"^Timer unit: [\d.e+-]+ s", "line_profiler's table", f"it has no stacks: {_RUN} and ask `spprof report --by line`"),
        (r"\A# To display the perf\.data header info", "the output of `perf report`",
         "`perf script > OUT` writes text that spprof reads"),
        (r"\A(?:.*\n)?Flat profile:", "gprof's table", "it has sums of calls and no stacks: record with `perf record -g`"),
        (r"\Aimport time: self \[us\]", "the output of `python -X importtime`", f"{_RUN} and ask `spprof report --imports`"),
        (r"\AProcess \d+: .*\nPython v", "the output of `py-spy dump`", "`py-spy record -f raw` writes collapsed stacks"),
        (r"\A(?:Fatal Python error|Traceback \(most recent call last\)|(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent)",
         "a traceback", _RUN),
    )
)  # fmt: skip
_BEGINNING = 4096  # characters of a text that its kind is recognized by

# Keys of a JSON object, all of which are there -> the same.
_OBJECTS: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (("snapshot", "nodes", "edges"), "a heap snapshot of V8", f"it counts memory; for time {_RUN}"),
    (("head", "timestamps"), "a CPU profile of V8 in the form before 2016", _EXPORT),
    (("head", "samples"), "a heap profile of V8", f"it counts memory; for time {_RUN}"),
    (("files", "elapsed_time_sec"), "a scalene profile", f"it has no stacks: {_RUN} and ask `spprof report --by line`"),
    (("root_frame",), "a pyinstrument profile", "`pyinstrument -r speedscope -o OUT` writes a file that spprof reads"),
    (("session",), "a pyinstrument session", "`pyinstrument --load FILE -r speedscope -o OUT` writes a file that spprof reads"),
    (("resourceProfiles",), "an OpenTelemetry profile", "spprof writes them and reads none: give the file that it was made of"),
    (("flamebearer",), "a Pyroscope flame graph", "export pprof from Pyroscope"),
    (("name", "value", "children"), "a tree for d3-flame-graph", "give the file that it was made of"),
    (("spprof", "kind"), "a report that spprof wrote for programs", "give the profile that it was made of"),
    (("type", "run_id"), "JSON lines of CPython's own sampling profiler", _COLLAPSED),
    (("type", "format"), "spprof's JSON lines", "spprof writes them and reads none: keep the .spprof file"),
)  # fmt: skip


def kind_of(data: bytes) -> Kind:
    """The reader of a file, and what it reads. Raises ValueError for a kind that is known and not read, and for damaged text."""
    if data.startswith(_LZ4) and b"memray" in data[:_FIRST_WORDS]:
        data = b"memray"  # which lz4 leaves as it is at the beginning of a file
    for beginning, title, way in _BEGINNINGS:
        if data.startswith(beginning):
            refuse(title, way)
    if data.startswith(_PICKLES):
        if b"line_profiler" in data[:_BEGINNING]:
            refuse("a line_profiler file (.lprof)", f"it has no stacks: {_RUN} and ask `spprof report --by line`")
        refuse("a pickle", f"it may hold anything, and to read it would run it; {_RUN}")
    if _MARSHALLED.match(data):
        if b"__sampled__" in data:
            refuse("the pstats file of CPython's own sampling profiler", f"it has sums of calls and no stacks; {_COLLAPSED}")
        return Kind("cprofile", data)
    if data[257:262] == b"ustar":
        refuse("a tar archive", _UNPACK.format("tar xf FILE"))
    if data[:2] in (b"x\x01", b"x\x9c", b"x\xda"):
        refuse("compressed by zlib", _UNPACK.format("zlib-flate -uncompress < FILE > OUT"))
    known = text_of(data)
    if known is None:
        return Kind("pprof", data, certain=False)  # what is left of binary files
    text = known.text.lstrip("\ufeff")
    opening = text[:_BEGINNING]
    for pattern, title, way in _TEXTS:
        if pattern.search(opening):
            refuse(title, way)
    if is_perf(opening):  # before JSON: a thread's name may be in brackets
        return Kind("perf", text, known.warning)
    if opening.lstrip()[:1] in ("{", "["):
        document = _document(text)
        if document is not None:
            return Kind(_json_kind(document), document, known.warning)
    first = next((line for line in re.split("[\r\n]", opening) if line.strip() and not line.startswith("#")), "")
    austin = opening.startswith("# austin:") or _AUSTIN.match(first)
    if austin:
        return Kind("austin", text, known.warning)
    return Kind("collapsed", text, known.warning, _STACK.fullmatch(first) is not None or not first)


_AUSTIN = re.compile(r"P\d+;T(?:\d+:)?(?:0x)?[0-9A-Fa-f]+[; ]")
_STACK = re.compile(r".*[ \t][-+\d.]+(?:[eE][-+]?\d+)?[ \t]*(?:[\r\n]|\Z)")


def _json_kind(document: Any) -> str:
    """The reader of a JSON document. Raises ValueError if there is none."""
    if isinstance(document, list) and document and all(isinstance(one, dict) and "ph" in one for one in document):
        return "chrome"
    if isinstance(document, dict):
        if "profiles" in document or "speedscope" in str(document.get("$schema")):
            return "speedscope"
        for keys, kind in _DOCUMENTS:
            if all(key in document for key in keys):
                return kind
    _refuse_document(document)


# Keys of a JSON object, all of which are there -> its reader.
_DOCUMENTS: Tuple[Tuple[Tuple[str, ...], str], ...] = (
    (("traceEvents",), "chrome"),
    (("meta", "threads"), "gecko"),
    (("nodes", "startTime"), "v8"),
    (("nodes", "timeDeltas"), "v8"),
    (("nodes", "samples"), "v8"),
)


def _document(text: str) -> Any:
    """A JSON file's content; None if the text is collapsed stacks, which may begin with `{main}` or `[unknown]`."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deep for a profile") from None
    except ValueError as error:
        if _STACK.match(text.lstrip()):
            return None
        if text.lstrip().startswith("[{"):  # Chrome's events need no end
            try:
                return json.loads(text.rstrip().rstrip(",") + "]")
            except (ValueError, RecursionError):
                pass
        try:
            first, _ = json.JSONDecoder().raw_decode(text.lstrip()[: 1 << 16])
        except (ValueError, RecursionError):
            raise ValueError(f"JSON that is damaged or was cut short: {error}") from None
        _json_kind(first)
        raise ValueError(f"JSON with something after its end: {error}") from None
    return document


def _refuse_document(document: Any) -> NoReturn:
    if isinstance(document, dict):
        for keys, title, way in _OBJECTS:
            if all(key in document for key in keys):
                refuse(title, way)
    what: List[str] = [f"{key!r:.40}" for key in list(document)[:5]] if isinstance(document, dict) else []
    has = f"an object with the keys {', '.join(what)}" if what else "an empty object" if document == {} else "no object"
    raise ValueError(f"JSON of no kind that spprof reads ({has}). It reads {READ}")
