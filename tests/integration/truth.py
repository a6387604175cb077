"""Which stacks a program can have, from its source alone.

A comment `# -> NAME NAME` on a line says which functions may be called from it (after ` 3.9:` those that only 3.9 sees on it,
where the end of a `with` has the line of its body); `{a_0..a_9}` stands for ten names. A comment
`# foreign: NAME NAME > NAME NAME` says which functions of other files may call which of this one. It asks no profiler."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

TARGETS = Path(__file__).resolve().parent.parent / "targets"
DRIVE = TARGETS / "drive.py"
QUALIFIED = sys.version_info >= (3, 11)
INLINED = sys.version_info >= (3, 12)  # list, dict and set comprehensions run in their function's frame
# May be called at any instant: callbacks of weak references and finalisers, by the last reference to go.
ANYWHERE = {"_remove", "remove", "_removed", "__del__"}


def plain(qualname):
    """A qualified name as this interpreter's code objects have it."""
    return qualname if QUALIFIED else qualname.rpartition(".")[2]


class Source:
    """The functions of one file, their lines, and what each line may call."""

    def __init__(self, file, text):
        self.file = file
        self.calls = {}  # (caller, line) -> names
        self.foreign = set()  # (caller, name)
        self.scopes = [("<module>", 1, text.count("\n") + 1)]
        self._visit(ast.parse(text), "")
        for number, line in enumerate(text.splitlines(), 1):
            self._comment(number, line)
        self.lines = lines_of(compile(text, file, "exec", dont_inherit=True))
        self.first_lines = {(plain(name), first) for name, first, _ in self.scopes}

    def _visit(self, node, prefix):
        names = {
            ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>",
            ast.GeneratorExp: "<genexpr>", ast.Lambda: "<lambda>",
        }  # fmt: skip
        for child in ast.iter_child_nodes(node):
            inside = prefix
            name = (
                getattr(child, "name", None) if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else None
            )
            name = name or names.get(type(child))
            if name is not None:
                first = min([child.lineno] + [d.lineno for d in getattr(child, "decorator_list", [])])
                self.scopes.append((prefix + name, first, child.end_lineno))
                # As the compiler has it: no <locals> within classes and comprehensions.
                local = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                inside = prefix + name + (".<locals>." if local else ".")
            self._visit(child, inside)

    def _callers(self, line):
        """Scopes whose own code may be on the line: the smallest one around it, and what begins and ends on it."""
        around = [s for s in self.scopes if s[1] <= line <= s[2]]
        wide = [s for s in around if not s[0].endswith(">") or s[0] == "<module>"]
        smallest = min(wide, key=lambda s: s[2] - s[1])
        # Comprehensions and lambdas of that scope that are on the line, and theirs.
        return {smallest[0], *(s[0] for s in around if s[0].startswith(smallest[0] + "."))}

    def _comment(self, number, line):
        arrow = re.search(r"# -> (.*?)(?: 3\.9: (.+))?$", line)
        if arrow:
            names = set(expand(arrow.group(1)))
            if sys.version_info < (3, 10):
                names |= set(expand(arrow.group(2) or ""))
            callers = self._callers(number)
            # `class Made:` runs in the function around it.
            callers |= {"class_body"} if "class_body.<locals>.Made" in names else set()
            for caller in callers:
                self.calls.setdefault((plain(caller), number), set()).update(map(plain, names))
        foreign = re.match(r"# foreign: (.+) > (.+)$", line)
        if foreign:
            self.foreign |= {(a, plain(b)) for a in expand(foreign.group(1)) for b in expand(foreign.group(2))}


def expand(text):
    for word in text.split():
        many = re.fullmatch(r"\{(\w+_)(\d+)\.\.\w+_(\d+)\}", word)
        if many:
            yield from (f"{many[1]}{i}" for i in range(int(many[2]), int(many[3]) + 1))
        else:
            yield word


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from code_objects(constant)


def lines_of(code):
    """Name -> all lines that instructions of functions of that name have."""
    import dis

    table = {}
    for each in code_objects(code):
        lines = table.setdefault(each.co_qualname if QUALIFIED else each.co_name, set())
        lines.update(line for _, line in dis.findlinestarts(each))
        if QUALIFIED:
            lines.update(position[0] for position in each.co_positions())
    return table


class Truth:
    """All that is known of a target and of drive.py. `alone`: the target is a program itself."""

    def __init__(self, name, alone=False):
        path = TARGETS / f"{name}.py"
        self.path = str(path)
        self.root = self.path if alone else str(DRIVE)
        spec = importlib.util.spec_from_file_location(f"target_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        texts = {str(path): path.read_text(), str(DRIVE): DRIVE.read_text(), **getattr(module, "SOURCES", {})}
        self.sources = {file: Source(file, text) for file, text in texts.items()}
        self.foreign = set().union(*(source.foreign for source in self.sources.values()))
        self.elsewhere = {}

    def impossible(self, frames, main, cut=False):
        """What is wrong with a stack (frames from root to leaf), or None. `main`: of the main thread. `cut`: its root side is
        missing."""
        root = frames[0]
        if cut:
            pass
        elif main and (root.file, root.name) != (self.root, "<module>"):
            return f"the root is {root}"
        elif not main and (root.name, Path(root.file).name) != ("_bootstrap", "threading.py"):
            return f"the root is {root}"
        for a, b in zip(frames, frames[1:]):
            wrong = self._edge(a, b)
            if wrong:
                return wrong
        for frame in frames:
            wrong = self._place(frame, frame is frames[-1])
            if wrong:
                return wrong
        return None

    def _edge(self, a, b):
        if b.name in ANYWHERE and b.file not in self.sources:
            return None
        if a.file in self.sources:
            allowed = self.sources[a.file].calls.get((a.qualname, a.line), ())
            if b.qualname in allowed or (b.name in allowed and b.file not in self.sources):
                return None
            return f"{a.qualname}:{a.line} called {b.qualname}; its line may call {sorted(allowed) or 'nothing'}"
        if b.file in self.sources and (a.name, b.qualname) not in self.foreign:
            return f"{a.qualname} ({a.file}:{a.line}) called {b.qualname}"
        return None

    def _place(self, frame, leaf):
        source = self.sources.get(frame.file)
        if source is not None:
            lines = source.lines
        else:
            if frame.file not in self.elsewhere:
                self.elsewhere[frame.file] = _read_lines(frame.file)
            lines = self.elsewhere[frame.file]
            if lines is None:
                return None
        if frame.qualname not in lines:
            return f"{frame.file} has no {frame.qualname}"
        # A function about to execute its first instruction is at its `def` (3.9, 3.10) or nowhere yet.
        entered = frame.line == 0 or source is None or (frame.qualname, frame.line) in source.first_lines
        if frame.line not in lines[frame.qualname] and not (leaf and entered):
            return f"{frame.qualname} ({frame.file}) has no line {frame.line}"
        return None


def _read_lines(file):
    try:
        data = Path(file).read_bytes()
    except OSError:
        return None  # frozen
    return lines_of(compile(data, file, "exec", dont_inherit=True))
