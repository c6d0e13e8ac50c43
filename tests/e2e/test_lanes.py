# SPDX-License-Identifier: MIT
"""The number of lanes: what writers and relays must agree on, what says so when they do not, and its
change while writers write, which keeps the order of every key."""

import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import mysql_edge  # noqa: E402
import wire  # noqa: E402

CONTENTS = 12
BOTH = {"relay.lanes": "outbox,outbox_1"}


class Lanes(suite.Case):
    settings = {"relay.lease_ms": 2000, "relay.send_timeout_ms": 1500,
                "api.request_timeout_ms": 3000}

    def setUp(self):
        self.stack.sql("UPDATE outbox_lanes SET lane_count = 1, next_count = 0")
        self.stack.sql("DELETE FROM outbox")
        self.stack.sql("CREATE TABLE IF NOT EXISTS outbox_1 LIKE outbox")
        self.stack.sql("DELETE FROM outbox_1")
        self.stack.sql("DELETE FROM retry_task")
        self.stack.sql("DELETE FROM relay_lease")

    def serve(self, lane_count=1, **options):
        return self.start("serve", sets={"api.lane_count": lane_count}, **options)

    def lanes(self, *words, **options):
        return self.stack.tallybox("lanes", *words, **options)

    def number(self):
        return self.stack.sql("SELECT lane_count, next_count FROM outbox_lanes")[0]

    @staticmethod
    def post(serve, voter, content, voting=1):
        return serve.call("POST", "/v1/votes",
                          {"voterId": voter, "contentId": content, "voting": voting})


class Agreement(Lanes):
    def refused(self, name, *words, **sets):
        done = self.stack.tallybox(name, sets={"admin.listen": "off", **{
            key.replace("__", ".", 1): value for key, value in sets.items()}}, expect=suite.USAGE)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_run_refuses_a_lane_that_it_writes_and_does_not_relay(self):
        self.refused("run", "outbox_1", "relay.lanes", api__lane_count=2)

    def test_serve_with_another_number_ends_with_2(self):
        self.refused("serve", "api.lane_count = 2", "tallybox lanes set 2", api__lane_count=2)
        self.lanes("set", 2)
        self.refused("serve", "api.lane_count = 1", "the database has 2", api__lane_count=1)

    def test_votes_of_the_command_line_with_another_number_are_refused(self):
        for words in (["1", "2"], ["--csv", "-"]):
            done = self.stack.tallybox("vote", *words, sets={"api.lane_count": 2},
                                       stdin=b"voter_id,content_id\n1,2\n", expect=suite.USAGE)
            self.assertIn("api.lane_count = 2", done.stderr)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 0)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox_1"), 0)

    def test_a_lane_that_no_relay_serves_is_named(self):
        self.lanes("set", 2)
        self.start("relay")  # of outbox alone
        serve = self.serve(2, ready=False)
        suite.wait_for("readiness that names outbox_1",
                       lambda: "outbox_1" in (serve.why_not_ready() or ""))
        self.assertNotIn("outbox,", serve.why_not_ready())
        status = json.loads(self.stack.tallybox("status", "--json").stdout)
        self.assertEqual(status["outbox"]["written"]["unserved"], ["outbox_1"])
        self.assertIn("outbox_1: writers use it, but no live relay serves it", self.stack.tallybox("status").stdout)
        self.assertIn("check=lanes_served", serve.log_text())
        self.start("relay", sets=BOTH)
        serve.wait_ready()
        suite.wait_for("status without it", lambda: not json.loads(
            self.stack.tallybox("status", "--json").stdout)["outbox"]["written"]["unserved"])

    def test_a_take_over_is_no_alarm(self):
        first, second = self.start("relay"), self.start("relay")
        # serve waits for so long before it names a lane: enough for a busy machine.
        serve = self.start("serve", sets={"api.lane_count": 1, "relay.lease_ms": 20000})

        def taken_over():
            self.assertTrue(serve.answers("/readyz"), serve.why_not_ready())
            return f"-{second.pid}-" in self.stack.number(
                "SELECT owner FROM relay_lease WHERE lane = 'outbox'")

        self.assertFalse(taken_over())
        first.kill()
        suite.wait_for("the other relay to hold the lane", taken_over)
        self.assertNotIn("check=lanes_served", serve.log_text())


class Change(Lanes):
    """With nothing else going on."""

    seconds = 55

    def test_the_table_is_made_and_the_number_stored(self):
        self.stack.sql("DROP TABLE outbox_1")
        self.assertIn("outbox_1 created", self.lanes("set", 2).stdout)
        self.assertEqual(self.number(), (2, 0))
        self.assertIn("lanes      2", self.lanes("show").stdout)
        self.assertIn("already", self.lanes("set", 2).stdout)

    def test_a_change_that_takes_too_long_is_undone(self):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "step", "aggregateid": "k",
                            "type": "Step", "payload": "1"}])
        done = self.lanes("set", 2, "--wait", 1, expect=suite.UNAVAILABLE)
        self.assertIn("outbox has 1 rows", done.stderr)
        self.assertEqual(self.number(), (1, 0))

    def test_a_task_of_a_lane_in_the_retry_queue_holds_the_change_up(self):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "step", "aggregateid": "k",
                            "type": "Step", "payload": "x" * 5000}])
        relay = self.start("relay", sets={"relay.row_bytes_max": 4000})
        self.stack.wait_drained()
        relay.end()
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1)
        done = self.lanes("set", 2, "--wait", 1, expect=suite.UNAVAILABLE)
        self.assertIn("1 tasks", done.stderr)
        self.stack.sql("DELETE FROM retry_task")
        self.lanes("set", 2)

    def test_writers_answer_503_and_an_ended_change_is_undone_or_run_again(self):
        serve = self.serve()
        self.start("relay", sets=BOTH)
        self.assertEqual(self.post(serve, 1, 1).status, 200)
        self.stack.sql("UPDATE outbox_lanes SET next_count = 2, version = version + 1")
        answer = self.post(serve, 1, 2)
        self.assertEqual(answer.status, 503)
        suite.wait_for("readiness that names the change",
                       lambda: "tallybox lanes set 2" in (serve.why_not_ready() or ""))
        done = self.stack.tallybox("vote", "5", "6", expect=suite.UNAVAILABLE)
        self.assertIn("tallybox lanes set 2", done.stderr)
        self.assertIn("tallybox lanes set 1", self.lanes("show").stdout)
        self.assertIn("undone", self.lanes("set", 1).stdout)
        suite.wait_for("votes again", lambda: self.post(serve, 1, 2).status == 200)
        self.stack.wait_drained()
        self.stack.sql("UPDATE outbox_lanes SET next_count = 2, version = version + 1")
        self.lanes("set", 2)
        self.assertEqual(self.number(), (2, 0))
        self.assertEqual(self.post(serve, 1, 3).status, 503)
        other = self.serve(2)
        self.assertEqual(self.post(other, 1, 3).status, 200)

    def test_a_killed_change_can_be_finished(self):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "step", "aggregateid": "k",
                            "type": "Step", "payload": "1"}])
        account = self.stack.accounts.sets(["lanes"], {})
        words = [suite.BINARY, "lanes", "--config", str(self.stack.ini), "set", "2"]
        for key, value in account.items():
            words += ["--set", f"{key}={value}"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=suite.clean_environment()) as change:
            try:
                suite.wait_for("the change", lambda: self.number() == (1, 2))
            finally:
                change.send_signal(signal.SIGKILL)
        self.assertEqual(self.number(), (1, 2))
        self.stack.sql("DELETE FROM outbox")
        self.lanes("set", 2)
        self.assertEqual(self.number(), (2, 0))

    def test_a_change_whose_last_answer_is_lost_at_the_deadline_is_done(self):
        database = suite.database()
        edge = mysql_edge.Edge(database.host, database.port)
        self.addCleanup(edge.close)
        lost = edge.lose(r"^UPDATE outbox_lanes SET lane_count")
        done = self.lanes("set", 2, "--wait", 0, sets={"mysql.host": edge.host,
                                                       "mysql.port": edge.port})
        self.assertEqual(lost.hits, 1)
        self.assertEqual(self.number(), (2, 0))
        self.assertIn("the number of lanes is 2, it was 1", done.stdout)
        self.assertNotIn("undone", done.stderr)

    def change_beside(self, change):
        """What a command says whose lanes stay full while this statement is done beside it."""
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "step", "aggregateid": "k",
                            "type": "Step", "payload": "1"}])
        account = self.stack.accounts.sets(["lanes"], {})
        words = [suite.BINARY, "lanes", "--config", str(self.stack.ini), "set", "2", "--wait", "5"]
        for key, value in account.items():
            words += ["--set", f"{key}={value}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=suite.clean_environment()) as command:
            self.addCleanup(command.kill)
            suite.wait_for("the change", lambda: self.number() == (1, 2))
            self.stack.sql(change)
            stdout, stderr = command.communicate(timeout=60)
        return command.returncode, stdout, stderr

    def test_a_change_that_another_command_finished_is_not_said_to_be_undone(self):
        code, stdout, stderr = self.change_beside(
            "UPDATE outbox_lanes SET lane_count = 2, next_count = 0, version = version + 1")
        self.assertEqual(self.number(), (2, 0))
        self.assertEqual(code, suite.DONE, stdout + stderr)
        self.assertIn("the number of lanes is 2, it was 1", stdout)
        self.assertNotIn("undone", stderr)

    def test_a_change_that_another_command_replaced_is_left_alone(self):
        code, stdout, stderr = self.change_beside(
            "UPDATE outbox_lanes SET next_count = 3, version = version + 1")
        self.assertEqual(self.number(), (1, 3))
        self.assertEqual(code, suite.UNAVAILABLE, stdout + stderr)
        self.assertIn("the number of lanes is 1, and a change to 3 is under way", stderr)
        self.assertNotIn("lanes: undone", stderr)

    def test_an_open_vote_transaction_holds_the_change_up(self):
        """One that has read the old number, and has not written yet."""
        writer = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(writer.close)
        with writer.cursor() as cursor:
            cursor.execute("SELECT lane_count FROM outbox_lanes WHERE id = 1 LOCK IN SHARE MODE")
            done = self.lanes("set", 2, "--wait", 1, expect=suite.UNAVAILABLE)
            self.assertNotIn("the number of lanes is 2", done.stdout)
            # The change did not begin: writers go on.
            self.assertIn("nothing was changed, the number of lanes is 1", done.stderr)
            self.assertNotIn("no votes are accepted", done.stderr)
            self.assertEqual(self.number(), (1, 0))

    def test_a_vote_that_has_read_the_number_holds_the_change_up(self):
        """The real writer, between that look and its events: it waits for a row of another one."""
        serve = self.start("serve", sets={"api.request_timeout_ms": 30000})
        blocker = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(blocker.close)
        with blocker.cursor() as cursor:
            cursor.execute("INSERT INTO vote_state (voter_id, content_id, voting, version, "
                           "event_id) VALUES (70, 80, 1, 1, REPEAT('x', 16))")
        answers = []
        vote = threading.Thread(target=lambda: answers.append(self.post(serve, 70, 80).status))
        vote.start()
        try:
            # Not innodb_trx or processlist: MySQL cannot convert the bytes of this statement (3854).
            suite.wait_for("the vote to wait for the row", lambda: int(self.stack.row(
                "SHOW GLOBAL STATUS LIKE 'innodb_row_lock_current_waits'")[1]))
            self.lanes("set", 2, "--wait", 0, expect=suite.UNAVAILABLE)
            self.assertEqual(self.number(), (1, 0))
        finally:
            blocker.rollback()
            vote.join()
        self.assertEqual(answers, [200])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 1)


class Voter(threading.Thread):
    """Votes one after the other, whatever serve there is; keeps the changes that were answered."""

    def __init__(self, case, number):
        super().__init__(name=f"voter-{number}")
        self.case = case
        self.number = number
        self.rng = random.Random(number)
        self.done = threading.Event()
        self.changes = 0
        self.refused = 0
        self.trouble = None

    def run(self):
        voting = {}
        try:
            while not self.done.is_set():
                content = self.rng.randrange(1, CONTENTS + 1)
                wish = 1 - voting.get(content, 0)
                try:
                    answer = Lanes.post(self.case.serves[0], self.number, content, wish)
                except (OSError, AssertionError):
                    time.sleep(0.05)  # the old one is gone, or the new one is not there yet
                    continue
                if answer.status == 200:
                    self.changes += json.loads(answer.body)["changed"]
                    voting[content] = wish
                else:
                    self.refused += 1
                    time.sleep(0.02)
        except Exception as reason:  # pylint: disable=broad-except
            self.trouble = reason


class Order(Lanes):
    def run_change(self, number):
        """While votes come in: the change, then writers with the new number."""
        self.start("relay", sets=BOTH)
        self.serves = [self.serve()]
        # A topic that is new to the brokers answers in odd ways; this is about lanes.
        wire.create_topic(suite.kafka().bootstrap, self.stack.topic, 4)
        for content in range(1, CONTENTS + 1):
            self.assertEqual(self.post(self.serves[0], 100, content).status, 200)
            self.stack.wait_drained()
        voters = self.voters = [Voter(self, n) for n in range(1, 9)]
        for voter in voters:
            voter.start()
        try:
            for count in number:
                before = sum(voter.changes for voter in voters)
                suite.wait_for("votes", lambda: sum(
                    voter.changes for voter in voters) > before + 300, 120)
                self.lanes("set", count, "--wait", 120, seconds=200)
                old = self.serves[0]
                self.serves[0] = self.serve(count)
                old.end()
            before = sum(voter.changes for voter in voters)
            suite.wait_for("votes", lambda: sum(
                voter.changes for voter in voters) > before + 300, 120)
        finally:
            for voter in voters:
                voter.done.set()
            for voter in voters:
                voter.join(60)
        self.assertEqual([voter.trouble for voter in voters if voter.trouble], [])
        self.assertGreater(sum(voter.refused for voter in voters), 0)
        self.stack.wait_drained()
        self.stack.wait_drained(table="outbox_1")

    def test_each_key_keeps_its_order_over_changes_while_writers_write(self):
        self.run_change([2, 1, 2])
        seen, totals, lanes, story = set(), {}, set(), {}
        for record in self.stack.records():
            name = record.headers["id"]
            vote = json.loads(record.value)
            story.setdefault(record.key, []).append(
                (record.offset, record.headers["lane"], record.headers["seq"], vote["voting"],
                 vote["votes"], name in seen))
            if name in seen:
                continue
            seen.add(name)
            lanes.add(record.headers["lane"])
            # Each event says the exact total after it: any other order of a key does not add up.
            totals[record.key] = totals.get(record.key, 0) + (1 if vote["voting"] else -1)
            self.assertEqual(totals[record.key], vote["votes"],
                             f"{record.key}: {story[record.key][-20:]}")
        self.assertEqual(len(seen), self.stack.number("SELECT SUM(version) FROM vote_state"))
        self.assertEqual(sum(totals.values()),
                         self.stack.number("SELECT SUM(votes) FROM vote_count"))
        self.assertLessEqual({"outbox", "outbox_1"}, lanes)


if __name__ == "__main__":
    unittest.main()
