"""unparsing.py SAMPLES: the standard library's sources parsed, written anew and compared, in four threads, until so many samples
were taken: deep stacks of many shapes, in pure Python."""

import ast
import difflib
import glob
import io
import os
import sys
import threading
import tokenize

import spprof


def words(source):
    return [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)]


def work(paths, samples):
    while True:
        for path in paths:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            written = ast.unparse(ast.parse(source))
            difflib.unified_diff(words(source), words(written))
            if spprof.stats()["taken"] >= samples:
                return


def main(samples):
    paths = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "**", "[a-z]*.py")))
    paths = [path for path in paths if "test" not in path]
    threads = [threading.Thread(target=work, args=(paths[i::4], samples), name=f"worker {i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main(int(sys.argv[1]))
