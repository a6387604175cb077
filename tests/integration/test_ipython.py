"""%spprof and %%spprof in a real IPython, and in a notebook that a real kernel executes."""

from __future__ import annotations

import html
import io
import re
import sys

import pytest
from hosts import host

from spprof import Profile, formats, is_active

BURN = """
import time, spprof
def leaf():
    return sum(i * i for i in range(200))
def burn(seconds, samples=20):
    # Until so much CPU time was used and so many samples were taken: by timers there are few, of 4 to 10 ms each.
    wanted = spprof.stats()["taken"] + samples if spprof.is_active() else 0
    end, late = time.process_time() + seconds, time.monotonic() + 60
    while time.process_time() < end or (wanted and spprof.stats()["taken"] < wanted and time.monotonic() < late):
        until = time.monotonic() + 0.01  # a thread that reads its CPU clock all the time gets few ticks
        while time.monotonic() < until:
            leaf()
    return "burnt"
"""


@pytest.fixture
def shell():
    host("IPython")
    from IPython.testing.globalipapp import start_ipython
    from IPython.utils.capture import capture_output

    shell = start_ipython()
    if shell is None:  # there is one in a process
        from IPython import get_ipython

        shell = get_ipython()
    shell.reset()
    shell.extension_manager.load_extension("spprof")
    shell.run_cell(BURN)

    def run(cell):
        with capture_output() as shown:
            result = shell.run_cell(cell)
        return result, shown

    shell.spprof_run = run
    yield shell
    assert not is_active()


def stacks(profile):
    return {tuple(frame.name for frame in stack) for stack in profile.aggregate()}


def test_a_statement(shell):
    result, shown = shell.spprof_run("%spprof --rate=5000 x = burn(0.1)")
    assert result.success and result.result is None and shell.user_ns["x"] == "burnt"
    profile = shell.user_ns["_spprof"]
    assert isinstance(profile, Profile) and profile.interval_ns == 200_000 and profile.mode == "cpu"
    # Nothing of IPython: the stacks of this thread begin at the statement (or are our own start and stop, or what the interpreter
    # calls at any instant).
    (main,) = (thread for thread in profile.threads if thread.name == "MainThread")
    mine = {tuple(frame.name for frame in stack) for stack in profile.aggregate(thread=str(main.tid))}
    assert ("<module>", "burn", "leaf", "<genexpr>") in mine
    files = {frame.file.replace("\\", "/") for stack in profile.aggregate(thread=str(main.tid)) for frame in stack}
    assert not [file for file in files if "/IPython/core/" in file or file.endswith("integrations/ipython.py")]
    (plain,) = (output.data["text/plain"] for output in shown.outputs)
    assert re.search(r"of CPU time, .* samples. Your own code(.*\n)*By self time:(.*\n)*.* burn.*\(", plain)


def test_a_cell_its_options_and_its_value(shell):
    result, shown = shell.spprof_run("%%spprof -m wall --rate 500 --limit=1 -t\na = 20\nburn(0.05)\na + 1")
    assert result.result == 21 and shell.user_ns["_spprof"].mode == "wall" and shell.user_ns["_spprof"].interval_ns == 2_000_000
    (output,) = (
        output for output in shown.outputs if "text/plain" in output.data and "By self time" in output.data["text/plain"]
    )
    assert "more (--limit)" in output.data["text/plain"] and set(output.data) == {"text/plain"}
    # Lines are those of the cell, whose first is the magic's; a frame that has begun nothing yet has none, or its code's first.
    lines = {frame.line for stack in shell.user_ns["_spprof"].aggregate() for frame in stack if frame.name == "<module>"}
    assert 3 in lines and lines <= {0, 1, 2, 3, 4}


def test_the_profile_is_returned_when_asked_for(shell):
    result, _ = shell.spprof_run("%spprof -r -t burn(0.05)")
    assert result.result is shell.user_ns["_spprof"] and any("leaf" in stack for stack in stacks(result.result))


def test_a_statement_keeps_its_strings(shell):
    shell.spprof_run("%spprof -t --rate 100 text = str('a  b --rate=1')")
    assert shell.user_ns["text"] == "a  b --rate=1" and shell.user_ns["_spprof"].interval_ns == 10_000_000
    result, _ = shell.spprof_run("%spprof -1 + 3")
    assert result.result == 2


def test_what_it_raises_is_raised_after_the_profile_was_shown(shell):
    result, shown = shell.spprof_run("%%spprof\nburn(0.05)\nundefined_name")
    assert isinstance(result.error_in_exec, NameError)
    assert "By self time" in str([output.data for output in shown.outputs])
    assert "3 undefined_name" in re.sub(r"\x1b\[[\d;]*m", "", shown.stdout)


@pytest.mark.parametrize(
    "cell, words",
    [
        ("%spprof", "what shall run"),
        ("%%spprof burn(1)\n2", "Statements come on the lines after it"),
        ("%spprof --rate=0 1", "rate=0.0 is out of range"),
        ("%spprof --rate=1e9 1", "out of range"),
        ("%spprof --mode=walk 1", "mode='walk' does not exist"),
        ("%spprof --walk 1", "--walk is no option"),
        ("%spprof --limit=many 1", "invalid literal"),
        ("%spprof --event=faults 1", "no such event"),
        ("%%spprof\nimport asyncio\nawait asyncio.sleep(0)", "a top-level `await` cannot run here"),
        ("%%spprof\nimport asyncio\nawait asyncio.sleep(0)\n1", "a top-level `await` cannot run here"),
    ],
)
def test_errors_say_what_to_do(shell, cell, words):
    result, shown = shell.spprof_run(cell)
    assert not result.success and "UsageError" in shown.stderr and words in shown.stderr
    result, shown = shell.spprof_run("import spprof\nspprof.start()\n%spprof 1\nspprof.stop()")
    assert "already being taken" in shown.stderr
    if is_active():
        import spprof

        spprof.stop()


def test_a_statement_that_stops_the_profile(shell):
    result, _ = shell.spprof_run("import spprof\n%spprof -r mine = spprof.stop()")
    assert result.success and result.result is None and isinstance(shell.user_ns["mine"], Profile)


def test_the_page_is_in_a_frame_of_its_own(shell, monkeypatch):
    page = "<!doctype html><script>\"</script>&amp;'</script>" + "\u00e9\n"

    def write(profile, out, options):
        out.write(page.encode())

    if "html" in formats.FORMATS:
        out = io.BytesIO()
        page = None
    else:
        module = type(sys)("spprof.formats.html")
        module.write = write
        monkeypatch.setitem(sys.modules, "spprof.formats.html", module)
        monkeypatch.setitem(formats.FORMATS, "html", formats.Format("html", ".html", "a page"))
    _, shown = shell.spprof_run("%spprof burn(0.01)")
    (output,) = (output.data for output in shown.outputs if "text/html" in output.data)
    (source,) = re.findall(r'^<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-downloads"', output["text/html"])
    if page is None:
        formats.write(shell.user_ns["_spprof"], out, "html", formats.Options(sources=True))
        page = out.getvalue().decode()
    assert html.unescape(source) == page and "By self time" in output["text/plain"]


@pytest.mark.stress
def test_a_notebook_executed_by_a_kernel(tmp_path):
    _, nbformat, nbclient = host("ipykernel", "nbformat", "nbclient")
    cells = ["%load_ext spprof", BURN, "%%spprof\nburn(0.2)", "sorted({f.name for s in _spprof for f in s.frames})"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        notebook, timeout=100, startup_timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown, value = notebook.cells[2].outputs
    assert shown.output_type == "display_data" and "burn" in shown.data["text/plain"]
    assert ("text/html" in shown.data) == ("html" in formats.FORMATS)
    assert value.data["text/plain"] == "'burnt'"
    found = notebook.cells[3].outputs[0].data["text/plain"]
    assert "'burn'" in found and "'leaf'" in found and "run_cell" not in found and "spprof" not in found
    nbformat.validate(notebook)
