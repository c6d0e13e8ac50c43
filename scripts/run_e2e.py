#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests/TIER/test_*.py: run_e2e.py TIER COUNT-FILE DB=PROGRAM... [NAME]

Most of what these tests do is to wait, so several are run at a time: the classes of each database
are shared out among TALLYBOX_TEST_WORKERS processes (default: 3 for e2e, 1 for others), all databases
at once, each process with servers, ports and files of its own (in TALLYBOX_WORK). What a class
prints is shown in one piece when it has ended. "passed failed skipped" goes to COUNT-FILE. Each
difference between what was skipped and tests/skips.txt counts as a failed test.

TALLYBOX_TEST_CLASSES may be K/N, the Kth of N parts of the others that take about as long, or long,
those that say so. Without it and without a NAME the long ones are left out.

A class may say of itself
  long = True           it takes minutes: for ./dev test long
  any_database = True   it does not touch the database: one of them is enough
  database = "NAME"     it is of this database alone: mariadb or mysql
  needs = "PART"        it is left out when TALLYBOX_TEST_WITHOUT names this part
  seconds = N           it takes about so long, if more than 10: the longest are begun first"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import e2e_worker
import parts
import skips

WORKER = os.path.abspath(e2e_worker.__file__)
SHOWN_MAX = 30  # classes in the table of the slowest
SECONDS_USUAL = 10


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
        return {"good": 0, "bad": 1, "skipped": 0, "ran": [], "skips": {}, "cpu_s": 0,
                "text": f"{text}\nFAILED: the process that ran {name} ended with {code}\n"}

    def end(self):
        """It sees the end of its orders, ends its servers and goes."""
        if self.process is None:
            return
        self.process.stdin.close()
        self.process.wait()
        self.process = None


def cpu_ticks():
    """(busy, all) of this machine's cores since it was started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def seconds_of(one):
    """About how long a class takes; most of those that do not say it take so long."""
    return getattr(one, "seconds", SECONDS_USUAL)


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
    weights = {key: seconds_of(one) for key, one in found.items()}
    return {key: found[key] for key in parts.choose(weights, what)}


class Suite:
    """All classes, who runs them, and what came of it."""

    def __init__(self, tier, programs, name):
        self.tier = tier
        self.counts = {"good": 0, "bad": 0, "skipped": 0}
        self.ran = {db: set() for db in programs}
        self.skips = {db: {} for db in programs}
        self.times = []  # (seconds, seconds of CPU, class, database)
        self.lock = threading.Lock()  # of these and of what is printed
        self.ticks = cpu_ticks()
        suites = e2e_worker.discover(tier, *name)
        # A NAME hides the others.
        self.known = None if name else {test.id() for suite in suites.values()
                                        for test in e2e_worker.tests_in(suite)}
        classes = chosen({key: type(next(e2e_worker.tests_in(suite)))
                          for key, suite in suites.items()}, name)
        order = sorted(classes, key=lambda key: -seconds_of(classes[key]))
        first = next(iter(programs))
        self.left = {db: queue.SimpleQueue() for db in programs}
        for db, left in self.left.items():
            for key in order:
                alone = db == first or not getattr(classes[key], "any_database", False)
                if alone and getattr(classes[key], "database", db) == db:
                    left.put(key)
        # Chaos needs the machine: one database at a time.
        self.rounds = [list(programs)] if tier == "e2e" else [[db] for db in programs]
        self.stopping = False
        count = int(os.environ.get("TALLYBOX_TEST_WORKERS") or (3 if tier == "e2e" else 1))
        # For few classes, a further set of servers does not pay, unless each takes minutes.
        long = os.environ.get("TALLYBOX_TEST_CLASSES") == "long"
        count = min(count, max(1, len(classes) - 1) if long else (len(classes) + 2) // 3)
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
            seconds = time.monotonic() - began
            self.times.append((seconds, answer["cpu_s"], key, worker.db))
            print(f"\n== {key} ({worker.label}, {seconds:.1f} s)\n{answer['text']}", flush=True)

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

    def busy_percent(self):
        """How busy the machine's cores were: near 100, more classes at a time would not help."""
        busy, every = (now - before for now, before in zip(cpu_ticks(), self.ticks))
        return 100 * busy / max(1, every)

    def show_times(self):
        """Where the time went, and which classes wait: CPU is that of the tests and of the programs
        that they ran to the end, without the servers."""
        print(f"\nThe slowest of {len(self.times)} classes, {sum(one[0] for one in self.times):.0f} s"
              f" in all, with {self.busy_percent():.0f} % of the machine's CPU:"
              f"\n{'seconds':>8} {'CPU':>6}")
        for seconds, cpu_s, key, db in sorted(self.times, reverse=True)[:SHOWN_MAX]:
            print(f"{seconds:8.1f} {cpu_s:6.1f}  {key} ({db})")
        print(flush=True)

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
        suite.show_times()
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
