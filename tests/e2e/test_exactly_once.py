# SPDX-License-Identifier: MIT
"""Lanes with exactly_once = yes. kcat reads with isolation.level = read_committed, so a record that
it finds twice was committed twice."""

import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import LaneCase, event  # noqa: E402

EXACT = {"lane.outbox.exactly_once": "yes"}


class ExactCase(LaneCase):
    """On the table outbox of the installation."""

    seconds = 60
    settings = {**LaneCase.settings, **EXACT}

    def setUp(self):
        super().setUp()
        # Each test begins without a record in the topic of positions, under its own key.
        self.lane_id = f"{self.stack.name}-{self.kind}"
        self.sets = {"lane.outbox.transactional_id": self.lane_id}

    def relay(self, **options):
        return super().relay(sets={**self.sets, **options.pop("sets", {})}, **options)

    def positions(self):
        return [record for record in self.stack.records("tallybox.relay.positions")
                if record.key == self.lane_id.encode()]

    def begin(self, *words):
        self.stack.tallybox("lanes", "begin", "outbox", *words, sets={
            "lane.outbox.source": "binlog", **EXACT, **self.sets})

    def append(self, count, number=0):
        events = [event(self.kind, f"key-{n % 3}", number + n) for n in range(count)]
        self.stack.append(events)
        return events

    def wait_until_it_stops(self, text):
        relay = self.start("relay", ready=False, sets=self.sets)
        suite.wait_for(f"it to say \"{text}\"", lambda: text in relay.why_not_ready())
        return relay


class ExactlyOnce(ExactCase):
    """Relays that are killed, frozen and fenced."""

    seconds = 30

    def test_rows_are_there_once_while_relays_are_killed(self):
        self.relay().terminate()
        events, stop = [], threading.Event()
        threads = self.write(events, stop)
        try:
            for _ in range(5):
                relay = self.start("relay", ready=False, sets=self.sets)
                time.sleep(random.uniform(1, 3))
                relay.kill()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        # The cleaner removes rows that are recorded as published: a kill must leave out none.
        self.relay(sets={"lane.outbox.keep_ms": "0"})
        self.wait_records(len(events))
        self.assertEqual(self.check_order(events), 0)
        suite.wait_for("an empty table", lambda: self.stack.number(
            "SELECT COUNT(*) FROM outbox") == 0)

    def test_a_relay_that_was_frozen_is_fenced(self):
        first = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(2000)]
        self.stack.append(events[:1000])
        self.wait_records(1000)
        self.stack.append(events[1000:1500])
        first.process.send_signal(signal.SIGSTOP)
        second = self.start("relay", sets=self.sets, ready=False)
        try:
            self.stack.append(events[1500:])
            self.wait_records(2000)
        finally:
            first.process.send_signal(signal.SIGCONT)
        suite.wait_for("the first relay", lambda: "lease_lost" in first.log_text()
                       or "lane_fenced" in first.log_text())
        more = [event(self.kind, f"key-{n % 5}", n) for n in range(2000, 2500)]
        self.stack.append(more)
        self.wait_records(2500)
        self.assertEqual(self.check_order(events + more), 0)
        self.assertTrue(second.ready())

    def test_a_second_producer_with_the_same_id_is_noticed(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(200)]
        self.stack.append(events[:100])
        self.wait_records(100)
        # As another installation that is configured wrongly would do.
        subprocess.run(["kcat", "-b", suite.kafka().bootstrap, "-P", "-t",
                        "tallybox.relay.positions", "-K", ":", "-X",
                        f"transactional.id={self.lane_id}"],
                       input=b"other:fence", check=True, timeout=60)
        self.stack.append(events[100:])
        self.wait_records(200)
        self.assertIn("lane_fenced", relay.log_text())
        self.assertEqual(self.check_order(events), 0)


class ExactlyOnceTasks(ExactCase):
    """Rows that the relay refuses, and whose tasks the retry role publishes."""

    seconds = 100
    relay_sets = {"relay.row_bytes_max": "2000"}

    def refused(self, key, number):
        return event(self.kind, key, number, payload=b"%d " % number + b"x" * 5000)

    def test_a_refused_row_is_moved_and_no_row_repeats(self):
        self.start("retry")
        relay = self.relay(sets=self.relay_sets)
        events = [self.refused(f"key-{n % 5}", n) if n == 250 else
                  event(self.kind, f"key-{n % 5}", n) for n in range(500)]
        self.stack.append(events)
        self.wait_records(500)
        self.assertIn("key_diverted", relay.log_text())
        self.assertEqual(self.check_order(events), 0)
        suite.wait_for("no task", lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 0)

    def test_no_row_repeats_while_relays_and_retries_are_killed(self):
        self.relay().terminate()
        events, stop = [], threading.Event()

        def write():
            source = random.Random(7)
            with suite.connect(self.stack.name, autocommit=True) as connection:
                number = 0
                while not stop.is_set():
                    rows = []
                    for _ in range(source.choice((1, 2, 4))):
                        number += 1
                        make = self.refused if source.randrange(50) == 0 else (
                            lambda key, n: event(self.kind, key, n))
                        rows.append(make(f"key-{source.randrange(12)}", number))
                    self.stack.append(rows, connection=connection)
                    events.extend(rows)
                    stop.wait(0.1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(6):
                roles = [self.start("relay", ready=False, sets={**self.sets, **self.relay_sets}),
                         self.start("retry", ready=False), self.start("retry", ready=False)]
                time.sleep(random.uniform(1, 3))
                for role in random.sample(roles, len(roles)):
                    role.kill()
        finally:
            stop.set()
            writer.join()
        self.start("retry")
        relay = self.relay(sets=self.relay_sets)
        self.wait_records(len(events))
        suite.wait_for("no task", lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 0)
        self.assertTrue(relay.ready())
        self.assertEqual(self.check_order(events), 0)

    def test_a_retry_that_is_killed_behind_its_commit_is_not_repeated(self):
        """Its end in the database waits for a lock until it is killed."""
        with suite.connect(self.stack.name, autocommit=True) as holder:
            with holder.cursor() as cursor:
                cursor.execute("SELECT GET_LOCK('behind_commit', 60)")
                cursor.execute("CREATE TRIGGER hold_end BEFORE DELETE ON retry_task FOR EACH ROW "
                               "DO GET_LOCK('behind_commit', 600)")
                self.addCleanup(self.stack.sql, "DROP TRIGGER IF EXISTS hold_end")
                self.relay(sets=self.relay_sets)
                retry = self.start("retry")
                events = [self.refused("key-1", 1), event(self.kind, "key-1", 2)]
                self.stack.append(events)
                self.wait_records(1)
                self.assertEqual(len(self.records()), 1)
                retry.kill()
                cursor.execute("SELECT RELEASE_LOCK('behind_commit')")
            self.stack.sql("DROP TRIGGER hold_end")
        self.start("retry")
        self.wait_records(2)
        suite.wait_for("no task", lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 0)
        self.assertEqual(self.check_order(events), 0)
        keys = {record.key.decode().replace(self.lane_id, "") for record in
                self.stack.records("tallybox.relay.positions")
                if record.key.decode().startswith(self.lane_id)}
        self.assertEqual(len([key for key in keys if key.startswith("-retry-")]), 1)

    def test_a_retry_that_was_frozen_is_fenced(self):
        self.relay(sets=self.relay_sets)
        first = self.start("retry")
        events = [self.refused("key-1", 1)]
        self.stack.append(events)
        self.wait_records(1)
        first.process.send_signal(signal.SIGSTOP)
        try:
            more = [self.refused(f"key-{n % 20}", n) for n in range(2, 60)]
            self.stack.append(more)
            second = self.start("retry")
            self.wait_records(59)
        finally:
            first.process.send_signal(signal.SIGCONT)
        last = [self.refused(f"key-{n % 20}", n) for n in range(60, 120)]
        self.stack.append(last)
        # An attempt that failed when the process was fenced is repeated as the scene's policy says.
        self.wait_records(119, 150)
        self.assertEqual(self.check_order(events + more + last), 0)
        self.assertTrue(second.ready())


class ExactlyOncePosition(ExactCase):
    """Where the lane begins, and what stops it."""

    def test_the_option_is_switched_on_and_off(self):
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(400)]
        for part, exact in enumerate(("no", "yes", "no", "yes")):
            relay = self.relay(sets={"lane.outbox.exactly_once": exact})
            self.stack.append(events[part * 100:part * 100 + 100])
            self.wait_records(part * 100 + 100)
            relay.terminate()
        self.assertEqual(self.check_order(events), 0)
        self.assertGreater(len(self.positions()), 0)

    def test_a_command_says_where_the_lane_begins(self):
        # Before its first start, and with a position in Kafka.
        self.stack.sql("DELETE FROM relay_lease WHERE lane = 'outbox'")
        self.append(5)
        self.begin()
        relay = self.relay()
        events = self.append(5)
        self.wait_records(5)
        relay.terminate()
        self.append(5)
        self.begin("--replace-position")
        relay = self.relay()
        events += self.append(5, 10)
        self.wait_records(10)
        relay.kill()
        self.relay()
        events += self.append(5, 20)
        self.wait_records(15)
        self.assertEqual(self.check_order(events), 0)

    def test_a_record_without_a_saved_position_is_refused(self):
        relay = self.relay()
        self.append(5)
        self.wait_records(5)
        relay.terminate()
        self.stack.sql("DELETE FROM relay_position")
        self.wait_until_it_stops("`tallybox relay source outbox binlog`").terminate()
        self.stack.sql("DELETE FROM outbox")
        self.begin()
        self.relay()
        self.append(5)
        self.wait_records(10)

    def test_a_restored_position_is_refused(self):
        def saved():
            return self.stack.sql("SELECT epoch, gtids FROM relay_position")[0]

        relay = self.relay()
        self.append(5)
        self.wait_records(5)
        suite.wait_for("a saved position", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_published") == 1)
        self.stack.sql("CREATE TABLE saved_position AS SELECT * FROM relay_position")
        self.addCleanup(self.stack.sql, "DROP TABLE saved_position")
        old = saved()
        self.append(5)
        suite.wait_for("another position", lambda: saved() != old)
        self.append(5)
        self.wait_records(15)
        relay.kill()
        self.stack.sql("REPLACE INTO relay_position SELECT * FROM saved_position")
        relay = self.wait_until_it_stops("was restored")
        self.append(5)
        relay.terminate()
        self.wait_until_it_stops("was restored").terminate()
        self.assertEqual(len(self.records()), 15)
        self.assertEqual(saved(), old)
        # As the relay says: all behind the saved position is published again.
        self.sets["lane.outbox.transactional_id"] = self.lane_id + "-2"
        self.relay()
        self.wait_records(20)

    def test_a_server_that_lacks_transactions_is_refused(self):
        relay = self.relay()
        self.append(5)
        self.wait_records(5)
        relay.terminate()
        record = self.positions()[-1].value.decode()
        lost = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5" if "gtids=0-" not in record else "77-1-5"
        record = "".join(f"{line},{lost}\n" if line.startswith("gtids=") else f"{line}\n"
                         for line in record.splitlines())
        subprocess.run(["kcat", "-b", suite.kafka().bootstrap, "-P", "-t",
                        "tallybox.relay.positions", "-K", "|", "-D", "~"],
                       input=f"{self.lane_id}|{record}".encode(), check=True, timeout=60)
        self.wait_until_it_stops("lacks transactions").terminate()
        self.begin("--replace-position")
        self.relay()
        self.append(5)
        self.wait_records(10)

    def test_a_lane_that_polls_refuses_the_option(self):
        with self.assertRaisesRegex(AssertionError, "exactly_once = yes needs lane.outbox.source"):
            self.start("relay", ready=False, sets={"lane.outbox.source": "table"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
