"""SPPROF_LISTEN=1: a program that nobody edits listens, and what becomes of its socket."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time

import pytest
from attached import Program

from spprof import Profile
from spprof.listening import address
from spprof.recording.serving import PROFILE, request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
ON = {**os.environ, "SPPROF_LISTEN": "1"}
READY = "import os\nprint(os.getpid(), flush=True)\n"
WAITS = {
    "sleeps": "import time\ntime.sleep(1e6)\n",
    "waits for a lock": "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()\n",
    "is in C code": "import ctypes\nctypes.CDLL(None).pause()\n",
    "computes in C code": "import hashlib\nwhile True: hashlib.sha256(bytes(1 << 28))\n",
}


@pytest.fixture
def program(tmp_path):
    made = []

    def make(text, **how):
        made.append(Program(text, tmp_path, **how))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


def path_of(pid):
    return address(pid, os.geteuid())


# The call that listens has begun: from then on it hears of one attachment, whatever descriptors the program closes.
UNTIL_IT_ACCEPTS = """
def in_accept(thread):
    with open(f"/proc/self/task/{thread}/syscall") as file:
        return file.read().split()[0] in ("43", "288", "202", "242")  # accept, accept4: x86_64, aarch64
while not any(map(in_accept, os.listdir("/proc/self/task"))): pass
"""

# Without the way into processes that do not listen.
ATTACH = """
import sys
from spprof.launching.connecting import Way
Way._enter = None
from spprof.cli import main
sys.exit(main())
"""


def attach(pid, folder):
    command = [sys.executable, "-c", ATTACH, "attach", str(pid), "--duration", "0.1", "-q", "--force", "-o", "p.spprof"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    profile = Profile.load(folder / "p.spprof")
    assert (profile.header["pid"], profile.end["reason"]) == (pid, "stop")


def test_the_line_that_begins_it_is_installed():
    (line,) = open(os.path.join(sysconfig.get_path("platlib"), "spprof.pth")).read().splitlines()
    assert line.startswith("import os; ") and not os.path.exists(os.path.join(sysconfig.get_path("platlib"), "spprof.start"))


@pytest.mark.parametrize("does", WAITS)
def test_it_is_attached_to_whatever_its_main_thread_does(does, program, tmp_path):
    ran = program(READY + WAITS[does], environment=ON)
    attach(ran.pid, tmp_path)


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_it_nothing_is_imported(value, tmp_path):
    environment = {name: text for name, text in os.environ.items() if name != "SPPROF_LISTEN"}
    if value is not None:
        environment["SPPROF_LISTEN"] = value
    code = (
        "import os, sys; print([name for name in sys.modules if name.startswith('spprof')], len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] 1\n", "")


def test_what_it_loads_before_somebody_attaches():
    """Each file that is imported costs every program's start 0.1 ms."""
    code = "import sys; print(*sys.modules)"

    def loaded(environment):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    own = {"spprof", "spprof.listening"}
    more = loaded(ON) - loaded({**ON, "SPPROF_LISTEN": "0"})
    assert own <= more <= own | {"_signal", "_socket", "atexit"}


def test_a_subinterpreter_starts_no_thread_and_can_be_ended():
    code = """
import os, sys
try: import _interpreters as own; new = own.create('legacy')
except ImportError: import _xxsubinterpreters as own; new = own.create(isolated=False)
own.run_string(new, "import os; print(len(os.listdir('/proc/self/task')), flush=True)")
own.destroy(new)
os.write(1, b"ended")
"""
    done = subprocess.run([sys.executable, "-c", code], env=ON, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "2\nended"), done.stderr


def test_a_subinterpreter_that_asks_is_refused_and_can_be_ended():
    code = """
import os, sys
try: import _interpreters as own; new = own.create('legacy')
except ImportError: import _xxsubinterpreters as own; new = own.create(isolated=False)
own.run_string(new, '''
import os, spprof
try: spprof.listen()
except spprof.Unsupported as error: os.write(1, str(error).encode())
''')
own.destroy(new)
os.write(1, b"; ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    said = "listen() is for the main interpreter, which listens for the whole process; ended"
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_a_client_that_goes_before_the_answer_does_not_end_a_program_by_sigpipe(program):
    ran = program("import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + READY + "input()\n", environment=ON)
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path_of(ran.pid))
    ran.idle_state()
    assert ran.process.communicate("\n", timeout=60)[1] == "" and ran.process.returncode == 0


def test_each_worker_of_a_server_listens_and_nothing_is_left(program, tmp_path):
    """A server that forks its workers, which end without Python's own end."""
    ran = program(READY + """
import signal, time
def work():
    while True: sum(range(500))
pids = []
for _ in range(3):
    pids.append(os.fork())
    if not pids[-1]:
        work()
print(*pids, flush=True)
input()
for pid in pids: os.kill(pid, signal.SIGTERM)
for pid in pids: os.waitpid(pid, 0)
if not os.fork(): os._exit(0)
print("over", flush=True)
os.wait()
input()
""", environment=ON)  # fmt: skip
    workers = list(map(int, ran.process.stdout.readline().split()))
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while not all(os.path.exists(path_of(pid)) for pid in workers):
        assert time.monotonic() < late
    for pid in workers:
        attach(pid, tmp_path)
    ran.process.stdin.write("\n")
    ran.process.stdin.flush()
    assert ran.process.stdout.readline() == "over\n"
    late = time.monotonic() + 60
    while any(os.path.exists(path_of(pid)) for pid in workers):  # the next that listens removes them: the last child
        assert time.monotonic() < late
    ran.process.communicate("\n", timeout=60)
    assert ran.process.returncode == 0 and not os.path.exists(path_of(ran.pid))


def test_a_daemon_that_closes_all_descriptors(program, tmp_path):
    """The first that attaches is heard by a call that had begun; the thread does not touch the file that has the number now."""
    ran = program("""
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
""" + UNTIL_IT_ACCEPTS + """
os.closerange(3, 256)
import socket
others = [socket.socket() for _ in range(8)]
for one in others:
    one.bind(("127.0.0.1", 0))
    one.listen(1)
print(os.getpid(), flush=True)
def work():
    while True: sum(range(500))
work()
""", environment=ON)  # fmt: skip
    try:
        for _ in range(3):
            attach(ran.pid, tmp_path)
        sockets = [os.readlink(f"/proc/{ran.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{ran.pid}/fd")]
        assert sum(one.startswith("socket:") for one in sockets) >= 8
    finally:
        os.kill(ran.pid, signal.SIGKILL)


def test_the_command_itself_does_not_listen(tmp_path):
    before = set(os.listdir(os.path.dirname(path_of(1)))) if os.path.isdir(os.path.dirname(path_of(1))) else set()
    with subprocess.Popen([sys.executable, "-m", "spprof", "ps"], env=ON, stdout=subprocess.PIPE, text=True) as done:
        assert str(os.getpid()) in done.stdout.read()
    assert f"{done.pid}.sock" not in before and not os.path.exists(path_of(done.pid))


def test_it_listens_again_when_descriptors_are_free_again(program, tmp_path):
    """A thread that gave up would leave the second attachment without an answer."""
    ran = program("import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\nheld = []\n" + READY + """
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: print("full", flush=True)
input()
for fd in held: os.close(fd)
print("free", flush=True)
input()
""", environment=ON)  # fmt: skip
    assert ran.process.stdout.readline() == "full\n"
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.connect(path_of(ran.pid))
        ran.process.stdin.write("\n")
        ran.process.stdin.flush()
        assert ran.process.stdout.readline() == "free\n"
        second.settimeout(60)  # a limit that only a hang reaches
        second.connect(path_of(ran.pid))
        second.sendall(request(PROFILE, ""))
        assert b"without a file" in second.recv(100)


def test_a_daemon_that_has_no_descriptor_for_its_next_socket(program, tmp_path):
    """It has closed the first one, and is heard once more by the call that had begun."""
    ran = program("""
import os, resource
""" + UNTIL_IT_ACCEPTS + """
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
os.closerange(3, 16)
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: print(os.getpid(), flush=True)
input()
for fd in held: os.close(fd)
print("free", flush=True)
input()
""", environment=ON)  # fmt: skip
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(path_of(ran.pid))
        assert first.recv(4096).startswith(b"it can take no profile: ")
    ran.process.stdin.write("\n")
    ran.process.stdin.flush()
    assert ran.process.stdout.readline() == "free\n"
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while not is_answered(ran.pid):
        assert time.monotonic() < late
    attach(ran.pid, tmp_path)


def is_answered(pid):
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path_of(pid))
        except ConnectionRefusedError:
            return False
    return True
