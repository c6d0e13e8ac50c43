# SPDX-License-Identifier: MIT
"""Isolation of the retry queue on real servers: what slow scenes, dead destinations and deadlines do
to tasks beside them."""

import http.server
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import ports  # noqa: E402

SLOW_S = 4


class FairCase(suite.Case):
    """Tasks that run programs."""

    settings = {"retry.poll_ms": 50, "retry.rescue_ms": 500, "retry.threads": 3}

    def setUp(self):
        self.stack.sql("DELETE FROM retry_task")
        self.stack.sql("DELETE FROM retry_task_history")
        self.stack.sql("DELETE FROM retry_scene")

    def program(self, name, text):
        path = self.stack.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def scene(self, name, **policy):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('default', %s, %s)",
                       [name, json.dumps(policy)])

    def put(self, scene, handler, options, count=1):
        rows = [(scene, handler, f"{scene} {time.monotonic_ns()} {n}", json.dumps(options))
                for n in range(count)]
        connection = suite.connect(self.stack.name)
        try:
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO retry_task (scene, handler, idempotency_key, options) "
                                   "VALUES (%s, %s, %s, %s)", rows)
            connection.commit()
        finally:
            connection.close()

    def left(self, scene):
        return self.stack.number("SELECT COUNT(*) FROM retry_task WHERE scene = %s", [scene])


class Threads(FairCase):
    """Worker threads are shared between scenes."""

    seconds = 60

    def test_a_slow_scene_does_not_delay_another_one(self):
        slow, quick = self.program("slow", f"sleep {SLOW_S}"), self.program("quick", "true")
        role = self.start("retry", sets={"retry.exec_programs": f"{slow},{quick}",
                                         "admin.stale_ms": 3000})
        self.put("slow", "exec", {"program": slow}, 150)
        suite.wait_for("many to be claimed", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE state = 1") >= 100)
        waits = []
        for _ in range(10):
            begun = time.monotonic()
            self.put("quick", "exec", {"program": quick})
            suite.wait_for("the quick one to be done", lambda: self.left("quick") == 0)
            waits.append(time.monotonic() - begun)
        # Two threads need 300 s for the slow ones; one FIFO would let each quick one wait for many.
        self.assertGreater(self.left("slow"), 50)
        self.assertLess(sorted(waits)[len(waits) // 2], SLOW_S / 2, waits)
        # Those that are claimed wait for a thread, and it is told.
        suite.wait_for("the age in readiness", lambda: "has been due for" in role.why_not_ready())
        suite.wait_for("the age in the metric", lambda: role.metrics().get(
            'tallybox_retry_oldest_due_age_seconds{group="default",scene="slow"}', 0) > 3, 30)


class Answerer(http.server.BaseHTTPRequestHandler):
    """Says yes, and counts."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


class Destinations(FairCase):
    """One circuit breaker for each destination."""

    seconds = 40

    def serve(self, port=0):
        peer = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answerer)
        peer.asked = 0
        threading.Thread(target=peer.serve_forever, daemon=True).start()
        self.addCleanup(peer.server_close)
        self.addCleanup(peer.shutdown)
        return peer

    def test_a_dead_host_does_not_keep_a_living_one_waiting(self):
        living, dead_port = self.serve(), ports.free_port()
        role = self.start("retry", sets={
            "retry.http_hosts": f"127.0.0.1:{living.server_port},127.0.0.1:{dead_port}"})
        self.scene("mail", wait="fixed 1s", attempts=0, keep_done=False)
        self.put("mail", "http", {"url": f"http://127.0.0.1:{dead_port}/"}, 60)
        suite.wait_for("the breaker to open",
                       lambda: role.metric("tallybox_retry_breakers_open") == 1)
        self.assertIn(f"event=dependency_down dep=destination role=retry reason=breaker_open destination=http://127.0.0.1:{dead_port} ",
                      role.log_text())
        self.put("mail", "http", {"url": f"http://127.0.0.1:{living.server_port}/"}, 20)
        suite.wait_for("the living one to be called", lambda: living.asked == 20, 20)
        suite.wait_for("its tasks to be done", lambda: self.left("mail") == 60)
        # Of 60 tasks only those were tried that opened it, and its probes.
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt WHERE outcome <> "
                                           "'failed'"), 0)
        self.assertEqual(self.stack.number("SELECT SUM(attempts) FROM retry_task"),
                         self.stack.number("SELECT COUNT(*) FROM retry_attempt"))
        suite.wait_for("the reason of those that are put off", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE attempts = 0 AND reason LIKE "
            "'the circuit breaker of http://127.0.0.1:%% is open%%'") > 0, 20)
        late = self.serve(dead_port)
        suite.wait_for("all to be done", lambda: self.left("mail") == 0, 120)
        self.assertEqual(late.asked, 60)
        self.assertEqual(role.metric("tallybox_retry_breakers_open"), 0)


class Deadlines(FairCase):
    """A task whose deadline is over ends, whatever it waits for, and is not run."""

    seconds = 30

    def test_a_deadline_ends_what_waits(self):
        sleeper, ran = self.program("sleeper", "sleep 30"), self.stack.folder / "ran"
        writer = self.program("writer", f"echo ran >> {ran}")
        dead = f"http://127.0.0.1:{ports.free_port()}/"
        told = {"scene": "told", "handler": "fax"}
        policy = {"deadline": "3s", "attempts": 0, "on_exhausted": told}
        self.scene("paused", **policy)
        self.stack.sql("UPDATE retry_scene SET paused = 1")
        self.scene("strange", **policy)
        self.scene("rare", **policy, rate="1/s")
        self.scene("slow", **policy)
        self.scene("opener", attempts=0, wait="fixed 1h")
        self.scene("behind", **policy)
        role = self.start("retry", sets={"retry.exec_programs": f"{sleeper},{writer}",
                                         "retry.http_hosts": dead[7:-1]})
        self.put("opener", "http", {"url": dead}, 10)
        suite.wait_for("the breaker to open",
                       lambda: role.metric("tallybox_retry_breakers_open") == 1)
        self.put("paused", "exec", {"program": writer}, 20)
        self.put("strange", "fax", {}, 20)
        self.put("behind", "http", {"url": dead}, 20)
        self.put("slow", "exec", {"program": sleeper}, 20)
        self.put("rare", "exec", {"program": "/bin/false"}, 20)
        for scene in ("paused", "strange", "behind"):
            suite.wait_for(f"the tasks of {scene} to end", lambda one=scene: self.left(one) == 0, 30)
        suite.wait_for("those to end that wait for a thread", lambda: self.left("slow") <= 2, 30)
        suite.wait_for("those to end that wait for their rate", lambda: self.left("rare") == 0, 30)
        # Each is in the history with its reason, and had its callback; none was run.
        for scene in ("paused", "strange"):
            self.assertEqual(self.stack.sql(
                "SELECT outcome, attempts, reason_class, reason, COUNT(*) FROM retry_task_history "
                "WHERE scene = %s GROUP BY 1, 2, 3, 4", [scene]),
                [("exhausted", 0, "transient", "deadline: it did not begin within 3000 ms", 20)])
        self.assertFalse(ran.exists())
        for scene in ("slow", "behind", "rare"):
            self.assertGreater(self.stack.number(
                "SELECT COUNT(*) FROM retry_task_history WHERE scene = %s AND attempts = 0 AND "
                "reason LIKE 'deadline: it did not begin%%'", [scene]), 10)
        ended = self.stack.number("SELECT COUNT(*) FROM retry_task_history WHERE outcome = 'exhausted'")
        self.assertEqual(self.left("told"), ended)
        self.assertEqual(role.metric("tallybox_retry_exhausted_total"), ended)

    def test_what_a_person_lets_go_on_is_tried(self):
        writer = self.program("writer", f"echo ran >> {self.stack.folder}/ran")
        self.scene("late", deadline="1s", exhausted="block")
        self.stack.sql("UPDATE retry_scene SET paused = 1")
        self.start("retry", sets={"retry.exec_programs": writer})
        self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key, options) VALUES "
                       "('late', 'exec', 'k', %s)", [json.dumps({"program": writer})])
        suite.wait_for("the task to be blocked", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE state = 3 AND reason LIKE 'deadline:%%'") == 1)
        self.scene_set("late", deadline="1h", exhausted="block")
        self.stack.sql("UPDATE retry_task SET created_at = created_at - INTERVAL 1 DAY, "
                       "age_from = age_from - INTERVAL 1 DAY")
        self.stack.tallybox("retry", "resume", "late")
        self.stack.tallybox("retry", "unpark", "k")
        suite.wait_for("the task to be done", lambda: self.left("late") == 0)

    def scene_set(self, name, **policy):
        self.stack.sql("UPDATE retry_scene SET policy = %s, version = version + 1 WHERE scene = %s",
                       [json.dumps(policy), name])


if __name__ == "__main__":
    unittest.main()
