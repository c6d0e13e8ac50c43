# SPDX-License-Identifier: MIT
"""What tasks of the retry queue do outside: calls of a host, programs, and steps of both, on a real
database, by way of `tallybox retry`."""

import http.server
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402


class Answerer(http.server.BaseHTTPRequestHandler):
    """Answers as the path says, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, dict(self.headers), body))
        first = len([path for path, _, _ in self.server.asked if path == self.path]) == 1
        status = 503 if self.path == "/once" and first else 422 if self.path == "/no" else 200
        self.send_response(status)
        if status == 422:
            self.send_header("tallybox-no-retry", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Handlers(suite.Case):
    """One role with a host and a program on its lists."""

    # A record may wait for long: nothing of a loaded machine looks like an attempt that failed.
    settings = {"retry.poll_ms": 50, "retry.rescue_ms": 500, "relay.lease_ms": 60000,
                "relay.send_timeout_ms": 30000}

    def setUp(self):
        self.peer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answerer)
        self.peer.asked = []
        threading.Thread(target=self.peer.serve_forever, daemon=True).start()
        self.addCleanup(self.peer.server_close)
        self.addCleanup(self.peer.shutdown)
        self.program = self.stack.folder / "program"
        self.program.write_text("#!/bin/sh\nif [ \"$1\" = fail ]; then echo it is shut >&2; exit 75; fi\n"
                                "tr a-z A-Z\nprintf ' %s' \"$TALLYBOX_STEP\"\n")
        self.program.chmod(0o700)
        self.stack.sql("DELETE FROM retry_task")
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy) VALUES ('default', "
                       "'work', %s)", [json.dumps({"wait": "fixed 1s", "attempts": 0})])
        self.role = self.start("retry", sets={
            "retry.http_hosts": f"127.0.0.1:{self.peer.server_port}",
            "retry.exec_programs": self.program})

    def task(self, handler, options, params="hello"):
        self.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key, options, params, "
                       "params_type) VALUES ('work', %s, UUID(), %s, %s, 'text/plain')",
                       [handler, json.dumps(options), params])
        return self.stack.number("SELECT MAX(id) FROM retry_task")

    def url(self, path):
        return f"http://127.0.0.1:{self.peer.server_port}{path}"

    def wait_gone(self):
        suite.wait_for("no task to be left",
                       lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 0, 30)

    def wait_reason(self, number, text):
        suite.wait_for(f"the reason of task {number} to say {text}", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE id = %s AND reason LIKE %s",
            [number, f"%{text}%"]) == 1, 30)

    def test_a_call_that_fails_once_is_made_again_with_the_same_key(self):
        self.task("http", {"url": self.url("/once")})
        self.wait_gone()
        self.assertEqual([body for _, _, body in self.peer.asked], [b"hello", b"hello"])
        first, second = (headers for _, headers, _ in self.peer.asked)
        self.assertEqual(first["Idempotency-Key"], second["Idempotency-Key"])
        self.assertEqual((first["tallybox-attempt"], second["tallybox-attempt"]), ("1", "2"))
        self.assertEqual(first["Content-Type"], "text/plain")
        self.assertEqual((first["tallybox-no-retry"], first["tallybox-scene"]), ("1", "default/work"))
        # Both attempts are one trace; each has its own span.
        self.assertRegex(first["traceparent"], "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
        self.assertEqual(first["traceparent"][:36], second["traceparent"][:36])
        self.assertNotEqual(first["traceparent"], second["traceparent"])

    def test_a_scene_may_leave_retries_to_the_receiver_and_a_trace_is_kept(self):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
        self.stack.tallybox("retry", "scene", "set", "theirs", "--policy",
                            '{"no_retry": false, "on_done": {"scene": "told", "handler": "http"}}',
                            "--options", json.dumps({"url": self.url("/ok")}))
        self.stack.tallybox("retry", "scene", "set", "told", "--options",
                            json.dumps({"url": self.url("/told")}))
        self.addCleanup(self.stack.sql, "DELETE FROM retry_scene WHERE scene IN ('theirs', 'told')")
        self.stack.sql("INSERT INTO retry_task (scene, handler, params, traceparent) VALUES "
                       "('theirs', 'http', '{\"n\": 1.50}', %s)", [trace])
        # The task and its callback.
        suite.wait_for("the call of the callback", lambda: len(self.peer.asked) >= 2)
        self.wait_gone()
        (path, first, _), (told, second, body) = self.peer.asked
        self.assertEqual((path, told), ("/ok", "/told"))
        self.assertNotIn("tallybox-no-retry", first)
        self.assertEqual(second["tallybox-no-retry"], "1")
        self.assertEqual((first["traceparent"], second["traceparent"]), (trace, trace))
        # The callback carries what the task had and what it got: the peer answers with the body.
        told = json.loads(body)
        self.assertEqual((told["outcome"], told["attempts"], told["params"], told["result"]),
                         ("done", 0, {"n": 1.50}, {"n": 1.50}))
        self.assertIn(b'"params":{"n": 1.50},"result":{"n": 1.50}', body)

    def test_a_downstream_that_says_never_is_believed(self):
        self.task("http", {"url": self.url("/no")})
        self.wait_gone()
        self.assertEqual(len(self.peer.asked), 1)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task_history WHERE outcome = "
                                           "'exhausted' AND reason LIKE '%%status 422%%'"), 1)
        self.stack.sql("DELETE FROM retry_task_history")

    def test_an_answer_with_status_200_may_say_that_it_failed(self):
        ok = {"/code": 0, "/data/~0": "x"}
        # The peer answers with the body.
        self.task("http", {"url": self.url("/ok"), "ok": ok}, '{"code": 0, "data": {"~": "x"}}')
        self.wait_gone()
        failed = self.task("http", {"url": self.url("/ok"), "ok": ok}, '{"code": 7, "data": "hush"}')
        self.wait_reason(failed, 'status 200, but the answer has another value than "ok" at "/code"')
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE reason LIKE "
                                           "'%%hush%%'"), 0)
        self.stack.sql("DELETE FROM retry_task")

    def test_what_is_not_listed_is_not_reached(self):
        host = self.task("http", {"url": "http://127.0.0.1:1/"})
        program = self.task("exec", {"program": "/bin/sh", "args": ["-c", "true"]})
        self.wait_reason(host, "retry.http_hosts")
        again = self.task("http", {"url": "http://127.0.0.1:1/"})
        self.wait_reason(again, "retry.http_hosts")
        self.assertEqual(self.role.log_text().count("event=check_failed check=http_hosts"), 1)
        self.assertIn('the host \\"127.0.0.1\\" with port 1 is not in retry.http_hosts',
                      self.role.log_text())
        self.wait_reason(program, "retry.exec_programs")
        self.stack.sql("DELETE FROM retry_task")

    def test_steps_hand_on_what_they_made(self):
        topic = f"steps-{self.stack.name}"
        wire.create_topic(suite.kafka().bootstrap, topic, 1)
        self.task("steps", {"steps": [
            {"handler": "http", "options": {"url": self.url("/echo")}},
            {"handler": "exec", "options": {"program": str(self.program)}, "params": "result"},
            {"handler": "kafka", "options": {"topic": topic}, "params": "result"}]})
        self.wait_gone()
        self.assertEqual([record.value for record in self.stack.records(topic)], [b"HELLO 1"])
        self.assertTrue(self.peer.asked[0][1]["Idempotency-Key"].endswith("/0"))

    def test_a_step_that_fails_waits_alone(self):
        number = self.task("steps", {"steps": [
            {"handler": "http", "options": {"url": self.url("/echo")}},
            {"handler": "exec", "options": {"program": str(self.program), "args": ["fail"]}}]})
        self.wait_reason(number, "step 1: ")
        self.wait_reason(number, "exited with 75: it is shut")
        self.assertEqual(self.stack.number("SELECT step FROM retry_task WHERE id = %s", [number]), 1)
        self.assertEqual(len(self.peer.asked), 1)
        self.stack.sql("DELETE FROM retry_task")


if __name__ == "__main__":
    unittest.main()
