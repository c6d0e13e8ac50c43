# SPDX-License-Identifier: MIT
"""`tallybox relay source` changes from where a lane is read and loses and doubles nothing, also when it is
killed and when the log is gone; `publish-missing` publishes what never came through the log."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mysql_edge  # noqa: E402
import suite  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase, event  # noqa: E402

TABLE = {"lane.outbox.source": "table"}
BINLOG = {"lane.outbox.source": "binlog"}
BATCH_ROWS = 1000


class Commands(LaneCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.add_privileges("relay_source", ACCOUNT)

    def action(self, *words, **options):
        return self.stack.tallybox("relay", *words, **options)

    def source(self, source, *words, **options):
        return json.loads(self.action("source", "outbox", source, "--json", *words, **options).stdout)

    def action_process(self, *words, sets=None):
        account = self.stack.accounts.sets(["relay"], {})
        line = [suite.BINARY, "relay", "--config", str(self.stack.ini), *words]
        for key, value in {**account, **(sets or {})}.items():
            line += ["--set", f"{key}={value}"]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=suite.clean_environment())

    def wait_free(self):
        """The lease of a process that was killed."""
        suite.wait_for("the lease to end", lambda: not self.stack.number(
            "SELECT COUNT(*) FROM relay_lease WHERE lane = 'outbox' AND owner <> '' AND "
            "lease_until >= UTC_TIMESTAMP(3)"))

    def publish_one(self, **columns):
        """A row that is saved as published."""
        self.stack.append([event(self.kind, "key", 0, **columns)])
        self.wait_records(1)
        suite.wait_for("it to be saved as published", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_published") > 0)

    def rows(self):
        return self.stack.number("SELECT COUNT(*) FROM outbox")

    @contextlib.contextmanager
    def writers(self, events):
        stop = threading.Event()
        threads = self.write(events, stop)
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def holder(self, relay):
        """Whether this relay holds the lane."""
        return relay.metrics().get('tallybox_relay_lease_held{lane="outbox"}') == 1

    def both_relays(self):
        """One that has the source of now, and one with the other source, as in a rolling restart."""
        table = self.start("relay", sets=TABLE)
        suite.wait_for("it to hold the lane", lambda: self.holder(table))
        return table, self.start("relay", sets=BINLOG, ready=False)


class Source(Commands):
    seconds = 30
    settings = {**Commands.settings, **suite.PATIENT}

    def test_a_running_lane_changes_its_source_in_both_directions(self):
        events = []
        with self.writers(events):
            table, log = self.both_relays()
            for _ in range(2):
                changed = self.source("binlog")
                self.assertEqual(changed["published"], changed["found"])
                suite.wait_for("the other relay to take it", lambda: self.holder(log))
                suite.wait_for("the first one to say why not", lambda:
                               "start this relay with lane.outbox.source = binlog" in table.why_not_ready())
                seen = self.published(log)
                suite.wait_for("rows", lambda seen=seen: self.published(log) > seen)
                self.assertEqual(self.source("table"), {"lane": "outbox", "source": "table"})
                suite.wait_for("the first relay to take it", lambda: self.holder(table))
                suite.wait_for("the other one to say why not", lambda:
                               "start this relay with lane.outbox.source = table" in log.why_not_ready())
                seen = self.published(table)
                suite.wait_for("rows", lambda seen=seen: self.published(table) > seen)
        table.wait_ready()
        self.wait_records(len(events))
        self.stack.wait_drained()
        self.assertEqual(self.check_order(events), 0)

    def test_a_relay_that_does_not_answer_is_named(self):
        relay = self.start("relay", sets=TABLE)
        suite.wait_for("it to hold the lane", lambda: self.holder(relay))
        self.addCleanup(self.stack.sql, "UPDATE relay_lease SET owner = '' WHERE owner = 'old'")
        self.stack.sql("UPDATE relay_lease SET owner = 'old', lease_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR, "
                       "lease_ms = 3600000 WHERE lane = 'outbox'")
        refused = self.action("source", "outbox", "binlog", "--wait", "1", expect=suite.FAILED)
        self.assertIn("relay old holds the lane", refused.stderr)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_lease WHERE wanted_until IS NOT NULL"), 0)

    def test_a_lane_whose_log_is_gone_goes_on_from_its_table(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(1500)]
        self.stack.append(events[:500])
        self.wait_records(500)
        relay.terminate()
        self.stack.append(events[500:1200])
        self.purge_log()
        relay = self.start("relay", ready=False, sets={"lane.outbox.from_table": "no"})
        suite.wait_for("it to name the command", lambda:
                       "`tallybox relay source outbox binlog --from-table`" in relay.why_not_ready())
        refused = self.action("source", "outbox", "binlog", expect=suite.FAILED)
        self.assertIn("--from-table", refused.stderr)
        # The relay runs.
        changed = self.source("binlog", "--from-table")
        self.assertEqual((changed["found"], changed["published"]), (700, 700))
        self.stack.append(events[1200:])
        self.wait_records(1500)
        self.assertEqual(self.check_order(events), 0)
        self.assertEqual(self.rows(), 1500)

    def test_rows_of_a_table_that_was_emptied_are_not_deleted_as_published(self):
        """They have the seqs of rows that are saved as published, and are in the log behind the position."""
        for rows in (200, 700):
            with self.subTest(rows=rows):
                self.setUp()
                relay = self.relay()
                events = [event(self.kind, f"old-{n % 7}", n) for n in range(300)]
                self.stack.append(events)
                self.wait_records(300)
                suite.wait_for("them to be saved as published", lambda: self.stack.number(
                    "SELECT COUNT(*) FROM relay_published") > 0)
                relay.terminate()
                self.stack.sql("TRUNCATE TABLE outbox")
                new = [event(self.kind, f"new-{n % 7}", n) for n in range(rows)]
                self.stack.append(new)
                refused = self.action("source", "outbox", "table", expect=suite.FAILED)
                self.assertIn("table outbox was emptied", refused.stderr)
                self.assertEqual(self.rows(), rows)
                relay = self.start("relay")
                self.wait_records(300 + rows)
                suite.wait_for("the seqs of before to be forgotten", lambda relay=relay: "table_emptied" in
                               relay.log_text())
                relay.terminate()
                self.source("table")
                self.assertEqual(self.check_order(events + new), 0)
                self.stack.sql("TRUNCATE TABLE outbox")

    def test_a_row_of_the_future_is_not_of_another_table(self):
        relay = self.relay()
        self.publish_one(created_at="2099-01-01 00:00:00")
        self.assertEqual(self.source("table"), {"lane": "outbox", "source": "table"})
        self.assertEqual(self.rows(), 0)
        relay.terminate()

    def test_refused_rows_become_tasks(self):
        bad = [event(self.kind, "bad", n, headers="[1]" if n == 1 else None) for n in range(3)]
        good = [event(self.kind, f"good-{n % 5}", n) for n in range(20)]
        self.stack.append(good[:10] + bad + good[10:])
        changed = self.source("binlog")
        self.assertEqual([(one["moved"], bool(one["reason"])) for one in changed["refused"]],
                         [(True, True), (True, False)])
        self.assertEqual((changed["published"], changed["moved"], changed["left"]), (21, 2, 0))
        self.start("relay", sets=BINLOG)
        bad.append(event(self.kind, "bad", 3))
        self.stack.append(bad[3:])
        suite.wait_for("three tasks", lambda: [one[0] for one in self.stack.sql(
            "SELECT idempotency_key FROM retry_task ORDER BY id")] == [one["id"] for one in bad[1:]])
        self.check_order(good + bad[:1])

    def test_an_open_transaction_is_waited_for(self):
        connection = suite.connect(self.stack.name, autocommit=False)
        late, soon = event(self.kind, "late", 0), event(self.kind, "soon", 0)
        self.stack.append([late], connection=connection)
        self.stack.append([soon])
        refused = self.action("source", "outbox", "binlog", "--wait", "0", expect=suite.UNAVAILABLE)
        self.assertIn("a transaction that has written into table outbox is open", refused.stderr)
        change = self.action_process("source", "outbox", "binlog", "--json")
        time.sleep(0.5)
        connection.commit()
        connection.close()
        out, err = change.communicate(timeout=60)
        self.assertEqual(change.returncode, 0, err)
        self.assertEqual(json.loads(out)["published"], 2)
        self.check_order([soon, late])

    def test_a_prepared_transaction_is_waited_for(self):
        self.stack.sql("CREATE TABLE prepared (id INT PRIMARY KEY)")
        self.addCleanup(self.stack.sql, "DROP TABLE prepared")
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            for one in ("XA START 'cut'", "INSERT INTO prepared VALUES (1)", "XA END 'cut'", "XA PREPARE 'cut'"):
                cursor.execute(one)
        if suite.DATABASE == "mariadb":
            refused = self.action("source", "outbox", "binlog", "--wait", "0", expect=suite.UNAVAILABLE)
            self.assertIn("the server has 1 prepared XA transactions", refused.stderr)
            self.stack.sql("XA COMMIT 'cut'")
            self.assertEqual(self.source("binlog")["published"], 0)
        else:
            # The account may not ask for them.
            self.assertEqual(self.source("binlog")["published"], 0)
            self.stack.sql("XA COMMIT 'cut'")

    def test_what_cannot_be_changed_is_named(self):
        self.assertIn("other is not in relay.lanes",
                      self.action("source", "other", "table", expect=suite.FAILED).stderr)
        for words in (["outbox"], ["outbox", "kafka"], ["outbox", "table", "--from-table"]):
            self.action("source", *words, expect=suite.USAGE)
        self.assertIn("lane outbox reads its table", self.action("source", "outbox", "table").stdout)
        absent = {"lane.outbox.table": "absent"}
        self.assertIn("there is no table absent", self.action("source", "outbox", "table", sets=absent,
                                                              expect=suite.FAILED).stderr)
        self.stack.sql("CREATE TABLE plain (id CHAR(36) NOT NULL PRIMARY KEY, payload LONGBLOB)")
        self.addCleanup(self.stack.sql, "DROP TABLE plain")
        self.stack.sql(f"GRANT SELECT ON {self.stack.name}.plain TO '{ACCOUNT}'@'%'")
        plain = {"lane.outbox.table": "plain"}
        for source, text in (("table", "can be read from the binary log only"),
                             ("binlog", "tallybox lanes begin outbox --replace-position")):
            self.assertIn(text, self.action("source", "outbox", source, sets=plain, expect=suite.FAILED).stderr)
        self.relay(sets={"lane.outbox.keep_ms": -1}).terminate()
        self.assertIn("keep_ms = -1", self.action("source", "outbox", "table", expect=suite.FAILED,
                                                  sets={"lane.outbox.keep_ms": -1}).stderr)


class Killed(Commands):
    seconds = 65

    def test_kills_of_the_command_and_of_relays_lose_nothing(self):
        events = []
        with self.writers(events):
            relays = dict(zip(("table", "binlog"), self.both_relays()))
            for source, other in (("binlog", "table"), ("table", "binlog"), ("binlog", "table")):
                suite.wait_for("a holder", lambda other=other: self.holder(relays[other]))
                change = self.action_process("source", "outbox", source)
                suite.wait_for("it to hold the lane or to end", lambda change=change:
                               change.poll() is not None or self.stack.number(
                                   "SELECT COUNT(*) FROM relay_lease WHERE owner LIKE 'command-%'"))
                relays[other].kill()
                change.kill()
                change.communicate()
                self.action("source", "outbox", source)
                relays[other] = self.start("relay", sets=TABLE if other == "table" else BINLOG, ready=False)
            suite.wait_for("the new holder", lambda: self.holder(relays["binlog"]))
        self.wait_records(len(events))
        self.check_order(events)

    def test_a_change_that_is_killed_goes_on(self):
        events = [event(self.kind, f"key-{n % 9}", n, b"%d " % n + os.urandom(500))
                  for n in range(2500)]
        self.stack.append(events)
        with self.slow_batches():
            change = self.action_process("source", "outbox", "binlog")
            suite.wait_for("a batch or the end", lambda: change.poll() is not None or self.batches() > 0)
            change.kill()
            change.communicate()
            self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)
        self.wait_free()
        # No relay of either kind publishes now.
        for sets, why in ((TABLE, "start this relay with lane.outbox.source = binlog"),
                          (BINLOG, "tallybox relay source outbox binlog")):
            relay = self.start("relay", sets=sets, ready=False)
            suite.wait_for("it to say why", lambda why=why, relay=relay: why in relay.why_not_ready())
            relay.terminate()
        self.source("binlog")
        self.start("relay", sets=BINLOG)
        events.append(event(self.kind, "key-1", len(events)))
        self.stack.append(events[-1:])
        self.wait_records(len(events))
        self.assertLessEqual(self.check_order(events), BATCH_ROWS)

    def test_a_change_to_the_table_that_is_killed_may_be_turned_back(self):
        self.stack.append([event(self.kind, "first", 0)])
        self.source("binlog")
        relay = self.start("relay", sets=BINLOG)
        # What a command of an earlier version left that was killed before its first deletion.
        self.stack.sql("UPDATE relay_lease SET source = 'table' WHERE lane = 'outbox'")
        suite.wait_for("it to give the lane up", lambda: "start this relay with lane.outbox.source = table" in
                       relay.why_not_ready() and not self.holder(relay))
        self.source("binlog")
        suite.wait_for("it to take the lane", lambda: self.holder(relay))
        self.stack.append([event(self.kind, "first", 1)])
        self.wait_records(2)

    def test_a_change_from_the_table_that_is_killed_leaves_no_position_behind(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n, b"%d " % n + os.urandom(500)) for n in range(2700)]
        self.stack.append(events[:200])
        self.wait_records(200)
        relay.terminate()
        self.stack.append(events[200:])
        seen = self.batches()
        with self.slow_batches():
            change = self.action_process("source", "outbox", "binlog", "--from-table")
            suite.wait_for("a batch", lambda: change.poll() is not None or self.batches() > seen)
            change.kill()
            change.communicate()
            self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)
        self.wait_free()
        # It would go on at the old position, before the rows that the command has published.
        relay = self.start("relay", ready=False)
        suite.wait_for("it to say why", lambda: "tallybox relay source outbox binlog" in relay.why_not_ready())
        relay.terminate()
        self.source("binlog", "--from-table")
        self.start("relay")
        self.wait_records(len(events))
        self.assertLessEqual(self.check_order(events), BATCH_ROWS)


class Failures(Commands):
    """Errors and lost answers in the middle of a change."""

    seconds = 60

    def recorded(self):
        """The source that the commands have recorded."""
        return self.stack.sql("SELECT source FROM relay_lease WHERE lane = 'outbox'")[0][0]

    def test_a_change_to_the_table_that_fails_leaves_the_lane_in_the_log(self):
        self.relay(sets=suite.PATIENT)
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(20)]
        self.stack.append(events)
        self.wait_records(20)
        connection = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            cursor.execute("SELECT seq FROM outbox WHERE id = %s FOR UPDATE", [events[10]["id"]])
        failed = self.action("source", "outbox", "table", expect=suite.UNAVAILABLE)
        connection.rollback()
        self.assertIn("deleting from outbox", failed.stderr)
        self.assertNotEqual(self.recorded(), "table")
        # The relay has the lane again.
        events.append(event(self.kind, "key-1", 20))
        self.stack.append(events[20:])
        self.wait_records(21)
        self.stack.sql("CREATE TRIGGER refuse BEFORE DELETE ON relay_position FOR EACH ROW SIGNAL SQLSTATE '45000'")
        self.addCleanup(self.stack.sql, "DROP TRIGGER IF EXISTS refuse")
        self.action("source", "outbox", "table", expect=suite.FAILED)
        self.assertEqual((self.rows(), self.stack.number("SELECT COUNT(*) FROM relay_position")), (0, 1))
        self.assertNotEqual(self.recorded(), "table")
        self.stack.sql("DROP TRIGGER refuse")
        self.source("table")
        self.assertEqual(self.recorded(), "table")
        table = self.start("relay", sets={**TABLE, **suite.PATIENT})
        suite.wait_for("it to hold the lane", lambda: self.holder(table))
        events.append(event(self.kind, "key-1", 21))
        self.stack.append(events[21:])
        self.wait_records(22)
        self.assertEqual(self.check_order(events), 0)


    def edge(self):
        """Where answers of the server are lost, and the settings that lead through it."""
        database = suite.database()
        edge = mysql_edge.Edge(database.host, database.port)
        self.addCleanup(edge.close)
        return edge, {"mysql.host": edge.host, "mysql.port": edge.port}

    def change_without_an_answer(self, edge, sets, source, last_write, trouble=lambda: None):
        """The code and the output of a change; the answer to its last COMMIT is lost."""
        held = edge.hold(last_write)
        change = self.action_process("source", "outbox", source, "--json", sets=sets)
        suite.wait_for("its last write", lambda: held.hits == 1 or change.poll() is not None)
        lost = edge.lose(r"^COMMIT$")
        trouble()
        held.released.set()
        out, err = change.communicate(timeout=60)
        self.assertEqual(lost.hits, 1, err)
        return change.returncode, out, err

    def test_a_change_whose_last_answer_is_lost_is_done(self):
        edge, sets = self.edge()
        sets = {**sets, **suite.PATIENT}
        events = [event(self.kind, "key", n) for n in range(3)]
        self.stack.append(events)
        code, out, err = self.change_without_an_answer(edge, sets, "binlog", r"^INSERT INTO relay_position")
        self.assertEqual((code, json.loads(out or "{}").get("published")), (0, 3), err)
        self.assertEqual((self.recorded(), self.rows()), ("binlog", 3))
        code, out, err = self.change_without_an_answer(edge, sets, "table", r"^DELETE FROM relay_position")
        self.assertEqual((code, json.loads(out or "{}").get("source")), (0, "table"), err)
        self.assertEqual((self.recorded(), self.rows()), ("table", 0))
        self.assertEqual(self.check_order(events), 0)

    def test_a_change_that_may_be_done_is_said_to_be_unknown(self):
        edge, sets = self.edge()

        def no_further_answer():
            edge.refuse_logins(1040, "Too many connections")
            edge.cut("^SELECT server = 'from-table' FROM relay_position", times=-1)
        code, _, err = self.change_without_an_answer(edge, sets, "binlog", r"^INSERT INTO relay_position",
                                                     no_further_answer)
        self.assertEqual(code, suite.UNAVAILABLE, err)
        self.assertIn("it is not known whether the source of the lane is changed: run the command again", err)
        self.wait_free()
        again = self.action("source", "outbox", "binlog")
        self.assertIn("lane outbox reads the binary log, and goes on at its position there", again.stdout)


    def test_a_change_that_is_not_done_is_said_to_be_so(self):
        edge, sets = self.edge()
        edge.answer(r"^INSERT INTO relay_position", 1205, times=-1)
        failed = self.action("source", "outbox", "binlog", sets=sets, expect=suite.UNAVAILABLE)
        self.assertIn("the change of the source is not finished: run the command again", failed.stderr)
        self.wait_free()
        self.source("binlog")

    def test_a_change_to_the_table_works_without_a_position(self):
        """As after a change to the log that was killed."""
        relay = self.relay()
        self.publish_one()
        relay.terminate()
        self.stack.sql("DELETE FROM relay_position")
        self.assertEqual(self.source("table"), {"lane": "outbox", "source": "table"})
        self.assertEqual(self.rows(), 0)

    def test_a_change_to_the_table_works_where_the_end_of_the_log_is_not_told(self):
        relay = self.relay()
        self.publish_one()
        edge, sets = self.edge()
        denied = edge.answer(r"^SELECT @@GLOBAL.gtid_(binlog_pos|mode)", 1227)
        self.action("source", "outbox", "table", sets=sets)
        self.assertEqual(denied.hits, 1)
        self.assertEqual(self.rows(), 0)
        relay.terminate()

    def test_a_change_from_the_table_needs_its_option_again(self):
        self.relay().terminate()
        edge, sets = self.edge()
        held = edge.hold(r"^DELETE FROM relay_position")
        change = self.action_process("source", "outbox", "binlog", "--from-table", sets=sets)
        suite.wait_for("the end of the position", lambda: held.hits == 1 or change.poll() is not None)
        change.kill()
        change.communicate()
        held.released.set()
        self.wait_free()
        self.assertIn("With --from-table", self.action("source", "outbox", "binlog", expect=suite.FAILED).stderr)
        # A relay has begun to go on from the table.
        self.source("binlog", "--from-table")
        self.stack.sql("UPDATE relay_position SET server = 'from-table', by_gtid = 0")
        refused = self.action("source", "outbox", "binlog", expect=suite.FAILED)
        self.assertIn("this command with --from-table", refused.stderr)
        self.source("binlog", "--from-table")
        self.assertNotEqual(self.stack.sql("SELECT server FROM relay_position"), [("from-table",)])


class Missing(Commands):
    seconds = 30
    settings = {**Commands.settings, "lane.outbox.keep_ms": 3000}

    @contextlib.contextmanager
    def trickle(self):
        """A position without rows behind it is saved every ten seconds only."""
        stop, events = threading.Event(), []

        def run():
            while not stop.wait(0.3):
                one = event(self.kind, "trickle", len(events))
                self.stack.append([one], connection=connection)
                events.append(one)

        connection = suite.connect(self.stack.name)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield events
        finally:
            stop.set()
            thread.join()
            connection.close()

    def past_the_log(self, rows):
        connection = suite.connect(self.stack.name)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
        self.stack.append(rows, connection=connection)
        connection.close()

    def missing(self, *words, **options):
        return json.loads(self.action("publish-missing", "outbox", "--json", *words, **options).stdout)

    def test_rows_past_the_log_are_published_once_under_load_and_then_deleted(self):
        events = []
        self.relay(sets=suite.PATIENT)
        hidden = [event(self.kind, f"hidden-{n % 3}", n) for n in range(1300)]
        with self.writers(events):
            self.past_the_log(hidden[:1000])
            time.sleep(0.5)
            self.past_the_log(hidden[1000:])
            time.sleep(0.5)
            counted = self.missing("--dry-run", sets=suite.PATIENT)
            self.assertEqual((counted["found"], counted["published"]), (1300, 0))
            done = self.missing(sets=suite.PATIENT)
            self.assertEqual((done["found"], done["published"], done["refused"]), (1300, 1300, []))
            self.assertEqual(self.missing(sets=suite.PATIENT)["found"], 0)
        self.wait_records(len(events) + 1300)
        self.assertEqual(self.check_order(events + hidden), 0)
        suite.wait_for("all rows to be deleted", lambda: self.rows() == 0)

    def test_a_kill_loses_nothing(self):
        self.relay(sets={"lane.outbox.keep_ms": 3600000})
        hidden = [event(self.kind, f"hidden-{n % 3}", n, b"%d " % n + os.urandom(500))
                  for n in range(2500)]
        self.past_the_log(hidden)
        with self.trickle() as events:
            command = self.action_process("publish-missing", "outbox")
            suite.wait_for("a batch", lambda: command.poll() is not None or self.stack.number(
                "SELECT COUNT(*) FROM relay_published WHERE LENGTH(seqs) > 2 AND first_seq <= (SELECT "
                "MIN(seq) FROM outbox)"))
            command.kill()
            command.communicate()
            suite.wait_for("the lock to end", lambda: self.action(
                "publish-missing", "outbox", expect=None).returncode == 0)
        self.wait_records(len(hidden) + len(events))
        self.assertLessEqual(self.check_order(hidden + events), BATCH_ROWS)

    def test_refused_rows_stay_and_are_named(self):
        self.relay()
        bad = [event(self.kind, "bad", n, headers="[1]" if n == 1 else None) for n in range(3)]
        good = [event(self.kind, f"good-{n}", n) for n in range(3)]
        self.past_the_log(bad[:2] + good + bad[2:])
        with self.trickle() as events:
            for published in (4, 0):
                done = self.missing(expect=suite.FAILED)
                self.assertEqual((done["published"], done["left"]), (published, 2))
                self.assertEqual([(one["moved"], bool(one["reason"])) for one in done["refused"]],
                                 [(False, True), (False, False)])
        self.wait_records(len(events) + 4)
        suite.wait_for("the others to be deleted", lambda: self.rows() == 2)
        self.check_order(good + bad[:1] + events)

    def test_it_needs_a_lane_that_reads_the_log(self):
        self.assertIn("has no position", self.action("publish-missing", "outbox",
                                                     expect=suite.FAILED).stderr)
        self.assertIn("reads its table", self.action("publish-missing", "outbox", sets=TABLE,
                                                     expect=suite.FAILED).stderr)
        self.relay().terminate()
        self.past_the_log([event(self.kind, "key", 0)])
        # Another transaction, which nothing passes.
        self.stack.append([event(self.kind, "key", 1)])
        self.assertIn("a relay has to read it", self.action(
            "publish-missing", "outbox", "--wait", "1", expect=suite.UNAVAILABLE).stderr)
        connection = suite.connect(self.stack.name)
        with connection.cursor() as cursor:
            # A server frees the lock of a command that has ended when it notices that.
            cursor.execute("SELECT GET_LOCK(CONCAT('tallybox/', LEFT(SHA2(CONCAT(DATABASE(), '/outbox'), "
                           "256), 40)), 60)")
            self.assertEqual(cursor.fetchall(), ((1,),))
        for words in (["publish-missing", "outbox"], ["source", "outbox", "table"]):
            self.assertIn("another command", self.action(*words, expect=suite.FAILED).stderr)
        connection.close()
        # Nor does it begin while a source is changed.
        connection = suite.connect(self.stack.name, autocommit=False)
        self.stack.append([event(self.kind, "key", 2)], connection=connection)
        change = self.action_process("source", "outbox", "binlog", "--from-table")
        suite.wait_for("it to hold the lane", lambda: self.stack.number(
            "SELECT COUNT(*) FROM relay_lease WHERE owner LIKE 'command-%'"))
        self.assertIn("another command", self.action("publish-missing", "outbox", expect=suite.FAILED).stderr)
        connection.commit()
        connection.close()
        self.assertEqual(change.wait(timeout=60), 0, change.communicate())


if __name__ == "__main__":
    unittest.main()
