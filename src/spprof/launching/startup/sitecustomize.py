"""The first thing that a program under `spprof run` imports: begins the recorder, and leaves nothing of itself behind. It is
found by PYTHONPATH, which is as before afterwards, and then runs the sitecustomize that would have been found without us:
other tools have one, too, that looks for the next as we do, or loads us in its own way.
(Where the interpreter does not look there, csrc/enter runs this file, with OPTIONS and the environment as before.)"""

import sys

TYPE_CHECKING = False  # nothing is imported here that the interpreter has not: not even __future__
if TYPE_CHECKING:
    from typing import Any

    OPTIONS = PRELOAD = ""

_SEPARATOR = ";" if "nt" in sys.modules else ":"
_system: "Any" = sys.modules.get("posix") or sys.modules["nt"]


def _options(here: str) -> "tuple[str | None, str]":
    """The recorder's options, and the rest of PYTHONPATH; both variables are as before afterwards."""
    environ: Any = sys.modules["os"].environ  # `site` has it
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    options = environ.pop("SPPROF_RECORD", None)
    folders = environ.get("PYTHONPATH", "").split(_SEPARATOR)
    rest = _SEPARATOR.join(folder for folder in folders if folder != here)
    if rest:
        environ["PYTHONPATH"] = rest  # without ours
    elif here in folders:
        del environ["PYTHONPATH"]
    return options, rest


def _is_there(path: str) -> bool:
    try:
        _system.stat(path)
    except OSError:
        return False
    return True


class _Finder:
    """Comes after all others, where a program has no spprof of its own: finds this one, and nothing else of its folder."""

    def __init__(self, home: str) -> None:
        self.package = home + "/spprof"

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "spprof":
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, self.package + "/__init__.py", submodule_search_locations=[self.package])


def _core(home: str, version: str) -> "Any":
    """The C core alone: nothing else of the package is imported. It is that of the package which the program would import, if
    that is of the same version, so that there is one; else that of `spprof run`'s own package, which may have cores for several
    interpreters."""
    imp: Any = sys.modules["_imp"]
    suffix = imp.extension_suffixes()[0]
    same = [path for path in sys.path if path == home or _is_there(f"{path}/spprof-{version}.dist-info")]
    for folder in (*same, home, *sys.path):
        file = f"{folder}/spprof/_core{suffix}"
        if not _is_there(file):
            continue
        spec_of: Any = type(sys.__spec__)
        core = imp.create_dynamic(spec_of("spprof._core", None, origin=file))
        imp.exec_dynamic(core)
        if folder not in sys.path and "site" in sys.modules:
            sys.meta_path.append(_Finder(folder))
        return core
    return None


def _refuse(home: str, fields: "list[str]") -> None:
    """There is no core for this interpreter. The program itself does not run then; a child process goes on."""
    if fields[1:2] != ["0"] or fields[3:4] != ["run"]:
        sys.stderr.write(f"spprof: process {_system.getpid()} is not profiled: {sys.executable} has no spprof\n")
        return
    sys.meta_path.append(_Finder(home))
    from spprof import _no_core

    sys.stderr.write(f"spprof: {_no_core()}: install spprof there, or give another one by `spprof run --python PATH`\n")
    sys.stderr.flush()
    if int(fields[2]) >= 0:
        _system.write(int(fields[2]), b"x")  # the supervisor ends then, and says nothing
    _system._exit(2)


def _begin(here: str, options: "str | None", rest: str, preload: str) -> None:
    if options is None:
        return
    home, fields = here[: -len("/spprof/launching/startup")], options.split("\x1f")
    core = _core(home, fields[0])
    if core is None:
        _refuse(home, fields)
    else:
        options = core.record(options, here, preload)
    if options is not None:  # for processes that this one starts
        _set("SPPROF_RECORD", options)
        _set("PYTHONPATH", here + _SEPARATOR + rest if rest else here)


def _set(name: str, value: str) -> None:
    """`os` copies what the system module has when it is imported."""
    os: Any = sys.modules.get("os")
    if os is not None:
        os.environ[name] = value
        return
    encoded = value.encode(sys.getfilesystemencoding(), "surrogateescape")
    _system.environ[name.encode()] = encoded
    _system.putenv(name, value)


def _go_on(place: int) -> None:
    """Runs the program's own sitecustomize, the first one from this place of `sys.path` on, if there is one."""
    module: Any = sys.modules.get("sitecustomize")
    if module is not None and vars(module) is globals():
        del sys.modules["sitecustomize"]
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # `site` and others are used to there being none
    else:  # whose place this is has loaded us, and will not look any further
        spec: Any = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", sys.path[place:])
        if spec is not None:
            spec.loader.exec_module(sys.modules["_frozen_importlib"].module_from_spec(spec))


if "OPTIONS" not in globals():
    _here = __file__[: -len("/sitecustomize.py")]
    _place = sys.path.index(_here) if _here in sys.path else 0
    _begin(_here, *_options(_here), "")
    _go_on(_place)
else:
    _entered = _system.environ.get(b"PYTHONPATH", b"").decode(sys.getfilesystemencoding(), "surrogateescape")
    _begin(__file__[: -len("/sitecustomize.py")], OPTIONS, _entered, PRELOAD)
