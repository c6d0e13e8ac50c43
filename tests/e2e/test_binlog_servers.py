# SPDX-License-Identifier: MIT
"""Binlog lanes on servers that are set up in other ways: identities of transactions, encryption of the log
and of the way to it, and logins that the server has forgotten."""

import os
import pathlib
import secrets
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import certs  # noqa: E402
import suite  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase, OwnLaneCase, event  # noqa: E402


class Identities(LaneCase):
    """Several domains of MariaDB, and MySQL's transactions with and without tags, beside each other."""

    seconds = 40

    def begin_writer(self, number, connection):
        with connection.cursor() as cursor:
            if suite.DATABASE == "mariadb":
                cursor.execute(f"SET SESSION gtid_domain_id = {number}")
            elif number > 0:
                cursor.execute(f"SET SESSION gtid_next = 'AUTOMATIC:lane{number}'")

    def test_each_goes_on_where_it_was_while_relays_are_killed(self):
        events = self.write_while_relays_are_killed(4, longest=3)
        self.start("relay")
        self.wait_records(len(events))
        self.check_order(events)
        words = ("0-", ",1-", ",2-") if suite.DATABASE == "mariadb" else (":lane1:", ":lane2:")
        suite.wait_for("all of them in the position", lambda: all(
            word in self.stack.number("SELECT gtids FROM relay_position") for word in words))


class WithoutGtids(OwnLaneCase):
    """The position is a file and an offset."""

    database = "mysql"
    seconds = 50
    arguments = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]

    def test_files_that_change_while_relays_are_killed(self):
        self.set_global("max_binlog_size", 65536)
        events = self.write_while_relays_are_killed(3, longest=3)
        self.start("relay")
        self.wait_records(len(events))
        self.check_order(events)
        self.assertEqual(self.stack.number("SELECT by_gtid FROM relay_position"), 0)

    def test_a_server_that_is_killed_goes_on_in_another_file(self):
        # The lease outlasts the restart.
        self.relay(sets={"relay.lease_ms": 60000})
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(200)]
        self.stack.append(events[:100])
        self.wait_records(100)
        suite.database().kill()
        suite.database().restart()
        self.stack.append(events[100:])
        self.wait_records(200)
        self.check_order(events)


class Filtered(OwnLaneCase):
    """A filter keeps the rows of the table out of the log."""

    seconds = 20
    arguments = ["--binlog-do-db=other_database"]

    def test_a_lane_does_not_begin_there(self):
        relay = self.start("relay", ready=False)
        suite.wait_for("it to say why", lambda: "a filter keeps the database out of the binary log" in
                       relay.why_not_ready())
        refused = self.stack.tallybox("relay", "source", "outbox", "binlog", expect=suite.FAILED,
                                      sets={"lane.outbox.source": "binlog"})
        self.assertIn("a filter keeps the database out of the binary log", refused.stderr)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM relay_position"), 0)


class Encrypted(OwnLaneCase):
    """All connections of the relay, that of the log among them, under TLS."""

    seconds = 40

    @classmethod
    def setUpClass(cls):
        cls.authority = certs.Authority(suite.run().folder / f"lane-{cls.__name__}-certs")
        cert, key = cls.authority.issue("server", "IP:127.0.0.1")
        cls.arguments = [f"--ssl-ca={cls.authority.ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
        super().setUpClass()

    def test_a_lane_reads_under_tls_only(self):
        sets = {"mysql.tls": "verify", "mysql.tls_ca": self.authority.ca}
        self.relay(sets=sets).terminate()
        self.stack.sql(f"ALTER USER '{ACCOUNT}'@'%' REQUIRE SSL")
        self.addCleanup(self.stack.sql, f"ALTER USER '{ACCOUNT}'@'%' REQUIRE NONE")
        relay = self.relay(sets=sets)
        events = [event(self.kind, "key", n) for n in range(3)]
        for number, one in enumerate(events, 1):
            self.stack.append([one])
            self.wait_records(number)
            # The next stream logs in again; MySQL knows no password then.
            self.stack.sql("FLUSH PRIVILEGES")
            for thread in self.dump_threads():
                self.stack.sql(f"KILL {thread}")
        self.check_order(events)
        relay.terminate()
        plain = self.start("relay", ready=False, sets={"mysql.tls": "off"})
        suite.wait_for("it to be refused", lambda: ACCOUNT in plain.why_not_ready())

    def test_a_login_that_the_server_has_forgotten(self):
        """Without TLS the password travels under the key of the server."""
        self.stack.sql("FLUSH PRIVILEGES")
        self.relay(sets={"mysql.tls": "off"})
        self.stack.sql("FLUSH PRIVILEGES")
        for thread in self.dump_threads():
            self.stack.sql(f"KILL {thread}")
        self.stack.append([event(self.kind, "key", 0)])
        self.wait_records(1)


class EncryptedFiles(OwnLaneCase):
    """encrypt_binlog: the files cannot be read without the key, the stream is as usual."""

    database = "mariadb"
    needs = "galera"  # its package has the plugin
    seconds = 30

    @classmethod
    def setUpClass(cls):
        keys = suite.run().folder / f"lane-{cls.__name__}-keys"
        keys.write_text(f"1;{secrets.token_hex(32)}\n")
        cls.arguments = [f"--plugin-dir={os.environ['TALLYBOX_MARIADB_PLUGINS']}",
                         "--plugin-maturity=unknown", "--plugin-load-add=file_key_management",
                         f"--file-key-management-filename={keys}", "--encrypt-binlog=ON"]
        super().setUpClass()

    def test_an_encrypted_log_is_read(self):
        relay = self.relay()
        secret = b"0 a text that nobody else writes"
        events = [event(self.kind, "key", 0, secret)]
        self.stack.append(events)
        with self.writing() as more:
            self.wait_records(300)
            relay.kill()
            self.stack.sql("FLUSH BINARY LOGS")
            self.start("relay")
        self.wait_records(1 + len(more))
        self.check_order(events + more)
        files = list((suite.database().folder / "data").glob("b.0*"))
        self.assertGreater(len(files), 1)
        for file in files:
            self.assertNotIn(secret, file.read_bytes())


if __name__ == "__main__":
    unittest.main()
