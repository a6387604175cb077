"""A client of a slow service (in a thread of its own here)."""

import http.server
import threading
import time

import requests


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"1")

    def log_message(self, *_):
        pass


def rate(address, currency):
    return float(requests.get(f"{address}/{currency}", timeout=10).text)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    print(sum(rate(address, currency) for currency in range(15)))


main()
