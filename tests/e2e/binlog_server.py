# SPDX-License-Identifier: MIT
"""A server of its own for tests of its binary log, and a process that reads the log as the relay does
(tests/support/binlog_stream.c)."""

import json
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import pymysql

import suite

BESIDE = "tallybox-binlog-stream"
PARSER = suite.ROOT / "build/dev/tallybox-binlog"
HEARTBEAT_MS = 1000
SILENCE_MS = 3000
ARGUMENTS = {"mariadb": [], "mysql": ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]}

# Values with which the log lacks rows or columns, and those that a relay needs.
WRONG_VARIABLES = (("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "MINIMAL", "FULL"))


class Stream:
    """One process that reads the log."""

    def __init__(self, server, out, **options):
        program, environment = suite.program_beside(BESIDE)
        self.file = pathlib.Path(out)
        given = {"host": server.host, "port": server.port, "user": "root", "password": "", "tls": "off",
                 "serverId": 4711, "heartbeat": HEARTBEAT_MS, "silence": SILENCE_MS, **options}
        with open(self.file, "wb") as output:
            self.process = subprocess.Popen([str(program), json.dumps(given)], stdout=output,
                                            stderr=subprocess.PIPE, text=True, env=environment)

    def end(self, seconds=120):
        """(rc, refusal, number of events, text)."""
        _, said = self.process.communicate(timeout=seconds)
        match = re.fullmatch(r"(?s)rc=(\w+) refusal=(\d+) events=(\d+) (.*)\n", said)
        if not match:
            raise AssertionError(f"the stream ended with {self.process.returncode}: {said}")
        return match[1], int(match[2]), int(match[3]), match[4]

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class LogCase(unittest.TestCase):
    """Tests on a server of their own, whose log they may purge."""

    arguments = ARGUMENTS[suite.DATABASE]

    @classmethod
    def setUpClass(cls):
        cls.server = suite.OwnServer(f"binlog-{cls.__name__}", cls.arguments)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.folder = tempfile.TemporaryDirectory(dir=suite.run().folder)
        cls.addClassCleanup(cls.folder.cleanup)

    def setUp(self):
        self.connection = self.connect()
        self.addCleanup(self.close)
        self.cursor = self.connection.cursor()
        for statement in ("CREATE DATABASE IF NOT EXISTS shop", "USE shop", "DROP TABLE IF EXISTS t",
                          "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, payload LONGBLOB)"):
            self.cursor.execute(statement)

    def close(self):
        """Also of a server that was killed."""
        if self.connection.open:
            self.connection.close()

    def connect(self):
        return pymysql.connect(host=self.server.host, port=self.server.port, user="root",
                               autocommit=True, connect_timeout=60)

    def insert(self, payload="x", count=1):
        for _ in range(count):
            self.cursor.execute("INSERT INTO t (payload) VALUES (%s)", [payload])

    def ask(self, statement):
        self.cursor.execute(statement)
        return self.cursor.fetchall()

    def position(self):
        """The transactions so far, as the server prints them."""
        return self.ask("SELECT @@GLOBAL.gtid_binlog_pos" if suite.DATABASE == "mariadb" else
                        "SELECT @@GLOBAL.gtid_executed")[0][0]

    def log_file(self):
        return self.ask("SHOW BINARY LOGS")[-1][0]

    def stream(self, **options):
        stream = Stream(self.server, pathlib.Path(self.folder.name) / f"stream{time.monotonic_ns()}",
                        **options)
        self.addCleanup(stream.kill)
        return stream

    def rows(self, stream):
        """(id, payload) of each row in what has come so far."""
        done = subprocess.run([PARSER, stream.file, "shop.t"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.facts = lines[-1]
        return [(int(row[0]), bytes.fromhex(row[1])) for row in lines[:-1]]

    def read(self, **options):
        """The rows until the end of the log."""
        stream = self.stream(untilEnd=True, **options)
        rc, _, _, text = stream.end()
        self.assertEqual(rc, "ok", text)
        return self.rows(stream)

    def refused(self, rc, refusal, *words, **options):
        stream = self.stream(untilEnd=True, **options)
        found = stream.end()
        self.assertEqual((found[0], found[1]), (rc, refusal), found)
        for word in words:
            self.assertIn(word, found[3])

    def dump_threads(self):
        return [row[0] for row in self.ask("SHOW FULL PROCESSLIST") if row[4].startswith("Binlog Dump")]

    def wait_rows(self, stream, count):
        suite.wait_for("the stream to begin", lambda: stream.file.stat().st_size > 100, 30)
        suite.wait_for(f"{count} rows in the stream", lambda: len(self.rows(stream)) >= count, 30)
