# SPDX-License-Identifier: MIT
"""A session that needs a table alone waits for it for a second, and afterwards has the waits that it had
before, also when it was refused or lost."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402
from mysql_edge import Edge  # noqa: E402

LOCK_TIMEOUT = 1205
HOSTILE = {"lock_wait_timeout": 4321, "innodb_lock_wait_timeout": 54, "wait_timeout": 27654}


class TableLock(binlog_server.LogCase):
    """The server has other defaults than our sessions."""

    seconds = 30

    def setUp(self):
        super().setUp()
        for name, value in HOSTILE.items():
            self.cursor.execute(f"SET GLOBAL {name} = {value}")
        self.cursor.execute("DROP TABLE IF EXISTS parts")
        self.cursor.execute("CREATE TABLE parts (seq BIGINT PRIMARY KEY) PARTITION BY RANGE (seq) "
                            "(PARTITION p10 VALUES LESS THAN (10), PARTITION p20 VALUES LESS THAN (20))")
        self.begin(self.server.port)

    def begin(self, port):
        program, environment = suite.program_beside("tallybox-table-lock")
        options = {"host": self.server.host, "port": port, "user": "root", "database": "shop"}
        self.process = subprocess.Popen([str(program), json.dumps(options)], text=True, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, self.process)
        self.session, *self.before = self.waits()
        for value in HOSTILE.values():
            self.assertNotIn(value, self.before)

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def do(self, what, **more):
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def waits(self):
        answer = self.do("waits")
        self.assertEqual(answer["rc"], "ok", answer)
        return answer["waits"]

    def check_waits(self, same_session=True):
        session, *waits = self.waits()
        self.assertEqual(waits, self.before)
        self.assertEqual(session == self.session, same_session)

    def writer(self):
        """A transaction that has written into the table."""
        connection = self.connect()
        self.addCleanup(connection.close)
        cursor = connection.cursor()
        cursor.execute("USE shop")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO parts VALUES (1)")

    def is_locked(self):
        """Not by a statement that would wait for it."""
        return self.ask("SHOW OPEN TABLES FROM shop WHERE `Table` = 'parts' AND In_use > 0")

    def test_a_lock_that_was_taken_and_released(self):
        self.assertEqual(self.do("take", table="parts")["rc"], "ok")
        session, *waits = self.waits()
        self.assertEqual((session, waits), (self.session, [1, 1, 2]))
        self.assertTrue(self.is_locked())
        self.assertEqual(self.do("release")["rc"], "ok")
        self.assertFalse(self.is_locked())
        self.check_waits()

    def test_a_table_that_is_in_use(self):
        self.writer()
        for answer in (self.do("take", table="parts"),
                       self.do("alter", sql="ALTER TABLE parts DROP PARTITION p20")):
            self.assertEqual((answer["rc"], answer["code"]), ("retry", LOCK_TIMEOUT), answer)
            self.check_waits()

    def test_statements_that_are_refused(self):
        for answer in (self.do("take", table="absent"),
                       self.do("alter", sql="ALTER TABLE parts DROP PARTITION absent")):
            self.assertNotEqual(answer["rc"], "ok")
            self.assertNotEqual(answer["code"], LOCK_TIMEOUT, answer)
            self.check_waits()

    def test_a_statement_that_works(self):
        self.assertEqual(self.do("alter", sql="ALTER TABLE parts DROP PARTITION p20")["rc"], "ok")
        self.assertNotIn("p20", self.ask("SHOW CREATE TABLE parts")[0][1])
        self.check_waits()

    def test_a_session_that_was_killed_has_lost_its_lock(self):
        self.assertEqual(self.do("take", table="parts")["rc"], "ok")
        self.cursor.execute(f"KILL {self.session}")
        suite.wait_for("the lock to be gone", lambda: not self.is_locked())
        self.assertEqual(self.do("waits")["rc"], "retry")
        self.assertEqual(self.do("waits")["rc"], "retry")
        self.assertEqual(self.do("release")["rc"], "retry")
        self.check_waits(same_session=False)

    def test_a_lock_that_is_not_released_ends_with_its_session(self):
        edge = Edge(self.server.host, self.server.port)
        self.addCleanup(edge.close)
        self.begin(edge.port)
        refused = edge.answer("^UNLOCK TABLES", 1317)
        self.assertEqual(self.do("take", table="parts")["rc"], "ok")
        self.assertNotEqual(self.do("release")["rc"], "ok")
        self.assertEqual(refused.hits, 1)
        suite.wait_for("the lock to be gone", lambda: not self.is_locked())
        self.check_waits(same_session=False)

    def test_a_process_that_freezes_or_ends_loses_its_lock(self):
        self.assertEqual(self.do("take", table="parts")["rc"], "ok")
        os.kill(self.process.pid, signal.SIGSTOP)
        suite.wait_for("the lock to be gone", lambda: not self.is_locked())
        os.kill(self.process.pid, signal.SIGCONT)
        self.assertEqual(self.do("release")["rc"], "retry")
        self.assertEqual(self.do("take", table="parts")["rc"], "ok")
        self.process.kill()
        suite.wait_for("the lock to be gone", lambda: not self.is_locked())


if __name__ == "__main__":
    unittest.main()
