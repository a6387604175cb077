"""The first thing that a program under `spprof run` imports: begins the recorder, and leaves nothing of itself behind. It is
found by PYTHONPATH, which is as before afterwards, and makes room for the sitecustomize that would have been found without us."""

import os
import sys

TYPE_CHECKING = False  # nothing is imported here that `site` has not: not even __future__
if TYPE_CHECKING:
    from typing import Any


def _begin() -> None:
    here = os.path.dirname(__file__)
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    options = os.environ.pop("SPPROF_RECORD", None)
    path = os.environ.get("PYTHONPATH", "")
    rest = path[len(here) + 1 :] if path.startswith(here) else path
    if rest:
        os.environ["PYTHONPATH"] = rest  # where it stood
    else:
        os.environ.pop("PYTHONPATH", None)
    if options is None:
        return
    core = _core(os.path.dirname(os.path.dirname(here)), options.partition("\x1f")[0])
    if core is None:
        sys.stderr.write(f"spprof: process {os.getpid()} is not profiled: {sys.executable} has no spprof\n")
    else:
        options = core.record(options, here)
    if options is not None:  # for processes that this one starts
        os.environ["SPPROF_RECORD"] = options
        os.environ["PYTHONPATH"] = path


def _core(package: str, proof: str) -> "Any":
    """The C core alone: nothing else of the package is imported. Another interpreter than that of `spprof run` has its own."""
    imp: Any = sys.modules["_imp"]
    spec_of: Any = type(sys.__spec__)
    suffix = imp.extension_suffixes()[0]
    for folder in (package, *(os.path.join(path, "spprof") for path in sys.path)):
        file = os.path.join(folder, "_core" + suffix)
        if os.path.exists(file):
            core = imp.create_dynamic(spec_of("spprof._core", None, origin=file))
            core.proof = proof
            imp.exec_dynamic(core)
            return core
    return None


_begin()
del sys.modules["sitecustomize"]
# The program's, if there is one: `site` is used to there being none.
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
