# SPDX-License-Identifier: MIT
"""Two Galera nodes that both take writes: a transaction that is open on one of them is known to the
other only when it has committed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import server_defaults  # noqa: E402

OPEN_SECONDS = 6


class Node(suite.Server):
    """A node in a folder that the account of its server can reach."""

    def __init__(self, folder, join=None):
        super().__init__("galera", folder)
        words = [suite.SERVER, "start", "galera", str(folder)]
        done = subprocess.run(words + (["--join", str(join.folder)] if join else []),
                              capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        self._read_env()

    def connect(self, name, **more):
        return pymysql.connect(host=self.host, port=self.port, user="root", database=name,
                               charset="utf8mb4", init_command=server_defaults.SESSION,
                               **{"autocommit": True, **more})


class Galera(suite.Case):
    """The relay on one node, writers on both."""

    any_database = True  # it has one of its own
    needs = "galera"
    seconds = 60
    settings = {"relay.topics": None}
    nodes = ()

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tallybox-galera-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        servers = suite.run().servers
        before = servers.get(suite.DATABASE)
        first = Node(folder / "1")
        servers["galera 1"] = first
        cls.addClassCleanup(first.script, "kill", check=False)
        second = Node(folder / "2", first)
        servers["galera 2"] = second
        cls.addClassCleanup(second.script, "kill", check=False)
        cls.nodes = (first, second)
        # The installation is on the first node.
        servers[suite.DATABASE] = first
        cls.addClassCleanup(cls.give_back, before)
        super().setUpClass()

    @staticmethod
    def give_back(before):
        servers = suite.run().servers
        servers.pop(suite.DATABASE)
        if before:
            servers[suite.DATABASE] = before

    def insert(self, connection, event, key):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                           "VALUES (%s, 'order', %s, 't', 'x')", [event, key])

    def records(self):
        return [one for one in self.stack.records(f"event.{self.stack.name}.order")]

    def order_of_two(self):
        """`first` of a key is open on node 2 for a while, and node 1 goes on with other keys; then
        comes `second` on node 1. The order of the two in the topic."""
        local = self.nodes[0].connect(self.stack.name)
        remote = self.nodes[1].connect(self.stack.name, autocommit=False)
        relay = self.start("relay")
        self.insert(local, "before", "other")
        suite.wait_for("the lane to work", lambda: relay.metric(
            "tallybox_relay_published_total") == 1)
        self.insert(remote, "first", "k")
        until = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < until:
            self.insert(local, f"between {time.monotonic()}", "other")
            time.sleep(0.1)
        remote.commit()
        # It has reached node 1: later writes come after it.
        with local.cursor() as cursor:
            suite.wait_for("first on node 1", lambda: cursor.execute(
                "SELECT 1 FROM outbox WHERE id = 'first'") or any(
                    one.headers["id"] == "first" for one in self.records()), every=0.01)
        self.insert(local, "second", "k")
        suite.wait_for("both in the topic", lambda: {"first", "second"} <= {
            one.headers["id"] for one in self.records()}, seconds=90)
        order = [one.headers["id"] for one in self.records() if one.key == b"k"]
        local.close()
        remote.close()
        return relay, order

    def test_a_transaction_of_another_node_is_not_overtaken(self):
        relay, order = self.order_of_two()
        self.assertEqual(order, ["first", "second"])
        log = relay.log_text()
        self.assertEqual(log.count("event=several_writer_nodes"), 1, log)
        self.assertIn("Galera", log)
        self.assertTrue(relay.ready())
        text = self.stack.tallybox("status").stdout
        self.assertIn("Galera (wsrep_on = ON): other nodes may write", text)

    def test_a_node_that_does_not_replicate_its_own_writes_has_other_writers_still(self):
        """As on a server that has wsrep_on per session only, the provider tells."""
        admin = self.nodes[0].connect(self.stack.name)
        self.addCleanup(admin.close)
        with admin.cursor() as cursor:
            cursor.execute("SET GLOBAL wsrep_on = OFF")
            try:
                text = self.stack.tallybox("status").stdout
            finally:
                cursor.execute("SET GLOBAL wsrep_on = ON")
        self.assertIn("Galera (wsrep_provider and wsrep_cluster_address are set): other nodes may "
                      "write", text)


if suite.DATABASE != "mariadb":
    # MySQL has no Galera.
    del Galera

if __name__ == "__main__":
    unittest.main()
