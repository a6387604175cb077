"""Found first by the children of `spprof run --subprocesses`, whose PYTHONPATH begins with this folder: starts their profile,
then makes room for the sitecustomize that they would have found without us."""

import importlib
import os
import sys


def _begin() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    try:
        from spprof.launching import children
    except Exception:  # another interpreter, for which spprof is not installed
        return
    children.join()


_begin()
_ours = sys.modules.pop("sitecustomize")
try:
    importlib.import_module("sitecustomize")
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _ours  # what imports this one expects to find it
