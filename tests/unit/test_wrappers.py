"""Each function of csrc/os/linux/wrappers.c takes what its wrapper passes on, by the declarations in the system's headers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent.parent / "csrc" / "os" / "linux" / "wrappers.c"
HEADERS = """aio fcntl mqueue netdb poll pthread semaphore signal stdio stdlib termios threads time unistd sys/epoll sys/ioctl
    sys/mman sys/msg sys/file sys/random sys/select sys/sem sys/sendfile sys/socket sys/uio sys/wait"""
OTHER_NAMES = {"_IO_getc": "getc", "_IO_putc": "putc"}
# As glibc's sources have them; headers declare them nowhere, or as inline functions only.
UNDECLARED = {"__uflow": "FILE *", "__underflow": "FILE *", "__overflow": "FILE *, int", "__sigpause": "int, int"}


def names(macro):
    text = SOURCE.read_text()
    body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*)", text).group(1)
    return re.findall(r"X\((\w+)\)", body)


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """The parameters of each function that the headers declare."""
    compiler = shutil.which("gcc")
    if not compiler or sys.platform != "linux":
        pytest.skip("gcc on Linux is needed: its -aux-info lists the declarations")
    folder = tmp_path_factory.mktemp("headers")
    source, listed = folder / "all.c", folder / "all.txt"
    source.write_text("#define _GNU_SOURCE\n" + "".join(f"#include <{header}.h>\n" for header in HEADERS.split()))
    command = [compiler, "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fsyntax-only", "-aux-info", listed, source]
    subprocess.run(command, check=True)
    found = re.findall(r"^/\*.*?\*/ extern .*?(\w+) \((.*)\);", listed.read_text(), re.M)
    return {**dict(found), **UNDECLARED}


def parameters(declared, name):
    """Of the function or of the one that it is another name of (`__read`, `__read_chk` has one more)."""
    for known in (name, OTHER_NAMES.get(name), name.lstrip("_"), name.replace("_chk", "").lstrip("_")):
        if known in declared:
            # a pointer to a function has commas of its own
            text = re.sub(r"\([^()]*\)", "", declared[known])
            return [one.strip() for one in text.split(",") if one.strip() != "void"]
    raise AssertionError(f"{name} is in none of the headers: {HEADERS}")


@pytest.mark.parametrize(("macro", "most"), [("EACH", 6), ("EACH_LONG", 8)])
def test_wrapped_functions_take_no_more_than_is_passed_on(declared, macro, most):
    found = {name: parameters(declared, name) for name in names(macro)}
    assert not {name: took for name, took in found.items() if len(took) > most}
    assert macro == "EACH_LONG" or {len(took) for took in found.values()} == {0, 1, 2, 3, 4, 5, 6}


def test_wrapped_functions_take_integers_and_pointers(declared):
    for name in names("EACH") + names("EACH_LONG"):
        for one in parameters(declared, name):
            assert "*" in one or not re.search(r"\b(float|double|struct|union)\b", one), (name, one)
