#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests/TIER/test_*.py: run_e2e.py TIER COUNT-FILE DB=PROGRAM... [NAME]

Most of what these tests do is to wait, so several are run at a time: the classes of each database
are shared out among TALLYBOX_TEST_WORKERS processes (default: 2 for e2e, 1 for others), all databases
at once, each process with servers, ports and files of its own (in TALLYBOX_WORK). What a class
prints is shown in one piece when it has ended. "passed failed skipped" goes to COUNT-FILE. Each
difference between what was skipped and tests/skips.txt counts as a failed test.

TALLYBOX_TEST_CLASSES may be K/N, every Nth class of the others, or long, those that say so. Without
it and without a NAME the long ones are left out.

A class may say of itself
  long = True           it takes minutes: for ./dev test long
  any_database = True   it does not touch the database: one of them is enough
  needs = "PART"        it is left out when TALLYBOX_TEST_WITHOUT names this part
  seconds = N           it takes about so long: the longest are begun first"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import e2e_worker
import skips

WORKER = os.path.abspath(e2e_worker.__file__)


class Worker:
    """One process that runs classes, one after the other."""

    def __init__(self, tier, name, db, program, number):
        self.db = db
        self.label = f"{db} {number}"
        self.folder = os.path.join(os.environ["TALLYBOX_WORK"], f"{db}.{number}")
        self.output = os.path.join(self.folder, "output")
        self.words = [sys.executable, WORKER, tier, self.output, *name]
        self.env = {**os.environ, "TALLYBOX_DB": db, "TALLYBOX_BIN": program,
                    "TALLYBOX_WORK": self.folder}
        self.process = None

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        self.process = subprocess.Popen(self.words, env=self.env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, name):
        """The answer for one class; a process that has died is a failure of it, and replaced."""
        if self.process is None:
            self.start()
        try:
            print(name, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        try:
            text = e2e_worker.said(self.output)
        except OSError:
            text = ""
        return {"good": 0, "bad": 1, "skipped": 0, "ran": [], "skips": {},
                "text": f"{text}\nFAILED: the process that ran {name} ended with {code}\n"}

    def end(self):
        """It sees the end of its orders, ends its servers and goes."""
        if self.process is None:
            return
        self.process.stdin.close()
        self.process.wait()
        self.process = None


def chosen(classes, name):
    """Those that this run is for."""
    without = os.environ.get("TALLYBOX_TEST_WITHOUT", "").split()
    classes = {key: one for key, one in classes.items()
               if getattr(one, "needs", None) not in without}
    what = os.environ.get("TALLYBOX_TEST_CLASSES", "")
    if name and not what:
        return classes
    found = {key: one for key, one in classes.items()
             if getattr(one, "long", False) == (what == "long")}
    if "/" not in what:
        return found
    part, parts = map(int, what.split("/"))
    return {key: found[key] for key in sorted(found)[part - 1::parts]}


class Suite:
    """All classes, who runs them, and what came of it."""

    def __init__(self, tier, programs, name):
        self.tier = tier
        self.counts = {"good": 0, "bad": 0, "skipped": 0}
        self.ran = {db: set() for db in programs}
        self.skips = {db: {} for db in programs}
        self.lock = threading.Lock()  # of counts and of what is printed
        suites = e2e_worker.discover(tier, *name)
        # A NAME hides the others.
        self.known = None if name else {test.id() for suite in suites.values()
                                        for test in e2e_worker.tests_in(suite)}
        classes = chosen({key: type(next(e2e_worker.tests_in(suite)))
                          for key, suite in suites.items()}, name)
        order = sorted(classes, key=lambda key: -getattr(classes[key], "seconds", 0))
        first = next(iter(programs))
        self.left = {db: queue.SimpleQueue() for db in programs}
        for db, left in self.left.items():
            for key in order:
                if db == first or not getattr(classes[key], "any_database", False):
                    left.put(key)
        # Chaos needs the machine: one database at a time.
        self.rounds = [list(programs)] if tier == "e2e" else [[db] for db in programs]
        self.stopping = False
        count = int(os.environ.get("TALLYBOX_TEST_WORKERS") or (2 if tier == "e2e" else 1))
        # For one class or two, a second set of servers does not pay.
        count = min(count, (len(classes) + 2) // 3)
        self.workers = [Worker(tier, name, db, program, number)
                        for db, program in programs.items() for number in range(1, 1 + count)]

    def one(self, worker, key):
        began = time.monotonic()
        answer = worker.run(key)
        with self.lock:
            for what in self.counts:
                self.counts[what] += answer[what]
            self.ran[worker.db].update(answer["ran"])
            self.skips[worker.db].update(answer["skips"])
            print(f"\n== {key} ({worker.label}, {time.monotonic() - began:.1f} s)\n"
                  f"{answer['text']}", flush=True)

    def share(self, worker):
        """A thread per process: gives the next class to a worker that is idle."""
        while not self.stopping:
            try:
                key = self.left[worker.db].get_nowait()
            except queue.Empty:
                return
            self.one(worker, key)

    def run(self):
        for dbs in self.rounds:
            workers = [worker for worker in self.workers if worker.db in dbs]
            self.all(workers, self.share)
            self.all(workers, Worker.end)

    def check_skips(self):
        for db, ran in self.ran.items():
            for sentence in skips.check(self.tier, db, ran, self.skips[db], self.known):
                self.counts["bad"] += 1
                print(f"FAILED: {sentence}", flush=True)

    @staticmethod
    def all(workers, work):
        """work(worker) for all of them at the same time."""
        threads = [threading.Thread(target=work, args=(worker,), daemon=True)
                   for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def interrupt(self):
        """Everybody cleans up, at the same time."""
        self.stopping = True
        running = [worker.process for worker in self.workers if worker.process is not None]
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def main():
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tier, counts, *rest = sys.argv[1:]
    programs = dict(word.split("=", 1) for word in rest if "=" in word)
    suite = Suite(tier, programs, [word for word in rest if "=" not in word])
    try:
        suite.run()
        suite.check_skips()
    except KeyboardInterrupt:
        suite.interrupt()
        raise
    with open(counts, "w", encoding="utf-8") as out:
        print(*suite.counts.values(), file=out)
    return 1 if suite.counts["bad"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
