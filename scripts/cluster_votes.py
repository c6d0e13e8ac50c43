#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends votes to the cluster through its balancer and prints what was accepted. Each run has voters of
its own, so every vote is new. What is answered 429 or 503, and what gets no answer, is sent again:
voting is idempotent."""

import argparse
import http.client
import json
import random
import sys
import threading
import time

ARRAY = 50         # votes per request
WAIT_SECONDS = 120 # for one request, with its repeats


class Ledger:
    """What the API has accepted, by content."""

    def __init__(self, out):
        self.lock = threading.Lock()
        self.out = out
        self.accepted = 0
        self.changed = 0
        self.repeats = 0
        self.contents = set()

    def add(self, votes, items, repeats):
        with self.lock:
            self.repeats += repeats
            for (voter, content), item in zip(votes, items):
                if "error" in item:
                    raise SystemExit(f"the API refused a vote: {item}")
                self.accepted += 1
                self.changed += bool(item["changed"])
                self.contents.add(content)
                if self.out:
                    print(json.dumps({"voter": voter, "content": content,
                                      "eventId": item.get("eventId")}), file=self.out)


class Sender:
    """One connection. Its requests go to whichever server the balancer chooses."""

    def __init__(self, options, token, ledger):
        self.options = options
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self.ledger = ledger
        self.connection = None

    def post(self, body):
        """The answer's items, or None: send it again."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.options.port,
                                                             timeout=30)
            self.connection.request("POST", "/v1/votes", body, self.headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            return None
        if answer.status == 200:
            return json.loads(text)
        if answer.status in (429, 502, 503, 504):
            return None
        raise SystemExit(f"the API answered {answer.status}: {text.decode(errors='replace')[:300]}")

    def send(self, votes):
        body = json.dumps([{"voterId": voter, "contentId": content, "voting": 1}
                           for voter, content in votes])
        deadline = time.monotonic() + WAIT_SECONDS
        repeats = 0
        while (items := self.post(body)) is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"the API took no vote for {WAIT_SECONDS} s")
            repeats += 1
            time.sleep(0.2)
        self.ledger.add(votes, items, repeats)


def work(sender, batches, failures):
    try:
        while batches:
            sender.send(batches.pop())
    except IndexError:
        pass  # another connection took the last batch
    except SystemExit as reason:
        failures.append(str(reason))


def positive(text):
    number = int(text)
    if not 1 <= number <= 10_000_000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 10000000")
    return number


def main():
    parser = argparse.ArgumentParser(prog="./dev cluster vote", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--token-file", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=positive, default=1000)
    parser.add_argument("--contents", type=positive, default=100)
    parser.add_argument("--connections", type=positive, default=4)
    parser.add_argument("--ledger", help="a file that gets each accepted vote as a line of JSON")
    options = parser.parse_args()

    with open(options.token_file, encoding="ascii") as file:
        token = file.read().strip()
    first = random.SystemRandom().randrange(1, 1 << 50)
    votes = [(first + number, 1 + number % options.contents) for number in range(options.count)]
    batches = [votes[at:at + ARRAY] for at in range(0, len(votes), ARRAY)]
    out = open(options.ledger, "w", encoding="ascii") if options.ledger else None
    ledger = Ledger(out)
    failures = []
    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(Sender(options, token, ledger), batches, failures))
               for _ in range(options.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    if out:
        out.close()
    print(f"accepted {ledger.accepted} votes on {len(ledger.contents)} contents in {seconds:.1f} s "
          f"({ledger.accepted / max(seconds, 0.001):.0f} a second), changed {ledger.changed}, "
          f"repeated requests {ledger.repeats}")
    if failures:
        print(f"error: {failures[0]}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
