"""`spprof attach` and `ctl` of one version of spprof, and a process with another: older or newer, which either may be."""

import os
import platform
import socket
import subprocess
import sys

import pytest
from attached import Program, names

import spprof
from spprof.listening import address

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
OWN, OLDER, NEWER = spprof.__version__, "0.0.7", "99.1.0"
HOT = """
import os
def hot(n): return sum([i * i for i in range(n)])
print(os.getpid(), flush=True)
while True: hot(500)
"""
FORGED = "import spprof\nspprof.__version__ = {!r}\n"
LISTENS = "import spprof\nspprof.listen()\n"
COMMAND = FORGED + "import sys\nfrom spprof.cli import main\nsys.exit(main())\n"
VERBS = {"attach": ["attach", "{}", "--duration", "0.1", "-q", "-o", "p.spprof"], "ctl": ["ctl", "{}", "pause"]}
enters = pytest.mark.skipif(
    not hasattr(sys, "remote_exec") and platform.machine() != "x86_64", reason="before 3.14 spprof enters on x86_64 alone"
)


@pytest.fixture
def program(tmp_path):
    made = []

    def make(text):
        # What an attachment does not close is said there.
        made.append(Program(text, tmp_path, {**os.environ, "PYTHONWARNINGS": "default"}))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


def command(version, verb, ran):
    words = [word.format(ran.pid) for word in VERBS[verb]]
    return subprocess.run(
        [sys.executable, "-c", COMMAND.format(version), *words],
        cwd=ran.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("listens", [True, pytest.param(False, marks=enters)], ids=["listens", "enters"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("there", "here"), [(OLDER, OWN), (OWN, NEWER), (NEWER, OWN), (OWN, OLDER)], ids="old-own own-new new-own own-old".split()
)
def test_the_error_says_which_version_to_use(there, here, verb, listens, program, tmp_path):
    ran = program(FORGED.format(there) + (LISTENS if listens else "") + HOT)
    before = ran.state()
    done = command(here, verb, ran)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"spprof: process {ran.pid}: it runs with spprof {there}, and this command is of spprof {here}: "
        f"use spprof {there} here (pip install spprof=={there}), or start the program again with spprof {here}\n"
    )
    assert ran.idle_state() == before and os.listdir(tmp_path) == ["program.py"]
    again = command(there, "attach", ran)
    assert again.returncode == 0 and "hot" in names(tmp_path / "p.spprof"), again.stderr
    ran.process.kill()
    assert ran.process.communicate() == ("", "")


@pytest.mark.parametrize("request_", [b"", b"more\0words\0and\0more\0"], ids=["shorter", "longer"])
def test_nothing_is_read_of_a_request_of_another_version_but_that(request_, program):
    """Which may have other words, and come with a descriptor: none stays."""
    ran = program(LISTENS + HOT)
    before = ran.state()
    with socket.socket(socket.AF_UNIX) as one, open(os.devnull) as file:
        one.settimeout(60)  # a limit that only a hang reaches
        one.connect(address(ran.pid, os.geteuid()))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.fileno().to_bytes(4, sys.byteorder))]
        one.sendmsg([NEWER.encode() + b"\0" + request_], rights)
        said = b""
        while not said.endswith(b"\0"):
            data = one.recv(4096)
            assert data, said
            said += data
    assert said.startswith(f"it runs with spprof {OWN}, and this command is of spprof {NEWER}: ".encode())
    assert ran.idle_state() == before


def test_a_descriptor_of_a_request_that_ends_early_is_closed(program):
    ran = program(LISTENS + HOT)
    before = ran.state()
    with socket.socket(socket.AF_UNIX) as one, open(os.devnull) as file:
        one.settimeout(60)  # a limit that only a hang reaches
        one.connect(address(ran.pid, os.geteuid()))
        one.sendmsg([OWN.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.fileno().to_bytes(4, sys.byteorder))])
        one.shutdown(socket.SHUT_WR)
        assert b"ended early" in one.recv(4096)
    assert ran.idle_state() == before


ANSWERS = """
import os, socket
from spprof import listening
one = socket.socket(socket.AF_UNIX)
path = listening.address(os.getpid(), os.geteuid())
listening._make_folder(os.path.dirname(path))
one.bind(path)
one.listen()
print(os.getpid(), flush=True)
other = one.accept()[0]
other.recv(4096)
other.sendall(b'{"error": "what?"}\\n')
other.close()
os.unlink(path)
"""


def test_an_answer_in_another_way_is_said_to_be_one(program, tmp_path):
    ran = program(ANSWERS)
    done = ran.attach("-o", "p.spprof")
    assert done.returncode == 2 and f"it answers as another version of spprof than {OWN}" in done.stderr, done.stderr
    assert os.listdir(tmp_path) == ["program.py"]


def test_a_program_whose_package_was_replaced_says_so_and_prints_nothing(program, tmp_path):
    """It listened with the files of one version, and finds those of another that do not fit."""
    ran = program(
        LISTENS + "import sys, types\nsys.modules['spprof.recording.serving'] = types.ModuleType('serving')\n"
        "sys.modules['spprof.recording.serving'].serve = lambda *_: spprof.gone()\n" + HOT
    )
    done = ran.attach("-o", "p.spprof")
    assert done.returncode == 2 and "it can take no profile: AttributeError: " in done.stderr, done.stderr
    ran.process.kill()
    assert ran.process.communicate() == ("", "")
