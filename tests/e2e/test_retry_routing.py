# SPDX-License-Identifier: MIT
"""Tasks that go to the clients of their group: real HTTP servers that come, fail and go."""

import collections
import http.server
import json
import pathlib
import socket
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from ports import free_port  # noqa: E402
import suite  # noqa: E402

CLIENTS = 4


class Answerer(http.server.BaseHTTPRequestHandler):
    """Answers with the server's status, and keeps what it was asked. HTTP/1.0: each call has a
    connection of its own, so that a server that is closed gets no more calls."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, body.decode()))
        if self.server.cuts:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class RoutingCase(suite.Case):
    """Helpers of this file."""

    settings = {"retry.poll_ms": 50, "retry.rescue_ms": 500, "retry.lease_ms": 2000}

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_client", "retry_attempt"):
            self.stack.sql(f"DELETE FROM {table}")
        self.stack.tallybox("retry", "group", "set", "default", "--route", "round_robin")
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy, options) VALUES "
                       "('default', 'work', %s, %s)",
                       [json.dumps({"wait": "fixed 200ms", "attempts": 0}),
                        json.dumps({"path": "/run?x=1"})])
        self.ports = [free_port(keep=True) for _ in range(CLIENTS)]
        self.sets = {"retry.http_hosts": ",".join(f"127.0.0.1:{port}" for port in self.ports)}
        self.servers = [None] * CLIENTS
        self.asked = [[] for _ in range(CLIENTS)]
        self.number = 0

    def serve(self, index, status=200, cuts=False):
        server = Server(("127.0.0.1", self.ports[index]), Answerer)
        server.asked, server.status, server.cuts = self.asked[index], status, cuts
        self.servers[index] = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(self.close, index)
        return server

    def close(self, index):
        server, self.servers[index] = self.servers[index], None
        if server:
            server.shutdown()
            server.server_close()

    def beat(self, index, group="default"):
        self.stack.sql("INSERT INTO retry_client (task_group, address) VALUES (%s, %s) ON DUPLICATE "
                       "KEY UPDATE last_beat_at = UTC_TIMESTAMP(3)",
                       [group, f"http://127.0.0.1:{self.ports[index]}/base"])

    def expire(self, index):
        self.stack.sql("UPDATE retry_client SET last_beat_at = UTC_TIMESTAMP(3) - INTERVAL 91 SECOND "
                       "WHERE address LIKE %s", [f"%:{self.ports[index]}/base"])

    def tasks(self, count, key=None):
        rows = []
        for _ in range(count):
            self.number += 1
            rows.append(("work", "http", f"t{self.number}", key and key(self.number),
                         str(self.number)))
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO retry_task (scene, handler, idempotency_key, "
                               "ordering_key, params) VALUES (%s, %s, %s, %s, %s)", rows)

    def left(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_task")

    def wait_done(self):
        suite.wait_for("no task to be left", lambda: self.left() == 0, 60)

    def bodies(self):
        return [body for asked in self.asked for _, body in asked]

    def failed(self, role):
        return sum(value for name, value in role.metrics().items()
                   if name.startswith("tallybox_retry_attempts_total") and 'outcome="failed"' in name)


class Routing(RoutingCase):
    """One retry process."""

    def test_live_clients_of_the_group_share_its_tasks(self):
        self.stack.tallybox("retry", "group", "set", "other", "--handlers", "http")
        for index in range(CLIENTS):
            self.serve(index)
            self.beat(index, "other" if index == 2 else "default")
        self.expire(3)
        role = self.start("retry", sets=self.sets)
        self.tasks(40)
        self.wait_done()
        self.assertEqual(sorted(map(int, self.bodies())), list(range(1, 41)))
        self.assertEqual([len(asked) for asked in self.asked[2:]], [0, 0])
        self.assertGreater(min(len(asked) for asked in self.asked[:2]), 10)
        self.assertEqual(self.asked[0][0][0], "/base/run?x=1")
        self.assertEqual(self.failed(role), 0)
        self.assertEqual(role.metric("tallybox_retry_clients_live"), 3)

    def test_a_key_stays_with_its_client(self):
        self.stack.tallybox("retry", "group", "set", "default", "--route", "consistent_hash")
        for index in range(3):
            self.serve(index)
            self.beat(index)
        self.start("retry", sets=self.sets)
        self.tasks(60, lambda number: f"key{number % 12}")
        self.wait_done()
        homes = collections.defaultdict(set)
        for index, asked in enumerate(self.asked):
            for _, body in asked:
                homes[int(body) % 12].add(index)
        self.assertEqual([len(home) for home in homes.values()], [1] * 12)
        self.assertGreater(len({index for home in homes.values() for index in home}), 1)

    def test_another_client_is_called_if_one_cannot_be_reached(self):
        self.serve(1)
        self.beat(0)  # nothing listens there
        self.beat(1)
        role = self.start("retry", sets=self.sets)
        self.tasks(20)
        self.wait_done()
        self.assertEqual(sorted(map(int, self.bodies())), list(range(1, 21)))
        self.assertEqual(self.failed(role), 0)
        self.assertGreaterEqual(role.metric("tallybox_retry_client_others_total"), 1)
        self.assertIn("retry_client_ignored", role.log_text())

    def test_no_other_client_is_called_if_a_byte_was_sent(self):
        self.serve(0, cuts=True)
        self.serve(1)
        self.beat(0)
        role = self.start("retry", sets=self.sets)
        self.tasks(1)
        suite.wait_for("a call that was cut", lambda: self.asked[0] and self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE attempts > 0"))
        self.beat(1)
        self.wait_done()
        # Each attempt called one client.
        self.assertEqual(len(self.bodies()), self.failed(role) + 1)
        self.assertEqual(role.metric("tallybox_retry_client_others_total"), 0)

    def test_tasks_wait_without_an_attempt_while_no_client_is_live(self):
        role = self.start("retry", sets=self.sets)
        self.tasks(5)
        suite.wait_for("the tasks to wait for a client", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE state = 0 AND attempts = 0 AND reason LIKE "
            "'no live client: group default%%'") == 5)
        suite.wait_for("the condition to be logged", lambda: "reason=no_live_client" in
                       role.log_text())
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt"), 0)
        note = "tasks of scene default/work wait: their group has no live client"
        self.assertIn(note, self.stack.tallybox("retry", "list").stdout)
        task = str(self.stack.number("SELECT MIN(id) FROM retry_task"))
        self.assertIn(note, self.stack.tallybox("retry", "show", task).stdout)
        self.serve(0)
        self.beat(0)
        self.wait_done()
        self.assertEqual(self.failed(role), 0)
        suite.wait_for("the condition to pass", lambda: "event=work_resumed" in role.log_text())

    def test_hosts_that_are_not_listed_any_more_are_not_called(self):
        self.serve(0)
        self.serve(1)
        self.beat(0)
        self.beat(1)
        role = self.start("retry", sets={"retry.http_hosts": f"127.0.0.1:{self.ports[1]}"})
        self.tasks(10)
        self.wait_done()
        self.assertEqual(self.asked[0], [])
        self.assertIn("check=client_hosts", role.log_text())

    def test_a_client_that_fails_is_left_out(self):
        self.serve(0, status=500)
        self.serve(1)
        self.beat(0)
        self.beat(1)
        self.start("retry", sets={**self.sets, "retry.threads": 1})
        self.tasks(30)
        self.wait_done()
        self.assertLess(len(self.asked[0]), 10)
        self.assertEqual(len(self.asked[1]), 30)

    def test_a_rate_counts_for_each_client(self):
        self.stack.sql("UPDATE retry_scene SET version = version + 1, policy = %s WHERE scene = 'work'",
                       [json.dumps({"rate": "20/s burst 1 per client", "attempts": 0})])
        for index in range(2):
            self.serve(index)
            self.beat(index)
        roles = [self.start("retry", sets=self.sets) for _ in range(2)]
        self.tasks(40)
        self.wait_done()
        # The clock of the test says nothing: a slow machine only makes fewer calls a second.
        self.assertEqual(sorted(map(int, self.bodies())), list(range(1, 41)))
        self.assertGreater(min(len(asked) for asked in self.asked[:2]), 10)
        self.assertEqual(sum(self.failed(role) for role in roles), 0)

    def test_rows_of_yesterday_are_deleted(self):
        self.beat(0)
        self.beat(1)
        self.stack.sql("UPDATE retry_client SET last_beat_at = UTC_TIMESTAMP(3) - INTERVAL 25 HOUR "
                       "WHERE address LIKE %s", [f"%:{self.ports[0]}/base"])
        self.start("retry", sets=self.sets)
        suite.wait_for("the old row to go", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_client") == 1)


class Changing(RoutingCase):
    """Clients and processes come and go."""

    seconds = 30

    def test_no_task_is_lost_while_clients_and_processes_come_and_go(self):
        self.serve(0)
        self.serve(1)
        self.beat(0)
        self.beat(1)
        roles = [self.start("retry", sets=self.sets) for _ in range(2)]
        self.tasks(100)
        suite.wait_for("some calls", lambda: len(self.bodies()) > 20)
        self.close(0)  # it dies: its row stays live
        self.tasks(100)
        roles[0].kill()
        self.serve(2)
        self.beat(2)
        suite.wait_for("calls of the new client", lambda: self.asked[2])
        self.close(1)
        self.close(2)
        for index in range(3):
            self.expire(index)
        self.tasks(50)
        suite.wait_for("tasks to wait for a client", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE reason LIKE 'no live client%%'"))
        roles.append(self.start("retry", sets=self.sets))
        self.serve(3)
        self.beat(3)
        self.wait_done()
        self.assertEqual({int(body) for body in self.bodies()}, set(range(1, 251)))


if __name__ == "__main__":
    unittest.main()
