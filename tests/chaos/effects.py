# SPDX-License-Identifier: MIT
"""What the handlers http and exec change: a server and a program that record each effect with its
idempotency key in a ledger of their own, and that fail, are slow and lose answers at random."""

import contextlib
import http.server
import json
import os
import random
import socket
import struct
import threading
import time

import ledger

TIMEOUT = "2s"        # of a task; some effects happen after it
LATE_S = 3
SPELL_GAP_S = (15, 60)
SPELL_S = (0.5, 4)    # nothing works
NO_ANSWERS = {"reset": b"", "hang": b"", "garbage": b"HELLO\r\n",
              "half": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"code\":0"}
REFUSED = "refused"   # the third word of parameters that are never accepted

# Only builtins and sleep, so that a run costs little. A line is one write().
PROGRAM = """#!/bin/bash
read -r key n word
[[ $word == refused ]] && { echo "never accepted" >&2; exit 100; }
fate=$((RANDOM % 100))
((fate < 6)) && exit 75
((fate < 8)) && kill -KILL $$
((fate < 13)) && sleep "0.$((RANDOM % 9 + 1))"
((fate == 13)) && sleep LATE_S
printf '{"what": "effect", "handler": "exec", "event": "%s", "key": "%s", "n": %d}\\n' \\
  "$TALLYBOX_IDEMPOTENCY_KEY" "$key" "$n" >>'LEDGER'
((fate > 95)) && exit 1
((fate > 93)) && kill -KILL $$
exit 0
"""


def write_program(folder, ledgers):
    """The program that the handler exec runs; its path."""
    path = folder / "effect"
    text = PROGRAM.replace("LATE_S", str(LATE_S))
    path.write_text(text.replace("LEDGER", str(ledgers / "effects-exec.ledger")))
    os.chmod(path, 0o755)
    return str(path)


class Record:
    """The effects of a handler, in one order whatever server has them. Any thread."""

    def __init__(self, ledgers, handler):
        self.handler = handler
        self.pushes = 0
        self.lock = threading.Lock()  # guards both
        self.ledger = ledger.Ledger(ledgers / f"effects-{handler}.ledger")

    def write(self, event, key, n):
        with self.lock:
            self.ledger.write({"what": "effect", "handler": self.handler, "event": event,
                               "key": key, "n": n})

    def count_push(self, good):
        """Of a configuration, that was answered with success."""
        with self.lock:
            self.pushes += good

    def close(self):
        with self.lock:
            self.ledger.close()


class Server(http.server.ThreadingHTTPServer):
    """What the handler http calls: subclasses have the fate of each call."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, record, port=0):
        self.record = record
        self.sockets = set()
        self.sockets_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=[0.05], name="effects",
                                       daemon=True)
        self.thread.start()

    def fate(self):
        """What becomes of a call: before its effect, how long it takes, behind its effect."""
        raise NotImplementedError

    def get_request(self):
        connection, address = super().get_request()
        with self.sockets_lock:
            self.sockets.add(connection)
        return connection, address

    def shutdown_request(self, request):
        with self.sockets_lock:
            self.sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """A client that hung up is no error here."""

    def close(self):
        """Also the connections that are kept, in the midst of a call."""
        self.shutdown()
        self.server_close()
        with self.sockets_lock:
            for connection in self.sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class Url(Server):
    """The one server of tasks with a `url`."""

    def __init__(self, ledgers, seed):
        self.lock = threading.Lock()  # guards rng and the spell
        self.rng = random.Random(f"{seed} effects")
        self.spell = (0, 0)
        self.healthy = False  # nothing goes wrong any more
        super().__init__(Record(ledgers, "http"))

    def is_down(self):
        """Every call fails for a while, now and then. Under the lock."""
        now = time.monotonic()
        if now > self.spell[1]:
            begin = now + self.rng.uniform(*SPELL_GAP_S)
            self.spell = begin, begin + self.rng.uniform(*SPELL_S)
        return self.spell[0] <= now

    def fate(self):
        with self.lock:
            if self.healthy:
                return None, 0, None
            if self.is_down():
                return self.rng.choice((503, "reset")), 0, None
            before = self.rng.choices((None, 503, 429, "reset"), (92, 4, 2, 2))[0]
            wait = self.rng.choices((0, self.rng.uniform(0.1, 1.5), LATE_S), (92, 6, 2))[0]
            behind = self.rng.choices((None, 500, "reset"), (92, 3, 5))[0]
            return before, wait, behind

    def close(self):
        super().close()
        self.record.close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        before, wait, behind = self.server.fate()
        if self.path.endswith("/tallybox/config"):
            self.server.record.count_push(not before)
            self.answer(503 if before else 200)
            return
        key, n, *word = body.split()
        if word == [REFUSED]:
            self.answer(422)
            return
        if before:
            time.sleep(wait if before == "hang" else 0)
            self.answer(*before) if isinstance(before, tuple) else self.answer(before)
            return
        time.sleep(wait)
        self.server.record.write(self.headers["Idempotency-Key"], key, int(n))
        self.answer(behind or 200)

    def answer(self, status, text=None):
        """A status, or the connection's end without a whole answer."""
        if status in NO_ANSWERS:
            self.connection.sendall(NO_ANSWERS[status])
            if status == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                           struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        if text is None:
            text = json.dumps({"code": 0 if status == 200 else status}).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Nothing."""
