# SPDX-License-Identifier: MIT
"""Refused events and their keys: out of the outbox into the retry queue, through it, and back to the
fast path, while relays are killed. Order is judged on the topic, by the first record of each id."""

import datetime
import json
import os
import pathlib
import random
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

ROW_BYTES_MAX = 4000
BIG = 6000  # for the relay; the retry queue of these tests takes it


def event(kind, key, number, poison=False, **more):
    """The number is the first word of the payload. Random bytes, which cannot be compressed, follow it."""
    payload = b"%d " % number + (os.urandom(BIG) if poison else b"x")
    return {"id": str(uuid.uuid4()), "aggregatetype": kind, "aggregateid": key, "type": "Happened",
            "payload": payload, **more}


class Lane(suite.Case):
    seconds = 40
    settings = {"relay.row_bytes_max": ROW_BYTES_MAX, "relay.topic_partitions": 2,
                "relay.lease_ms": 2000, "relay.send_timeout_ms": 1500, "relay.full_scan_ms": 2000,
                "retry.poll_ms": 50, "retry.lease_ms": 2000, "retry.rescue_ms": 500}

    def setUp(self):
        self.stack.sql("DELETE FROM outbox")
        self.stack.sql("DELETE FROM retry_task")
        self.kind = f"t{next(suite.run().numbers)}"
        self.topic = f"event.{self.stack.name}.{self.kind}"

    def retry(self):
        """Is never killed. A record of it may wait for long; an attempt that failed is no end."""
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('outbox', "
                       "'publish', %s)",
                       [json.dumps({"stop": [], "wait": "fixed 1s", "attempts": 0})])
        return self.start("retry", sets={"relay.row_bytes_max": 100000, "relay.lease_ms": 60000,
                                         "relay.send_timeout_ms": 30000})

    def tasks(self):
        return [one[0] for one in self.stack.sql(
            "SELECT idempotency_key FROM retry_task ORDER BY id")]

    def first_records(self):
        """The first record of each event, in the order of the topic."""
        first = {}
        for record in self.stack.records(self.topic):
            first.setdefault(record.headers["id"], record)
        return first

    def check_order(self, events):
        """All events are there, and each key's numbers go up."""
        first = self.first_records()
        missing = [one for one in events if one["id"] not in first]
        self.assertEqual(len(missing), 0, f"lost: {missing[:3]}")
        numbers = {}
        for record in first.values():
            numbers.setdefault(record.key, []).append(int(record.value.split(b" ")[0]))
        for key, found in numbers.items():
            self.assertEqual(found, sorted(found), f"key {key}")
        return first

    def wait_free(self, relay, seconds=60):
        suite.wait_for("the retry queue to be empty", lambda: not self.tasks(), seconds)
        suite.wait_for("no diverted key",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 0, 20)

    def test_a_key_goes_through_the_retry_queue_and_back(self):
        relay = self.start("relay")
        trace = json.dumps({"traceparent": "00-11-22-01", "tenant": "nörth"})
        hour_ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
        created = f"{hour_ago:%F %T}.089"
        bad = [event(self.kind, "bad", 0, headers=trace, created_at=created),
               event(self.kind, "bad", 1, True, headers=trace, created_at=created),
               event(self.kind, "bad", 2, headers=trace, created_at=created)]
        good = [event(self.kind, f"good-{n % 5}", n) for n in range(200)]
        self.stack.append(good[:100] + bad + good[100:])
        self.stack.wait_drained()
        self.assertEqual(self.tasks(), [bad[1]["id"], bad[2]["id"]])
        self.assertEqual(set(self.first_records()), {one["id"] for one in good + bad[:1]})

        # The next holder of the lane knows the key before it sends anything.
        relay.kill()
        bad.append(event(self.kind, "bad", 3))
        self.stack.append(bad[3:])
        relay = self.start("relay")
        self.stack.wait_drained()
        self.assertEqual(self.tasks(), [one["id"] for one in bad[1:]])

        self.retry()
        self.wait_free(relay)
        bad.append(event(self.kind, "bad", 4))
        self.stack.append(bad[4:])
        self.stack.wait_drained()
        self.assertEqual(self.tasks(), [])
        first = self.check_order(good + bad)

        # What the retry queue publishes is the record that the relay would have sent.
        sent, tried = (dict(first[bad[n]["id"]].headers) for n in (0, 1))
        self.assertEqual(tried.pop("tallybox-attempt"), "1")
        self.assertEqual(tried.pop("tallybox-no-retry"), "1")
        for headers in sent, tried:
            for name in "id", "ce_id", "seq":
                headers.pop(name)
        self.assertEqual(list(tried.items()), list(sent.items()))
        one, other = first[bad[0]["id"]], first[bad[1]["id"]]
        self.assertEqual((one.key, one.partition, one.timestamp),
                         (other.key, other.partition, other.timestamp))
        self.assertEqual(other.value, bad[1]["payload"])
        self.assertNotIn("tallybox-attempt", first[bad[4]["id"]].headers)

    def test_keys_that_differ_in_blanks_at_their_end_are_different_keys(self):
        """The collation of retry_task.ordering_key compares them as equal."""
        relay = self.start("relay")
        keys = ("key", "key ", "key  ")
        good = event(self.kind, "good", 0)
        self.stack.append([good] + [event(self.kind, key, 0, True) for key in keys])
        self.stack.wait_drained()
        relay.kill()
        self.stack.append([event(self.kind, key, 1) for key in keys])
        self.start("relay")
        self.stack.wait_drained()
        # No later row of a key passes the one that waits.
        self.assertEqual(list(self.first_records()), [good["id"]])
        self.assertEqual(len(self.tasks()), 6)

    def test_tasks_of_clients_in_the_relays_group_divert_nothing(self):
        """More of them than keys may be diverted, due in ten years, some with keys of the lane."""
        numbers = "SELECT 0 AS n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10))
        self.stack.sql(
            "INSERT INTO retry_task (task_group, scene, handler, ordering_key, idempotency_key, "
            "options, next_at) SELECT 'outbox', 'publish', 'kafka', CONCAT(%s, '/key-', a.n + 10 * "
            "b.n + 100 * c.n), CONCAT('client-', a.n + 10 * b.n + 100 * c.n), '{}', '2036-01-01' "
            f"FROM ({numbers}) a, ({numbers}) b, ({numbers}) c", [self.topic])
        relay = self.start("relay", sets={"relay.diverted_keys_max": 100})
        events = [event(self.kind, f"key-{n}", n) for n in range(20)]
        self.stack.append(events)
        self.stack.wait_drained()
        self.assertEqual(set(self.first_records()), {one["id"] for one in events})
        self.assertEqual(relay.metric("tallybox_relay_diverted_keys"), 0)
        self.assertNotIn("reason=diverted_keys_full", relay.log_text())
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1000)

        # A row that is refused is no longer behind what a client wrote for its key.
        bad = [event(self.kind, "key-7", 100, True), event(self.kind, "key-7", 101)]
        self.stack.append(bad)
        self.stack.wait_drained()
        own = "SELECT COUNT(*) FROM retry_task WHERE origin = 'relay'"
        self.assertEqual(self.stack.number(own), 2)
        relay.kill()
        relay = self.start("relay", sets={"relay.diverted_keys_max": 100})
        events.append(event(self.kind, "key-8", 102))
        self.stack.append(events[-1:])
        suite.wait_for("the relay to know its key",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 1, 20)
        self.retry()
        suite.wait_for("the relay's tasks to be done", lambda: self.stack.number(own) == 0)
        suite.wait_for("no diverted key",
                       lambda: relay.metric("tallybox_relay_diverted_keys") == 0, 20)
        self.stack.wait_drained()
        self.check_order(events + bad)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1000)

    def test_each_lane_has_a_group_of_its_own(self):
        self.stack.sql("CREATE TABLE IF NOT EXISTS outbox_1 LIKE outbox")
        self.addCleanup(self.stack.sql, "DROP TABLE outbox_1")
        self.start("relay", sets={"relay.lanes": "outbox,outbox_1"})
        suite.wait_for("the group's row", lambda: self.stack.sql(
            "SELECT owner FROM retry_group WHERE name = 'outbox_1'") == [("relay",)])

    def wait_not_ready(self, relay):
        suite.wait_for("it to say why it is not ready",
                       lambda: "retry_task" in relay.why_not_ready())

    def test_a_row_that_a_new_producer_sends_first_and_the_broker_refuses_is_not_overtaken(self):
        """A partition takes any first request of a producer that it does not know: the second one,
        when it has refused the first."""
        wire.create_topic(suite.kafka().bootstrap, self.topic, 2, {"max.message.bytes": 20000})
        events = []
        for number in range(30):
            events += [{**event(self.kind, f"key-{key}", number),
                        **({"payload": b"%d " % number + os.urandom(40000)} if number == 0 else {})}
                       for key in range(6)]
        self.stack.append(events)
        self.start("relay", sets={"relay.row_bytes_max": 100000,
                                  "kafka.producer.batch.size": 10000})
        self.stack.wait_drained()
        self.assertEqual(set(self.first_records()), set())
        self.assertEqual(len(self.tasks()), len(events))

    def test_a_relay_without_the_right_to_move_holds_up_that_key_only(self):
        self.stack.sql("RENAME TABLE retry_task TO elsewhere")
        relay = self.start("relay", ready=False)
        one = event(self.kind, "good", 0)
        self.stack.append([one])
        suite.wait_for("the trouble to be said", lambda: "reason=cannot_divert" in relay.log_text())
        self.wait_not_ready(relay)
        self.stack.sql("RENAME TABLE elsewhere TO retry_task")
        self.stack.wait_drained()
        self.stack.sql("RENAME TABLE retry_task TO elsewhere")
        try:
            bad = [event(self.kind, "bad", n, n == 0) for n in range(3)]
            good = [event(self.kind, "good", n) for n in range(1, 50)]
            self.stack.append(bad + good)
            suite.wait_for("the others to flow", lambda: self.stack.number(
                "SELECT COUNT(*) FROM outbox") == len(bad))
            self.wait_not_ready(relay)
        finally:
            self.stack.sql("RENAME TABLE elsewhere TO retry_task")
        self.stack.wait_drained()
        self.assertEqual(self.tasks(), [one["id"] for one in bad])
        self.retry()
        self.wait_free(relay)
        self.check_order([one] + bad + good)

    def test_relays_that_are_killed_lose_nothing_and_keep_each_keys_order(self):
        rng = random.Random(7)
        events = []
        done = threading.Event()

        def write():
            connection = suite.connect(self.stack.name)
            numbers = {}
            while not done.is_set():
                rows = []
                for _ in range(rng.randint(1, 8)):
                    key = f"key-{rng.randrange(12)}"
                    numbers[key] = numbers.get(key, -1) + 1
                    rows.append(event(self.kind, key, numbers[key], rng.random() < 0.02))
                self.stack.append(rows, connection=connection)
                events.extend(rows)
                time.sleep(0.005)
            connection.close()

        self.retry()
        relays = [self.start("relay"), self.start("relay")]
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for n in range(8):
                time.sleep(rng.uniform(0.3, 2.5))
                relays[n % 2].kill()
                relays[n % 2] = self.start("relay", ready=False)
            suite.wait_for("a row for the retry queue among many", lambda: len(events) > 200 and any(
                len(one["payload"]) > BIG for one in list(events)), 60)
        finally:
            done.set()
            writer.join()
        self.stack.wait_drained(60)
        for relay in relays:
            relay.wait_ready()
            self.wait_free(relay, 90)
        first = self.check_order(events)
        self.assertTrue([one for one in first.values() if "tallybox-attempt" in one.headers])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task_history"), 0)


if __name__ == "__main__":
    unittest.main()
