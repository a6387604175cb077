"""debugpy in the process, and a client that attaches over loopback: 20 times at a breakpoint it reads a variable and goes on."""

import json
import socket
import subprocess
import sys

import debugpy
from _truth import burn, part

PYPI = ["debugpy"]
TRACED = True
ENV = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def stopped(i):
    value = i * i  # break here
    return value


def heavy(n):
    return burn(n)


class Client:
    """Of the Debug Adapter Protocol: what it takes to attach, stop, look and go on."""

    def __init__(self, port):
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
        self.number = 0

    def say(self, command, **arguments):
        self.number += 1
        text = json.dumps({"seq": self.number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.file.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
        self.file.flush()

    def hear(self, kind, name):
        while True:
            size = 0
            while (line := self.file.readline().strip()) != b"":
                size = int(line.split(b":")[1])
            reported = json.loads(self.file.read(size))
            if reported["type"] == kind and reported.get("event" if kind == "event" else "command") == name:
                return reported.get("body")

    def drive(self, line):
        self.say("initialize", adapterID="program", pathFormat="path")
        self.hear("response", "initialize")
        self.say("attach", justMyCode=False)
        self.hear("event", "initialized")
        self.say("setBreakpoints", source={"path": __file__}, breakpoints=[{"line": line}])
        self.hear("response", "setBreakpoints")
        self.say("configurationDone")
        values = []
        for _ in range(20):
            thread = self.hear("event", "stopped")["threadId"]
            self.say("stackTrace", threadId=thread)
            frame = self.hear("response", "stackTrace")["stackFrames"][0]
            self.say("evaluate", expression="i", frameId=frame["id"])
            values.append(self.hear("response", "evaluate")["result"])
            self.say("continue", threadId=thread)
        self.say("disconnect")
        print(" ".join(values), flush=True)


def main():
    if len(sys.argv) > 2:
        return Client(int(sys.argv[1])).drive(int(sys.argv[2]))
    line = next(i for i, text in enumerate(open(__file__), 1) if text.endswith("# break here\n"))
    port = debugpy.listen(("127.0.0.1", 0))[1]  # -> *
    client = subprocess.Popen([sys.executable, __file__, str(port), str(line)], stdout=subprocess.PIPE, text=True)  # -> *
    debugpy.wait_for_client()  # -> *
    total = sum(stopped(i) for i in range(20))  # -> *
    said = client.communicate(timeout=60)[0]  # -> *
    with part("heavy"):
        total += heavy(3000000)
    print(total, said.strip(), client.returncode, flush=True)


if __name__ == "__main__":
    main()
