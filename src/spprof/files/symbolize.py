"""Lines and inlined functions of native frames, from debug information (DWARF), when the program is done.

The package `symbolic` reads the debug information (`pip install spprof[symbols]`); what it finds is kept in the profile, in a
block of its own (docs/file-format.md, `L`), so that every reader and format has it from then on.
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..errors import BadFile, BadOption, Unsupported
from ..readers.about import header_of
from ..readers.loading import read_columns
from ..readers.spprof import MAGIC, blocks, build_ids, framed
from .output import Output
from .writing import is_being_written, process_lives

DEBUG_DIRECTORIES = ("/usr/lib/debug",)
# What compilers add to copies and parts of a function, as in csrc/core/resolve/resolve.c.
_ADDED = re.compile(r"(?<=.)\.(?:isra\.|constprop\.|part\.|cold|lto_priv\.|llvm\.)")
_PYTHON = re.compile(r"(lib)?python\d")  # the interpreter itself: its own functions are hidden, as in the run
Chain = List[Tuple[str, str, int]]  # function, source file, line: the function that the code is in, then those inlined into it


class Library(NamedTuple):
    """What became of one library: how many of its addresses were looked for and found, and why not ('' if all went well)."""

    path: str
    addresses: int
    found: int
    problem: str


def symbolize(
    path: str,
    output: Optional[str] = None,
    debug_directories: Iterable[str] = DEBUG_DIRECTORIES,
    progress: Callable[[Library], None] = lambda library: None,
    force: bool = False,
) -> List[Library]:
    """Adds lines and inlined functions to a profile's native frames; writes `output`, or replaces `path`.

    Debug information is taken from `DIRECTORY/.build-id/ab/cdef.debug` of each directory, else from the library, and only if its
    build id is that of the library when it was profiled. What an earlier call found stays, unless found again; if nothing is
    found, nothing is written. `progress` is called after each library. What is no profile is replaced only with `force`.
    Raises BadOption if the profile has no native frames or is still being taken, Unsupported without `symbolic`, BadFile,
    CannotWrite; OSError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        columns = read_columns(data)
        header = header_of(columns["header"])
        kind, pid = header.get("native"), header.get("pid")
        chains = {
            int(frame): chain for _, payload in blocks(data, b"L") for frame, chain in json.loads(payload)["frames"].items()
        }
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise BadFile(f"{path}: {error}") from None
    wanted = _addresses(columns)
    if not wanted:
        raise BadOption(f"{path}: the profile has no native frames; take one with `spprof run --native`")
    in_place = output is None or (os.path.exists(output) and os.path.samefile(path, output))
    if in_place and columns["end"] is None and (is_being_written(os.fspath(path)) or (pid is not None and process_lives(pid))):
        raise BadOption(f"{path}: the profile is still being taken; wait for its end, or give another file to write (-o)")
    place = Output(os.fspath(output or path), "spprof", force)
    ids = build_ids(data)
    libraries = []
    for library, frames in sorted(wanted.items()):
        found, problem = _look_up(library, ids.get(library, set()), frames, tuple(debug_directories), kind != "full")
        for frame, chain in found.items():  # a symbol table has better names than the first of many aliases
            name = columns["strings"][columns["code_name"][columns["frame_code"][frame]]]
            chains[frame] = chain if name.startswith("[") else [(name, *chain[0][1:]), *chain[1:]]
        libraries.append(Library(library, len(frames), len(found), problem))
        progress(libraries[-1])
    if any(library.found for library in libraries):
        _write(data, chains, place)
    return libraries


def _addresses(columns: Dict[str, Any]) -> Dict[str, List[Tuple[int, int]]]:
    """Library -> (frame id, address in it) of its native frames."""
    wanted: Dict[str, List[Tuple[int, int]]] = {}
    for frame, code in enumerate(columns["frame_code"]):
        library = columns["strings"][columns["code_file"][code]]
        if columns["code_kind"][code] and "/" in library and columns["frame_line"][frame] > 0:
            wanted.setdefault(library, []).append((frame, columns["frame_line"][frame]))
    return wanted


def _look_up(
    library: str, build_ids: Set[str], frames: List[Tuple[int, int]], directories: Tuple[str, ...], hide: bool
) -> Tuple[Dict[int, Chain], str]:
    try:
        from symbolic import Archive, SymbolicError
    except ImportError:
        raise Unsupported("lines of native code need the package symbolic: pip install 'spprof[symbols]'") from None
    if len(build_ids) != 1 or "" in build_ids:
        return {}, "it was another file at another time of the run" if len(build_ids) > 1 else "its build id is not known"
    (build_id,) = build_ids
    problem = "no debug information (its debug package is not installed?)"
    for file in [*(f"{where}/.build-id/{build_id[:2]}/{build_id[2:]}.debug" for where in directories), library]:
        if not os.path.isfile(file):
            continue
        try:
            (archive,) = Archive.open(file).iter_objects()
            if archive.code_id != build_id:
                problem = "the file has changed since it was profiled"
                continue
            if "debug" not in archive.features:
                continue
            cache, low = archive.make_symcache(), _lowest_address(file)
        except (SymbolicError, OSError, ValueError, struct.error) as error:
            problem = f"{file}: {error}"
            continue
        found = {}
        hidden = ("Py", "_Py") if hide and _PYTHON.match(os.path.basename(library)) else ()
        for frame, address in frames:
            chain = _chain(cache.lookup(address - low), hidden) if address >= low else []
            if chain:
                found[frame] = chain
        return found, ""
    return {}, problem


def _chain(locations: Any, hidden: Tuple[str, ...]) -> Chain:
    """From the function to the innermost that was inlined and has a line; what begins with `hidden` is left out there too."""
    chain = [(_ADDED.split(each.symbol)[0], each.full_path or "", each.line) for each in reversed(locations)]
    if not any(line for _, _, line in chain):
        return []
    return [each for k, each in enumerate(chain) if k == 0 or (each[2] and not each[0].startswith(hidden))]


def _lowest_address(path: str) -> int:
    """Where the first segment lies in an ELF file's own counting (gABI, "Program Header"): symbolic counts from there."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not an ELF file of 64 bits")
        at, each, n = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(at)
        table = file.read(each * n)
    lows = [
        struct.unpack_from("<Q", table, k * each + 16)[0] for k in range(n) if struct.unpack_from("<I", table, k * each)[0] == 1
    ]
    return int(min(lows, default=0))


def _write(data: bytes, chains: Dict[int, Chain], output: Output) -> None:
    """The profile with a new L block; what may follow a damaged block stays where it is."""
    payload = json.dumps({"frames": chains}, separators=(",", ":")).encode()
    kept, end = [MAGIC], len(MAGIC)
    for at, block in blocks(data):
        end = at + 9 + len(block)
        if data[at + 8 : at + 9] != b"L":
            kept.append(data[at:end])
    kept += [framed(b"L", payload), data[end:]]
    output.write(lambda file: file.writelines(kept))
