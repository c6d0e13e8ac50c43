# SPDX-License-Identifier: MIT
"""What a server keeps of a prepared XA transaction whose session has ended: the reason for what the relay
checks before it drops a partition."""

import pathlib
import sys
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402

LOCK_TIMEOUT = 1205


class Prepared(binlog_server.LogCase):
    seconds = 60

    def prepare(self):
        """A row of a partition, in a prepared transaction that loses its session."""
        self.cursor.execute("DROP TABLE IF EXISTS parts")
        self.cursor.execute("CREATE TABLE parts (seq BIGINT PRIMARY KEY) PARTITION BY RANGE (seq) "
                            "(PARTITION p10 VALUES LESS THAN (10), PARTITION p20 VALUES LESS THAN (20))")
        connection = self.connect()
        with connection.cursor() as cursor:
            for statement in ("USE shop", "XA START 'x'", "INSERT INTO parts VALUES (5)", "XA END 'x'",
                              "XA PREPARE 'x'"):
                cursor.execute(statement)
            cursor.execute("SELECT CONNECTION_ID()")
            session = cursor.fetchone()[0]
        connection.close()
        suite.wait_for("the session to end", lambda: session not in {
            row[0] for row in self.ask("SELECT id FROM information_schema.processlist")})

    def refused(self, statement):
        """Whether it waits for a lock."""
        try:
            self.cursor.execute(statement)
        except pymysql.err.OperationalError as reason:
            self.assertEqual(reason.args[0], LOCK_TIMEOUT)
            return True
        return False

    def check(self):
        self.cursor.execute("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
        self.cursor.execute("USE shop")
        self.assertEqual(len(self.ask("XA RECOVER")), 1)
        self.assertEqual(self.ask("SELECT seq FROM parts"), ())
        self.assertEqual(self.refused("LOCK TABLES parts WRITE"), suite.DATABASE == "mysql")
        self.cursor.execute("UNLOCK TABLES")
        self.assertEqual(self.ask("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE "
                                  "trx_mysql_thread_id = 0"), ((1,),))

    def end(self):
        self.cursor.execute("XA COMMIT 'x'")
        self.assertEqual(self.ask("SELECT seq FROM parts"), ((5,),))

    def reconnect(self):
        self.close()
        self.connection = self.connect()
        self.cursor = self.connection.cursor()

    def test_after_its_session_has_ended(self):
        self.prepare()
        self.check()
        self.end()

    def test_after_the_server_was_started_again(self):
        self.prepare()
        self.server.restart()
        self.reconnect()
        self.check()
        self.end()

    def test_after_the_server_was_killed(self):
        self.prepare()
        self.server.kill()
        self.server.restart()
        self.reconnect()
        self.check()
        self.end()


if __name__ == "__main__":
    unittest.main()
