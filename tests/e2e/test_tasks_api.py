# SPDX-License-Identifier: MIT
"""Tasks of the retry queue over HTTP: taken in once, found again, refused with a reason. No engine
runs here."""

import base64
import concurrent.futures
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

JSON = {"Content-Type": "application/json"}
OPTIONS = {"topic": "somewhere"}
TOKEN = "token-of-the-shop-and-of-others"
MAIL = "token-of-the-mail-and-of-nothing"
VOTES = "token-of-those-who-vote-and-read"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
GOOD = {"scene": "mail", "handler": "kafka", "options": OPTIONS, "params": {"to": "a"}}


class TasksCase(suite.Case):
    """Helpers of this file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokens = cls.stack.folder / "tokens"
        cls.tokens.write_text(f"{TOKEN} tasks:default tasks:shop\n{MAIL} tasks:mail\n{VOTES}\n")
        cls.tokens.chmod(0o600)
        cls.on = {"api.tasks": "on", "api.token_file": cls.tokens, "retry.http_hosts": "h"}
        cls.serve = cls.stack.role("serve", sets=cls.on)
        for group in ("shop", "mail"):
            cls.stack.tallybox("retry", "group", "set", group, "--handlers", "kafka", "--topics", "*")

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt"):
            self.stack.sql(f"DELETE FROM {table}")

    def post(self, body, status=None, headers=None):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.serve.call("POST", "/v1/tasks", raw,
                                 {**BEARER, **(JSON if headers is None else headers)})
        if status is not None:
            self.assertEqual(answer.status, status, answer.body)
        return answer

    def give(self, status=201, **more):
        return json.loads(self.post({**GOOD, **more}, status).body)

    def get(self, path, status=200, token=TOKEN):
        answer = self.serve.call("GET", path, headers={"Authorization": f"Bearer {token}"})
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def fault(self, answer):
        error = json.loads(answer.body)["error"]
        return error["code"], error.get("at")

    def count(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_task")


class Submitting(TasksCase):
    """POST /v1/tasks."""

    def test_a_task_is_taken_in_once(self):
        first = self.give(bizNo="B-1", orderingKey="k", idempotencyKey="one", delayMs=60000)
        self.assertFalse(first["existed"])
        again = self.give(200, bizNo="B-1", orderingKey="k", idempotencyKey="one", delayMs=60000)
        self.assertEqual(again, {"id": first["id"], "existed": True})
        rows = self.stack.sql("SELECT task_group, scene, handler, ordering_key, idempotency_key, "
                              "biz_no, options, params, params_type, state, "
                              "next_at > UTC_TIMESTAMP(3) + INTERVAL 30 SECOND FROM retry_task")
        self.assertEqual(rows, [("default", "mail", "kafka", "k", "one", "B-1",
                                 json.dumps(OPTIONS), b'{"to": "a"}', "application/json", 0, 1)])

    def test_a_task_that_has_ended_is_answered_while_its_key_is_refused(self):
        first = self.give(idempotencyKey="one")
        columns = ("id, task_group, scene, handler, idempotency_key, options, params, params_type, "
                   "state, attempts, next_at, reason_class, reason, owner, epoch, step, created_at, "
                   "updated_at")
        self.stack.sql(
            f"INSERT INTO retry_task_history ({columns}, outcome, ended_at, dedup_hash, dedup_until) "
            f"SELECT {columns}, 'done', UTC_TIMESTAMP(3), task_hash, UTC_TIMESTAMP(3) + INTERVAL 1 "
            "HOUR FROM retry_task")
        self.stack.sql("DELETE FROM retry_task")
        ended = {"id": first["id"], "existed": True, "outcome": "done"}
        self.assertEqual(self.give(200, idempotencyKey="one"), ended)
        many = json.loads(self.post([{**GOOD, "idempotencyKey": key} for key in ("one", "two", "one")],
                                    200).body)
        self.assertEqual([many[0], many[2]], [ended, ended])
        self.assertFalse(many[1]["existed"])
        self.assertFalse(self.give(idempotencyKey="one", scene="other")["existed"])
        self.assertEqual(self.count(), 2)
        self.stack.sql("UPDATE retry_task_history SET dedup_until = UTC_TIMESTAMP(3)")
        again = self.give(idempotencyKey="one")
        self.assertFalse(again["existed"])
        # The active task comes before the ended one.
        self.stack.sql("UPDATE retry_task_history SET dedup_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR")
        self.assertEqual(self.give(200, idempotencyKey="one"), {"id": again["id"], "existed": True})

    def test_the_same_task_without_a_key_is_one(self):
        self.assertEqual(self.give()["id"], self.give(200)["id"])
        self.give(params=1)
        self.assertEqual(self.count(), 2)

    def test_many_submits_at_once_make_one_task(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self.post({**GOOD, "idempotencyKey": "x"}),
                                    range(32)))
        ids = {json.loads(answer.body)["id"] for answer in answers}
        self.assertEqual(len(ids), 1)
        self.assertEqual(sorted(answer.status for answer in answers), [200] * 31 + [201])
        self.assertEqual(self.count(), 1)

    def test_params_are_kept_as_they_are(self):
        raw = b'{"scene":"mail","handler":"kafka","options":{"topic":"t"},"params": %s}'
        for text in (b"0.1", b'"a\\u00e4"', b"null", b"[1, 2.50,\t3]", b'{"params" : {"b":1e2}}',
                     b"12345678901234567"):
            with self.subTest(text=text):
                task = json.loads(self.post(raw % text, 201).body)["id"]
                rows = self.stack.sql("SELECT params FROM retry_task WHERE id = %s", [task])
                self.assertEqual(rows[0][0], text)
                self.assertEqual(self.get(f"/v1/tasks/{task}")["params"], json.loads(text))
        data = bytes(range(256))
        one = {"scene": "mail", "handler": "kafka", "options": OPTIONS, "paramsType": "image/png",
               "paramsBase64": base64.b64encode(data).decode()}
        task = json.loads(self.post(one, 201).body)["id"]
        rows = self.stack.sql("SELECT params, params_type FROM retry_task WHERE id = %s", [task])
        self.assertEqual(rows[0], (data, "image/png"))
        found = self.get(f"/v1/tasks/{task}")
        self.assertEqual(base64.b64decode(found["paramsBase64"]), data)

    def test_an_array_is_taken_in_and_a_bad_one_fails_alone(self):
        answer = self.post([{**GOOD, "bizNo": "1"}, {**GOOD, "scene": "a b"}, 7,
                            {**GOOD, "handler": "nobody"}, {**GOOD, "bizNo": "2"},
                            {**GOOD, "bizNo": "1"}], 200)
        items = json.loads(answer.body)
        self.assertEqual([one.get("existed") for one in items],
                         [False, None, None, None, False, True])
        self.assertEqual(items[5]["id"], items[0]["id"])
        self.assertEqual([one["error"]["at"] for one in items[1:4]],
                         ["/1/scene", "/2", "/3/handler"])
        self.assertEqual(self.count(), 2)
        many = [{**GOOD, "idempotencyKey": f"m{n}"} for n in range(1000)]
        for existed in (False, True):
            items = json.loads(self.post(many, 200).body)
            self.assertEqual({one["existed"] for one in items}, {existed})
        ids = [one["id"] for one in items]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual(self.count(), 1002)

    def test_what_is_wrong_is_named(self):
        cases = [
            (b"{", "not_json", None), (b"", "not_json", None), ([], "out_of_range", ""),
            (b"[" * 100000, "not_json", None), ([GOOD] * 1001, "out_of_range", ""),
            (b"[" + json.dumps(GOOD).encode() + b"}", "not_json", None),
            (7, "wrong_type", ""), ({"handler": "kafka"}, "missing", "/scene"),
            ({"scene": "mail"}, "missing", "/handler"),
            ({**GOOD, "scene": 1}, "wrong_type", "/scene"),
            ({**GOOD, "scene": ""}, "out_of_range", "/scene"),
            ({**GOOD, "scene": "x" * 65}, "out_of_range", "/scene"),
            ({**GOOD, "group": "\u00e4"}, "out_of_range", "/group"),
            ({**GOOD, "handler": "sql"}, "out_of_range", "/handler"),
            ({**GOOD, "bizNo": "\u00e4" * 65}, "out_of_range", "/bizNo"),
            ({**GOOD, "orderingKey": "k" * 513}, "out_of_range", "/orderingKey"),
            ({**GOOD, "idempotencyKey": []}, "wrong_type", "/idempotencyKey"),
            ({**GOOD, "options": "x"}, "wrong_type", "/options"),
            ({**GOOD, "options": {"a": "x" * 66000}}, "out_of_range", "/options"),
            ({**GOOD, "delayMs": -1}, "out_of_range", "/delayMs"),
            ({**GOOD, "delayMs": 1.5}, "wrong_type", "/delayMs"),
            ({**GOOD, "paramsBase64": "AA=="}, "duplicate", "/paramsBase64"),
            ({"scene": "mail", "handler": "kafka", "paramsBase64": "!"}, "out_of_range",
             "/paramsBase64"),
            ({**GOOD, "paramsType": "a\nb"}, "out_of_range", "/paramsType"),
            ({**GOOD, "biz_no": "1"}, "unknown_field", "/biz_no"),
            (b'{"scene":"a","scene":"b","handler":"kafka"}', "not_json", None),
        ]
        for body, code, at in cases:
            with self.subTest(body=str(body)[:80]):
                answer = self.post(body, 400)
                self.assertEqual(self.fault(answer), (code, at))
        self.assertEqual(self.fault(self.post(GOOD, 415, headers={})),
                         ("unsupported_media_type", None))
        self.assertEqual(self.serve.call("DELETE", "/v1/tasks", headers=BEARER).status, 405)
        self.assertEqual(self.serve.call("POST", "/v1/tasks/1", b"{}", {**JSON, **BEARER}).status,
                         405)
        self.assertEqual(self.post(b" " * 1048577 + json.dumps(GOOD).encode()).status, 413)
        self.assertEqual(self.count(), 0)

    def test_what_its_handler_does_not_take_is_refused(self):
        answer = self.post({**GOOD, "options": {"topik": "x"}}, 422)
        self.assertEqual(self.fault(answer)[0], "refused")
        self.assertIn("topik", answer.body.decode())
        items = json.loads(self.post([{**GOOD, "options": {"topik": "x"}}, GOOD], 200).body)
        self.assertEqual(items[0]["error"]["code"], "refused")
        self.assertEqual((items[0]["error"]["at"], items[1]["existed"]), ("/0", False))

    def test_a_host_that_may_not_be_called_is_refused(self):
        task = {"scene": "mail", "handler": "http", "params": 1}
        for host, status in (("h", 201), ("h:80", 200), ("other", 422), ("h:81", 422)):
            answer = self.post({**task, "idempotencyKey": "one",
                                "options": {"url": f"http://{host}/"}}, status)
        self.assertIn('the host \\"h\\" with port 81 is not in retry.http_hosts of this server',
                      answer.body.decode())
        steps = [{"handler": "http", "options": {"url": "http://other/"}}]
        answer = self.post({"scene": "mail", "handler": "steps", "options": {"steps": steps}}, 422)
        self.assertIn("retry.http_hosts", answer.body.decode())
        serve = self.start("serve", sets={**self.on, "retry.http_hosts": ""})
        answer = serve.call("POST", "/v1/tasks", json.dumps(
            {**task, "options": {"url": "http://h/"}}).encode(), {**BEARER, **JSON})
        self.assertEqual(answer.status, 422, answer.body)
        # A scene's options are of no task: the first task is refused.
        self.stack.tallybox("retry", "scene", "set", "far", "--options", '{"url": "http://far/"}')
        self.assertIn("far", self.post({**task, "scene": "far"}, 422).body.decode())

    def test_a_record_above_the_relays_limit_is_refused(self):
        serve = self.start("serve", sets={**self.on, "relay.row_bytes_max": 2000})
        for value, status in (("x" * 1900, 201), ("x" * 2100, 422)):
            answer = serve.call("POST", "/v1/tasks", json.dumps({**GOOD, "params": value}).encode(),
                                {**BEARER, **JSON})
            self.assertEqual(answer.status, status, answer.body)
        self.assertIn(b"relay.row_bytes_max is 2000", answer.body)

    def test_the_options_of_its_scene_count_too(self):
        self.stack.tallybox("retry", "scene", "set", "given", "--options", '{"topic": "t"}')
        task = self.post({"scene": "given", "handler": "kafka", "params": 1}, 201)
        self.assertFalse(json.loads(task.body)["existed"])
        self.post({"scene": "bare", "handler": "kafka", "params": 1}, 422)
        bare = {"scene": "bare", "handler": "http", "params": 1}
        self.assertIn('\\"url\\" is missing', self.post(bare, 422).body.decode())
        # The refusal was by what this process has just read: it reads the scene again.
        self.stack.tallybox("retry", "scene", "set", "bare", "--options", '{"url": "http://h/"}')
        self.post(bare, 201)

    def test_retry_traffic_is_refused(self):
        attempt = {**JSON, "tallybox-scene": "default/mail", "tallybox-attempt": "2"}
        answer = self.post(GOOD, 409, attempt)
        self.assertEqual(self.fault(answer), ("retry_traffic", "/scene"))
        self.assertIn("within an attempt of its own scene", answer.body.decode())
        answer = self.post(GOOD, 409, {**JSON, "Tallybox-No-Retry": "1"})
        self.assertEqual(self.fault(answer), ("retry_traffic", "/scene"))
        self.assertIn("tallybox-no-retry forbids", answer.body.decode())
        self.assertEqual(self.count(), 0)
        # Tasks of other scenes and groups are taken; in an array the bad ones fail alone.
        items = json.loads(self.post([{**GOOD, "scene": "other"}, GOOD, {**GOOD, "group": "shop"}],
                                     200, attempt).body)
        self.assertEqual([one.get("error", {}).get("at") for one in items], [None, "/1/scene", None])
        self.assertEqual(self.stack.sql("SELECT task_group, scene FROM retry_task ORDER BY id"),
                         [("default", "other"), ("shop", "mail")])

    def test_the_trace_of_a_request_is_kept_in_its_tasks(self):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        self.post([{**GOOD, "bizNo": "1"}, {**GOOD, "bizNo": "2"}], 200,
                  {**JSON, "traceparent": trace})
        self.post({**GOOD, "bizNo": "3"}, 201, {**JSON, "traceparent": "no trace"})
        # The trace is not what a task does: the same task is active already.
        self.post({**GOOD, "bizNo": "3"}, 200, {**JSON, "traceparent": trace})
        self.assertEqual(self.stack.sql("SELECT traceparent FROM retry_task ORDER BY id"),
                         [(trace,), (trace,), (None,)])

    def test_a_full_scene_takes_no_more(self):
        self.stack.tallybox("retry", "scene", "set", "tight", "--policy", '{"max_pending": 3}')
        tasks = [{**GOOD, "scene": "tight", "idempotencyKey": f"t{n}"} for n in range(5)]
        items = json.loads(self.post(tasks, 200).body)
        codes = [one.get("error", {}).get("code") for one in items]
        self.assertEqual(codes, [None] * 3 + ["too_many_requests"] * 2)
        answer = self.post(tasks[4], 429)
        self.assertIn("tight is full", answer.body.decode())
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        self.give(idempotencyKey="other scene")
        self.stack.sql("DELETE FROM retry_task WHERE scene = 'tight'")
        # The count is believed for a second.
        suite.wait_for("room", lambda: self.post(tasks[4]).status == 201)


class Finding(TasksCase):
    """GET /v1/tasks and /v1/tasks/{id}."""

    def ids(self, query, **more):
        return [one["id"] for one in self.get(f"/v1/tasks?{query}", **more)["tasks"]]

    def end(self, task, outcome):
        columns = ("id, task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, "
                   "params, params_type, state, attempts, next_at, reason_class, reason, owner, "
                   "epoch, lease_until, parent_id, step, step_result, created_at, updated_at")
        self.stack.sql(f"INSERT INTO retry_task_history ({columns}, outcome, ended_at) SELECT "
                       f"{columns}, %s, UTC_TIMESTAMP(3) FROM retry_task WHERE id = %s",
                       [outcome, task])
        self.stack.sql("DELETE FROM retry_task WHERE id = %s", [task])

    def test_tasks_are_found_by_what_they_are(self):
        first = self.give(bizNo="B/1 \u00e4", group="shop")["id"]
        second = self.give(bizNo="2", scene="sms")["id"]
        third = self.give(bizNo="2")["id"]
        self.stack.sql("UPDATE retry_task SET state = 3, attempts = 6, reason_class = 'ours', "
                       "reason = 'no \"key\"' WHERE id = %s", [third])
        for query, wanted in (("", [first, second, third]), ("bizNo=B/1+%C3%A4", [first]),
                              ("bizNo=2", [second, third]), ("bizNo=2&scene=sms", [second]),
                              ("group=shop", [first]), ("state=blocked", [third]),
                              ("state=waiting&bizNo=2", [second]), ("state=active", [first, second,
                                                                                    third]),
                              ("state=ended", []), ("scene=nothing", []),
                              ("limit=2", [first, second]), (f"after={second}", [third])):
            with self.subTest(query=query):
                self.assertEqual(self.ids(query), wanted)
        page = self.get("/v1/tasks?limit=2")
        self.assertEqual((page["more"], page["after"]), (True, second))
        for query in ("", "?bizNo=2", "?state=ended", "?scene=nothing"):
            page = self.get(f"/v1/tasks{query}")
            self.assertEqual((page["more"], page["after"]), (False, None), query)
        one = self.get("/v1/tasks?state=blocked")["tasks"][0]
        self.assertEqual((one["state"], one["failures"], one["reasonClass"], one["reason"],
                          one["nextAt"]), ("blocked", 6, "ours", 'no "key"', None))
        self.end(second, "done")
        self.assertEqual(self.ids("bizNo=2&state=ended"), [second])
        self.assertEqual(self.ids("state=done"), [second])
        self.assertEqual(self.ids("state=cancelled"), [])

    def test_one_task_is_shown_with_its_attempts(self):
        task = self.give(bizNo="9")["id"]
        self.stack.sql("INSERT INTO retry_attempt (task_id, attempted_at, owner, step, took_ms, "
                       "outcome, reason_class, reason) VALUES (%s, UTC_TIMESTAMP(3), 'me', 0, 5, "
                       "'failed', 'transient', 'away')", [task])
        for outcome in ("waiting", "exhausted"):
            if outcome != "waiting":
                self.end(task, outcome)
            one = self.get(f"/v1/tasks/{task}")
            self.assertEqual((one["state"], one["params"], one["options"], one["parked"]),
                             (outcome, {"to": "a"}, OPTIONS, False))
            self.assertEqual([(each["reason"], each["tookMs"]) for each in one["attempts"]],
                             [("away", 5)])
        self.stack.sql("INSERT INTO retry_task (id, scene, handler, ordering_key, state) VALUES "
                       "(%s, 'mail', 'kafka', 'k', 4)", [task])
        one = self.get(f"/v1/tasks/{task}")
        self.assertEqual((one["state"], one["parked"], one["params"]),
                         ("exhausted", True, {"to": "a"}))
        self.assertEqual(self.get(f"/v1/tasks/{10 ** 12}", 404)["error"]["code"], "not_found")

    def test_a_done_task_is_shown_until_its_time_has_passed(self):
        retry = self.start("retry", sets={"retry.exec_programs": "/bin/true"})
        task = self.give(handler="exec", options={"program": "/bin/true"})["id"]
        suite.wait_for("the task to be done",
                       lambda: self.get(f"/v1/tasks/{task}")["state"] == "done")
        one = self.get(f"/v1/tasks/{task}")
        self.assertEqual((one["params"], [each["outcome"] for each in one["attempts"]]),
                         ({"to": "a"}, ["done"]))
        self.assertEqual(self.ids("state=done"), [task])
        self.stack.sql("UPDATE retry_task_history SET keep_until = UTC_TIMESTAMP(3)")
        suite.wait_for("the task to be forgotten", lambda: self.serve.call(
            "GET", f"/v1/tasks/{task}", headers=BEARER).status == 404)
        retry.end()

    def test_bad_arguments_are_named(self):
        for query, at in (("state=dead", "state"), ("limit=0", "limit"), ("limit=201", "limit"),
                          ("limit=x", "limit"), ("after=-1", "after"), ("bizNo=", "bizNo"),
                          ("scene=" + "x" * 3000, "scene"), ("scene='%20OR%201%20--%20", "scene"),
                          ("scene=%C3%A4", "scene"), ("group=%C3%A4", "group"),
                          ("bizNo=" + "x" * 65, "bizNo"), ("bizNo=%FF", "bizNo")):
            with self.subTest(query=query[:40]):
                error = self.get(f"/v1/tasks?{query}", 400)["error"]
                self.assertEqual((error["code"], error["at"]), ("out_of_range", at))
                self.assertTrue(error["message"].startswith(f"{at} is "), error["message"])
        self.assertEqual(self.get("/v1/tasks?state=dead", 400)["error"]["message"],
                         "state is active, ended, waiting, running, queued, blocked, parked, done, "
                         "exhausted or cancelled")
        # The list of paths is cut behind one of them.
        message = self.get("/v1/task", 404)["error"]["message"]
        self.assertRegex(message, r"/v1/votes, (/v1/[^ ]+, )+\.\.\.$")
        page = (suite.ROOT / "docs" / "openapi.yaml").read_text()
        for path in message.split(": ", 1)[1].split(", ")[:-1]:
            self.assertIn(f"\n  {path}:", page)
        self.assertEqual(self.get("/v1/tasks?biz=1", 400)["error"]["code"], "unknown_field")
        self.assertEqual(self.get("/v1/tasks?state=done&state=done", 400)["error"]["code"],
                         "duplicate")
        self.assertEqual(self.get(f"/v1/tasks/{2 ** 63 - 1}", 404)["error"]["code"], "not_found")
        for path in ("x", "0", "-1", str(2 ** 63), str(2 ** 64), "1e3"):
            self.assertEqual(self.get(f"/v1/tasks/{path}", 400)["error"]["code"], "out_of_range")
        for path in ("/v1/tasks/", "/v1/tasks/1/2", "/v1/task"):
            self.get(path, 404)
        self.assertEqual(self.ids("bizNo='%20OR%201%20--%20"), [])

    def test_a_missing_right_stops_no_votes(self):
        """The account of an installation that was not given the rights on the lane's tables."""
        user = f"poor_{self.stack.name}"
        self.stack.sql(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'poor'")
        for table, rights in (("schema_history", "SELECT"), ("outbox", "INSERT"),
                              ("outbox_lanes", "SELECT"),
                              ("relay_lease", "SELECT (lane, owner, lease_until, lease_ms)"),
                              ("vote_state", "SELECT, INSERT, UPDATE"),
                              ("deleted_content", "SELECT"),
                              ("vote_count", "SELECT, INSERT, UPDATE")):
            self.stack.sql(f"GRANT {rights} ON {table} TO '{user}'@'%'")
        serve = self.start("serve", sets={**self.on, "mysql.user": user},
                           env={"TALLYBOX_MYSQL_PASSWORD": "poor"})
        for _ in range(2):
            answer = serve.call("POST", "/v1/tasks", json.dumps(GOOD).encode(),
                                {**JSON, **BEARER})
            self.assertEqual(answer.status, 503, answer.body)
            self.assertIn("retry-after", answer.headers)
        serve.wait_ready()
        vote = {"voterId": 1, "contentId": 1, "voting": 1}
        answer = serve.call("POST", "/v1/votes", vote, {"Authorization": f"Bearer {VOTES}"})
        self.assertEqual(answer.status, 200, answer.body)
        # Each of the two task intakes says it once.
        self.assertIn(serve.log_text().count("event=task_intake_failed"), (1, 2))


class Scopes(TasksCase):
    """What each token may do with tasks."""

    def test_without_tokens_every_account_may_vote_and_read_and_nothing_else(self):
        serve = self.start("serve")
        serve.vote((1, 1, 1))
        self.assertEqual(serve.get("/v1/contents/1/votes")["votes"], 1)
        for method, path in (("POST", "/v1/tasks"), ("GET", "/v1/tasks"), ("GET", "/v1/tasks/1")):
            answer = serve.call(method, path, GOOD if method == "POST" else None)
            self.assertEqual((answer.status, self.fault(answer)[0]), (403, "forbidden"), path)
        self.assertEqual(self.count(), 0)
        done = self.stack.tallybox("serve", sets={"admin.listen": "off", "api.tasks": "on"},
                                   expect=suite.USAGE)
        self.assertIn("api.tasks is on but api.token_file is not set", done.stderr)

    def test_a_token_sees_the_tasks_of_its_groups_alone(self):
        mine = self.give(group="shop")["id"]
        other = json.loads(self.serve.call(
            "POST", "/v1/tasks", {**GOOD, "group": "mail"},
            {"Authorization": f"Bearer {MAIL}"}).body)["id"]
        for token, seen, hidden in ((TOKEN, mine, other), (MAIL, other, mine)):
            self.assertEqual([one["id"] for one in self.get("/v1/tasks", token=token)["tasks"]],
                             [seen])
            self.assertEqual(self.get(f"/v1/tasks/{seen}", token=token)["params"], {"to": "a"})
            answer = self.get(f"/v1/tasks/{hidden}", 404, token=token)
            self.assertNotIn("params", answer)
        error = self.get("/v1/tasks?group=mail", 403)["error"]
        self.assertEqual(error["at"], "group")
        self.assertIn("tasks:mail", error["message"])
        answer = self.post({**GOOD, "group": "mail"}, 403)
        self.assertEqual(self.fault(answer), ("forbidden", "/group"))
        items = json.loads(self.post([{**GOOD, "group": "mail"}, {**GOOD, "params": 2}], 200).body)
        self.assertEqual((items[0]["error"]["code"], items[1]["existed"]), ("forbidden", False))
        for path in ("/v1/tasks", f"/v1/tasks/{mine}"):
            self.assertIn("tasks:GROUP", self.get(path, 403, token=VOTES)["error"]["message"])

    def test_an_unknown_scope_ends_the_start_with_file_and_line(self):
        bad = self.stack.folder / "bad"
        bad.write_text(f"# ours\n{TOKEN} votes\n{MAIL} taks:mail\n")
        bad.chmod(0o600)
        done = self.stack.tallybox("serve", sets={"admin.listen": "off", "api.token_file": bad},
                                   expect=suite.USAGE)
        self.assertIn(f"{bad}:3: has an unknown scope", done.stderr)
        self.assertNotIn(MAIL, done.stderr)
        self.assertNotIn("taks", done.stderr)


if __name__ == "__main__":
    unittest.main()
