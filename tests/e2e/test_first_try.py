# SPDX-License-Identifier: MIT
"""POST /v1/tasks?try=1: the server runs a task at once, and the queue has it in any case."""

import concurrent.futures
import http.server
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

TOKEN = "token-of-the-shop-and-its-tasks"
BEARER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
WAITING, RUNNING, QUEUED, BLOCKED = range(4)


class Answerer(http.server.BaseHTTPRequestHandler):
    """Answers as the path says: /ok, /text, /fail (503), /once (503 at first), /hang."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path
        self.server.asked.append((path, dict(self.headers)))
        first = len([one for one, _ in self.server.asked if one == path]) == 1
        if path.startswith("/hang"):
            self.server.open.wait(60)
        failing = path.startswith("/fail") or (path.startswith("/once") and first)
        body = b"" if failing else b"plain" if path == "/text" else b'{"number": 4711}'
        try:
            self.send_response(503 if failing else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # the caller has gone

    def log_message(self, *words):
        pass


def start_peer(case):
    peer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answerer)
    peer.daemon_threads = True
    peer.asked = []
    peer.open = threading.Event()
    threading.Thread(target=peer.serve_forever, daemon=True).start()
    case.addCleanup(peer.server_close)
    case.addCleanup(peer.shutdown)
    case.addCleanup(peer.open.set)
    return peer


class TryCase(suite.Case):
    """Helpers of this file."""

    settings = {"retry.poll_ms": 50, "retry.rescue_ms": 200, "retry.lease_ms": 2000}
    version = 0 # of the scenes: a claim sees each change

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:default tasks:shut\n")
        tokens.chmod(0o600)
        cls.tokens = tokens
        cls.stack.add_privileges("first_try", "tallybox_serve")

    def setUp(self):
        self.peer = start_peer(self)
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene"):
            self.stack.sql(f"DELETE FROM {table}")
        self.policy("mail", wait="fixed 1s", attempts=5, lease="1s")

    def sets(self, **more):
        return {"api.tasks": "on", "api.token_file": self.tokens, "api.try_max": 2,
                "retry.http_hosts": f"127.0.0.1:{self.peer.server_port}",
                **{name.replace("__", "."): value for name, value in more.items()}}

    def policy(self, scene, paused=0, options=None, **policy):
        TryCase.version += 1
        self.stack.sql("REPLACE INTO retry_scene (task_group, scene, policy, options, paused, "
                       "version) VALUES ('default', %s, %s, %s, %s, %s)",
                       [scene, json.dumps(policy), options and json.dumps(options), paused,
                        TryCase.version])

    def serve_with(self, **more):
        serve = self.start("serve", sets=self.sets(**more))
        # Readiness does not wait for the retry queue.
        suite.wait_for("the queue of tasks", lambda: serve.call(
            "GET", "/v1/tasks", headers=BEARER).status == 200)
        suite.wait_for("the queue of tries", lambda: self.send(
            serve, self.task("/ok", idempotencyKey="up"), "?try=1").status == 200)
        self.stack.sql("DELETE FROM retry_task_history")
        self.peer.asked.clear()
        return serve

    def start_retry(self):
        return self.start("retry", sets={"retry.http_hosts": f"127.0.0.1:{self.peer.server_port}"})

    def task(self, path, **more):
        options = {"url": f"http://127.0.0.1:{self.peer.server_port}{path}",
                   **more.pop("options", {})}
        return {"scene": "mail", "handler": "http", "options": options, "params": {"to": "a"}, **more}

    def send(self, serve, body, query="?try=1", headers=None):
        return serve.call("POST", f"/v1/tasks{query}", json.dumps(body).encode(),
                          {**BEARER, **(headers or {})})

    def try_task(self, serve, status, path, **more):
        """A task whose scene has changed since the server read it is not tried; the next one is."""
        answer = self.send(serve, self.task(path, **more))
        if b"its scene has changed" in answer.body:
            self.stack.sql("DELETE FROM retry_task WHERE id = %s", [json.loads(answer.body)["id"]])
            answer = self.send(serve, self.task(path, **more))
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def try_scene(self, serve, scene, **more):
        """A task whose scene has the options."""
        body = {"scene": scene, "handler": "http", "params": {"to": "a"}, **more}
        done = json.loads(self.send(serve, body).body)
        self.assertEqual(done["state"], "done", done)
        return done

    def fault(self, answer, status):
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)["error"]

    def state(self, task):
        rows = self.stack.sql("SELECT state, attempts, RTRIM(owner) FROM retry_task WHERE id = %s", [task])
        return rows[0] if rows else None

    def outcome(self, task):
        rows = self.stack.sql("SELECT outcome FROM retry_task_history WHERE id = %s", [task])
        return rows[0][0] if rows else None

    def wait_asked(self, path, count=1):
        suite.wait_for(f"{count} calls of {path}", lambda: len(self.asked(path)) >= count)

    def asked(self, path):
        return [headers for one, headers in self.peer.asked if one == path]

    def wait_done(self, task):
        suite.wait_for(f"task {task} to be done", lambda: self.outcome(task) == "done", 60)


class FirstTry(TryCase):
    """A server that lives."""

    def test_a_task_that_works_is_done_in_the_answer(self):
        url = f"http://127.0.0.1:{self.peer.server_port}"
        self.policy("shop", options={"url": f"{url}/ok"})
        self.policy("text", options={"url": f"{url}/text"})
        serve = self.serve_with()
        done = self.try_scene(serve, "shop", idempotencyKey="one")
        self.assertEqual({name: done[name] for name in ("existed", "tried", "outcome", "state",
                                                        "failures", "reason", "result")},
                         {"existed": False, "tried": True, "outcome": "done", "state": "done",
                          "failures": 0, "reason": None, "result": {"number": 4711}})
        self.assertEqual((self.state(done["id"]), self.outcome(done["id"])), (None, "done"))
        headers = self.asked("/ok")[0]
        self.assertEqual((headers["tallybox-attempt"], headers["tallybox-no-retry"],
                          headers["tallybox-scene"]), ("1", "1", "default/shop"))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt WHERE task_id = %s",
                                           [done["id"]]), 1)
        self.assertEqual(self.try_scene(serve, "text")["resultBase64"], "cGxhaW4=")
        # Who says what is called does not read the answer.
        for options in ({"url": f"{url}/ok"}, {"method": "POST"}, {"headers": {"a": "b"}}):
            self.assertEqual(self.try_scene(serve, "shop", options=options)["result"], None)
        self.assertEqual(serve.metric('tallybox_first_tries_total{result="done"}'), 6)

    def test_a_task_that_fails_waits_and_is_done_by_a_retry_process(self):
        serve = self.serve_with()
        failed = self.try_task(serve, 202, "/once")
        self.assertEqual((failed["tried"], failed["state"], failed["failures"],
                          failed["reasonClass"]), (True, "waiting", 1, "transient"))
        self.assertIn("503", failed["reason"])
        due = self.stack.number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', next_at) FROM "
                                "retry_task WHERE id = %s", [failed["id"]]) / 1000
        self.assertLess(abs(failed["nextAt"] - due), 1000)
        self.assertEqual(self.state(failed["id"]), (WAITING, 1, ""))
        self.start_retry()
        self.wait_done(failed["id"])
        self.assertEqual([headers["tallybox-attempt"] for headers in self.asked("/once")], ["1", "2"])
        self.assertEqual(len({headers["Idempotency-Key"] for headers in self.asked("/once")}), 1)

    def test_a_task_that_is_given_up_is_answered_so(self):
        serve = self.serve_with()
        self.policy("mail", attempts=1, exhausted="skip",
                    on_exhausted={"scene": "told", "handler": "http"})
        ended = self.try_task(serve, 200, "/fail")
        self.assertEqual((ended["outcome"], ended["tried"], ended["failures"]), ("exhausted", True, 1))
        self.assertEqual(self.outcome(ended["id"]), "exhausted")
        self.assertEqual(self.stack.sql("SELECT scene, parent_id FROM retry_task"),
                         [("told", ended["id"])])
        self.policy("mail", attempts=1, exhausted="block")
        blocked = self.try_task(serve, 200, "/fail", orderingKey="k")
        self.assertEqual((blocked["state"], "outcome" in blocked), ("blocked", False))
        self.assertEqual(self.state(blocked["id"])[0], BLOCKED)
        behind = self.try_task(serve, 202, "/ok", orderingKey="k")
        self.assertEqual((behind["tried"], self.state(behind["id"])[0]), (False, QUEUED))
        self.assertEqual(self.asked("/ok"), [])

    def test_a_task_waits_for_an_earlier_one_of_its_key(self):
        serve = self.serve_with()
        first = self.send(serve, self.task("/ok?1", orderingKey="k"), "")
        self.assertEqual(first.status, 201)
        second = self.try_task(serve, 202, "/ok?2", orderingKey="k")
        self.assertFalse(second["tried"])
        self.assertIn("ordering key", second["reason"])
        self.assertTrue(self.try_task(serve, 200, "/ok?3", orderingKey="other")["tried"])
        self.start_retry()
        self.wait_done(second["id"])
        self.assertEqual([path for path, _ in self.peer.asked], ["/ok?3", "/ok?1", "/ok?2"])

    def test_what_a_retry_process_would_not_begin_is_not_tried(self):
        serve = self.serve_with()
        self.policy("still", paused=1)
        self.policy("rated", rate="5/s burst 1")
        self.policy("slow", first_wait="1m")
        self.policy("bad", atempts=1)
        for scene, word in (("still", "paused"), ("rated", "rate"), ("slow", "first_wait"),
                            ("bad", "cannot be read")):
            with self.subTest(scene=scene):
                # The server reads scenes once a second.
                suite.wait_for(f"the policy of {scene}", lambda scene=scene, word=word: word in
                               self.try_task(serve, 202, f"/ok?{scene}", scene=scene, params=self.
                                             stack.number("SELECT COUNT(*) FROM retry_task"))["reason"])
                self.assertEqual(self.asked(f"/ok?{scene}"), [])
        for more, word in (({"delayMs": 60000}, "not due"),
                           ({"options": {"url": None, "path": "/ok"}}, "path")):
            task = self.task("/ok?never", **more)
            task["options"] = {name: value for name, value in task["options"].items()
                               if value is not None}
            answer = self.send(serve, task)
            self.assertEqual(answer.status, 202, answer.body)
            self.assertIn(word, json.loads(answer.body)["reason"])
        self.assertEqual(self.asked("/ok?never"), [])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE state <> 0"), 0)

    def test_a_pause_is_seen_at_the_claim(self):
        serve = self.serve_with()
        self.stack.tallybox("retry", "pause", "mail")
        paused = self.try_task(serve, 202, "/ok?paused")
        self.assertEqual((paused["tried"], self.asked("/ok?paused")), (False, []))
        self.stack.tallybox("retry", "resume", "mail")
        suite.wait_for("the scene to be resumed", lambda: self.send(serve, self.task(
            "/ok?resumed", params=self.stack.number("SELECT COUNT(*) FROM retry_task"))).status == 200)

    def test_a_disabled_group_takes_no_task(self):
        serve = self.serve_with()
        self.stack.tallybox("retry", "group", "set", "shut", "--handlers", "http")
        self.stack.tallybox("retry", "group", "disable", "shut")
        fault = self.fault(self.send(serve, self.task("/ok", group="shut")), 403)
        self.assertIn("disabled", fault["message"])
        self.assertEqual(self.peer.asked, [])

    def test_an_open_breaker_lets_no_try_pass(self):
        serve = self.serve_with()
        for number in range(10):
            self.try_task(serve, 202, "/fail", params=number)
        calls = len(self.peer.asked)
        stopped = self.try_task(serve, 202, "/ok")
        self.assertFalse(stopped["tried"])
        self.assertIn("circuit breaker", stopped["reason"])
        self.assertEqual((len(self.peer.asked), self.state(stopped["id"])), (calls, (WAITING, 0, "")))

    def test_a_try_ends_in_time(self):
        serve = self.serve_with(api__try_timeout_ms=300)
        late = self.try_task(serve, 202, "/hang")
        self.assertEqual((late["tried"], late["failures"], late["state"]), (True, 1, "waiting"))
        self.assertEqual(self.state(late["id"])[:2], (WAITING, 1))

    def test_more_tasks_than_threads_are_not_tried(self):
        serve = self.serve_with(api__try_max=1, api__try_timeout_ms=60000)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            self.try_task(serve, 200, "/hang", options={"timeout": "50s"})))
        thread.start()
        self.wait_asked("/hang")
        busy = self.try_task(serve, 202, "/ok")
        self.assertEqual((busy["tried"], self.state(busy["id"])), (False, (WAITING, 0, "")))
        self.assertIn("no thread is free", busy["reason"])
        self.peer.open.set()
        thread.join()
        self.assertEqual(answers[0]["outcome"], "done")

    def test_a_repeated_request_tries_nothing(self):
        serve = self.serve_with()
        failed = self.try_task(serve, 202, "/fail", idempotencyKey="one")
        again = self.try_task(serve, 200, "/fail", idempotencyKey="one")
        self.assertEqual((again["id"], again["existed"], again["tried"]), (failed["id"], True, False))
        self.policy("keeps", dedup="1h")
        done = self.try_task(serve, 200, "/ok", idempotencyKey="two", scene="keeps")
        again = self.try_task(serve, 200, "/ok", idempotencyKey="two", scene="keeps")
        self.assertEqual((again["id"], again["existed"], again["tried"], again["outcome"]),
                         (done["id"], True, False, "done"))
        self.assertEqual((len(self.asked("/ok")), len(self.asked("/fail"))), (1, 1))

    def test_claims_by_compare_and_set_keep_the_order(self):
        serve = self.serve_with(retry__claim="compare_and_set")
        self.assertEqual(self.try_task(serve, 200, "/ok?1", orderingKey="k")["outcome"], "done")
        failed = self.try_task(serve, 202, "/once", orderingKey="k")
        behind = self.try_task(serve, 202, "/ok?2", orderingKey="k")
        self.assertEqual((failed["tried"], behind["tried"]), (True, False))
        self.start_retry()
        self.wait_done(behind["id"])
        self.assertEqual([path for path, _ in self.peer.asked], ["/ok?1", "/once", "/once", "/ok?2"])

    def test_many_requests_at_once_run_each_task_once_and_in_order(self):
        self.policy("mail", wait="fixed 1s", dedup="1h")
        serve = self.serve_with(api__try_max=4)
        self.start_retry()

        def ask(number):
            # Every fourth request repeats the one before.
            number -= number % 4 == 1
            return json.loads(self.send(serve, self.task(
                f"/ok?k{number % 5}", orderingKey=f"k{number % 5}", idempotencyKey=str(number))).body)

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(ask, range(40)))
        self.assertGreater(sum(answer["tried"] for answer in answers), 0)
        suite.wait_for("all tasks to end",
                       lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 0, 60)
        done = dict(self.stack.sql("SELECT idempotency_key, id FROM retry_task_history WHERE "
                                   "outcome = 'done'"))
        self.assertEqual(sorted(done, key=int), [str(number) for number in range(40)
                                                 if number % 4 != 1])
        self.assertEqual(len(self.peer.asked), len(done))
        for key in range(5):
            order = [done[headers["Idempotency-Key"]] for path, headers in self.peer.asked
                     if path == f"/ok?k{key}"]
            self.assertEqual(order, sorted(order))

    def test_what_cannot_be_tried_is_refused_with_the_reason(self):
        serve = self.serve_with()
        array = self.fault(self.send(serve, [self.task("/ok")]), 400)
        self.assertIn("not an array", array["message"])
        other = self.fault(self.send(serve, {"scene": "mail", "handler": "kafka",
                                             "options": {"topic": "x"}}), 422)
        self.assertIn("handler http", other["message"])
        self.assertEqual(self.fault(self.send(serve, self.task("/ok"), "?try=2"), 400)["at"], "try")
        self.assertEqual(self.fault(self.send(serve, self.task("/ok"), headers={
            "tallybox-scene": "default/mail"}), 409)["code"], "retry_traffic")
        self.assertEqual(self.send(serve, self.task("/ok"), headers={
            "Authorization": "Bearer another-token-that-is-unknown"}).status, 401)
        self.fault(self.send(serve, self.task("/ok", group="foreign")), 403)
        self.assertEqual((self.peer.asked, self.stack.number("SELECT COUNT(*) FROM retry_task")),
                         ([], 0))

    def test_without_the_setting_tasks_wait(self):
        serve = self.start("serve", sets=self.sets(api__try_max=0))
        suite.wait_for("the queue of tasks", lambda: serve.call(
            "GET", "/v1/tasks", headers=BEARER).status == 200)
        off = self.try_task(serve, 202, "/ok")
        self.assertEqual((off["tried"], self.state(off["id"])), (False, (WAITING, 0, "")))
        self.assertIn("api.try_max", off["reason"])

    def test_a_process_of_all_roles_tries_tasks(self):
        run = self.start("run", sets=self.sets())
        suite.wait_for("the queue of tries", lambda: self.send(
            run, self.task("/ok", idempotencyKey="up")).status == 200)
        self.assertEqual(self.try_task(run, 200, "/ok?run")["outcome"], "done")
        failed = self.try_task(run, 202, "/once")
        self.wait_done(failed["id"])


class FirstTryKilled(TryCase):
    """A server that ends in the middle of a try."""

    def hang(self, serve, path, answers):
        def ask():
            try:
                answers.append(self.send(serve, self.task(path, options={"timeout": "50s"})))
            except OSError as error:
                answers.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        self.wait_asked(path)
        return thread

    def test_the_task_of_a_killed_server_is_rescued(self):
        serve = self.serve_with(api__try_timeout_ms=60000)
        answers = []
        thread = self.hang(serve, "/hang?killed", answers)
        task, state, owner = self.stack.row("SELECT id, state, RTRIM(owner) FROM retry_task")
        self.assertEqual(state, RUNNING)
        self.assertNotEqual(owner, "")
        serve.kill()
        thread.join()
        self.assertEqual(self.state(task)[0], RUNNING)
        self.peer.open.set()
        self.start_retry()
        self.wait_done(task)
        keys = {headers["Idempotency-Key"] for headers in self.asked("/hang?killed")}
        self.assertEqual((len(self.asked("/hang?killed")), len(keys)), (2, 1))

    def test_a_server_that_stops_gives_the_task_back(self):
        serve = self.serve_with(api__try_timeout_ms=60000, admin__stop_timeout_ms=4000)
        answers = []
        thread = self.hang(serve, "/hang?stopped", answers)
        task = self.stack.number("SELECT id FROM retry_task")
        self.assertEqual(serve.terminate(), 0)
        thread.join()
        self.assertEqual(answers[0].status, 202, answers[0])
        answer = json.loads(answers[0].body)
        self.assertEqual((answer["id"], answer["tried"], answer["state"]), (task, True, "waiting"))
        self.assertEqual(self.state(task), (WAITING, 0, ""))
        self.peer.open.set()
        self.start_retry()
        self.wait_done(task)

    def test_a_server_that_stops_ends_a_try_that_is_nearly_done(self):
        serve = self.serve_with(api__try_timeout_ms=60000, admin__stop_timeout_ms=60000)
        answers = []
        thread = self.hang(serve, "/hang?ends", answers)
        stopping = threading.Thread(target=serve.terminate)
        stopping.start()
        suite.wait_for("the stop to begin", lambda: "event=stopping" in serve.log_text() or
                       not serve.ready())
        self.peer.open.set()
        thread.join()
        stopping.join()
        self.assertEqual((answers[0].status, json.loads(answers[0].body)["outcome"]), (200, "done"))


class FirstTryUngranted(TryCase):
    """An account without the privileges of first_try."""

    @classmethod
    def setUpClass(cls):
        suite.Case.setUpClass.__func__(cls)
        cls.tokens = cls.stack.folder / "tokens"
        cls.tokens.write_text(f"{TOKEN} tasks:default\n")
        cls.tokens.chmod(0o600)

    def test_nothing_is_done_and_the_log_says_why(self):
        serve = self.start("serve", sets=self.sets())
        suite.wait_for("the queue of tasks", lambda: self.send(serve, self.task("/ok"),
                                                               "").status in (200, 201))
        self.stack.sql("DELETE FROM retry_task")
        suite.wait_for("a refusal", lambda: self.send(
            serve, self.task("/ok?ungranted")).status == 503 and "first_try" in serve.log_text())
        self.assertEqual((self.peer.asked, self.stack.number("SELECT COUNT(*) FROM retry_task")),
                         ([], 0))
        self.assertIn("event=task_intake_failed", serve.log_text())
        self.assertTrue(serve.alive())


if __name__ == "__main__":
    unittest.main()
