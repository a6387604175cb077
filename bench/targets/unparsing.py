"""unparsing.py SECONDS: the standard library's sources parsed, written again and compared, in four threads, for so much CPU time:
deep stacks of many shapes, in pure Python."""

import ast
import difflib
import glob
import io
import os
import sys
import threading
import time
import tokenize


def words(source):
    return [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)]


def work(paths, seconds):
    while True:
        for path in paths:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            written = ast.unparse(ast.parse(source))
            difflib.unified_diff(words(source), words(written))
            if time.process_time() >= seconds:
                return


def main(seconds):
    paths = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "**", "[a-z]*.py")))
    paths = [path for path in paths if "test" not in path]
    threads = [threading.Thread(target=work, args=(paths[i::4], seconds), name=f"worker {i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main(float(sys.argv[1]))
