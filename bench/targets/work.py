"""work.py PROGRAM SECONDS: a real program, some functions of which do more than they did, and know how much.

Each of FUNCTIONS gets calls of work of one length, in so many of its calls, drawn, that these take about SHARE of the time. Such
a call is timed by the thread's CPU clock, which is read before and after it. The work is a function of its own, `work_5` and so
on, and always the same number of steps. SECONDS are of CPU time."""

import importlib
import io
import os
import random
import sys
import time

import says

SHARE = 0.07
LENGTHS = (5, 10, 20, 50, 200, 1000)  # microseconds
FUNCTIONS = {
    "pycodestyle": (
        "pycodestyle:Checker.readline", "pycodestyle:Checker.run_check", "pycodestyle:Checker.init_checker_state",
        "pycodestyle:Checker.build_tokens_line", "pycodestyle:Checker.check_logical", "pycodestyle:Checker.check_physical",
    ),
    "sqlparse": (
        "sqlparse.sql:Token.__init__", "sqlparse.sql:TokenList._token_matching", "sqlparse.sql:Token.match",
        "sqlparse.sql:TokenList.token_next_by", "sqlparse.sql:TokenList.group_tokens", "sqlparse.sql:TokenList.__init__",
    ),
    "docutils": (
        "docutils.statemachine:StateMachine.next_line", "docutils.statemachine:StateMachine.check_line",
        "docutils.nodes:Element.append", "docutils.nodes:Element.__init__", "docutils.nodes:Text.__new__",
        "docutils.parsers.rst.states:Inliner.parse",
    ),
    "jinja2": (
        "jinja2.compiler:CodeGenerator.write", "jinja2.lexer:TokenStream.__next__", "jinja2.visitor:NodeVisitor.visit",
        "jinja2.parser:Parser.parse_expression", "jinja2.nodes:Node.__init__", "jinja2.parser:Parser.parse_primary",
    ),
}  # fmt: skip
cpu = time.thread_time_ns
draw = random.Random(41).random


def pycodestyle():
    from pycodestyle import Checker, StyleGuide

    path = os.path.join(os.path.dirname(os.__file__), "textwrap.py")
    guide = StyleGuide(quiet=2)
    return lambda: Checker(path, options=guide.options).check_all()


def sqlparse():
    from sqlparse import format

    text = "".join(
        f"select a{i}, sum(b) as s from t{i} join u on t{i}.x = u.y where a{i} > {i} and b in (1, 2, {i}) group by a{i};"
        for i in range(20)
    )
    return lambda: format(text, reindent=True, keyword_case="upper")


def docutils():
    from docutils.core import publish_string

    text = "\n".join(
        f"Part {i}\n=========\n\nSome *words* of ``it``, and a link_{i}.\n\n- one\n- two **strong**\n\n.. _link_{i}: part\n"
        for i in range(15)
    )
    quiet = {"report_level": 5, "warning_stream": io.StringIO()}
    return lambda: publish_string(text, writer_name="html4css1", settings_overrides=quiet)


def jinja2():
    from jinja2 import Environment

    text = "".join(
        f"{{% for x in items %}}{{{{ x.name | upper }}}} {{% if x.n > {i} %}}{{{{ x.n + {i} * 2 }}}}{{% endif %}}{{% endfor %}}"
        for i in range(15)
    )
    items = [{"name": "n", "n": i} for i in range(5)]
    return lambda: Environment().from_string(text).render(items=items)


def steps(times):
    """The work."""
    n = 0
    while n < times:
        n += 1


def nothing(times):
    """What the readings of the clock and a call take is not the work's: found out in the same places, as often."""


class Given:
    """What one function got: `times` steps in one of `one_in` calls. 0: none yet, its calls are counted."""

    def __init__(self, where, us):
        self.where, self.us = where, us
        self.name = f"work_{us}"
        self.work = type(steps)(steps.__code__.replace(co_name=self.name), globals(), self.name)
        self.seen = self.times = 0
        self.chance = 0.0
        self.begin()

    def begin(self):
        self.calls = self.ns = self.nothings = self.nothing_ns = 0

    def true_ns(self):
        return self.ns - self.calls * self.nothing_ns / self.nothings if self.nothings else 0.0

    def put(self):
        module, _, path = self.where.partition(":")
        owner, name = importlib.import_module(module), path
        if "." in path:
            of, name = path.split(".")
            owner = getattr(owner, of)
        function = getattr(owner, name)

        def more(*args, **kwargs):
            self.seen += 1
            drawn = draw()
            if drawn < self.chance:
                began = cpu()
                self.work(self.times)
                self.ns += cpu() - began
                self.calls += 1
            elif drawn < 2 * self.chance:
                began = cpu()
                nothing(0)
                self.nothing_ns += cpu() - began
                self.nothings += 1
            return function(*args, **kwargs)

        setattr(owner, name, more)


def least(function, tries=200):
    """CPU ns that a call of it takes."""
    best = 1 << 60
    for _ in range(tries):
        began = cpu()
        function()
        best = min(best, cpu() - began)
    return best


def for_a_time(unit, seconds):
    """Of CPU time."""
    end = cpu() + seconds * 1e9
    while cpu() < end:
        unit()


def main(program, seconds):
    unit = globals()[program]()
    unit()
    step = least(lambda: steps(10_000)) / 10_000
    given = [Given(where, us) for where, us in zip(FUNCTIONS[program], LENGTHS)]
    for one in given:
        one.put()
    began = cpu()
    for_a_time(unit, 0.3)
    ran = cpu() - began
    for one in given:
        one.times = int(one.us * 1000 / step)
        one.chance = min(0.5, SHARE * ran / (one.seen * one.us * 1000)) if one.seen else 0.0
    for_a_time(unit, 0.2)  # until the code is warm
    for one in given:
        one.begin()
    work = says.work()
    work.begin()
    for_a_time(unit, seconds)
    work.facts["functions"] = [
        {"name": one.name, "where": one.where, "us": one.us, "calls": one.calls, "ns": one.true_ns()} for one in given
    ]
    work.end()


main(sys.argv[1], float(sys.argv[2]))
