#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hands tasks to the retry queue of tallybox over HTTP, and receives its calls. Standard library
only, Python 3.8 or newer; copy the file into your project. README.md explains the rules that the
four files of this folder share.

    tallybox_tasks.py receive PORT [FAILURES]   a webhook that fails FAILURES times for each task
    tallybox_tasks.py report COUNT WEBHOOK      work that fails here and is handed over

TALLYBOX_URL (http://127.0.0.1:8080) and TALLYBOX_TOKEN name the server and the token. With
TALLYBOX_GROUP the webhook registers itself as a client of this group."""

import http.client
import http.server
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

BATCH = 100  # tasks of one request; the server takes 1,000
CALL_SECONDS = 10
WAIT_SECONDS = 0.2  # after the first failed request; doubled by each further one
WAIT_SECONDS_MAX = 30


REFUSES = (400, 409, 413, 422)  # statuses that mean the tasks; others mean the server or the token


class Refused(Exception):
    """The work, or the task, fails always: do not try it again."""

    def __init__(self, reason, status=0):
        super().__init__(reason)
        self.status = status


class Unavailable(Exception):
    """The server did not take the request now, or its answer was lost. Send the same again."""

    def __init__(self, reason, wait_seconds=None):
        super().__init__(reason)
        self.wait_seconds = wait_seconds


class Client:
    """Any thread."""

    def __init__(self, url, token):
        self.url = url.rstrip("/")
        self.token = token

    def submit(self, tasks):
        """Hands over a list of 1 to 1,000 tasks, committed when it returns: one answer for each,
        {"id": 17, "existed": false} or {"error": {"code": ..., "message": ...}}. A task needs an
        idempotencyKey, by which it is the same task when it is sent again."""
        answers = self._post("/v1/tasks", tasks)
        if len(answers) == len(tasks):
            return answers
        raise Unavailable("not one answer for each task")

    def beat(self, group, address, version, failed_reports=0):
        """Registers this process as a client that takes the tasks of a group at an address, for
        90 seconds: {"configVersion": "...", "beatMs": 30000, ...}."""
        return self._post("/v1/clients/beat", {"group": group, "address": address,
                                               "version": version, "failedReports": failed_reports})

    def _post(self, path, body):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), method="POST",
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1000).decode(errors="replace")
            wait = error.headers.get("Retry-After", "")
            if error.code in REFUSES:
                raise Refused(f"status {error.code}: {text}", error.code) from None
            raise Unavailable(f"status {error.code}: {text}",
                              int(wait) if wait.isdigit() else None) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from None


class Reporter:
    """Tries work here, and hands over what keeps failing. Tasks wait in a window in memory and are
    sent by a thread, BATCH at a time or when the first has waited for flush_seconds. A crash of
    the process loses the window; close() sends it. on_refused(task, reason) learns of tasks that can
    never be taken; it must not raise. Any thread may call a reporter."""

    def __init__(self, client, window=1000, flush_seconds=1.0, on_refused=None):
        self.client = client
        self.window = window
        self.flush_seconds = flush_seconds
        self.on_refused = on_refused or (lambda task, reason: print(
            f"refused: {task['idempotencyKey']}: {reason}", file=sys.stderr))
        self.changed = threading.Condition()
        self.waiting = []  # guarded by changed
        self.closing_at = None
        self.reported = self.refused = self.failed_calls = 0  # written by the thread alone
        self.last_error = ""
        self.thread = threading.Thread(target=self._send_all, name="tallybox-tasks", daemon=True)
        self.thread.start()

    def attempt(self, work, task, attempts=3, wait_seconds=0.1):
        """Returns "done" if work() succeeded, else "queued locally": the task is in the window. A
        full window makes the caller wait. Refused, raised by work(), reaches the caller."""
        for attempt in range(attempts):
            try:
                work()
                return "done"
            except Refused:
                raise
            except Exception:  # pylint: disable=broad-except
                if attempt + 1 < attempts:
                    time.sleep(wait_seconds * 2 ** attempt * random.uniform(0.5, 1.5))
        with self.changed:
            self.changed.wait_for(lambda: self.closing_at or len(self.waiting) < self.window)
            if self.closing_at:
                raise Unavailable("the reporter is closed")
            self.waiting.append({"idempotencyKey": str(uuid.uuid4()), **task})
            self.changed.notify_all()
        return "queued locally"

    def close(self, seconds=30):
        """Sends the window; returns the tasks that could not be sent in time."""
        with self.changed:
            self.closing_at = time.monotonic() + seconds
            self.changed.notify_all()
        self.thread.join(seconds + CALL_SECONDS)
        with self.changed:
            return list(self.waiting)

    def _send_all(self):
        size, wait = BATCH, WAIT_SECONDS
        while True:
            batch = self._next_batch(size)
            if not batch:
                return
            kept, error = [], None
            try:
                kept, error = self._read_answers(batch, self.client.submit(batch))
                size = min(size * 2, BATCH)
            except Refused as refused:
                if len(batch) > 1:  # too large together, or one of them is in the others' way
                    size = len(batch) // 2
                    continue
                self._refuse(batch[0], str(refused))
            except Unavailable as unavailable:
                kept, error = batch, unavailable
            with self.changed:
                self.waiting[:len(batch)] = kept
                self.changed.notify_all()
            wait = self._pause(error, wait) if error else WAIT_SECONDS

    def _next_batch(self, size):
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.closing_at)
            self.changed.wait_for(lambda: len(self.waiting) >= size or self.closing_at,
                                  self.flush_seconds)
            if self.closing_at and time.monotonic() > self.closing_at:
                return []
            return self.waiting[:size]

    def _read_answers(self, batch, answers):
        """Returns the tasks to send again, and why."""
        kept, why = [], None
        for task, answer in zip(batch, answers):
            error = answer.get("error")
            if not error:
                self.reported += 1
            elif error["code"] in ("too_many_requests", "unavailable", "timeout"):
                kept.append(task)
                why = Unavailable(error["message"])
            else:
                self._refuse(task, f"{error['code']}: {error['message']}")
        return kept, why

    def _refuse(self, task, reason):
        self.refused += 1
        self.on_refused(task, reason)

    def _pause(self, error, wait):
        """Returns how long to wait after the next failure. close() shortens the pause."""
        self.failed_calls += 1
        self.last_error = str(error)
        seconds = max(error.wait_seconds or 0, wait * random.uniform(0.5, 1.5))
        with self.changed:
            self.changed.wait_for(lambda: self.closing_at, seconds)
        if self.closing_at:
            time.sleep(min(seconds, WAIT_SECONDS))
        return min(wait * 2, WAIT_SECONDS_MAX)


def keep_beating(client, group, address, version, count_failed=lambda: 0):
    """Beats every 30 seconds in a thread. count_failed() is the number of failed reports so far, as
    Reporter.failed_calls; each is told once."""
    def run():
        told, wait = 0, 30
        while True:
            failed = count_failed()
            try:
                wait = client.beat(group, address, version, failed - told)["beatMs"] / 1000
                told = failed
            except (Refused, Unavailable) as error:
                print(f"no beat: {error}", file=sys.stderr)
            time.sleep(wait)

    threading.Thread(target=run, name="tallybox-beats", daemon=True).start()


class Webhook(http.server.BaseHTTPRequestHandler):
    """Receives the calls of the handler `http`. A task may be called again after it took effect: keep
    the Idempotency-Key with the effect, in one transaction of your database; here it is in memory."""

    protocol_version = "HTTP/1.1"
    failures = 0
    calls = {}
    done = set()
    lock = threading.Lock()

    def do_POST(self):
        """One attempt at one task."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            params = json.loads(body or "null")
        except ValueError:
            self.answer(422, {"tallybox-no-retry": "1"})  # ends the task
            return
        if self.path.endswith("/tallybox/config"):
            self.show({"config": params["version"]})
            self.answer(200, {})
            return
        key = self.headers.get("Idempotency-Key", "")
        with self.lock:
            self.calls[key] = self.calls.get(key, 0) + 1
            repeated = key in self.done
            fails = not repeated and self.calls[key] <= self.failures
            if not fails:
                self.done.add(key)
        result = "failed" if fails else "repeated" if repeated else "done"
        self.show({"result": result, "key": key, "params": params,
                   "attempt": int(self.headers.get("tallybox-attempt", 0))})
        self.answer(503 if fails else 200, {})  # 503: tried again

    def show(self, fields):
        """print() alone writes a line and its end in two steps, between which another thread writes."""
        with self.lock:
            print(json.dumps(fields), flush=True)

    def answer(self, status, headers):
        """Without a body."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format, *args):
        pass


def make_client():
    return Client(os.environ.get("TALLYBOX_URL", "http://127.0.0.1:8080"),
                  os.environ["TALLYBOX_TOKEN"])


def receive(port, failures):
    Webhook.failures = failures
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Webhook)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(json.dumps({"listening": server.server_port}), flush=True)
    if os.environ.get("TALLYBOX_GROUP"):
        keep_beating(make_client(), os.environ["TALLYBOX_GROUP"],
                     f"http://127.0.0.1:{server.server_port}", "python")
    server.serve_forever()


def report(count, webhook):
    def work():
        raise OSError("the other system does not answer")

    reporter = Reporter(make_client())
    run = uuid.uuid4().hex[:8]
    for number in range(count):
        print(reporter.attempt(work, {
            "scene": "webhook", "handler": "http", "bizNo": str(number),
            "idempotencyKey": f"{run}/{number}", "options": {"url": webhook},
            "params": {"number": number}}, wait_seconds=0.001), flush=True)
    lost = reporter.close()
    print(json.dumps({"reported": reporter.reported, "refused": reporter.refused,
                      "lost": len(lost), "failedCalls": reporter.failed_calls}))
    return 1 if lost or reporter.refused else 0


def main(words):
    if len(words) in (2, 3) and words[0] == "receive":
        return receive(int(words[1]), int(words[2]) if len(words) == 3 else 0)
    if len(words) == 3 and words[0] == "report":
        return report(int(words[1]), words[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
