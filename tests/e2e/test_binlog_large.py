# SPDX-License-Identifier: MIT
"""Binlog lanes and large transactions and rows: memory does not grow with them, and a kill at any step loses
and reorders nothing. Peaks are what the kernel counted (VmHWM)."""

import os
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402
from binlog_lane import LaneCase, OwnLaneCase, event  # noqa: E402

MIB = 1 << 20
MEMORY_MIB = 64
# Beside three times the largest row.
MEMORY_BESIDE_ROWS_MIB = 40
REPEATS_MAX = 25000  # of a kill; see test_binlog_lane.py


class LargeCase(LaneCase):
    """Transactions of one INSERT, whose rows the server makes."""

    def setUp(self):
        # Faster than to delete the rows of the test before.
        self.stack.sql("TRUNCATE TABLE outbox")
        super().setUp()

    def fill(self, rows, payload, keys=1000):
        """In one transaction: rows 0, 1 ... whose payload is an expression of n."""
        self.stack.sql("DROP TABLE IF EXISTS n")
        self.stack.sql("CREATE TABLE n (n INT PRIMARY KEY)")
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        parts = ", ".join(f"({digits}) AS d{place}" for place in range(6))
        value = " + ".join(f"d{place}.d * {10 ** place}" for place in range(6))
        self.stack.sql(f"INSERT INTO n SELECT v FROM (SELECT {value} AS v FROM {parts}) AS all_of_them "
                       f"WHERE v < {rows}")
        self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                       f"SELECT UUID(), %s, n %% {keys}, 'Happened', {payload} FROM n ORDER BY n",
                       [self.kind])

    def published_rows(self):
        """How many records the topic has."""
        count = wire.partitions(suite.kafka().bootstrap, self.topic)
        return sum(wire.end_offset(suite.kafka().bootstrap, self.topic, partition)
                   for partition in range(count))

    def check_rows(self, rows):
        """Each row is there, and those of a key are in their order, by the first record of each. Returns
        the number of repeats. The rows of many records are read one after the other."""
        seen, last, repeats = bytearray(rows), {}, 0
        words = ["kcat", "-b", suite.kafka().bootstrap, "-C", "-t", self.topic, "-o", "beginning", "-e",
                 "-q", "-f", "%k %s\n", "-X", "isolation.level=read_committed", "-X",
                 "fetch.message.max.bytes=4000000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as reader:
            for line in reader.stdout:
                key, number = line.split(b" ", 2)[:2]
                number = int(number)
                if seen[number]:
                    repeats += 1
                    continue
                seen[number] = 1
                self.assertLess(last.get(key, -1), number, f"key {key}")
                last[key] = number
        self.assertEqual(reader.returncode, 0)
        self.assertEqual(sum(seen), rows, "rows were lost")
        return repeats

    def check_peak(self, what, relay, limit_mib):
        peak = relay.peak_rss_mib()
        print(f"\n{what}: peak {peak:.0f} MiB of {limit_mib:.0f}", file=sys.stderr)
        self.assertLess(peak, limit_mib)


class LargeRows(OwnLaneCase, LargeCase):
    """Above the packets of the protocol, and near what the server accepts. They are too large for a
    record and become tasks."""

    seconds = 30
    # While the server writes such a row to a slow disk, it commits nothing else: no lease is renewed.
    settings = {**LaneCase.settings, "relay.lease_ms": 60000, "mysql.query_timeout_ms": 120000}
    arguments = ["--max-allowed-packet=128M"]

    def test_memory_is_bounded_by_the_largest_row(self):
        for mib in (17, 100):
            with self.subTest(mib=mib):
                for table in "outbox", "retry_task":
                    self.stack.sql(f"DELETE FROM {table}")
                payload = os.urandom(MIB) * mib
                rows = [event(self.kind, "large", 0, payload), event(self.kind, "key", mib)]
                relay = self.relay()
                self.stack.append(rows)
                suite.wait_for("the task", lambda: self.stack.sql(
                    "SELECT COUNT(*), MAX(LENGTH(params)) FROM retry_task") == [(1, len(payload))], 180)
                suite.wait_for("the row behind it", lambda: rows[1]["id"] in {
                    record.headers["id"] for record in self.records()})
                self.check_peak(f"a row of {mib} MiB", relay, MEMORY_BESIDE_ROWS_MIB + 3 * mib)
                self.assertEqual(self.stack.sql("SELECT params FROM retry_task")[0][0], payload)
                relay.terminate()

    def moves(self):
        """Whether a session is in the trigger of a task at the moment. Its user is then that of the trigger."""
        return self.stack.number("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'")

    def test_the_lease_ends_while_a_large_row_is_moved(self):
        """As behind a slow disk, where the lease cannot be renewed meanwhile."""
        payload = os.urandom(MIB) * 17
        rows = [event(self.kind, "large", 0, payload), event(self.kind, "key", 1)]
        relay = self.relay(sets={"relay.lease_ms": 2000})
        self.stack.sql("CREATE TRIGGER slow BEFORE INSERT ON retry_task FOR EACH ROW DO SLEEP(4)")
        self.addCleanup(self.stack.sql, "DROP TRIGGER slow")
        self.stack.append(rows)
        suite.wait_for("the row to be moved", self.moves)
        holder = suite.connect(self.stack.name, autocommit=False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM relay_lease FOR UPDATE")
            suite.wait_for("the lease to end", lambda: self.stack.number(
                "SELECT lease_until < UTC_TIMESTAMP(3) FROM relay_lease WHERE lane = 'outbox'"))
        holder.rollback()
        holder.close()
        suite.wait_for("the row behind it", lambda: rows[1]["id"] in {
            record.headers["id"] for record in self.records()}, 120)
        suite.wait_for("the task", lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") > 0, 120)
        suite.wait_for("it to be ready", relay.ready)
        self.check_peak("a row that is moved without a lease", relay, MEMORY_BESIDE_ROWS_MIB + 3 * 17)
        self.assertEqual(self.stack.sql("SELECT params FROM retry_task"), [(payload,)])


class LargeTransactions(LargeCase):
    """They take minutes."""

    long = True
    seconds = 240

    def run_transaction(self, what, rows, payload, **sets):
        relay = self.relay(sets=sets)
        self.fill(rows, payload)
        suite.wait_for("all rows in Kafka", lambda: self.published(relay) >= rows, 600, 0.5)
        self.assertEqual(self.published_rows(), rows)
        self.assertEqual(self.check_rows(rows), 0)
        self.check_peak(what, relay, MEMORY_MIB)
        self.assertTrue(relay.ready())

    def test_a_million_rows_in_one_transaction(self):
        self.run_transaction("1,000,000 rows in one transaction", 1000000,
                             "CONCAT(n, ' ', REPEAT('x', 200))")

    def test_a_transaction_that_expands_to_more_than_a_gigabyte(self):
        """MySQL compresses the transaction, and MariaDB each of its events."""
        self.set_global({"mariadb": "log_bin_compress",
                         "mysql": "binlog_transaction_compression"}[suite.DATABASE], 1)
        self.run_transaction("1.1 GB in one transaction", 1250, "CONCAT(n, ' ', REPEAT('x', 900000))",
                             **{"kafka.producer.compression.codec": "zstd"})


class KilledInTransaction(LargeCase):
    """Relays are killed at each step of a transaction of 100,000 rows: before they read it, while they
    read it for the first time, after each of many numbers of published rows, and behind its end."""

    long = True
    seconds = 240
    rows = 100000
    settings = {**LaneCase.settings, "relay.window_rows_max": 20000}

    def kill_at_each_step(self, **sets):
        rng = random.Random(20261128)
        self.relay(sets=sets).terminate()
        self.fill(self.rows, "n", keys=500)
        kills, steps = 0, [0, 0, 1, 1] + [rng.randrange(2000, 9000) for _ in range(16)]
        for rows in steps:
            relay = self.start("relay", ready=False, sets=sets)
            # The first ones die while they read; the others when they have published so many rows.
            if rows == 0:
                suite.wait_for("a reader", self.dump_threads)
            suite.wait_for(f"{rows} rows", lambda: rows <= self.published(relay) or self.is_done(), 60, 0.01)
            relay.kill()
            kills += 1
        relay = self.start("relay", sets=sets)
        suite.wait_for("all rows", self.is_done, 120, 0.5)
        self.stack.append([event(self.kind, "behind", self.rows, b"%d" % self.rows)])
        suite.wait_for("the row behind them", lambda: self.published(relay) > 0 and self.published_rows()
                       > self.rows, 60, 0.5)
        relay.terminate()
        return kills

    def is_done(self):
        """Whether the position is behind the transaction."""
        return self.stack.number("SELECT rows_done = 0 AND (SELECT COUNT(*) FROM relay_published) > 0 "
                                 "FROM relay_position")

    def test_at_each_step(self):
        kills = self.kill_at_each_step()
        self.assertLessEqual(self.check_rows(self.rows + 1), kills * REPEATS_MAX)

    def test_at_each_step_exactly_once(self):
        self.kill_at_each_step(**{"lane.outbox.exactly_once": "yes",
                                  "lane.outbox.transactional_id": f"{self.stack.name}-{self.kind}"})
        self.assertEqual(self.check_rows(self.rows + 1), 0)


if __name__ == "__main__":
    unittest.main()
