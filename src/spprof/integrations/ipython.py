"""`%spprof` and `%%spprof` for IPython and Jupyter: `%load_ext spprof`."""

from __future__ import annotations

import ast
import html
import io
import re
from typing import Any, Dict, Optional, Tuple

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from .. import formats
from ..errors import SpprofError
from ..files.profile import Profile
from ..recording import api
from ..report.summary import summary

HEIGHT = 560  # pixels of the frame that shows a flame graph


# IPython's own reading of options loses white space in strings of the statement, or the statement after `--option=value`.
_OPTION = re.compile(r"\s*(?:(-r|-t|--text|--native)|(-m|--mode|--rate|--limit|--event)[=\s]\s*(\S+))(?!\S)")
_SHORT = {"t": "text", "m": "mode"}


def _parsed(line: str) -> Tuple[Dict[str, str], str]:
    """The options at the beginning of a line, and the rest of it. Raises UsageError."""
    options: Dict[str, str] = {}
    at = 0
    while True:
        found = _OPTION.match(line, at)
        if not found:
            break
        flag, name, value = found.groups()
        name = (flag or name).lstrip("-")
        name = _SHORT.get(name, name)
        options[name] = f"{options[name]},{value}" if name == "event" and name in options else value or ""
        at = found.end()
    rest = line[at:].strip()
    if rest.startswith("--"):
        raise UsageError(f"%spprof: {rest.split()[0]} is no option, or lacks its value; %spprof? lists them")
    return options, rest


@magics_class
class SpprofMagics(Magics):
    """The magics of spprof."""

    @line_cell_magic
    def spprof(self, line: str, cell: Optional[str] = None) -> Any:
        """Profiles a statement (%spprof) or a cell (%%spprof), and shows where its time went.

        %spprof [options] statement
        %%spprof [options]

        -m, --mode=cpu|wall   time on the processor (default), or all time
        --rate=HZ             samples a second of a thread, 1 to 20000 (default 1000)
        --event=NAME          what is sampled: time (default), page-faults, page-faults=N (each N); again: both
        --native              native frames too
        --limit=N             functions in the text's table (default: at most 15)
        -t, --text            only the text: the page of the flame graph takes 0.1 MB of the notebook and up to 3 bytes a sample
        -r                    give the profile, not the value of the last expression

        The profile is the variable `_spprof`. All threads of the kernel are sampled while the statement runs; the stacks begin
        at the statement. What it assigns stays, and what it raises is raised, after the profile was shown.
        """
        options, statement = _parsed(line)
        if cell is not None and statement.strip():
            raise UsageError(f"%%spprof: what is {statement.strip()!r}? Statements come on the lines after it")
        source = statement if cell is None else cell
        if not source.strip():
            raise UsageError("%spprof: what shall run? %spprof STATEMENT, or %%spprof and a cell")
        body, value = self._compiled(source, 0 if cell is None else 1)
        names = self.shell.user_ns  # a function of IPython's, which is not to be in the profile
        try:
            rate, limit = float(options.get("rate", 1000)), int(options["limit"]) if "limit" in options else None
            events = options.get("event", "time").split(",")
            api.start(rate=rate, mode=options.get("mode", "cpu"), native="native" in options, events=events)
        except (SpprofError, ValueError) as error:
            raise UsageError(f"%spprof: {error}") from None
        try:
            exec(body, names)
            result = eval(value, names)
        finally:
            if api.is_active():  # the statement may have stopped it
                profile = self.shell.user_ns["_spprof"] = api.stop()
                show(profile, limit, "text" in options)
        return self.shell.user_ns.get("_spprof") if "r" in options else result

    def _compiled(self, source: str, above: int) -> Tuple[Any, Any]:
        """The statements, and the expression that they end with, as IPython compiles a cell that has so many lines `above` these:
        with those lines, known to tracebacks."""
        text = self.shell.transform_cell(source)
        compiler = self.shell.compile
        name = compiler.cache("\n" * above + text, self.shell.execution_count, raw_code="\n" * above + source)
        tree = ast.increment_lineno(self.shell.transform_ast(compiler.ast_parse(text, filename=name)), above)
        last = tree.body.pop().value if tree.body and isinstance(tree.body[-1], ast.Expr) else ast.Constant(None)
        ending = ast.fix_missing_locations(ast.Expression(last))
        try:
            return compiler(tree, name, "exec"), compiler(ending, name, "eval")
        except SyntaxError:
            for part, kind in ((tree, "exec"), (ending, "eval")):
                compile(part, name, kind, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # if it is wrong otherwise, it says so again
            raise UsageError(
                f"%{'' if not above else '%'}spprof: a top-level `await` cannot run here: write "
                "`with spprof.Profiler() as p:` around it in a cell without the magic, and look at `p.profile`"
            ) from None


def show(profile: Profile, limit: Optional[int] = None, text_only: bool = False) -> None:
    """Displays the flame graph, and where no page can be shown the summary of each type of samples."""
    shown = {"text/plain": "\n".join(summary([each], limit) for each in profile.each_type())}
    if "html" in formats.FORMATS and not text_only:
        page = io.BytesIO()
        formats.write(profile, page, "html", formats.Options(sources=True))
        # Scripts may run, but see nothing of the notebook.
        shown["text/html"] = (
            f'<iframe srcdoc="{html.escape(page.getvalue().decode())}" sandbox="allow-scripts allow-downloads" '
            f'title="spprof" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )
    display(shown, raw=True)


def load(shell: Any) -> None:
    """What `%load_ext spprof` does."""
    shell.register_magics(SpprofMagics)
