"""Django in one file, with profiles of slow requests, and of those that ask with a token. `python examples/django_app.py PORT`,
then `curl localhost:PORT/slow` leaves a file in spprof-requests/. In a project, wrap `application` in its wsgi.py."""

import os
import sys
import time
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

from spprof.integrations.wsgi import SpprofMiddleware


def fast(request):
    return HttpResponse("fast")


def slow(request):
    return HttpResponse(str(count_primes(for_seconds=1)))


def count_primes(for_seconds):
    """How many are found in so much time: equally slow on every processor."""
    end, n, primes = time.monotonic() + for_seconds, 2, 0
    while time.monotonic() < end:
        primes += all(n % d for d in range(2, int(n**0.5) + 1))
        n += 1
    return primes


urlpatterns = [path("fast", fast), path("slow", slow)]

settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="example", ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
application = SpprofMiddleware(get_wsgi_application(), slower_than=0.5, token=os.environ.get("SPPROF_TOKEN"))


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), application, server_class=Server).serve_forever()
