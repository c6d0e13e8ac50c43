# SPDX-License-Identifier: MIT
"""A relay with one binlog lane on the table outbox, what it publishes, and writers of its rows."""

import contextlib
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
# Of a relay that is killed: the next one waits for its lease.
QUICK = {"relay.lease_ms": 2000, "relay.send_timeout_ms": 1500}
PUBLISHED = 'tallybox_relay_published_total{lane="outbox"}'


def event(kind, key, number, payload=None, **more):
    return {"id": str(uuid.uuid4()), "aggregatetype": kind, "aggregateid": key, "type": "Happened",
            "payload": payload or b"%d" % number, **more}


def take_place(server):
    """Makes it the server of the tests; returns what puts the one before back."""
    servers = suite.run().servers
    before = servers.pop(suite.DATABASE, None)
    servers[suite.DATABASE] = server

    def put_back():
        del servers[suite.DATABASE]
        if before is not None:
            servers[suite.DATABASE] = before
    return put_back


class LaneCase(suite.Case):
    """One binlog lane on the table outbox, which keeps its rows for an hour."""

    seconds = 190
    settings = {**QUICK, "lane.outbox.source": "binlog", "relay.topic_partitions": 2,
                "retry.poll_ms": 50, "retry.lease_ms": 2000, "retry.rescue_ms": 500}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.add_privileges("relay_wakeup", ACCOUNT)
        # They are for the whole server, which has other tests.
        cls.addClassCleanup(cls.stack.sql, REVOKE)

    def setUp(self):
        for table in "outbox", "retry_task", "relay_position", "relay_published", "relay_published_id":
            self.stack.sql(f"DELETE FROM {table}")
        self.stack.sql("UPDATE relay_lease SET source = '', wanted_until = NULL")
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

    def purge_log(self):
        """Nothing reads the log: the server keeps only a file that was begun now."""
        self.stack.sql("FLUSH BINARY LOGS")
        last = self.stack.sql("SHOW BINARY LOGS")[-1][0]

        def purge():
            # MariaDB keeps a file while it believes that a reader is in it.
            self.stack.sql("PURGE BINARY LOGS TO %s", [last])
            return self.stack.sql("SHOW BINARY LOGS")[0][0] == last
        suite.wait_for("the log to be purged", purge)

    @contextlib.contextmanager
    def slow_batches(self):
        """Saving a batch of rows as published takes a second, so that there is a middle for a kill."""
        self.stack.sql("CREATE TRIGGER slow BEFORE INSERT ON relay_published FOR EACH ROW DO SLEEP(1)")
        try:
            yield
        finally:
            self.stack.sql("DROP TRIGGER slow")

    def batches(self):
        return self.stack.number("SELECT COUNT(*) FROM relay_published WHERE LENGTH(seqs) > 2")

    def begin_writer(self, number, connection):
        """Of write(), before its first transaction: its variables."""

    def write(self, events, stop, table="outbox"):
        """Transactions of several sizes, on three connections, each with keys of its own."""
        def run(number):
            source = random.Random(number)
            connection = suite.connect(self.stack.name, autocommit=False)
            self.begin_writer(number, connection)
            count = 0
            while not stop.is_set():
                rows = [event(self.kind, f"{number}-{source.randrange(9)}", count + n)
                        for n in range(source.choice((1, 1, 3, 200)))]
                count += len(rows)
                self.stack.append(rows, table=table, connection=connection)
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

    @contextlib.contextmanager
    def writing(self, **options):
        """The events of the transactions that are committed, which write() makes meanwhile."""
        events, stop = [], threading.Event()
        threads = self.write(events, stop, **options)
        try:
            yield events
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def set_global(self, name, value):
        """For this test."""
        before = self.stack.sql(f"SELECT @@GLOBAL.{name}")[0][0]
        self.addCleanup(self.stack.sql, f"SET GLOBAL {name} = %s", [before])
        self.stack.sql(f"SET GLOBAL {name} = %s", [value])

    def dump_threads(self):
        """The ids of the sessions that read the log for relays."""
        return [row[0] for row in self.stack.sql(
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%%' AND "
            "user = %s", [ACCOUNT])]

    def write_while_relays_are_killed(self, kills, table="outbox", longest=4, **options):
        """The events of the transactions that were committed."""
        self.relay(**options).terminate()
        with self.writing(table=table) as events:
            for _ in range(kills):
                relay = self.start("relay", ready=False, **options)
                time.sleep(random.uniform(1, longest))
                relay.kill()
        return events

    def check_removals_under_kills(self, kills, table="outbox", **options):
        """Rows that are gone before the last relay begins were published. Returns that relay."""
        sets = options.get("sets")
        events = self.write_while_relays_are_killed(kills, table=table, **options)
        if self.stack.number(f"SELECT COUNT(*) FROM {table}") == len(events):
            # On a slow machine no relay has lived long enough to remove any.
            relay = self.relay(sets=sets)
            suite.wait_for("rows to be removed", lambda: self.stack.number(
                f"SELECT COUNT(*) FROM {table}") < len(events))
            relay.kill()
        left = {one[0] for one in self.stack.sql(f"SELECT id FROM {table}")}
        gone = {one["id"] for one in events} - left
        self.assertGreater(len(gone), 0)
        self.assertEqual(gone - {one.headers["id"] for one in self.records()}, set())
        relay = self.relay(sets=sets)
        self.wait_records(len(events))
        self.check_order(events)
        return relay


class OwnLaneCase(LaneCase):
    """The same on a server of its own, with these arguments."""

    arguments = []

    @classmethod
    def setUpClass(cls):
        server = suite.OwnServer(f"lane-{cls.__name__}", cls.arguments)
        server.start()
        cls.addClassCleanup(server.stop)
        cls.addClassCleanup(take_place(server))
        super().setUpClass()
