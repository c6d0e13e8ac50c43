# SPDX-License-Identifier: MIT
"""The hard part of an outbox: transactions that commit in another order than they got their seq,
roll back, stay open for long and insert several rows at once, while the relay is killed. Not one
committed row may be lost, none that was rolled back published, and no key overtaken."""

import collections
import pathlib
import random
import sys
import threading
import time
import unittest
import uuid

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

WRITERS = 16
KEYS = 60
SECONDS = 10
# What a collision of two writers looks like: they roll back and go on.
COLLISIONS = (1205, 1213, 1020)


class Writer(threading.Thread):
    """Overlapping transactions until it is stopped; keeps a ledger of what it committed."""

    def __init__(self, stack, number, tables, stop):
        super().__init__(name=f"writer-{number}")
        self.rng = random.Random(number)
        self.number = number
        self.tables = tables
        self.stop = stop
        self.database = stack.name
        self.committed = []    # (key, n, event id)
        self.rolled_back = []  # event ids
        self.trouble = None

    def run(self):
        try:
            connection = suite.connect(self.database, autocommit=False)
            with connection.cursor() as cursor:
                # Order is defined by the row that both lock; a snapshot of before must not rule.
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            if self.number == 0:
                self.transaction(connection, hold=5)
            while not self.stop.is_set():
                self.transaction(connection)
            connection.close()
        except Exception as reason:  # pylint: disable=broad-except
            self.trouble = reason

    def transaction(self, connection, hold=None):
        """Locks keys, takes their next numbers, appends their events, then commits or not."""
        keys = sorted(self.rng.sample(range(KEYS), self.rng.choice((1, 1, 1, 2, 3))))
        events = []
        try:
            with connection.cursor() as cursor:
                for key in keys:
                    events += self.append(cursor, key)
                self.hold(hold)
            if self.rng.random() < 0.2:
                connection.rollback()
                self.rolled_back += [event[2] for event in events]
            else:
                connection.commit()
                self.committed += events
        except pymysql.MySQLError as reason:
            if reason.args[0] not in COLLISIONS:
                raise
            connection.rollback()
            self.rolled_back += [event[2] for event in events]

    def append(self, cursor, key):
        """1 to 4 events of one key, in one INSERT."""
        cursor.execute("UPDATE counter SET n = n + 10 WHERE k = %s", [key])
        cursor.execute("SELECT n FROM counter WHERE k = %s", [key])
        base = cursor.fetchone()[0]
        events = [(key, base + n, str(uuid.uuid4())) for n in range(self.rng.randint(1, 4))]
        table = self.tables[key % len(self.tables)]
        rows = ", ".join(["(%s, 'step', %s, 'Step', %s)"] * len(events))
        values = [value for key, n, name in events for value in (name, f"key-{key}", str(n))]
        cursor.execute(f"INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload) "
                       f"VALUES {rows}", values)
        return events

    def hold(self, seconds):
        """Most transactions are short; some stay open."""
        if seconds is None:
            seconds = self.rng.choice((0, 0, 0.002, 0.002, 0.02, 0.2))
        time.sleep(seconds)


class Gaps(suite.Case):
    """Run with settings that look for gaps often and give them up early."""

    settings = {"relay.gap_wait_ms": 1000, "relay.full_scan_ms": 2000, "relay.lease_ms": 2000,
                "relay.send_timeout_ms": 1000}
    lanes = ("outbox",)
    relay_count = 1

    def setUp(self):
        self.stack.sql("CREATE TABLE counter (k INT PRIMARY KEY, n BIGINT NOT NULL)")
        self.stack.sql("INSERT INTO counter VALUES " + ", ".join(f"({k}, 0)" for k in range(KEYS)))
        for lane in self.lanes[1:]:
            self.stack.sql(f"CREATE TABLE {lane} LIKE outbox")

    def relays(self):
        return [self.start("relay", sets={"relay.lanes": ",".join(self.lanes)})
                for _ in range(self.relay_count)]

    def run_writers(self, relays):
        """All writers for a while, two kills in between; the writers, with their ledgers."""
        stop = threading.Event()
        writers = [Writer(self.stack, number, self.lanes, stop) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            for n in range(2):
                time.sleep(SECONDS / 3)
                relay = relays[n % len(relays)]
                relay.kill()
                relay.start().wait_up()
            time.sleep(SECONDS / 3)
            suite.wait_for("rows enough to mean something", lambda: self.enough(writers), 120)
        finally:
            stop.set()
            for writer in writers:
                writer.join(60)
        troubles = [writer.trouble for writer in writers if writer.trouble]
        self.assertEqual(troubles, [])
        return writers

    @staticmethod
    def enough(writers):
        return (any(writer.trouble for writer in writers)
                or sum(len(writer.committed) for writer in writers) > 1000
                and sum(len(writer.rolled_back) for writer in writers) > 100)

    def check(self, writers):
        committed = {name: (key, n) for writer in writers for key, n, name in writer.committed}
        rolled_back = {name for writer in writers for name in writer.rolled_back}
        seen, order = set(), collections.defaultdict(list)
        for record in self.stack.records(f"event.{self.stack.name}.step"):
            name = record.headers["id"]
            if name not in seen:
                seen.add(name)
                order[record.key].append(int(record.value))
        self.assertEqual(len(set(committed) - seen), 0, "committed rows were lost")
        self.assertEqual(len(rolled_back & seen), 0, "rolled-back rows were published")
        self.assertEqual(seen - set(committed), set())
        overtaken = sum(later < earlier for numbers in order.values()
                        for earlier, later in zip(numbers, numbers[1:]))
        self.assertEqual(overtaken, 0, "rows were overtaken by their own key's successors")

    def check_way(self):
        writers = self.run_writers(self.relays())
        for lane in self.lanes:
            self.stack.wait_drained(60, lane)
        self.check(writers)


class OneLane(Gaps):
    """The usual case."""

    def test_no_row_is_lost_or_overtaken_while_the_relay_is_killed(self):
        self.check_way()


class TwoLanes(Gaps):
    """Two tables, two relays that share them and take over from each other."""

    lanes = ("outbox", "outbox_1")
    relay_count = 2

    def test_no_row_is_lost_or_overtaken_while_two_relays_are_killed(self):
        self.check_way()


class Unreadable(suite.Case):
    """MySQL cannot show its open transactions while one runs a statement with bytes that are no
    text: that concerns the gaps alone."""

    settings = {"relay.gap_wait_ms": 1000, "relay.lease_ms": 2000, "relay.send_timeout_ms": 1000}
    roles = ("relay",)

    def hold(self, connection):
        """An open transaction, seen as one, that waits for a lock of ours."""
        self.append("late", connection)
        with connection.cursor() as cursor:
            cursor.execute("SELECT LENGTH(%s), GET_LOCK('unreadable', 60)", [b"\xa1\xffV&\x83"])
        connection.commit()

    def waits(self):
        try:
            return self.stack.number("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                     "state = 'User lock'")
        except pymysql.MySQLError as reason:
            # MySQL cannot show this list either.
            return reason.args[0] == 3854

    def let_gaps_be_closed(self, writer):
        """The relay has seen the list of transactions once this is done."""
        self.append("gone", writer)
        self.append("soon")
        writer.rollback()
        suite.wait_for("the gap to be closed", lambda: self.relay.metric(
            "tallybox_relay_gaps_closed_total"))

    def append(self, key, connection=None):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "step", "aggregateid": key,
                            "type": "Step", "payload": "1"}], connection=connection)

    def test_a_statement_with_bytes_that_are_no_text_does_not_trouble_the_lane(self):
        lock, writer = suite.connect(), suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(lock.close)
        self.addCleanup(writer.close)
        self.let_gaps_be_closed(writer)
        lock.cursor().execute("SELECT GET_LOCK('unreadable', 0)")
        holder = threading.Thread(target=self.hold, args=(writer,))
        holder.start()
        suite.wait_for("its statement to wait", self.waits)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            self.append("soon")
            self.stack.wait_drained()
        self.assertTrue(holder.is_alive())
        lock.cursor().execute("SELECT RELEASE_LOCK('unreadable')")
        holder.join(30)
        self.stack.wait_drained()
        self.assertNotIn("reason=cannot_read", self.relay.log_text())
        keys = {record.key for record in self.stack.records(f"event.{self.stack.name}.step")}
        self.assertEqual(keys, {b"soon", b"late"})


if __name__ == "__main__":
    unittest.main()
