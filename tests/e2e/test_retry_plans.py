# SPDX-License-Identifier: MIT
"""How the retry queue's statements find their rows: by their index and in its order, whatever else
is in the table. A key with 20,000 tasks must cost what a key with two does."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import mysql_edge  # noqa: E402
import retry_store  # noqa: E402

HOT = 20000
EXPLAIN = "EXPLAIN " if suite.DATABASE == "mariadb" else "EXPLAIN FORMAT=TRADITIONAL "


class Listener(mysql_edge.Edge):
    """Keeps what passes by."""

    def __init__(self, host, port):
        self.statements = []
        super().__init__(host, port)

    def trouble_for(self, sql):
        if "retry_" in sql:
            self.statements.append(sql)

    def take(self):
        taken, self.statements = self.statements, []
        return taken


class RetryPlans(retry_store.Case):
    """One table with many tasks for all tests."""

    seconds = 40

    def setUp(self):
        super().setUp()
        server = suite.database()
        self.edge = Listener(server.host, server.port)
        self.addCleanup(self.edge.close)
        self.connection = self.session()
        digits = "(SELECT 0 n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
        self.stack.sql(
            "INSERT INTO retry_task (scene, handler, ordering_key, params) SELECT 'a', 'kafka', "
            "'hot', CONCAT('p', a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n) "
            f"FROM {digits} a, {digits} b, {digits} c, {digits} d, {digits} e WHERE e.n < 2")
        self.shard = self.stack.number("SELECT MIN(shard) FROM retry_task")
        self.ids = self.insert(*[f"k{n}" for n in range(200) for _ in range(2)])
        self.me = self.store("me", port=self.edge.port)

    def explain(self, sql):
        """The rows of the plan as dicts."""
        with self.connection.cursor() as cursor:
            cursor.execute(EXPLAIN + sql.replace("%", "%%"))
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def reads(self, sql):
        """How many rows and index entries the servers look at for it; nothing is kept."""
        with self.connection.cursor() as cursor:
            cursor.execute("FLUSH STATUS")
            cursor.execute(sql.replace("%", "%%"))
            cursor.fetchall()
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%%'")
            count = sum(int(value) for name, value in cursor.fetchall()
                        if not name.endswith("rnd_next"))
        self.connection.rollback()
        return count

    def check(self, statements, reads_max):
        """Every one of them by its index, and the reading ones with so few looks at most."""
        for sql in statements:
            for row in self.explain(sql):
                place = f"{sql[:600]}\n{row}"
                if "json_table" not in (row["Extra"] or ""):  # MySQL keeps its own list so
                    self.assertNotRegex(row["Extra"] or "", "filesort|temporary", place)
                if row["table"] in ("retry_task", "t", "b", "a"):
                    self.assertIn(row["type"], ("range", "ref", "eq_ref", "const"), place)
                    self.assertRegex(row["key"], "PRIMARY|ix_|uq_", place)
            if sql.startswith("SELECT"):
                self.assertLessEqual(self.reads(sql), reads_max, sql[:600])

    def claim(self, rows=100, shard=None):
        return self.me.do("claim", rows=rows, lease=60000, handler="kafka", group="default",
                          scene="a", shard=self.shard if shard is None else shard)["tasks"]

    def test_a_claim_is_read_from_its_index(self):
        self.me.classes()
        self.edge.take()
        self.claim()
        statements = self.edge.take()
        first = statements[0]
        self.assertRegex(first, r"ORDER BY next_at, id LIMIT 100 FOR UPDATE SKIP LOCKED\Z")
        row, = self.explain(first)
        self.assertEqual((row["type"], row["key"]), ("range", "ix_retry_task_due"))
        self.assertNotRegex(row["Extra"], "filesort|temporary")
        ahead = [sql for sql in statements if "JSON_TABLE" in sql and "busy_hash" in sql]
        self.assertTrue(ahead)
        for sql in ahead:
            self.assertIn("ix_retry_task_order", [row["key"] for row in self.explain(sql)])
            self.assertIn("uq_retry_task_busy", [row["key"] for row in self.explain(sql)])
        self.check(statements, 1500)

    def test_what_is_too_old_is_found_by_its_age(self):
        # The oldest are those of the hot key, of which one can run.
        for age, some in ((3600000, False), (0, True)):
            with self.subTest(age):
                self.edge.take()
                tasks = self.me.do("claim_expired", group="default", scene="a", age=age, rows=100,
                                   lease=60000)["tasks"]
                self.assertEqual(len(tasks) > 0, some)
                statements = self.edge.take()
                row, = self.explain(statements[0])
                self.assertEqual((row["type"], row["key"]), ("range", "ix_retry_task_age"))
                self.assertNotRegex(row["Extra"], "filesort|temporary")
                self.check(statements, 1500)

    def test_the_end_of_a_task_does_not_look_at_its_whole_key(self):
        for end in ("done", "back", "again", "skip", "block"):
            with self.subTest(end):
                # What waits again comes behind those that were due before: after twenty claims.
                tasks = suite.wait_for("the key's first task", lambda: self.claim(rows=1000), 120)
                self.assertIn("hot", [task["key"] for task in tasks])
                self.edge.take()
                self.me.finish(tasks, end, attempts=1, outcome="failed", reason="x", delay=0)
                self.check(self.edge.take(), 10 * len(tasks) + 50)

    def test_tasks_of_which_nothing_stays_end_with_one_statement(self):
        self.insert(*[None] * 50)
        for shard in range(16):
            tasks = [task for task in self.claim(shard=shard) if task["key"] is None]
            # The plan for a single id that is gone names no index.
            if len(tasks) > 1:
                break
        self.assertGreater(len(tasks), 1)
        self.edge.take()
        self.assertEqual(self.me.finish(tasks, "done", outcome="done"), [False] * len(tasks))
        statements = self.edge.take()
        self.assertEqual([sql.split()[0] for sql in statements], ["DELETE"])
        row, = self.explain(statements[0])
        self.assertIn(row["key"], ("PRIMARY",))
        self.assertLessEqual(int(row["rows"]), len(tasks))

    def test_a_claim_and_its_end_are_as_short_with_many_tasks_of_the_class(self):
        """The statements of a claim read what they claim, and no task that waits for its time."""
        digits = "(SELECT 0 n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
        self.stack.sql(
            "INSERT INTO retry_task (scene, handler, idempotency_key, next_at) SELECT 'b', 'kafka', "
            "CONCAT('later', a.n, b.n, c.n, d.n), UTC_TIMESTAMP(3) + INTERVAL 1 DAY "
            f"FROM {digits} a, {digits} b, {digits} c, {digits} d")
        self.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key) SELECT 'b', 'kafka', "
                       f"CONCAT('due', a.n, b.n) FROM {digits} a, {digits} b")
        self.edge.take()
        tasks = self.me.do("claim", rows=100, lease=60000, handler="kafka", group="default",
                           scene="b", shard=self.stack.number(
                               "SELECT MIN(shard) FROM retry_task WHERE idempotency_key LIKE "
                               "'due%%'"))["tasks"]
        self.assertGreater(len(tasks), 0)
        statements = self.edge.take()
        self.assertEqual([sql.split()[0] for sql in statements], ["SELECT", "UPDATE", "SELECT"])
        row, = self.explain(statements[0])
        self.assertEqual((row["type"], row["key"]), ("range", "ix_retry_task_due"))
        self.assertNotRegex(row["Extra"], "filesort|temporary")
        self.check(statements, 10 * len(tasks) + 50)

    def test_a_look_and_the_depths_do_not_look_at_all_tasks(self):
        self.me.classes()
        self.edge.take()
        self.me.classes()
        self.check(self.edge.take(), 200)
        self.me.do("depths")
        for sql in self.edge.take():
            self.assertLessEqual(self.reads(sql), 35000, sql[:600])

    def test_beats_and_rescues_look_at_what_runs(self):
        tasks = self.claim()
        self.edge.take()
        self.me.do("renew", tasks=tasks, lease=1)
        suite.wait_for("the leases to end", lambda: self.me.do("rescue", rows=10)["count"])
        self.check(self.edge.take(), 500)

    def test_a_submit_finds_the_active_task_by_its_hash(self):
        self.me.close()
        store = self.store("me", port=self.edge.port)
        task = {"scene": "a", "handler": "kafka", "idempotency": "x"}
        for _ in range(2):
            store.do("append", tasks=[task])
        looks = [sql for sql in self.edge.take() if sql.startswith("SELECT")]
        self.assertTrue(looks)
        self.check(looks, 20)

    def list_by(self, *arguments):
        """The statements on the tables of tasks or of the audit behind a list."""
        self.edge.take()
        self.stack.tallybox("retry", *arguments, "--json",
                            sets={"mysql.host": "127.0.0.1", "mysql.port": self.edge.port})
        return [sql for sql in self.edge.take()
                if re.search("FROM `?(retry_task|retry_task_history|retry_audit)`? ", sql)]

    def test_lists_are_read_by_an_index(self):
        self.stack.sql("UPDATE retry_task SET biz_no = CONCAT('B-', id) WHERE id % 100 = 0")
        columns = ("id, task_group, scene, handler, ordering_key, biz_no, params_type, state, attempts, "
                   "next_at, reason_class, reason, owner, epoch, step, created_at, updated_at")
        self.stack.sql(f"INSERT INTO retry_task_history ({columns}, outcome, ended_at) SELECT {columns}, "
                       "'done', UTC_TIMESTAMP(3) FROM retry_task")
        self.stack.sql("ANALYZE TABLE retry_task, retry_task_history")
        for action, table in (("list", "retry_task"), ("history", "retry_task_history")):
            with self.subTest(table):
                statements = self.list_by(action, "--biz-no-prefix", "B-1", "--scene", "a")
                self.assertEqual(len(statements), 2, statements)
                for sql in statements:
                    plan = [row for row in self.explain(sql) if row["table"] == "t"]
                    self.assertEqual([(row["type"], row["key"]) for row in plan],
                                     [("range", f"ix_{table}_biz")], sql)
                    # Few match: not a twentieth of the table is read.
                    self.assertLessEqual(self.reads(sql), HOT // 20, sql)
        # A filter without an index of its own reads windows of ids, in their order.
        for filters in (("--handler", "kafka", "--reason-class", "ours"), ("--since", "1h")):
            with self.subTest(filters):
                for sql in self.list_by("list", *filters):
                    row = self.explain(sql)[0]
                    self.assertEqual((row["type"], row["key"]), ("range", "PRIMARY"), sql)
                    self.assertNotRegex(row["Extra"] or "", "filesort|temporary", sql)
        self.stack.sql("INSERT INTO retry_audit (acted_by, via, action, task_group, scene, what, why) "
                       "SELECT 'me', 'shell', 'cancel', '', '', '', '' FROM retry_task LIMIT 5000")
        for sql in self.list_by("audit", "--by", "nobody", "--after", 1):
            row = self.explain(sql)[0]
            self.assertEqual((row["type"], row["key"]), ("range", "PRIMARY"), sql)
            self.assertNotRegex(row["Extra"] or "", "filesort|temporary", sql)
            self.assertLessEqual(self.reads(sql), 1100, sql)

    def test_tasks_that_wait_their_turn_are_not_looked_at_again(self):
        """The key has one that runs; all others are queued with a few claims, and then the class
        costs nothing."""
        for _ in range(60):
            if not [one for one in self.me.classes()
                    if one["due"] <= 0 and one["shard"] == self.shard]:
                break
            self.claim(rows=1000)
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE ordering_key = 'hot' AND state = 2"), HOT - 1)
        self.edge.take()
        self.claim()
        self.check([sql for sql in self.edge.take() if not re.search("JSON_TABLE", sql)], 20)


if __name__ == "__main__":
    unittest.main()
