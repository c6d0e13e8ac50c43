# SPDX-License-Identifier: MIT
"""A server whose defaults for new sessions are all wrong for us: every session of ours sets what its
SQL depends on."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import server_defaults  # noqa: E402
import wire  # noqa: E402

VOTERS = 9


def run_all(statements):
    """On one connection: SET GLOBAL changes no session that is there."""
    connection = suite.connect()
    try:
        with connection.cursor() as cursor:
            for statement, arguments in statements:
                cursor.execute(statement, arguments)
            return cursor.fetchall()
    finally:
        connection.close()


class Sessions(suite.Case):
    """All roles on such a server."""

    settings = {"consumer.batch_wait_ms": 20, "retry.poll_ms": 50}
    roles = ("serve", "relay", "consume", "retry")

    @classmethod
    def setUpClass(cls):
        hostile = {**server_defaults.hostile(suite.DATABASE),
                   **server_defaults.ENDURED_OF[suite.DATABASE]}
        before = dict(run_all([("SHOW GLOBAL VARIABLES", None)]))
        restore = [(f"SET GLOBAL {name} = %s", [cls.typed(before[name], value)])
                   for name, value in hostile.items()]
        cls.addClassCleanup(run_all, restore)
        run_all((f"SET GLOBAL {name} = %s", [value]) for name, value in hostile.items())
        super().setUpClass()

    @staticmethod
    def typed(text, value):
        """What SHOW VARIABLES prints of a number is not taken back as a text."""
        if isinstance(value, str) or not re.fullmatch(r"[0-9.]+", text):
            return text
        return float(text) if "." in text else int(text)

    def votes(self, content):
        return [(voter, content, 1) for voter in range(1, VOTERS + 1)]

    def test_votes_are_counted_once_all_the_way_to_the_remark(self):
        self.stack.sql("INSERT INTO remark (id, header) VALUES (40, 'forty')")
        for content in (40, 41, 42, 43, 44):
            for _ in range(2):
                self.serve.vote(*self.votes(content))
        self.serve.vote((1, 40, 0))
        for content, expected in ((40, VOTERS - 1), (41, VOTERS), (44, VOTERS)):
            self.assertEqual(self.serve.get(f"/v1/contents/{content}/votes")["votes"], expected)
        many = self.serve.get("/v1/votes?voterId=1&contentIds=40,41,42,43,44")
        self.assertEqual(len(many), 5, many)
        self.stack.wait_rows("vote_document", 5 * VOTERS + 1)
        self.stack.wait_drained()
        self.assertEqual(len(self.stack.records()), 5 * VOTERS + 1)
        self.stack.tallybox("rollup", "--once")
        self.assertEqual(self.stack.number("SELECT votes FROM remark WHERE id = 40"), VOTERS - 1)
        self.stack.tallybox("housekeep", "--once")
        self.assertIs(self.stack.verify()["ok"], True)
        self.stack.tallybox("migrate", "verify")
        self.stack.tallybox("status")

    def test_tasks_run_and_end(self):
        topic = f"tasks-{self.stack.name}"
        wire.create_topic(suite.kafka().bootstrap, topic, 1)
        for number in range(7):
            self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key, idempotency_key, "
                           "options, params) VALUES ('work', 'kafka', %s, UUID(), %s, %s)",
                           [f"k{number % 2}", json.dumps({"topic": topic}), f"task {number}"])
        suite.wait_for("no task to be left", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE scene = 'work'") == 0)
        self.assertEqual(sorted(one.value for one in self.stack.records(topic)),
                         [f"task {number}".encode() for number in range(7)])

    def test_refused_rows_become_tasks_and_later_deletes_are_committed(self):
        def row(name, kind, key):
            return {"id": name, "aggregatetype": kind, "aggregateid": key, "type": "t",
                    "payload": "x"}
        for count in range(1, 6):
            self.stack.append([row(f"r{count}", "no topic!", "k")])
            suite.wait_for(f"{count} tasks", lambda count=count: self.stack.number(
                "SELECT COUNT(*) FROM retry_task WHERE task_group = 'outbox'") == count)
            # In the session whose COMMIT made the task.
            self.stack.append([row(f"g{count}{number}", "good", "g") for number in range(5)])
        # Well before the lane's next pass, which would delete again.
        self.stack.wait_drained(30)
        self.stack.sql("DELETE FROM retry_task WHERE task_group = 'outbox'")

    def test_what_a_session_sets_is_tested_here(self):
        def log(on):
            run_all([("SET GLOBAL log_output = %s", ["TABLE" if on else "FILE"]),
                     ("SET GLOBAL general_log = %s", [int(on)])])
        self.addCleanup(run_all, [("TRUNCATE mysql.general_log", None)])
        self.addCleanup(log, False)
        log(True)
        self.stack.tallybox("vote", "1", "2")
        texts = [text.decode() if isinstance(text, bytes) else text for (text,) in self.stack.sql(
            "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND argument "
            "LIKE 'SET NAMES %%sql_mode%%'")]
        self.assertTrue(texts)
        # Executable comments of the other kind of server are not for this one.
        other = {"mariadb": r"/\*!\d+.*?\*/", "mysql": r"/\*M!.*?\*/"}[suite.DATABASE]
        names = set(re.findall(r"\b([a-z_]+) =", re.sub(other, "", texts[0])))
        self.assertLess({"sql_mode", "completion_type"}, names)
        hostile = {**server_defaults.hostile(suite.DATABASE),
                   "sql_big_selects": "max_join_size sets it"}
        self.assertEqual(names - set(hostile), set(), "set, but never hostile")
        self.assertEqual(set(hostile) - names - {"collation_connection"}, set(), "never set")


if __name__ == "__main__":
    unittest.main()
