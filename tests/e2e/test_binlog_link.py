# SPDX-License-Identifier: MIT
"""The stream of a server's binary log through common/db/binlog_link: where it begins, what it does
when the server is silent, and how it names what a server refuses."""

import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import binlog_server  # noqa: E402
import suite  # noqa: E402

PURGED, AHEAD, REPLACED = 1, 2, 3
# What a busy machine may take longer.
NOISE_S = 15
HEARTBEAT_MS, SILENCE_MS = binlog_server.HEARTBEAT_MS, binlog_server.SILENCE_MS


class Link(binlog_server.LogCase):
    """Every way to begin a stream, and each way in which it ends."""

    seconds = 60

    def test_a_stream_begins_behind_the_gtids_that_it_names(self):
        self.insert(count=2)
        before = self.position()
        self.insert("a", count=3)
        middle = self.position()
        self.insert("b", count=2)
        self.cursor.execute("FLUSH BINARY LOGS")
        self.insert("c")
        self.assertEqual([row[1] for row in self.read(gtids=before)], [b"a"] * 3 + [b"b"] * 2 + [b"c"])
        self.assertEqual([row[1] for row in self.read(gtids=middle)], [b"b"] * 2 + [b"c"])
        self.assertEqual(self.read(gtids=self.position()), [])
        everything = [row[1] for row in self.read(gtids="")]
        self.assertEqual(everything[-8:], [b"x"] * 2 + [b"a"] * 3 + [b"b"] * 2 + [b"c"])

    def test_a_stream_begins_in_a_file(self):
        self.cursor.execute("FLUSH BINARY LOGS")
        self.insert(count=2)
        name, offset = self.ask("SHOW BINARY LOGS")[-1][:2]
        self.insert(count=3)
        self.assertEqual([row[0] for row in self.read(file=name, offset=4)], [1, 2, 3, 4, 5])
        self.assertEqual([row[0] for row in self.read(file=name, offset=offset)], [3, 4, 5])

    if suite.DATABASE == "mariadb":
        def test_each_domain_goes_on_where_it_was(self):
            self.insert("old")
            self.cursor.execute("SET gtid_domain_id = 7")
            self.insert("old")
            before = self.position()
            self.assertIn("7-1-", before)
            self.insert("seven")
            self.cursor.execute("SET gtid_domain_id = 0")
            self.insert("zero")
            self.assertEqual([row[1] for row in self.read(gtids=before)], [b"seven", b"zero"])
    else:
        def test_tags_go_on_where_they_were(self):
            self.insert("old")
            self.cursor.execute("SET gtid_next = 'AUTOMATIC:shop'")
            self.insert("old", 2)
            before = self.position()
            self.assertIn(":shop:", before)
            self.insert("tagged")
            self.cursor.execute("SET gtid_next = 'AUTOMATIC'")
            self.insert("plain")
            self.assertEqual([row[1] for row in self.read(gtids=before)], [b"tagged", b"plain"])

    def test_a_row_may_be_larger_than_a_packet(self):
        before = self.position()
        payload = os.urandom(1 << 20) * 17
        self.insert(payload)
        self.insert("behind it")
        rows = self.read(gtids=before)
        self.assertEqual([len(row[1]) for row in rows], [len(payload), 9])
        self.assertTrue(rows[0][1] == payload)

    def test_an_event_above_the_limit_ends_the_stream(self):
        before = self.position()
        self.insert("x" * 1000000)
        self.insert("x" * 3000000)
        stream = self.stream(untilEnd=True, gtids=before, eventBytesMax=2000000)
        rc, refusal, _, text = stream.end()
        self.assertEqual((rc, refusal), ("retry", 0), text)
        self.assertEqual(len(self.rows(stream)), 1)

    def test_checksums_may_change_while_it_is_read(self):
        self.addCleanup(self.ask, "SET GLOBAL binlog_checksum = CRC32")
        before = self.position()
        for kind in ("NONE", "CRC32", "NONE"):
            self.ask(f"SET GLOBAL binlog_checksum = {kind}")
            self.insert(kind)
        self.assertEqual([row[1] for row in self.read(gtids=before)], [b"NONE", b"CRC32", b"NONE"])

    def test_events_come_at_once_and_heartbeats_between_them(self):
        stream = self.stream(gtids=self.position())
        self.insert()
        self.wait_rows(stream, 1)
        # Longer than the silence that ends a stream.
        time.sleep(SILENCE_MS / 1000 + 2)
        self.insert()
        self.wait_rows(stream, 2)
        self.assertGreaterEqual(self.facts["events"]["27"], 3)

    def test_a_silent_server_is_noticed(self):
        stream = self.stream(gtids=self.position())
        self.insert()
        self.wait_rows(stream, 1)
        os.kill(self.server.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, self.server.pid, signal.SIGCONT)
        began = time.monotonic()
        rc, refusal, _, text = stream.end(SILENCE_MS / 1000 + NOISE_S)
        self.assertEqual((rc, refusal), ("retry", 0))
        self.assertIn("silent for 3 s", text)
        self.assertGreater(time.monotonic() - began, (SILENCE_MS - HEARTBEAT_MS) / 1000 - 1)

    def test_a_stream_that_the_server_ends_is_begun_again(self):
        before = self.position()
        stream = self.stream(gtids=before)
        self.insert()
        self.wait_rows(stream, 1)
        self.assertEqual(len(self.dump_threads()), 1)
        self.ask(f"KILL {self.dump_threads()[0]}")
        rc, refusal, _, text = stream.end(NOISE_S)
        self.assertEqual((rc, refusal), ("retry", 0), text)
        self.insert()
        self.assertEqual(len(self.read(gtids=before)), 2)

    def test_a_second_reader_with_the_same_id_ends_the_first(self):
        first = self.stream(gtids=self.position())
        self.insert()
        self.wait_rows(first, 1)
        second = self.stream(gtids=self.position())
        rc, refusal, _, text = first.end(NOISE_S)
        self.assertEqual(rc, "retry", text)
        self.assertIn(refusal, (0, REPLACED))
        self.insert("second")
        self.wait_rows(second, 1)
        suite.wait_for("one reader", lambda: len(self.dump_threads()) == 1, 30)

    def test_what_is_purged_is_said(self):
        before = self.position()
        old = self.log_file()
        self.insert()
        self.cursor.execute("FLUSH BINARY LOGS")
        self.insert()
        last = self.log_file()

        def purge():
            # MariaDB keeps a file while it believes that a reader is in it.
            self.ask(f"PURGE BINARY LOGS TO '{last}'")
            return self.ask("SHOW BINARY LOGS")[0][0] == last
        suite.wait_for("the log to be purged", purge)
        self.refused("fatal", PURGED, gtids=before)
        self.refused("fatal", PURGED, "Could not find first log file", file=old, offset=4)
        self.assertEqual(self.read(gtids=self.position()), [])

    def test_a_position_that_the_server_never_had_is_said(self):
        if suite.DATABASE == "mariadb":
            self.refused("fatal", AHEAD, gtids="0-1-999999")
        else:
            uuid = self.ask("SELECT @@server_uuid")[0][0]
            self.refused("fatal", AHEAD, gtids=f"{uuid}:1-999999")
        name, end = self.ask("SHOW BINARY LOGS")[-1][:2]
        self.refused("fatal", AHEAD, file=name, offset=end + 1000)
        self.refused("reject", 0, "above 4 GiB", file=name, offset=2 ** 32)

    def test_an_offset_within_an_event_is_refused(self):
        self.cursor.execute("FLUSH BINARY LOGS")
        self.insert("x" * 1000)
        name, end = self.ask("SHOW BINARY LOGS")[-1][:2]
        stream = self.stream(untilEnd=True, file=name, offset=end - 300)
        rc, _, _, text = stream.end()
        # Either server reads some bytes as the header of an event, which is none.
        self.assertNotEqual(rc, "ok", text)

    def test_an_account_without_the_privilege_is_told_what_it_lacks(self):
        self.ask("DROP USER IF EXISTS reader@'127.0.0.1'")
        self.ask("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret of the reader'")
        options = {"user": "reader", "password": "secret of the reader", "gtids": self.position()}
        self.refused("fatal", 0, "REPLICATION SLAVE", **options)
        self.ask("GRANT REPLICATION SLAVE ON *.* TO reader@'127.0.0.1'")
        if suite.DATABASE == "mysql":
            # The cache of logins is cold: the password travels under TLS or the server's key.
            self.ask("FLUSH PRIVILEGES")
        self.assertEqual(self.read(**options), [])

    def test_the_stream_is_encrypted_where_the_settings_say_so(self):
        before = self.position()
        self.insert(count=100)
        if suite.DATABASE == "mysql":
            self.assertEqual(len(self.read(gtids=before, tls="on")), 100)
        else:
            self.refused("fatal", 0, "the server offers no TLS", gtids=before, tls="on")


if __name__ == "__main__":
    unittest.main()
