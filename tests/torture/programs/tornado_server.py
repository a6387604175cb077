"""tornado: a server forked into two processes by its own master, which restarts them, and 20 clients at a time on loopback.
Handlers that compute, sleep, use threads and begin processes, and websockets."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import tornado.httpclient
import tornado.httpserver
import tornado.ioloop
import tornado.netutil
import tornado.process
import tornado.web
import tornado.websocket
from _truth import burn, part

PYPI = ["tornado"]
SUBPROCESSES = True
PROFILES = 4
# 3.9 has no frames below a coroutine's while an exception is thrown into one that it awaits (gen_throw in genobject.c).
ROOTS = ["work", "until_it_answers"]
MAY_LACK_END = True  # a worker ends by os._exit


class Computes(tornado.web.RequestHandler):
    def get(self, n):
        self.finish(str(burn(3000 + int(n))))  # -> *


class Heavy(tornado.web.RequestHandler):
    def get(self, n):
        with part("heavy"):
            total = heavy(int(n))
        self.finish(str(total))  # -> *


class Sleeps(tornado.web.RequestHandler):
    async def get(self, n):
        await asyncio.sleep(0.002)  # -> *
        self.finish(n)  # -> *


class Threads(tornado.web.RequestHandler):
    async def get(self, n):
        total = await tornado.ioloop.IOLoop.current().run_in_executor(None, blocked, int(n))  # -> *
        self.finish(str(total))  # -> *


class Begins(tornado.web.RequestHandler):
    async def get(self, n):
        pipe = tornado.process.Subprocess.STREAM
        child = tornado.process.Subprocess(["/bin/sh", "-c", f"echo {n}; exit {int(n) % 5}"], stdout=pipe)  # -> *
        said = await child.stdout.read_until_close()  # -> *
        status = await child.wait_for_exit(raise_error=False)  # -> *
        self.finish(json.dumps([said.decode().strip(), status]))  # -> *


class Ends(tornado.web.RequestHandler):
    def get(self, n):
        os._exit(int(n))


class Echoes(tornado.websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message[::-1])  # -> *


def blocked(n):
    time.sleep(0.002)
    return burn(500 + n)


def heavy(n):
    return burn(n)


def serve(port):
    sockets = tornado.netutil.bind_sockets(port, "127.0.0.1")  # -> *
    # Its master waits until each worker has ended with 0; what ends otherwise is restarted.
    tornado.process.fork_processes(2, max_restarts=5)  # -> *

    async def until_it_is_asked():
        application = tornado.web.Application(  # -> *
            [
                (r"/computes/(\d+)", Computes),
                (r"/heavy/(\d+)", Heavy),
                (r"/sleeps/(\d+)", Sleeps),
                (r"/threads/(\d+)", Threads),
                (r"/begins/(\d+)", Begins),
                (r"/ends/(\d+)", Ends),
                (r"/echoes", Echoes),
            ]
        )
        over = asyncio.Event()  # -> *
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)  # -> *
        server = tornado.httpserver.HTTPServer(application)  # -> *
        server.add_sockets(sockets)  # -> *
        with open(f"{os.getpid()}.part", "w") as file:
            file.write(str(os.getpid()))
        os.replace(f"{os.getpid()}.part", f"worker-{tornado.process.task_id()}")  # -> *
        await over.wait()  # -> *
        server.stop()  # -> *
        await server.close_all_connections()  # -> *

    asyncio.run(until_it_is_asked())  # -> *


async def ask(client, port, path):
    url = f"http://127.0.0.1:{port}{path}"
    return (await client.fetch(url, request_timeout=60, connect_timeout=60)).body.decode()  # -> *


async def until_it_answers(client, port, server):
    while True:
        try:
            return await ask(client, port, "/computes/0")  # -> *
        except OSError:
            if server.poll() is not None:  # -> *
                sys.exit("the server ended")
            await asyncio.sleep(0.01)  # -> *


def expected(kind, i):
    if kind == "begins":
        return json.dumps([str(i), i % 5])  # -> *
    return str({"computes": lambda: burn(3000 + i), "sleeps": lambda: i, "threads": lambda: burn(500 + i)}[kind]())  # -> <lambda>


async def loaded(client, port):
    """Answers that were wrong, and how many there were."""
    kinds = ["computes", "sleeps", "threads", "begins"]
    jobs = [(kinds[i % 4], i % 37) for i in range(400)]
    answers = await asyncio.gather(*(ask(client, port, f"/{kind}/{i}") for kind, i in jobs), return_exceptions=True)  # -> *
    wrong = [(job, str(answer)) for job, answer in zip(jobs, answers) if answer != expected(*job)]
    return wrong[:5], len(answers)


async def echoed(port, n):
    good = 0
    socket = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{port}/echoes")  # -> *
    for i in range(n):
        await socket.write_message(f"word {i}")  # -> *
        good += await socket.read_message() == f"word {i}"[::-1]  # -> *
    socket.close()  # -> *
    return good


def pids():
    found = []
    for i in range(2):
        try:
            with open(f"worker-{i}") as file:  # -> *
                found.append(int(file.read()))  # -> *
        except FileNotFoundError:  # it has not begun
            pass
    return found


async def work(port, server):
    tornado.httpclient.AsyncHTTPClient.configure(None, max_clients=20)  # -> *
    client = tornado.httpclient.AsyncHTTPClient()  # -> *
    for turn in range(2):
        print(await until_it_answers(client, port, server))  # -> *
        while len(pids()) < 2:
            await asyncio.sleep(0.01)  # -> *
        print(await loaded(client, port))  # -> *
        print(await asyncio.gather(*(echoed(port, 40) for _ in range(10))))  # -> *
        print(await asyncio.gather(*(ask(client, port, "/heavy/4000000") for _ in range(4))))  # -> *
        if turn == 0:
            before = pids()
            try:
                await ask(client, port, "/ends/3")  # -> *
            except (OSError, tornado.httpclient.HTTPError) as error:
                print(type(error).__name__)
            while len(set(before) & set(pids())) > 1:
                await asyncio.sleep(0.01)  # -> *
    for pid in pids():
        os.kill(pid, signal.SIGTERM)


def main():
    port = 20000 + os.getpid() % 20000
    server = subprocess.Popen([sys.executable, __file__, str(port)], stderr=subprocess.DEVNULL)  # -> *
    asyncio.run(work(port, server))  # -> *
    print(server.wait(60))  # -> *


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]))
    else:
        main()
