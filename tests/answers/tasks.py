"""What users want to know, with what they type first, and where the answer is in its text (docs/answers.md has a run)."""

from typing import NamedTuple, Tuple


class Task(NamedTuple):
    asks: str
    command: str  # as it is typed in the folder of the programs. {port}: a free one; {pid}: of `beside`
    says: str  # the answer, as a regular expression for a line
    then: str = ""  # a second command, whose text has the answer
    first: str = ""  # what is done before, unprofiled
    beside: str = ""  # a program that runs meanwhile, and prints "ready"
    urls: Tuple[str, ...] = ()  # of a server: what it is asked for, over and over, until Ctrl-C
    until: str = ""  # of another program without an end: the folder that is empty when it has done its work, and gets Ctrl-C
    peer: str = ""  # the best other profiler's command
    peer_says: str = ""  # where its answer differs
    peer_then: str = ""
    since: Tuple[int, int] = (3, 9)


PY_SPY = "py-spy record -r 200 -f raw -o peer.txt"
SHOWN = "cat peer.txt"
TACHYON = "python3.15 -m profiling.sampling run"
WALL = "spprof run --mode wall"
ALL = "spprof run --subprocesses"
TASKS = [
    # My code among everybody else's.
    Task("the hot function of a pandas script", "spprof run report_pandas.py", r"discount \(report_pandas",
        peer="pyinstrument report_pandas.py", peer_says=r"\bdiscount "),
    Task("the hot function of a Django command", "spprof run manage.py rebuild", r"similarity \((shop/)?words",
        peer="pyinstrument manage.py rebuild", peer_says=r"\bsimilarity "),
    Task("what a FastAPI service does and waits for", f"{WALL} uvicorn --port {{port}} api:app", r"price \(api",
        urls=("/item/1", "/item/2"), peer="pyinstrument -m uvicorn --port {port} api:app", peer_says=r"\bprice "),
    Task("the hot function of a scikit-learn script", "spprof run train.py", r"weighted_error \(train",
        peer="pyinstrument train.py", peer_says=r"\bweighted_error "),
    Task("what black does with a folder, in a pool", f"{ALL} black --quiet --check black_src", r"black[/.]|blib2to3",
        first="python make_sources.py", peer=f"{PY_SPY} -s -- black --quiet --check black_src", peer_then=SHOWN,
        peer_says=r"black/"),
    Task("the slow function behind a test", "spprof run pytest -q shop_tests.py", r"fibonacci \(shop_tests",
        peer="pyinstrument -m pytest -q shop_tests.py", peer_says=r"\bfibonacci "),
    Task("the slow tests", "pytest -q --spprof shop_tests.py", r"test_fibonacci\[27\]",
        peer="pytest -q --durations=3 shop_tests.py"),
    Task("what a notebook's cell does", "ipython --no-banner session.ipy", r"normalized \(",
        peer="ipython --no-banner peer_session.ipy", peer_says=r"\bnormalized "),
    # A program of several processes.
    Task("four workers of gunicorn", f"{ALL} --mode wall gunicorn -w 4 -b 127.0.0.1:{{port}} site_flask:app",
        r"price \(site_flask", urls=("/item/1", "/item/2"), peer_then=SHOWN, peer_says=r"price \(site_flask",
        peer=f"{PY_SPY} -s -- gunicorn -w 4 -b 127.0.0.1:{{port}} site_flask:app"),
    Task("two workers of uvicorn", f"{ALL} uvicorn --workers 2 --port {{port}} api:app", r"price \(api",
        urls=("/item/1", "/item/2"), peer=f"{PY_SPY} -s -- uvicorn --workers 2 --port {{port}} api:app", peer_then=SHOWN),
    Task("Django's runserver with its reloader", f"{ALL} manage.py runserver {{port}}", r"similarity \((shop/)?words",
        urls=("/similar/1", "/similar/2"), peer=f"{PY_SPY} -s -- python manage.py runserver {{port}}", peer_then=SHOWN),
    Task("Flask's own server", "spprof run flask --app site_flask run --port {port}", r"price \(site_flask",
        urls=("/item/1", "/item/2"), peer=f"{PY_SPY} -- flask --app site_flask run --port {{port}}", peer_then=SHOWN),
    Task("a worker of Celery", f"{ALL} celery -A jobs worker -c 2 --loglevel ERROR", r"thumbnail \(jobs",
        first="python jobs.py", until="queue",
        peer=f"{PY_SPY} -s -- celery -A jobs worker -c 2 --loglevel ERROR", peer_then=SHOWN),
    Task("pytest on two workers", f"{ALL} pytest -q -n 2 shop_tests.py", r"fibonacci \(shop_tests",
        peer=f"{PY_SPY} -s -- pytest -q -n 2 shop_tests.py", peer_then=SHOWN),
    Task("multiprocessing.Pool", f"{ALL} pool.py", r"checksum \(pool", peer=f"{PY_SPY} -s -- python pool.py", peer_then=SHOWN),
    Task("a pool of spawned processes", f"{ALL} spawned.py", r"checksum \(pool",
        peer=f"{PY_SPY} -s -- python spawned.py", peer_then=SHOWN),
    Task("that children used the processor", "spprof run starts_another.py", r"used \d.* s of CPU time .*--subprocesses",
        peer="pyinstrument starts_another.py", peer_says="pool.py"),
    # As one types it.
    Task("a command of the PATH", "spprof run shop-words", r"normalized \(words", peer=f"{PY_SPY} -- shop-words",
        peer_then=SHOWN),
    Task("a command of another environment", "spprof run other/bin/shop-words", r"normalized \(words",
        peer=f"{PY_SPY} -- other/bin/shop-words", peer_then=SHOWN),
    Task("`python x.py`", "spprof run python words.py", r"normalized \(words", peer=f"{PY_SPY} -- python words.py",
        peer_then=SHOWN),
    Task("`env A=1 python x.py`", "spprof run env A=1 python words.py", r"normalized \(words",
        peer=f"{PY_SPY} -- env A=1 python words.py", peer_then=SHOWN),
    Task("`python -m x`", "spprof run -m words", r"normalized \(words", peer="pyinstrument -m words",
        peer_says=r"\bnormalized "),
    Task("`uv run x.py`", "spprof run uv run --no-project --offline words.py", r"normalized \(words",
        peer=f"{PY_SPY} -s -- uv run --no-project --offline words.py", peer_then=SHOWN),
    Task("a shell script that starts Python", "spprof run ./run.sh", r"normalized \(words",
        peer=f"{PY_SPY} -s -- ./run.sh", peer_then=SHOWN),
    Task("a program of standard input", "sh -c 'spprof run - < words.py'", r"normalized \(<stdin>",
        peer="sh -c 'scalene run --cpu-only - < words.py'"),
    # Why it waits.
    Task("what a client waits for", f"{WALL} fetches.py", r"rate \(fetches", peer="pyinstrument fetches.py",
        peer_says=r"\brate "),
    Task("who holds a lock", f"{WALL} -q holders.py", r"saver .*in save \(holders", then="spprof report --blame"),
    Task("who holds the GIL", f"{WALL} -q matcher.py", r"match .*in match \(re/", then="spprof report --blame",
        peer=f"{PY_SPY} -g -- python matcher.py", peer_then=SHOWN, peer_says=r"match \(re"),
    Task("what holds the event loop up", "spprof run loop.py", r"parsed \(loop", peer="pyinstrument loop.py",
        peer_says=r"\bparsed "),
    Task("which task of asyncio used how much", "spprof run -q loop.py", "import-0", then="spprof report --by task",
        peer=f"{TACHYON} --async-aware --async-mode all loop.py"),
    Task("what tasks of asyncio wait for", f"{WALL} -q --event time --event tasks waits.py", r"a lock",
        then="spprof report --tasks", peer="pyinstrument waits.py", peer_says=r"\bacquire "),
    Task("who makes a slow query", "spprof run query.py", r"orders_of \(query", peer="pyinstrument query.py",
        peer_says=r"\borders_of "),
    Task("which thread used how much", "spprof run -q threads.py", r" indexer", then="spprof report --by thread",
        peer=f"{PY_SPY} -t -- python threads.py", peer_then=SHOWN, peer_says="indexer"),
    # One that runs already.
    Task("a process that runs already", "spprof attach {pid} --duration 2", r"normalized \(words",
        beside="python service.py 30", peer=f"{PY_SPY} --pid {{pid}} -d 2", peer_then=SHOWN),
    Task("where a program hangs", "spprof dump {pid}", r"waits for .* at transfer \(deadlock", beside="python deadlock.py",
        peer="py-spy dump --pid {pid}"),
    Task("a window of a run", "sh -c 'spprof ctl {pid} resume; sleep 1; spprof ctl {pid} stop'", r"normalized \(words",
        beside="spprof run -q --delay 86400 -o window.spprof service.py 4", then="spprof report window.spprof",
        peer=f"{PY_SPY} --pid {{pid}} -d 1", peer_then=SHOWN),
    Task("that it hangs, by itself", "spprof run -q --on-stall 1 deadlock.py", r"a deadlock of 2 threads"),
    # Native code, memory, exact numbers.
    Task("who calls the slow functions of numpy", "spprof run --native ranking.py", r"ranks \(ranking",
        peer=f"{PY_SPY} -n -- python ranking.py", peer_then=SHOWN, peer_says=r"ranks \("),
    Task("which function makes memory grow", "spprof run --event page-faults grows.py", r"remember \(grows",
        peer="memray run -q -o peer.bin grows.py", peer_then="memray stats peer.bin", peer_says=r"\bremember"),
    Task("how often a function is called", "spprof run -q --calls counted.py", r"498,501.*is_leap|is_leap.*498,501",
        then="spprof report --sort calls", peer="python -m cProfile -s ncalls counted.py", peer_says=r"498501.*is_leap"),
    Task("how long each call takes", "spprof run -q --time words:normalized uses_words.py", r"normalized .*: 120 calls",
        then="spprof report --slowest", since=(3, 12),
        peer="viztracer --quiet --ignore_c_function -o peer.json uses_words.py",
        peer_then="grep -c normalized peer.json", peer_says=r"^[1-9]"),
    Task("how often each line runs", "spprof run -q --lines words:normalized uses_words.py", r"5,280,000",
        then="spprof report --lines", since=(3, 12), peer="kernprof -l -v -p words uses_words.py", peer_says="5280000"),
    Task("which exceptions are raised where", "spprof run -q --exceptions raises.py", r"50,000.*ValueError|ValueError.*50,000",
        then="spprof report --exceptions", since=(3, 12), peer=f"{TACHYON} --mode exception raises.py",
        peer_says=r"\b50,?000\b"),
    Task("which import is slow", "spprof run -q --imports imports.py", r"slowpackage",
        then="spprof report --imports", peer="python -X importtime imports.py", peer_says=r"slowpackage"),
    Task("what the garbage collector costs", "spprof run -q --event time --event gc cycles.py", r"Node\.__init__|parse",
        then="spprof report --gc", peer=f"{TACHYON} cycles.py", peer_says="<GC>"),
    # What became of it.
    Task("what a change made slower", "spprof run -q -o after.spprof words_after.py", r"\* .*normalized",
        first="spprof run -q -o before.spprof words.py", then="spprof diff before.spprof after.spprof",
        peer=f"sh -c '{TACHYON} --binary -o a.bin words.py; {TACHYON} --diff-flamegraph a.bin -o peer.html words_after.py'",
        peer_then="grep -c normalized peer.html", peer_says=r"^[1-9]"),
    Task("a picture for a page", "spprof run -q -o p.svg words.py", r"normalized \(.*words", then="grep -o <title>[^<]* p.svg",
        peer="py-spy record -o p.svg -- python words.py", peer_then="grep -o <title>[^<]* p.svg"),
    Task("which route of a service is slow", "spprof run -q --mode wall flask --app labelled run --port {port}",
        r"/item/<int:number>", urls=("/item/1", "/item/2"), then="spprof report --by route"),
]  # fmt: skip
