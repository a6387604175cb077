"""Formats for other programs: one module each, listed in `FORMATS`.

A format is a module with `write(profile, out, options)`, where `out` is a binary stream and `options` an `Options`.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

from ..errors import BadOption
from .options import Options as Options
from .recognition import is_like as is_like

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import BinaryIO, Dict, Mapping, Optional

    from ..model.data import ProfileData


class Format:
    """`extension` is how file names of this format end; `title` says what opens it; `refuses` are options that it cannot follow,
    and why; `needs` is a module that the extra of the format's name brings."""

    def __init__(
        self, module: str, extension: str, title: str, refuses: Mapping[str, str] = MappingProxyType({}), needs: str = ""
    ) -> None:
        self.module = module
        self.extension = extension
        self.title = title
        self.refuses = refuses
        self.needs = needs


_COPY = dict.fromkeys(("weight", "lines", "merge_threads", "sources"), "it is a copy of the file; choose another format")
_BOTH = "it holds both samples and what they count"
_PAGE = dict.fromkeys(("weight", "lines", "merge_threads"), "the page has all of it; choose there")
_TABLE = dict.fromkeys(("weight", "lines", "merge_threads"), "it is a table with all of it; choose in the query")
_TIME_ONLY = ("gecko", "pstats", "chrome", "cpuprofile")
_NOT_EMPTY = {"gecko": "Firefox's profiler", "pstats": "pstats"}  # what opens no file without samples
_PROFILES = "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2"

FORMATS: Dict[str, Format] = {
    "spprof": Format("raw", ".spprof", "spprof's own file, complete", _COPY),
    "html": Format("html", ".html", "one page to look at in a browser, offline", _PAGE),
    "svg": Format(
        "svg",
        ".svg",
        "a flame graph as a picture, for documents and pull requests",
        {"lines": "it shows functions", "merge_threads": "it shows all threads as one"},
    ),
    "speedscope": Format("speedscope", ".speedscope.json", "for https://speedscope.app"),
    "collapsed": Format("collapsed", ".collapsed", "stacks on one line each, for flamegraph.pl, inferno and others"),
    "pprof": Format("pprof", ".pb.gz", "for go tool pprof and what reads its files"),
    "gecko": Format("gecko", ".gecko.json", "for https://profiler.firefox.com"),
    "pstats": Format("pstats", ".pstats", "for Python's pstats and what reads cProfile's files", {"weight": _BOTH}),
    "chrome": Format(
        "chrome",
        ".trace.json",  # speedscope takes .chrome.json for another format of Chrome's
        "a timeline for chrome://tracing, Perfetto's viewer and speedscope",
        {"weight": "a timeline shows time", "merge_threads": "threads run at the same time and need a line each"},
    ),
    "callgrind": Format("callgrind", ".callgrind", "for KCachegrind, QCachegrind and callgrind_annotate"),
    "jsonl": Format("jsonl", ".jsonl", "one JSON object a line, for jq, DuckDB and programs", {"weight": _BOTH}),
    "perfetto": Format("perfetto", ".perfetto-trace", "for https://ui.perfetto.dev", {"weight": "it holds time"}),
    "parquet": Format("parquet", ".parquet", "a table of samples for DuckDB and others (extra: parquet)", _TABLE, "pyarrow"),
    "cpuprofile": Format(
        "cpuprofile",
        ".cpuprofile",
        "for VS Code and Chrome's developer tools",
        {"weight": "it holds time", "merge_threads": "it shows all threads as one"},
    ),
    "otlp": Format("otlp", ".otlp", "an OpenTelemetry profiles request, for a collector (extra: otlp)", {}, _PROFILES),
}


def format_of(path: str) -> Optional[str]:
    """The format whose extension the file's name has, or None."""
    return next((name for name, format in FORMATS.items() if path.endswith(format.extension)), None)


def format_for(path: str) -> str:
    """The same for a file to be written. Raises BadOption if its name has none."""
    format = format_of(path)
    if format is None:
        endings = ", ".join(known.extension for known in FORMATS.values())
        raise BadOption(f"{path}: no format was given and the name ends with none of {endings}")
    return format


def check(format: str, options: Options, profile: Optional[ProfileData] = None) -> None:
    """Raises BadOption if there is no such format, or if it cannot do what is asked of it (with this profile)."""
    if format not in FORMATS:
        raise BadOption(f"format {format!r} does not exist: choose one of {', '.join(FORMATS)}")
    if options.weight not in (None, "samples", "value"):
        raise BadOption(f"weight {options.weight!r} does not exist: choose 'samples' or 'value'")
    for name, reason in FORMATS[format].refuses.items():
        if getattr(options, name) != getattr(Options(), name):
            flag = "no-lines" if name == "lines" else name.replace("_", "-")
            raise BadOption(f"--{flag} does not fit the format {format}: {reason}")
    if options.sources is False and format != "html":
        raise BadOption(f"--no-sources does not fit the format {format}: it holds no text of sources")
    if format == "spprof" and profile is not None and "source" in profile.header:
        raise BadOption(f"a {profile.header['source']} file cannot become a .spprof file: choose another format")
    if format == "spprof" and profile is not None and profile.origin.joins:
        raise BadOption("several processes cannot become one .spprof file: choose another format")
    if profile is not None and options.thread is not None and not profile.match_threads(options.thread):
        names = ", ".join(sorted({each.name for each in profile.threads})) or "none at all"
        raise BadOption(f"no thread matches {options.thread!r}; the profile has: {names}")
    if profile is not None and not _can_show(format, profile, options):
        ticks = ", or --weight samples" if format == "gecko" and "event" in profile.header else ""
        raise BadOption(f"the profile counts {profile.unit}, and the format {format} can only show time: choose another{ticks}")
    if format in _NOT_EMPTY and profile is not None and not profile.stack_sums(options.thread)[0]:
        raise BadOption(
            f"no samples were taken, and {_NOT_EMPTY[format]} opens no file without any: choose another format than {format}"
        )
    needed = FORMATS[format].needs
    if needed:
        from importlib.util import find_spec

        try:
            missing = find_spec(needed) is None
        except ImportError:  # of a package that it is in
            missing = True
        if missing:
            raise BadOption(f"the format {format} needs {needed.split('.')[0]}: pip install 'spprof[{format}]'")


def _can_show(format: str, profile: ProfileData, options: Options) -> bool:
    """Whether the format has a word for what is counted. Firefox's profiler knows bytes, too, and samples of whatever type; it
    shows nothing without times, which other profilers' counts lack."""
    if format not in _TIME_ONLY or profile.unit == "nanoseconds":
        return True
    return format == "gecko" and "event" in profile.header and (options.weight == "samples" or profile.unit == "bytes")


def write(profile: ProfileData, out: BinaryIO, format: str, options: Options) -> None:
    """Writes the profile to a binary stream. Raises BadOption."""
    check(format, options, profile)
    import_module("." + FORMATS[format].module, __name__).write(profile, out, options)
