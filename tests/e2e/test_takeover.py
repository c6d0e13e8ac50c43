# SPDX-License-Identifier: MIT
"""Work moves on when its holder is killed, stopped or frozen, and a holder that wakes up too late
does no harm: relays and their lanes. TALLYBOX_ROUNDS=20 repeats what is timed or raced more often;
the times are printed."""

import itertools
import os
import pathlib
import signal
import statistics
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

ROUNDS = int(os.environ.get("TALLYBOX_ROUNDS") or 3)
LEASE_S = 2
KEYS = 8
# What a loaded machine may add to a time-out.
NOISE_S = 10
TRIES_MAX = 10


def say_times(what, seconds):
    """For a person, and for notes."""
    print(f"\n{what}: n={len(seconds)} median={statistics.median(seconds):.2f} s "
          f"max={max(seconds):.2f} s", file=sys.stderr)


class RelayCase(suite.Case):
    """Helpers for tests with several relays."""

    settings = {"relay.lease_ms": LEASE_S * 1000, "relay.send_timeout_ms": 1000,
                "relay.topic_partitions": 2}
    numbers = itertools.count(1)

    def rows(self, count):
        """Rows of a few keys; the payload is their place in the whole."""
        return [{"id": str(uuid.uuid4()), "aggregatetype": "moved", "aggregateid": f"k{n % KEYS}",
                 "type": "Moved", "payload": str(n)}
                for n in itertools.islice(self.numbers, count)]

    def owner(self):
        return self.stack.number("SELECT owner FROM relay_lease WHERE lane = 'outbox'")

    def holder(self, relays):
        """The relay that holds the lane, and its name there; waits until there is one."""
        def look():
            name = self.owner()
            return next(((one, name) for one in relays if one.alive() and name
                         and f"-{one.process.pid}-" in name), None)
        return suite.wait_for("a relay to hold the lane", look)

    def wait_moved(self, before, since, seconds):
        """How long after `since` another relay held the lane."""
        suite.wait_for("another relay to hold the lane",
                       lambda: self.owner() not in (before, ""), seconds, every=0.02)
        return time.monotonic() - since

    def check_topic(self, written):
        """Nothing lost, and every key in order, judged by the first record of each id. Returns how
        many records were repeats."""
        self.stack.wait_drained(60)
        seen, last = set(), {}
        records = self.stack.records(f"event.{self.stack.name}.moved")
        for record in records:
            name = record.headers["id"]
            if name in seen:
                continue
            seen.add(name)
            number = int(record.value)
            self.assertGreater(number, last.get(record.key, 0), f"key {record.key} is out of order")
            last[record.key] = number
        self.assertEqual({row["id"] for row in written} - seen, set(), "rows were lost")
        return len(records) - len(seen)


class Lanes(RelayCase):
    """Lanes move to another relay in time, and as few as possible."""

    def test_a_killed_relay_is_followed_within_the_lease(self):
        relays = [self.start("relay"), self.start("relay")]
        times, written = [], []
        for _ in range(ROUNDS):
            holder, before = self.holder(relays)
            began = time.monotonic()
            holder.kill()
            times.append(self.wait_moved(before, began, LEASE_S + NOISE_S))
            written += self.rows(10)
            self.stack.append(written[-10:])
            self.stack.wait_drained()
            holder.start().wait_ready()
        say_times(f"take-over after a kill, lease {LEASE_S} s", times)
        self.check_topic(written)

    def test_a_stopped_relay_hands_over_at_once(self):
        slow = {"relay.lease_ms": 60000, "relay.send_timeout_ms": 10000}
        relays = [self.start("relay", sets=slow), self.start("relay", sets=slow)]
        times = []
        for _ in range(ROUNDS):
            holder, before = self.holder(relays)
            began = time.monotonic()
            self.assertEqual(holder.terminate(), 0)
            times.append(self.wait_moved(before, began, 20))
            holder.start().wait_ready()
        say_times("hand-over after a clean stop, lease 60 s", times)


class Frozen(RelayCase):
    """A relay that is stopped in the middle of its work and goes on when another one has taken its
    lane over: it loses nothing, deletes nothing of others and reorders no key."""

    settings = {**RelayCase.settings, "relay.lease_ms": 3000, "relay.send_timeout_ms": 2500}

    def freeze(self, role):
        role.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.thaw, role)

    def thaw(self, role):
        if role.alive():
            role.process.send_signal(signal.SIGCONT)

    def setUp(self):
        self.relays = [self.start("relay"), self.start("relay")]
        self.written = []
        self.stop = threading.Event()
        self.writer = None

    def write(self):
        """Rows without a rest, until told to stop."""
        connection = suite.connect(self.stack.name, autocommit=False)
        try:
            while not self.stop.is_set():
                rows = self.rows(20)
                self.stack.append(rows, connection=connection)
                connection.commit()
                self.written += rows
        finally:
            connection.close()

    def load(self):
        self.stop.clear()
        self.writer = threading.Thread(target=self.write)
        self.writer.start()
        self.addCleanup(self.load_end)

    def load_end(self):
        self.stop.set()
        if self.writer:
            self.writer.join(60)
        self.writer = None

    def busy_holder(self):
        """The relay that holds the lane and moves rows, and its name there. Each may lose the lane on
        a busy machine."""
        counts = {}

        def look():
            relay, name = self.holder(self.relays)
            count = relay.metric("tallybox_relay_published_total")
            return count > counts.setdefault(name, count) + 50 and (relay, name)
        return suite.wait_for("rows to move", look)

    def test_a_relay_frozen_under_load_wakes_up_after_its_lease(self):
        for turn in range(ROUNDS):
            self.load()
            holder, before = self.busy_holder()
            self.freeze(holder)
            self.wait_moved(before, time.monotonic(), 3 + NOISE_S)
            # At once, or when the successor is through with what it found.
            if turn % 2:
                suite.wait_for("the successor to publish", lambda: self.stack.number(
                    "SELECT COUNT(*) FROM outbox") < 500)
            self.thaw(holder)
            suite.wait_for("the frozen one to notice",
                           lambda: holder.metric("tallybox_relay_lease_held") == 0)
            self.load_end()
        repeats = self.check_topic(self.written)
        print(f"\nfrozen under load: rounds={ROUNDS} rows={len(self.written)} repeats={repeats}",
              file=sys.stderr)

    def test_records_that_a_frozen_relay_still_holds_are_only_repeats(self):
        """The broker stands still first, so that the producer's queue is full of records that were
        taken and not sent when the relay is frozen."""
        broker = int(suite.kafka().env["PID"])
        self.addCleanup(os.kill, broker, signal.SIGCONT)
        late = 0
        for _ in range(ROUNDS):
            self.load()
            holder, before = self.full_holder(broker)
            self.load_end()
            os.kill(broker, signal.SIGCONT)
            self.wait_moved(before, time.monotonic(), 3 + NOISE_S)
            sent = self.repeats_so_far()
            self.thaw(holder)
            suite.wait_for("the frozen one to notice",
                           lambda: holder.metric("tallybox_relay_lease_held") == 0)
            self.stack.wait_drained(60)
            late += self.repeats_so_far() > sent
        repeats = self.check_topic(self.written)
        print(f"\nfrozen with a full queue: rounds={ROUNDS} rows={len(self.written)} "
              f"repeats={repeats} rounds with late repeats={late}", file=sys.stderr)

    def full_holder(self, broker):
        """As busy_holder(), frozen with a full queue, because the broker is frozen. It gives the
        rows up after a while: a look that comes too late finds none, and the test begins again."""
        for _ in range(TRIES_MAX):
            holder, name = self.busy_holder()
            given_up = holder.metric("tallybox_relay_resets_total")
            os.kill(broker, signal.SIGSTOP)
            suite.wait_for("rows in the producer's hands, or given up", lambda: (
                holder.metric("tallybox_relay_inflight_rows") >= 100
                or holder.metric("tallybox_relay_resets_total") > given_up
                or holder.metric("tallybox_relay_lease_held") == 0), every=0.01)
            if holder.metric("tallybox_relay_inflight_rows") >= 100:
                self.freeze(holder)
                return holder, name
            os.kill(broker, signal.SIGCONT)
        raise AssertionError("the machine is too slow to see a full queue")

    def repeats_so_far(self):
        ids = [one.headers["id"] for one in self.stack.records(f"event.{self.stack.name}.moved")]
        return len(ids) - len(set(ids))


if __name__ == "__main__":
    unittest.main()
