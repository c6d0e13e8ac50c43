# SPDX-License-Identifier: MIT
"""What the handlers http and exec change: a server and a program that record each effect with its
idempotency key in a ledger of their own, and that fail, are slow and lose answers at random."""

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


class Server(http.server.ThreadingHTTPServer):
    """What the handler http calls."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, ledgers, seed):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ledger = ledger.Ledger(ledgers / "effects-http.ledger")
        self.lock = threading.Lock()  # guards ledger, rng and the spell
        self.rng = random.Random(f"{seed} effects")
        self.spell = (0, 0)
        self.healthy = False  # nothing goes wrong any more
        self.thread = threading.Thread(target=self.serve_forever, name="effects", daemon=True)
        self.thread.start()

    def is_down(self):
        """Every call fails for a while, now and then. Under the lock."""
        now = time.monotonic()
        if now > self.spell[1]:
            begin = now + self.rng.uniform(*SPELL_GAP_S)
            self.spell = begin, begin + self.rng.uniform(*SPELL_S)
        return self.spell[0] <= now

    def fate(self):
        """What becomes of a call: before its effect, how long it takes, behind its effect."""
        with self.lock:
            if self.healthy:
                return None, 0, None
            if self.is_down():
                return self.rng.choice((503, "reset")), 0, None
            before = self.rng.choices((None, 503, 429, "reset"), (92, 4, 2, 2))[0]
            wait = self.rng.choices((0, self.rng.uniform(0.1, 1.5), LATE_S), (92, 6, 2))[0]
            behind = self.rng.choices((None, 500, "reset"), (92, 3, 5))[0]
            return before, wait, behind

    def record(self, event, key, n):
        with self.lock:
            self.ledger.write({"what": "effect", "handler": "http", "event": event, "key": key,
                               "n": n})

    def handle_error(self, request, client_address):
        """A client that hung up is no error here."""

    def close(self):
        self.shutdown()
        self.server_close()
        with self.lock:
            self.ledger.close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        key, n, *word = body.split()
        if word == [REFUSED]:
            self.answer(422)
            return
        before, wait, behind = self.server.fate()
        if before:
            self.answer(before)
            return
        time.sleep(wait)
        self.server.record(self.headers["Idempotency-Key"], key, int(n))
        self.answer(behind or 200)

    def answer(self, status):
        """A status, or the connection's end without one."""
        if status == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        text = json.dumps({"status": status}).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        """Nothing."""
