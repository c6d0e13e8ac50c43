# SPDX-License-Identifier: MIT
"""A relay with one binlog lane on the table outbox, what it publishes, and writers of its rows."""

import pathlib
import random
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

ACCOUNT = "tallybox_relay"
REVOKE = f"REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM '{ACCOUNT}'@'%'"
PUBLISHED = 'tallybox_relay_published_total{lane="outbox"}'


def event(kind, key, number, payload=None, **more):
    return {"id": str(uuid.uuid4()), "aggregatetype": kind, "aggregateid": key, "type": "Happened",
            "payload": payload or b"%d" % number, **more}


class LaneCase(suite.Case):
    """One binlog lane on the table outbox, which keeps its rows for an hour."""

    seconds = 190
    settings = {"lane.outbox.source": "binlog", "relay.lease_ms": 2000,
                "relay.send_timeout_ms": 1500, "relay.topic_partitions": 2,
                "retry.poll_ms": 50, "retry.lease_ms": 2000, "retry.rescue_ms": 500}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.add_privileges("relay_wakeup", ACCOUNT)
        # They are for the whole server, which has other tests.
        cls.addClassCleanup(cls.stack.sql, REVOKE)

    def setUp(self):
        for table in "outbox", "retry_task", "relay_position", "relay_published":
            self.stack.sql(f"DELETE FROM {table}")
        self.kind = f"b{next(suite.run().numbers)}"
        self.topic = f"event.{self.stack.name}.{self.kind}"

    def published(self, relay):
        return relay.metrics().get(PUBLISHED, 0)

    def relay(self, **options):
        """A relay that has a position and can be told of rows."""
        relay = self.start("relay", **options)
        suite.wait_for("a position", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_position") == 1)
        return relay

    def records(self):
        return self.stack.records(self.topic)

    def wait_records(self, count, seconds=60):
        suite.wait_for(f"{count} records", lambda: len({one.headers["id"] for one in
                                                        self.records()}) >= count, seconds)

    def check_order(self, events):
        """All events are there, and each key's numbers go up. Returns the number of repeats."""
        first, repeats = {}, 0
        for record in self.records():
            if record.headers["id"] in first:
                repeats += 1
            first.setdefault(record.headers["id"], record)
        missing = [one for one in events if one["id"] not in first]
        self.assertEqual(len(missing), 0, f"lost: {missing[:3]}")
        self.assertEqual(len(first), len(events))
        numbers = {}
        for record in first.values():
            numbers.setdefault(record.key, []).append(int(record.value.split(b" ")[0]))
        for key, found in numbers.items():
            self.assertEqual(found, sorted(found), f"key {key}")
        return repeats

    def write(self, events, stop):
        """Transactions of several sizes, on three connections, each with keys of its own."""
        def run(number):
            source = random.Random(number)
            connection = suite.connect(self.stack.name, autocommit=False)
            count = 0
            while not stop.is_set():
                rows = [event(self.kind, f"{number}-{source.randrange(9)}", count + n)
                        for n in range(source.choice((1, 1, 3, 200)))]
                count += len(rows)
                self.stack.append(rows, connection=connection)
                if source.randrange(10) == 0:
                    connection.rollback()
                else:
                    connection.commit()
                    events.extend(rows)
            connection.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        return threads

    def write_while_relays_are_killed(self, kills):
        """The events of the transactions that were committed."""
        self.relay().terminate()
        events, stop = [], threading.Event()
        threads = self.write(events, stop)
        try:
            for _ in range(kills):
                relay = self.start("relay", ready=False)
                time.sleep(random.uniform(1, 4))
                relay.kill()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return events
