# SPDX-License-Identifier: MIT
"""Votes that the database refuses for a cause that passes: their contents wait in order, everything
else goes on, and once the cause is gone nothing is lost, doubled or out of order."""

import json
import pathlib
import random
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import test_housekeep  # noqa: E402


class HeldCase(test_housekeep.HousekeepCase):
    """A log without a partition for the months to come."""

    def setUp(self):
        super().setUp()
        self.recut(-6, 0, after=False)

    def held(self):
        return self.stack.sql("SELECT reason_class, record_key FROM dead_record ORDER BY "
                              "partition_id, record_offset")

    def log_of(self, content):
        return [row[0] for row in self.stack.sql(
            "SELECT voter_id FROM vote_document WHERE content_id = %s ORDER BY content_seq",
            [content])]

    def tasks(self):
        return self.stack.sql("SELECT task_group, scene, handler, ordering_key, biz_no, options, "
                              "state FROM retry_task ORDER BY id")

    def wait_tasks(self, count):
        return suite.wait_for(f"{count} tasks", lambda: len(self.tasks()) == count and self.tasks(),
                              60)

    def partition_of(self, content):
        return self.stack.number("SELECT partition_id FROM dead_record WHERE record_key = %s "
                                 "LIMIT 1", [str(content)])


class Held(HeldCase):
    """Without the retry queue at work."""

    seconds = 30

    def test_what_is_held_gets_one_task_for_each_key_whatever_stands_in_the_way(self):
        later = self.months.first(2)
        # A right that is missing on the writers' side delays tasks, and no vote.
        self.stack.tallybox("dead", "list")
        self.way()
        account = "tallybox_consume"
        self.stack.sql(f"REVOKE INSERT ON retry_task FROM '{account}'@'%'")
        self.vote_on(later, (1, 7, 1), (1, 8, 1), (2, 7, 1))
        self.vote_on(self.months.first(0), (1, 9, 1), (3, 8, 1))
        self.wait_logged()
        self.assertEqual(self.log_of(9), [1])
        self.assertEqual(len(self.held()), 4)
        self.assertEqual(len(self.tasks()), 0)
        self.stack.sql(f"GRANT INSERT ON retry_task TO '{account}'@'%'")
        tasks = {task[4]: task for task in self.wait_tasks(2)}
        for content in (7, 8):
            partition = self.partition_of(content)
            group, scene, handler, order, _, options, state = tasks[str(content)]
            self.assertEqual((group, scene, handler, state), (self.stack.group, "dead", "vote", 0))
            self.assertEqual(order, f"{self.stack.topic}/{partition}/{content}")
            self.assertEqual(json.loads(options), {"dead": {
                "group": self.stack.group, "topic": self.stack.topic, "partition": partition,
                "key": str(content)}})
        self.assertEqual(self.stack.sql("SELECT DISTINCT t.origin, g.owner FROM retry_task t JOIN "
                                        "retry_group g ON g.name = t.task_group"),
                         [("consumer", "consumer")])
        # A consumer that finds the same ones makes no second task.
        self.stack.role("consume")
        self.vote_on(later, (4, 7, 1), (4, 10, 1))
        self.wait_logged()
        self.wait_tasks(3)

    def test_dead_records_are_handed_to_the_lane_once(self):
        self.way()
        self.vote_on(self.months.first(2), (1, 7, 1), (2, 7, 1), (1, 8, 1))
        self.wait_logged()
        self.wait_tasks(2)
        ids = [row[0] for row in self.stack.sql("SELECT id FROM dead_record ORDER BY id")]
        for made in (2, 0):
            done = self.stack.tallybox("dead", "replay", "--queue", "--all", "--yes", "--json")
            self.assertEqual(json.loads(done.stdout), {"records": 3, "tasks": 2, "made": made})
        self.assertEqual(len(self.tasks()), 4)
        named = [json.loads(task[5])["dead"]["ids"] for task in self.tasks()[2:]]
        self.assertEqual(sorted(sum(named, [])), ids)
        self.stack.tallybox("dead", "replay", "--queue", "--ignore-key", "--all", "--yes",
                            expect=suite.USAGE)

    def test_a_vote_without_a_partition_waits_with_its_content_alone(self):
        today, later = self.months.first(0), self.months.first(2)
        self.way()
        self.vote_on(today, (1, 7, 1), (1, 8, 1))
        self.vote_on(later, (2, 7, 1))
        self.vote_on(today, (3, 7, 1), (2, 8, 1), (4, 7, 1))
        self.wait_logged()
        self.assertEqual(self.log_of(7), [1])
        self.assertEqual(self.log_of(8), [1, 2])
        self.assertEqual(sorted(self.held()),
                         [("behind", b"7"), ("behind", b"7"), ("refused", b"7")])
        self.assertIn("partition", self.stack.number(
            "SELECT reason FROM dead_record WHERE reason_class = 'refused'"))

        # While the cause is there a replay changes nothing; then it goes in order.
        self.stack.tallybox("dead", "replay", "--all", "--yes", expect=suite.FAILED)
        self.assertEqual(len(self.held()), 3)
        self.once(months_ahead=3)
        self.vote_on(later, (5, 8, 1))
        self.vote_on(today, (5, 7, 1))
        self.wait_logged()
        self.assertEqual(len(self.held()), 4)
        self.stack.tallybox("dead", "replay", "--all", "--yes")
        self.assertEqual(self.log_of(7), [1, 2, 3, 4, 5])

        # And back to the fast way.
        self.vote_on(later, (6, 7, 1), (6, 8, 1))
        self.wait_logged()
        self.assertEqual(len(self.held()), 0)
        self.assertEqual(self.log_of(7), [1, 2, 3, 4, 5, 6])
        self.stack.verify()


class LaneCase(HeldCase):
    """With `tallybox retry` at work."""

    def setUp(self):
        super().setUp()
        policy = {"wait": "fixed 300ms", "attempts": 0, "lease": "2s"}
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES (%s, 'dead', "
                       "%s)", [self.stack.group, json.dumps(policy)])

    def retry(self):
        return self.stack.role("retry", sets={"retry.lease_ms": 2000, "retry.rescue_ms": 500})

    def wait_drained(self, votes):
        """Until nothing is held, every vote is in the log and no task is left."""
        suite.wait_for("the votes to be in the log", lambda: votes == self.stack.number(
            "SELECT COUNT(*) FROM vote_document") and not self.held(), seconds=120)
        suite.wait_for("the tasks to be done", lambda: not self.tasks())
        self.stack.wait_drained()  # rows are deleted a moment after they were published


class Lane(LaneCase):
    """In one database."""

    def test_the_lane_replays_in_order_once_the_cause_is_gone(self):
        today, later = self.months.first(0), self.months.first(2)
        self.way()
        self.retry()
        self.vote_on(later, (1, 7, 1))
        self.vote_on(today, (2, 7, 1), (1, 8, 1))
        task = self.wait_tasks(1)
        suite.wait_for("two attempts", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_attempt WHERE outcome = 'failed' AND reason_class = "
            "'transient' AND reason LIKE '%partition%'") > 1)
        self.wait_logged()
        self.assertEqual(self.log_of(8), [1])
        self.assertEqual(self.log_of(7), [])
        self.assertEqual(task[0][4], "7")
        self.once(months_ahead=3)
        self.wait_drained(3)
        self.assertEqual(self.log_of(7), [1, 2])
        self.vote_on(later, (3, 7, 1), (4, 7, 1))
        self.wait_logged()
        self.assertEqual(self.log_of(7), [1, 2, 3, 4])
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM dead_history WHERE decision = 'applied' AND decided_by LIKE "
            "'retry@%'"), 2)
        self.stack.verify()


class TwoDatabases(LaneCase):
    """With the sink in a database of its own: no transaction spans both."""

    tables = re.compile(r"\b(vote_document|vote_tally|dead_record|dead_history|consumer_progress)\b")

    def setUp(self):
        self.sink = f"two_databases_{next(suite.run().numbers)}"
        self.settings = {**self.settings, "sink.database": self.sink}
        super().setUp()
        self.addCleanup(self.stack.sql, f"DROP DATABASE IF EXISTS `{self.sink}`", database=None)

    def recut(self, *arguments, **options):
        """From here on every look goes where its table is."""
        plain = type(self.stack).sql

        def sql(statement, arguments=(), **more):
            if self.tables.search(statement):
                more.setdefault("database", self.sink)
            return plain(self.stack, statement, arguments, **more)

        self.stack.sql = sql
        super().recut(*arguments, **options)

    def test_killed_at_any_moment_busy_keys_lose_double_and_overtake_nothing(self):
        days = [self.months.first(0), self.months.first(2)]
        self.way()
        rng = random.Random(4711)
        ends = threading.Event()
        votes = []

        def write():
            while not ends.is_set():
                batch = [(len(votes) + i + 1, 7 + i % 2, 1) for i in range(4)]
                self.vote_on(days[rng.random() < 0.3], *batch)
                votes.extend(batch)
                ends.wait(0.02)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            roles = [role for role in self.stack.roles if role.name == "consume"]
            roles += [self.retry() for _ in range(2)]
            for round_ in range(7):
                ends.wait(1)
                role = roles[round_ % 3]
                role.kill()
                role.start()
                if round_ == 2:
                    suite.wait_for("votes to be held", self.held)
                    self.once(months_ahead=3)
        finally:
            ends.set()
            writer.join()
        for role in roles:
            role.wait_ready()
        self.wait_drained(len(votes))
        for content in (7, 8):
            self.assertEqual(self.log_of(content),
                             [voter for voter, one, _ in votes if one == content])
        self.stack.verify()
