#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Posts the votes of a CSV file to the API over several connections; every 10th is also taken back
and given again. Repeats what the API answers with 429 or 503: voting is idempotent."""

import argparse
import collections
import gzip
import http.client
import json
import sys
import threading
import time

ARRAY = 100  # votes per request
TRIES = 120  # per request; a refused one waits for Retry-After in between


def read_votes(path):
    """The whole demo in order: (voter, content, voting)."""
    votes = []
    with gzip.open(path, "rt", encoding="ascii") as lines:
        next(lines)
        for number, line in enumerate(lines, 1):
            voter, content = (int(word) for word in line.split(","))
            votes.append((voter, content, 1))
            if number % 10 == 0:
                votes.append((voter, content, 0))
                votes.append((voter, content, 1))
    return votes


class Progress:
    """A bar on a terminal, a line every few seconds otherwise."""

    def __init__(self, total):
        self.total = total
        self.done = 0
        self.changed = 0
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.shown = 0.0

    def add(self, votes, changed):
        with self.lock:
            self.done += votes
            self.changed += changed
            now = time.monotonic()
            if now - self.shown >= (0.2 if sys.stderr.isatty() else 3):
                self.shown = now
                self.show(now)

    def show(self, now):
        rate = self.done / max(now - self.started, 0.001)
        if sys.stderr.isatty():
            full = 40 * self.done // self.total
            bar = "#" * full + "." * (40 - full)
            print(f"\r  [{bar}] {self.done:,} of {self.total:,} votes, {rate:,.0f}/s ",
                  end="", file=sys.stderr, flush=True)
        else:
            print(f"  {self.done:,} of {self.total:,} votes, {rate:,.0f}/s", file=sys.stderr)


def post(connection, body):
    """One request; None means: ask again later."""
    try:
        connection.request("POST", "/v1/votes", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return None
    if answer.status in (429, 503):
        time.sleep(min(int(answer.getheader("Retry-After", "1")), 2))
        return None
    if answer.status != 200:
        raise SystemExit(f"the API answered {answer.status}: {text.decode()[:300]}")
    return json.loads(text)


def send_all(port, batches, progress, failures):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        while batches:
            batch = batches.popleft()
            body = json.dumps([{"voterId": v, "contentId": c, "voting": g} for v, c, g in batch])
            for _ in range(TRIES):
                items = post(connection, body)
                if items is not None:
                    break
                time.sleep(0.25)
            else:
                raise SystemExit("the API did not take a request in time")
            bad = [item for item in items if "error" in item]
            if bad:
                raise SystemExit(f"the API refused a vote: {bad[0]}")
            progress.add(len(batch), sum(item["changed"] for item in items))
    except SystemExit as reason:
        failures.append(str(reason))
    except IndexError:
        pass  # another connection took the last batch
    finally:
        connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--result", required=True, help="where the summary goes, as JSON")
    options = parser.parse_args()

    votes = read_votes(options.file)
    batches = collections.deque(votes[at:at + ARRAY] for at in range(0, len(votes), ARRAY))
    # A vote, its undo and its return must stay in one request: requests have no order.
    for index in range(len(batches) - 1):
        while batches[index + 1] and batches[index + 1][0][:2] == batches[index][-1][:2]:
            batches[index].append(batches[index + 1].pop(0))
    batches = collections.deque(batch for batch in batches if batch)

    progress = Progress(len(votes))
    failures = []
    threads = [threading.Thread(target=send_all, args=(options.port, batches, progress, failures))
               for _ in range(options.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - progress.started
    progress.show(time.monotonic())
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if failures:
        raise SystemExit(failures[0])
    with open(options.result, "w", encoding="ascii") as out:
        json.dump({"votes": progress.done, "changed": progress.changed, "seconds": seconds}, out)


if __name__ == "__main__":
    main()
