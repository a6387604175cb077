"""Libraries that release the GIL in the middle of their work, in threads: TLS, compression, hashes, and arrays where numpy is."""

import bz2
import hashlib
import lzma
import ssl
import threading
import zlib

try:
    import numpy
except ImportError:
    numpy = None

UNITS = 10
DATA = bytes(range(256)) * 400


def work(n):
    return sum([i * 2 for i in range(n)])


def packed(units):
    total = 0
    for i in range(units * 2):
        total += (
            len(zlib.decompress(zlib.compress(DATA, 1 + i % 6)))
            + len(bz2.compress(DATA[:20000]))
            + len(lzma.compress(DATA[:20000]))
        )  # -> *
        work(200)
    return total


def hashed(units):
    total = 0
    for i in range(units * 40):
        total += hashlib.sha512(DATA).digest()[0] + hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 200 + i)[0]
        work(200)
    return total


def context_of(server):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)  # -> *
    if not server:
        made.check_hostname = False  # -> *
        made.verify_mode = ssl.CERT_NONE  # -> *
    made.maximum_version = ssl.TLSVersion.TLSv1_2  # -> *
    made.set_ciphers("ADH-AES256-GCM-SHA384:@SECLEVEL=0")  # key exchange without certificates
    return made


def pump(ends, wires):
    """Both ends of a TLS connection over memory, until they have shaken hands."""
    done = [False, False]
    while not all(done):
        for i, end in enumerate(ends):
            try:
                end.do_handshake()  # -> *
                done[i] = True
            except ssl.SSLWantReadError:
                pass
            wires[1 - i][0].write(wires[i][1].read())


def encrypted(units):
    total = 0
    for _ in range(units):
        wires = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
        ends = [context_of(i == 1).wrap_bio(*wires[i], server_side=i == 1) for i in range(2)]  # -> *
        pump(ends, wires)
        for _ in range(20):
            ends[0].write(DATA[:8000])  # -> *
            wires[1][0].write(wires[0][1].read())
            total += len(ends[1].read(8000))  # -> *
            work(100)
    return total


def arrays(units):
    total = 0
    for i in range(units * 4):
        if numpy is None:
            total += work(5000)
        else:
            a = numpy.arange(90000, dtype=float).reshape(300, 300)  # -> *
            total += int((a @ a.T).sum() % 97) + int(numpy.sort(a.ravel()[::-1])[5]) + i  # -> *
    return total


def main(units):
    results = {}

    def keep(function):
        results[function.__name__] = function(units)  # -> packed hashed encrypted arrays

    threads = [threading.Thread(target=keep, args=(f,)) for f in (packed, hashed, encrypted, arrays)]
    for thread in threads:
        thread.start()
    work(200000)
    for thread in threads:
        thread.join()
    return dict(sorted(results.items()))
