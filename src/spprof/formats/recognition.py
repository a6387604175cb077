"""Whether a file is of a format that we write: one that only has the right name is somebody else's."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import BinaryIO

LOOKS = 1 << 16  # bytes of a file's beginning that are looked at

# How a file of each format begins. Where other kinds begin alike, the pattern has text of ours that comes soon after.
_BEGINNINGS = {
    "spprof": rb"\x89SPPROF",
    "html": rb"<.*<title>spprof\b",
    "svg": rb'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 [^>]*font-family="monospace" font-size="11">',
    "speedscope": rb"\{.*speedscope",
    "gecko": rb'\{\s*"meta"',
    "chrome": rb'[{\[].*"ph"',
    "jsonl": rb'\{"type":"header"',
    "pprof": rb"\x0a[\x02-\x08]\x08",  # within gzip: a sample's type, two small numbers
    "parquet": rb"PAR1.*\x06spprof\x18",  # the key of our metadata, in Thrift
    "pstats": rb"[\xfb{](?:[\xa8\xa9()]|0\Z)",  # `marshal`: a dict with a tuple, or an empty one
    "callgrind": rb"# callgrind|version:|creator:",
    "collapsed": rb"# no samples were taken\n|(?:[^\n]+ [0-9]+\n)+\Z",
    "perfetto": rb"\x0a..?h.*spprof",
    "cpuprofile": rb'\{\s*"nodes"',
    "otlp": rb"\x0a.*service\.name",
}


def is_like(format: str, file: BinaryIO) -> bool:
    """Whether the file, which is at its beginning, is of the format."""
    import re  # here: while the program starts, only if there is such a file

    beginning = file.read(LOOKS)
    if format == "pprof":
        import zlib

        try:
            beginning = zlib.decompressobj(31).decompress(beginning, 16)
        except zlib.error:
            return False
    if format == "parquet" and len(beginning) > 8:  # its own description is at its end
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(-8 - length, -file.seek(0, os.SEEK_END)), os.SEEK_END)
        beginning = beginning[:4] + file.read(1 << 20)
    if format == "collapsed":  # a list of names and numbers has neither separators nor lines of files
        beginning = beginning[: beginning.rfind(b"\n") + 1]
        if not re.search(rb"[;)\]][^\n]* [0-9]+\n|^#", beginning):
            return False
    return re.match(_BEGINNINGS[format], beginning, re.DOTALL) is not None
