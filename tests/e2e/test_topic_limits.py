# SPDX-License-Identifier: MIT
"""What a topic's configuration makes of rows: their time, and how many travel together."""

import datetime
import json
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

HOUR = datetime.timedelta(hours=1)
DAY = 24 * HOUR


def milliseconds(moment):
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000


class Times(suite.Case):
    """Rows whose created_at is far from now, on a broker that refuses what is an hour ahead."""

    settings = {"relay.topics": None}

    def publish(self, name, times, configs=None):
        """The records of rows with these times, in their order, in a topic of their own."""
        topic = f"event.{self.stack.name}.{name}"
        wire.create_topic(suite.kafka().bootstrap, topic, 1, configs)
        self.stack.append([{"id": f"{name}{number}", "aggregatetype": name, "aggregateid": "k",
                            "type": "t", "payload": "x", "created_at": at}
                           for number, at in enumerate(times)])
        self.stack.wait_drained()
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)
        records = self.stack.records(topic)
        self.assertEqual([one.headers["id"] for one in records],
                         [f"{name}{number}" for number in range(len(times))])
        return records

    def check(self, record, expected, original=None):
        self.assertLess(abs(record.timestamp - milliseconds(expected)), 60000)
        if original is None:
            self.assertNotIn("original_timestamp", record.headers)
            return
        self.assertEqual(record.headers["original_timestamp"],
                         original.isoformat(timespec="milliseconds") + "Z")
        self.assertEqual(record.headers["ce_time"], record.headers["original_timestamp"])

    def test_rows_of_the_future_and_of_long_ago_are_published(self):
        relay = self.start("relay")
        now = self.stack.number("SELECT UTC_TIMESTAMP(3)")
        times = [now - HOUR, now + 2 * HOUR, now + 3650 * DAY, now - 5 * DAY]
        records = self.publish("week", times, {"retention.ms": 7 * 24 * 3600000})
        self.check(records[0], times[0])
        self.check(records[1], now, times[1])
        self.check(records[2], now, times[2])
        self.check(records[3], now - 3.5 * DAY, times[3])
        # A topic that keeps all records gets every time of the past.
        records = self.publish("always", [now - 5000 * DAY], {"retention.ms": -1})
        self.check(records[0], now - 5000 * DAY)
        records = self.publish("strict", [now - 5 * DAY],
                               {"message.timestamp.before.max.ms": 2 * 3600000})
        self.check(records[0], now - HOUR, now - 5 * DAY)
        self.assertEqual(relay.metric("tallybox_relay_refused_total"), 0)
        self.assertEqual(relay.metric("tallybox_relay_resets_total"), 0)

    def test_a_row_of_the_future_that_is_diverted_is_sent_in_the_end(self):
        now = self.stack.number("SELECT UTC_TIMESTAMP(3)")
        self.start("relay")
        self.stack.append([
            {"id": "bad", "aggregatetype": "late", "aggregateid": "k", "type": "t", "payload": "x",
             "headers": "no JSON", "created_at": now},
            {"id": "next", "aggregatetype": "late", "aggregateid": "k", "type": "t",
             "payload": "x", "created_at": now + 5 * HOUR}])
        suite.wait_for("both to be tasks", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 2)
        bad = self.stack.number("SELECT MIN(id) FROM retry_task")
        # Before a process may run it: a task that runs cannot be cancelled.
        self.stack.tallybox("retry", "cancel", str(bad), "--yes")
        self.start("retry")
        suite.wait_for("no task to be left", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 0)
        records = self.stack.records(f"event.{self.stack.name}.late")
        self.assertEqual([one.headers["id"] for one in records], ["next"])
        self.check(records[0], now, now + 5 * HOUR)

    def test_a_task_that_waited_for_long_is_brought_forward(self):
        topic = f"event.{self.stack.name}.waited"
        wire.create_topic(suite.kafka().bootstrap, topic, 1, {"retention.ms": 4 * 3600000})
        now = self.stack.number("SELECT UTC_TIMESTAMP(3)")
        self.start("retry")
        for at in (now - HOUR, now - 3 * HOUR):
            self.stack.sql(
                "INSERT INTO retry_task (scene, handler, ordering_key, options, params) VALUES "
                "('work', 'kafka', 'k', %s, 'x')",
                [json.dumps({"topic": topic, "timestampMs": int(milliseconds(at))})])
        suite.wait_for("no task to be left", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 0)
        records = self.stack.records(topic)
        self.assertEqual(len(records), 2)
        self.check(records[0], now - HOUR)
        self.assertLess(abs(records[1].timestamp - milliseconds(now - 2 * HOUR)), 60000)
        self.assertEqual(records[1].headers["original_timestamp"],
                         (now - 3 * HOUR).isoformat(timespec="milliseconds") + "Z")

    def test_a_row_of_the_future_grows_older_while_it_waits(self):
        now = self.stack.number("SELECT UTC_TIMESTAMP(3)")
        relay = self.start("relay", sets={"kafka.bootstrap.servers": "127.0.0.1:9"}, ready=False)
        self.addCleanup(self.stack.sql, "DELETE FROM outbox")
        self.stack.append([{"id": "f", "aggregatetype": "week", "aggregateid": "k", "type": "t",
                            "payload": "x", "created_at": now + 2 * HOUR}])
        suite.wait_for("its age", lambda: relay.metric(
            "tallybox_outbox_oldest_age_seconds") >= 3)


class Batches(suite.Case):
    """A topic that takes smaller batches than a producer makes."""

    settings = {"relay.topics": None}

    def append(self, name, count, size):
        """In one transaction, so that the relay finds all of them at once."""
        connection = suite.connect(self.stack.name, autocommit=False)
        self.stack.append([{"id": f"{name}-{size}-{number}", "aggregatetype": name,
                            "aggregateid": f"k{number % 7}", "type": "t",
                            "payload": os.urandom(size)} for number in range(count)],
                          connection=connection)
        connection.commit()
        connection.close()

    def test_batches_are_as_small_as_the_topic_wants_them(self):
        topic = f"event.{self.stack.name}.small"
        wire.create_topic(suite.kafka().bootstrap, topic, 1, {"max.message.bytes": 20000})
        # A producer that is there already has larger batches.
        self.append("large", 10, 100)
        relay = self.start("relay")
        self.stack.wait_drained()
        self.append("small", 300, 2000)
        self.append("large", 300, 2000)
        self.stack.wait_drained()
        self.assertEqual(len(self.stack.records(topic)), 300)
        self.assertEqual(relay.metric("tallybox_relay_resets_total"), 0)
        self.assertEqual(relay.metric("tallybox_relay_refused_total"), 0)
        self.assertIn("event=batch_size_limited", relay.log_text())

    def test_a_record_that_is_too_large_alone_stops_its_own_key_only(self):
        topic = f"event.{self.stack.name}.tiny"
        wire.create_topic(suite.kafka().bootstrap, topic, 1, {"max.message.bytes": 5000})
        relay = self.start("relay")
        self.append("tiny", 20, 500)
        self.stack.append([{"id": "huge", "aggregatetype": "tiny", "aggregateid": "huge",
                            "type": "t", "payload": os.urandom(9000)},
                           {"id": "packed", "aggregatetype": "tiny", "aggregateid": "packed",
                            "type": "t", "payload": b"x" * 9000}])
        self.append("tiny", 20, 501)
        began = time.monotonic()
        self.stack.wait_drained()
        self.assertLess(time.monotonic() - began, 45)
        self.assertEqual(self.stack.sql("SELECT idempotency_key FROM retry_task"), [("huge",)])
        records = self.stack.records(topic)
        self.assertEqual(len({one.headers["id"] for one in records}), 41)
        self.assertIn("packed", {one.headers["id"] for one in records})
        self.assertEqual(relay.metric("tallybox_relay_refused_total"), 1)


if __name__ == "__main__":
    unittest.main()
