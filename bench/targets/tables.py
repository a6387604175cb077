"""tables.py LIBRARY: how long the tables of native frames take to make in a process with numpy and many libraries, as JSON."""

import ctypes
import importlib
import json
import pathlib
import sys
import sysconfig
import warnings

import numpy.fft
import numpy.linalg
import numpy.random  # noqa: F401

warnings.simplefilter("ignore")
for file in sorted(pathlib.Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")):
    try:
        importlib.import_module(file.name.split(".")[0])
    except Exception:  # modules for tests of CPython, and for libraries that are not here
        pass

bench = ctypes.CDLL(sys.argv[1])
bench.bench_lock_ns.restype = bench.bench_tables_ns.restype = ctypes.c_uint64
evaluator = ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p)
rows, objects = ctypes.c_uint64(), ctypes.c_uint64()
lock_ns = bench.bench_lock_ns()
tables_ns = bench.bench_tables_ns(evaluator, ctypes.byref(rows), ctypes.byref(objects))
print(json.dumps({"lock_ns": lock_ns, "tables_ns": tables_ns, "rows": rows.value, "objects": objects.value}))
