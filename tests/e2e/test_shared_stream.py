# SPDX-License-Identifier: MIT
"""Binlog lanes of one relay share one connection to the binary log: they join it when they have caught
up, a lane that cannot follow leaves it and holds up no other one, and another relay takes over."""

import pathlib
import random
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, QUICK, REVOKE, event  # noqa: E402

TABLES = ("first", "second", "third")
COLUMNS = "id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid " \
          "VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload MEDIUMTEXT"
SHARED = "tallybox_relay_stream_shared"


class SharedStream(suite.Case):
    seconds = 40
    settings = {**suite.PATIENT, "relay.topic_partitions": 2, "retry.poll_ms": 50,
                "relay.row_bytes_max": 20000, "relay.read_bytes_max": 65536,
                "relay.read_rows_max": 64, "relay.window_rows_max": 64}
    LANES = {"relay.lanes": ",".join(TABLES), **{f"lane.{name}.source": "binlog" for name in TABLES}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in TABLES:
            cls.stack.sql(f"CREATE TABLE {name} ({COLUMNS})")
            cls.stack.sql(f"GRANT SELECT ON {name} TO '{ACCOUNT}'@'%'")
        cls.stack.add_privileges("relay_wakeup", ACCOUNT)
        # They are for the whole server, which has other tests.
        cls.addClassCleanup(cls.stack.sql, REVOKE)

    def setUp(self):
        for table in (*TABLES, "retry_task", "relay_position"):
            self.stack.sql(f"DELETE FROM {table}")
        run = next(suite.run().numbers)
        self.kinds = {table: f"s{run}{table}" for table in TABLES}
        self.events = {table: [] for table in TABLES}

    def readers(self):
        return len(self.stack.sql("SELECT id FROM information_schema.processlist WHERE command LIKE "
                                  "'Binlog Dump%%' AND user = %s", [ACCOUNT]))

    def begin(self, **more):
        relay = self.start("relay", sets={**self.LANES, **more})
        suite.wait_for("the positions", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_position") == len(TABLES))
        return relay

    def wait_shared(self, relay, lanes=len(TABLES), readers=1):
        suite.wait_for(f"{lanes} lanes that share a stream", lambda: relay.metric(SHARED) == lanes)
        suite.wait_for(f"{readers} readers of the log", lambda: self.readers() == readers)

    def add(self, table, number, key="key", **more):
        self.events[table].append(event(self.kinds[table], key, number, **more))
        return self.events[table][-1]

    def append(self, table, *rows):
        self.stack.append(rows, table=table)

    def records(self, table):
        return self.stack.records(f"event.{self.stack.name}.{self.kinds[table]}")

    def check(self, table, repeats=False):
        """All events are there, each key in order, once if they are not repeated."""
        events = self.events[table]
        suite.wait_for(f"the records of {table}", lambda: len(
            {one.headers["id"] for one in self.records(table)}) >= len(events))
        first = {}
        records = self.records(table)
        for record in records:
            first.setdefault(record.headers["id"], record)
        self.assertEqual(set(first), {one["id"] for one in events})
        if not repeats:
            self.assertEqual(len(records), len(events))
        numbers = {}
        for record in first.values():
            numbers.setdefault(record.key, []).append(int(record.value))
        for key, found in numbers.items():
            self.assertEqual(found, sorted(found), f"{table}, key {key}")

    def write(self, stop):
        """Transactions that write one table or several, and some that are rolled back."""
        def run():
            source = random.Random(7)
            connection = suite.connect(self.stack.name, autocommit=False)
            number = 0
            while not stop.is_set():
                rows = []
                for _ in range(source.choice((1, 2, 5))):
                    table = source.choice(TABLES)
                    number += 1
                    rows.append((table, event(self.kinds[table], f"k{source.randrange(5)}", number)))
                    self.stack.append([rows[-1][1]], table=table, connection=connection)
                if source.randrange(8) == 0:
                    connection.rollback()
                    continue
                connection.commit()
                for table, row in rows:
                    self.events[table].append(row)
            connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def test_one_connection_serves_all_lanes(self):
        relay = self.begin()
        for number, table in enumerate(TABLES):
            self.append(table, self.add(table, number))
        self.wait_shared(relay)
        stop = threading.Event()
        writer = self.write(stop)
        suite.wait_for("rows", lambda: len(self.events["first"]) > 100)
        stop.set()
        writer.join()
        for table in TABLES:
            self.check(table)
        self.assertEqual(self.readers(), 1)
        self.assertTrue(relay.ready(), relay.why_not_ready())

        # Its loss concerns all of them, and they find together again.
        threads = self.stack.sql("SELECT id FROM information_schema.processlist WHERE command LIKE "
                                 "'Binlog Dump%%' AND user = %s", [ACCOUNT])
        self.stack.sql(f"KILL {threads[0][0]}")
        for table in TABLES:
            self.append(table, self.add(table, 100000))
            self.check(table)
        self.wait_shared(relay)

        # A definition concerns its lane.
        self.stack.sql("ALTER TABLE second ADD note VARCHAR(20) NULL")
        self.append("second", self.add("second", 100001, note="new"))
        self.check("second")
        self.assertEqual(relay.metric(SHARED), len(TABLES))

    def test_changes_that_make_no_record_are_told_by_their_lanes(self):
        relay = self.begin()
        for table in TABLES:
            self.append(table, self.add(table, 0))
        self.wait_shared(relay)

        def counted(what):
            return [relay.metrics()[f'tallybox_relay_log_{what}_total{{lane="{table}"}}'] for table in TABLES]

        # One transaction, larger than the queue of a lane.
        self.append("second", *(self.add("second", 1 + n, payload=str(1 + n).rjust(3000)) for n in range(20)))
        self.check("second")
        with suite.connect(self.stack.name, autocommit=False) as connection, connection.cursor() as cursor:
            for word in "Changed", "Again", "More":
                cursor.execute(f"UPDATE second SET type = '{word}'")
            connection.commit()
        self.append("first", self.add("first", 1))
        suite.wait_for("the changes to be told", lambda: counted("updates")[1] > 2)
        self.assertEqual((counted("updates")[0], counted("updates")[2]), (0, 0))
        self.assertNotIn("stream_left", relay.log_text())
        self.stack.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
        self.addCleanup(self.stack.sql, "DROP TABLE orders")
        connection = suite.connect(self.stack.name)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute("INSERT INTO orders VALUES (1)")
        suite.wait_for("the statement to be told", lambda: counted("statements") == [1, 1, 1])
        for table in TABLES:
            self.append(table, self.add(table, 1000))
            self.check(table)
        self.assertEqual(relay.metric(SHARED), len(TABLES))
        self.assertTrue(relay.ready(), relay.why_not_ready())

    def test_another_relay_takes_over(self):
        first = self.begin(**QUICK)
        stop = threading.Event()
        writer = self.write(stop)
        try:
            suite.wait_for("lanes that share a stream", lambda: first.metric(SHARED) == len(TABLES))
            second = self.start("relay", ready=False, sets={**self.LANES, **QUICK})
            suite.wait_for("lanes of the second relay",
                           lambda: second.metric("tallybox_relay_lease_held") > 0)
            first.kill()
            suite.wait_for("lanes that share a stream", lambda: second.metric(SHARED) == len(TABLES))
        finally:
            stop.set()
            writer.join()
        for table in TABLES:
            self.check(table, repeats=True)
        self.wait_shared(second)

    def test_a_lane_that_cannot_follow_leaves_and_returns(self):
        relay = self.begin()
        self.append("first", self.add("first", 0))
        self.wait_shared(relay)
        # One transaction, larger than the queue of the lane.
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        rows = [self.add("first", 1 + n, payload=str(1 + n).rjust(3000)) for n in range(100)]
        self.stack.append(rows, table="first", connection=connection)
        self.append("second", self.add("second", 0))
        connection.commit()
        for number in range(10):
            self.append("first", self.add("first", 1000 + number))
            self.append("second", self.add("second", 1000 + number))
        self.check("first")
        self.check("second")
        self.assertIn("stream_left lane=first", relay.log_text())
        self.append("third", self.add("third", 0))
        self.wait_shared(relay)
        self.append("first", self.add("first", 2000))
        for table in TABLES:
            self.check(table)

    def test_a_blocked_lane_holds_up_no_other_one(self):
        relay = self.begin()
        self.append("first", self.add("first", 0))
        self.wait_shared(relay)
        blocker = suite.connect(self.stack.name)
        self.addCleanup(blocker.close)
        with blocker.cursor() as cursor:
            cursor.execute("LOCK TABLES retry_task WRITE")
            # It is too large for a record, and cannot become a task now: the window of the lane fills.
            refused = event(self.kinds["first"], "refused", 0, payload="x" * 30000)
            self.append("first", refused)
            rows = [self.add("first", 1 + n, payload=str(1 + n).rjust(3000)) for n in range(200)]
            for at in range(0, len(rows), 10):
                self.append("first", *rows[at:at + 10])
            for table in TABLES[1:]:
                for number in range(20):
                    self.append(table, self.add(table, number))
                self.check(table)
            self.assertLess(len(self.records("first")), 150)
            cursor.execute("UNLOCK TABLES")
        self.check("first")
        suite.wait_for("the task", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE idempotency_key = %s", [refused["id"]]) == 1)
        self.append("first", self.add("first", 1000))
        self.wait_shared(relay)
        self.check("first")


if __name__ == "__main__":
    unittest.main()
