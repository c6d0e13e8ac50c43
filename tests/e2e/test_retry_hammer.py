# SPDX-License-Identifier: MIT
"""The proof of the retry queue's order: several sessions claim, finish, give back, park, block and
forget tasks of a few keys for some seconds, while applications insert more in transactions that
overlap and roll back, people cancel and unpark, connections are cut and leases run out. A ledger
outside the database watches: one task of a key at a time, in the order of ids, no attempt written
twice, and nothing left behind.

TALLYBOX_HAMMER_SECONDS  how long (default: 4)"""

import collections
import itertools
import os
import pathlib
import random
import sys
import threading
import time
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import mysql_edge  # noqa: E402
import retry_store  # noqa: E402

SECONDS = float(os.environ.get("TALLYBOX_HAMMER_SECONDS") or 4)
KEYS = 12
BACKLOG = 150
LEASE_MS = 5000
ENDS = {"done": 70, "again": 10, "back": 5, "step": 3, "skip": 4, "park": 3, "block": 3,
        "forget": 2}


class Ledger:
    """What the sessions were told, in the order in which they were."""

    def __init__(self):
        self.lock = threading.Lock()
        self.clock = itertools.count(1)
        self.alive = {}      # key -> {id: when its commit was known}
        self.gone = set()    # ids that have ended, or will soon
        self.doubted = collections.Counter()  # ids that may be gone: how many people ask for that
        self.running = {}    # key -> (id, epoch, when its lease ends)
        self.written = set()  # (id, epoch) whose end was written
        self.faults = []
        self.counts = dict.fromkeys(("inserted", "claimed", "expired", "lost", "retried"), 0)

    def now(self):
        with self.lock:
            return next(self.clock)

    def live(self, one, key, now):
        """Under the lock."""
        if key is not None and one not in self.gone and not self.doubted[one]:
            self.alive.setdefault(key, {})[one] = now

    def doubt(self, one, key):
        """A thread is about to delete it: claims of later ones may be reported before that."""
        with self.lock:
            self.doubted[one] += 1
            self.alive.get(key, {}).pop(one, None)

    def settle(self, one, key, is_gone):
        with self.lock:
            self.doubted[one] -= 1
            if is_gone:
                self.gone.add(one)
            self.live(one, key, next(self.clock))

    def insert(self, tasks):
        with self.lock:
            now = next(self.clock)
            self.counts["inserted"] += len(tasks)
            for one, key in tasks:
                self.live(one, key, now)

    def claim(self, task, asked, until):
        """A session was given the task; it asked at this time of the clock."""
        key = task["key"]
        with self.lock:
            self.counts["claimed"] += 1
            if key is None or until < time.monotonic():
                return  # others may have had it since
            other = self.running.get(key)
            if other and other[2] > time.monotonic():
                self.faults.append(f"{task['id']} of {key} was given away while {other} ran")
            self.counts["expired"] += other is not None
            earlier = [one for one, known in self.alive.get(key, {}).items()
                       if one < task["id"] and known < asked]
            if earlier:
                self.faults.append(f"{task['id']} of {key} ran before {earlier[:5]}")
            self.running[key] = (task["id"], task["epoch"], until)

    def ends(self, tasks, is_over):
        """What is written now; others may be told at once."""
        with self.lock:
            for task in tasks:
                if self.running.get(task["key"], ())[:2] == (task["id"], task["epoch"]):
                    del self.running[task["key"]]
                if is_over:
                    self.gone.add(task["id"])
                    self.alive.get(task["key"], {}).pop(task["id"], None)

    def written_once(self, task, lost):
        with self.lock:
            mark = (task["id"], task["epoch"])
            self.counts["lost"] += lost
            if not lost and mark in self.written:
                self.faults.append(f"the end of {mark} was written twice")
            if not lost:
                self.written.add(mark)

    def backlog(self):
        with self.lock:
            return sum(map(len, self.alive.values()))

    def count(self, name):
        with self.lock:
            self.counts[name] += 1


class Thread(threading.Thread):
    """Works until it is told to stop; what goes wrong is a fault."""

    def __init__(self, case, seed, step):
        super().__init__(daemon=True)
        self.case, self.step, self.rng = case, step, random.Random(seed)

    def run(self):
        try:
            while not self.case.stopping.is_set():
                self.step(self)
        except Exception as reason:  # pylint: disable=broad-except
            with self.case.ledger.lock:
                self.case.ledger.faults.append(f"{self.step}: {reason!r}")


class RetryHammer(retry_store.Case):
    """Sessions of both kinds of claim at once, some through a place where connections are cut."""

    def setUp(self):
        super().setUp()
        self.ledger = Ledger()
        self.stopping = threading.Event()
        server = suite.database()
        self.edge = mysql_edge.Edge(server.host, server.port)
        self.addCleanup(self.edge.close)

    def worker(self, name, **more):
        store = self.store(name, **more)
        return lambda thread: self.work(store, thread.rng)

    def ask(self, store, what, **more):
        """None when the result is unknown."""
        answer = store.ask(what, **more)
        if answer["rc"] == "ok":
            return answer
        if answer["rc"] != "retry":
            raise AssertionError(f"{what}: {answer}")
        self.ledger.count("retried")
        return None

    def work(self, store, rng):
        looked = self.ask(store, "look")
        classes = [one for one in (looked or {"classes": []})["classes"] if one["due"] <= 0]
        if not classes:
            self.stopping.wait(0.005)
            return
        asked, began = self.ledger.now(), time.monotonic()
        lease = 1 if rng.random() < 0.03 else LEASE_MS
        claimed = self.ask(store, "claim", rows=rng.choice((1, 3, 20, 100)), lease=lease,
                           **rng.choice(classes))
        if claimed is None or lease == 1:
            return  # as a process that was killed now
        for task in claimed["tasks"]:
            self.ledger.claim(task, asked, began + lease / 1000)
        if rng.random() < 0.3:
            self.stopping.wait(rng.random() * 0.02)
        self.finish(store, claimed["tasks"], rng, began + lease / 1000)

    def finish(self, store, tasks, rng, until):
        chosen = {}
        for task in tasks:
            end = rng.choices(list(ENDS), list(ENDS.values()))[0]
            if task["key"] is None and end in ("park", "block"):
                end = "skip"
            chosen.setdefault(end, []).append(task)
        chosen.pop("forget", None)
        if time.monotonic() > until:
            return  # no longer ours
        results = []
        for end, some in chosen.items():
            self.ledger.ends(some, end in ("done", "skip"))
            results += [(task, {"id": task["id"], "epoch": task["epoch"],
                                "sceneVersion": task["sceneVersion"], "end": end,
                                "attempts": task["attempts"] + 1, "outcome": "failed",
                                "delay": rng.choice((0, 20))}) for task in some]
        rng.shuffle(results)
        while results:
            answer = self.ask(store, "finish", results=[result for _, result in results])
            if answer:
                for (task, _), lost in zip(results, answer["lost"]):
                    self.ledger.written_once(task, lost)
                return

    def rescuer(self, store):
        def step(thread):
            self.ask(store, "rescue", rows=thread.rng.choice((1, 100)))
            self.stopping.wait(0.2)
        return step

    def end(self, store, rows, again=False):
        """A person deletes tasks in these states, or lets them run again."""
        states = ",".join(str(state) for state in sorted({state for _, _, state in rows}))
        if not again:
            with self.ledger.lock:
                for one, key, _ in rows:
                    self.ledger.gone.add(one)
                    self.ledger.alive.get(key, {}).pop(one, None)
        ids = ",".join(str(one) for one, _, _ in rows)
        while self.ask(store, "end", ids=ids, states=states, again=again) is None:
            pass

    def person(self, store):
        connection = suite.connect(self.stack.name)
        self.addCleanup(connection.close)

        def rows(cursor, where, limit):
            cursor.execute(f"SELECT id, ordering_key, state FROM retry_task WHERE {where} "
                           f"ORDER BY RAND() LIMIT {limit}")
            return cursor.fetchall()

        def step(thread):
            with connection.cursor() as cursor:
                stuck = rows(cursor, "state IN (3, 4)", 3)
                # What is parked can only be let go; an id that runs again must not count as gone.
                for one in stuck:
                    self.end(store, [one], again=one[2] == 3 and thread.rng.random() < 0.5)
                if thread.rng.random() < 0.3:
                    for one in rows(cursor, "state IN (0, 2)", 2):
                        self.cancel(store, one)
            self.stopping.wait(0.02)
        return step

    def cancel(self, store, row):
        """It may be claimed meanwhile, and is not touched then: counted as gone only afterwards."""
        self.ledger.doubt(*row[:2])
        answer = self.ask(store, "end", ids=str(row[0]), states="0,2", again=False)
        # An unknown result stays in doubt.
        if answer:
            self.ledger.settle(*row[:2], bool(answer["ended"]))

    def writer(self, number):
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        counter = itertools.count()

        def transaction(thread):
            tasks = []
            with connection.cursor() as cursor:
                for _ in range(thread.rng.choice((1, 1, 2, 5))):
                    key = thread.rng.choice((None, *(f"k{n}" for n in range(KEYS))))
                    cursor.execute("INSERT INTO retry_task (scene, handler, ordering_key, params) "
                                   "VALUES (%s, 'kafka', %s, %s)",
                                   [thread.rng.choice("ab"), key, f"{number}/{next(counter)}"])
                    tasks.append((cursor.lastrowid, key))
                    if thread.rng.random() < 0.3:
                        self.stopping.wait(thread.rng.choice((0.001, 0.01, 0.05)))
            if thread.rng.random() < 0.2:
                connection.rollback()
                return
            connection.commit()
            self.ledger.insert(tasks)

        def step(thread):
            if self.ledger.backlog() > BACKLOG:
                self.stopping.wait(0.01)
                return
            try:
                transaction(thread)
            except pymysql.MySQLError as reason:
                if reason.args[0] not in retry_store.COLLISIONS:
                    raise
                connection.rollback()
        return step

    def cutter(self, thread):
        self.stopping.wait(0.1 + thread.rng.random() * 0.5)
        kind = thread.rng.randrange(4)
        if kind == 0:
            self.edge.cut_all()
        elif kind == 1:
            self.edge.cut("UPDATE|DELETE|INSERT")
        else:
            self.edge.lose("COMMIT|UPDATE|DELETE" if kind == 2 else "")

    def hammer(self, steps):
        threads = [Thread(self, seed, step) for seed, step in enumerate(steps)]
        for thread in threads:
            thread.start()
        self.stopping.wait(SECONDS)
        try:
            suite.wait_for("claims enough to mean something",
                           lambda: self.ledger.counts["claimed"] > 50 * SECONDS ** 0.5, 60)
        finally:
            self.stopping.set()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), thread.step)

    def drain(self):
        """All tasks end, although only leases that run out help them."""
        store = self.store("last")
        self.ledger.running.clear()
        self.wait_unlocked()
        self.stack.sql("UPDATE retry_task SET lease_until = UTC_TIMESTAMP(3) WHERE state = 1")
        while store.do("rescue", rows=100)["count"]:
            continue
        self.assertEqual(self.stack.sql(
            "SELECT q.id FROM retry_task q WHERE q.state = 2 AND NOT EXISTS (SELECT 1 FROM "
            "retry_task b WHERE b.order_hash = q.order_hash AND (b.state IN (1, 3, 4) OR "
            "b.id < q.id))"), [])
        for row in self.stack.sql("SELECT id, ordering_key, state FROM retry_task WHERE state "
                                  "IN (3, 4)"):
            self.end(store, [row])
        self.stack.sql("UPDATE retry_task SET next_at = UTC_TIMESTAMP(3) WHERE state = 0")
        rounds = 0
        while tasks := store.claim(rows=1000):
            asked = self.ledger.now()
            for task in tasks:
                self.ledger.claim(task, asked, time.monotonic() + 60)
            self.ledger.ends(tasks, True)
            self.assertEqual(set(store.finish(tasks)), {False})
            rounds += 1
        self.assertEqual(self.states(), {})
        return rounds

    def run_hammer(self, workers):
        steps = [*workers, self.rescuer(self.store("rescuer")), self.person(self.store("person")),
                 self.person(self.store("person")), self.cutter]
        steps += [self.writer(number) for number in range(4)]
        self.hammer(steps)
        rounds = self.drain()
        print(f"    {self.ledger.counts}, drained in {rounds} rounds", file=sys.stderr)
        self.assertEqual(self.ledger.faults[:5], [], len(self.ledger.faults))

    def test_order_holds_with_skip_locked(self):
        self.run_hammer([self.worker("a"), self.worker("b"), self.worker("c"),
                         self.worker("d", port=self.edge.port),
                         self.worker("e", port=self.edge.port)])

    def test_order_holds_with_compare_and_set(self):
        self.run_hammer([self.worker("a", compare_and_set=True),
                         self.worker("b", compare_and_set=True),
                         self.worker("c", compare_and_set=True),
                         self.worker("d", port=self.edge.port, compare_and_set=True)])

    def test_order_holds_with_both(self):
        self.run_hammer([self.worker("a"), self.worker("b", compare_and_set=True),
                         self.worker("c", port=self.edge.port),
                         self.worker("d", port=self.edge.port, compare_and_set=True)])


if __name__ == "__main__":
    unittest.main()
