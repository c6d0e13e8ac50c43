# SPDX-License-Identifier: MIT
"""Actions of operators over HTTP: what they do, what they leave as it is, and their rows in the
audit. No engine runs here."""

import concurrent.futures
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

OPERATOR = "token-of-the-operator-of-the-queue"
TASKS = "token-of-an-application-and-its-tasks"
WAITING, RUNNING, QUEUED, BLOCKED, PARKED = range(5)
URL = '{"url": "http://billing.example.org/"}'


def grant_operating(stack, roles=("retry_admin", "dead")):
    """As RETRY.md tells: serve needs the privileges of these roles, too."""
    for role in roles:
        stack.add_privileges(role, "tallybox_serve")


class Operating(suite.Case):
    """POST /v1/tasks/{id}/ACTION."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{OPERATOR} operate\n{TASKS} tasks:default\n")
        tokens.chmod(0o600)
        grant_operating(cls.stack)
        cls.sets = {"api.tasks": "on", "api.operate": "on", "api.token_file": tokens,
                    "retry.http_hosts": "billing.example.org"}
        cls.serve = cls.stack.role("serve", sets=cls.sets)
        cls.name = "token:" + hashlib.sha256(OPERATOR.encode()).hexdigest()[:8]

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene", "retry_audit"):
            self.stack.sql(f"DELETE FROM {table}")

    def task(self, state=WAITING, key=None, **columns):
        columns = {"scene": "mail", "handler": "http", "options": URL, "params": b'{"n": 1}',
                   "next_at": "2100-01-01", "state": state, "ordering_key": key,
                   "attempts": 6 if state == BLOCKED else 0, **columns}
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO retry_task (idempotency_key, " + ", ".join(columns) +
                           ") VALUES (UUID()" + ", %s" * len(columns) + ")", list(columns.values()))
            return cursor.lastrowid

    def act(self, task, action, status=200, body=None, token=OPERATOR, serve=None):
        answer = (serve or self.serve).call(
            "POST", f"/v1/tasks/{task}/{action}", json.dumps(body or {}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def state(self, task):
        rows = self.stack.sql("SELECT state, attempts, next_at <= UTC_TIMESTAMP(3) FROM retry_task "
                              "WHERE id = %s", [task])
        return rows[0] if rows else None

    def audit(self):
        return self.stack.sql("SELECT acted_by, via, action, what, why, changed FROM retry_audit "
                              "ORDER BY id")

    def test_a_task_is_run_cancelled_and_requeued(self):
        task = self.task()
        self.assertEqual(self.act(task, "run-now", body={"reason": "the customer waits"}),
                         {"id": task, "action": "run-now", "changed": True})
        self.assertEqual(self.state(task), (WAITING, 0, 1))
        self.assertTrue(self.act(task, "cancel", body={"by": "ann"})["changed"])
        self.assertIsNone(self.state(task))
        self.assertEqual(self.stack.sql("SELECT outcome, owner FROM retry_task_history"),
                         [("cancelled", f"ann ({self.name})")])
        # Repeating is harmless.
        self.assertFalse(self.act(task, "cancel")["changed"])
        done = self.act(task, "requeue", body={"params": {"n": 2}, "options": json.loads(URL)})
        self.assertEqual(self.stack.sql("SELECT id, parent_id, params FROM retry_task"),
                         [(done["task"], task, b'{"n": 2}')])
        again = self.act(task, "requeue")
        self.assertEqual((again["changed"], again["task"]), (False, done["task"]))
        self.assertEqual(self.audit(), [
            (self.name, "http", "run-now", f"id={task}", "the customer waits", 1),
            (f"ann ({self.name})", "http", "cancel", f"id={task}", "", 1),
            (self.name, "http", "cancel", f"id={task}", "", 0),
            (self.name, "http", "requeue", f"id={task} options=given params=given", "", 1),
            (self.name, "http", "requeue", f"id={task}", "", 0)])

    def test_a_blocked_key_continues(self):
        head, second = self.task(BLOCKED, "k"), self.task(QUEUED, "k")
        self.act(head, "unpark")
        self.assertEqual((self.state(head), self.state(second)[0]), ((WAITING, 0, 1), QUEUED))
        self.stack.sql("UPDATE retry_task SET state = 3 WHERE id = %s", [head])
        self.act(head, "unpark", body={"skip": True, "reason": "nobody needs it"})
        self.assertEqual((self.state(head), self.state(second)[0]), (None, WAITING))

    def test_a_task_is_edited(self):
        task = self.task()
        self.act(task, "edit", body={"params": [0.10], "reason": "a typing error"})
        self.assertEqual(self.stack.sql("SELECT options, params FROM retry_task"), [(URL, b"[0.1]")])
        self.act(task, "edit", body={"noParams": True})
        self.assertEqual(self.stack.sql("SELECT params FROM retry_task"), [(None,)])
        fault = self.act(task, "edit", 422, {"options": {"uri": "http://x/"}})["error"]
        self.assertEqual(fault["code"], "refused")
        self.assertIn("uri", fault["message"])
        self.assertEqual([row[5] for row in self.audit()], [1, 1, 0])

    def test_what_cannot_be_done_is_a_conflict(self):
        running, queued, parked = self.task(RUNNING), self.task(QUEUED, "q"), self.task(PARKED, "p")
        for task, action, word in ((running, "run-now", "running"), (running, "cancel", "running"),
                                   (queued, "run-now", "queued"), (parked, "cancel", "parked"),
                                   (parked, "edit", "parked"), (running, "edit", "running")):
            with self.subTest(action=action, word=word):
                body = {"noParams": True} if action == "edit" else {}
                fault = self.act(task, action, 409, body)["error"]
                self.assertEqual(fault["code"], "conflict")
                self.assertIn(f"it is {word}", fault["message"])
        self.assertTrue(self.act(running, "cancel", body={"force": True})["changed"])
        fault = self.act(running, "run-now", 409)["error"]
        self.assertIn("requeue makes a new task", fault["message"])
        for outcome, action, body, status in (
                ("done", "cancel", {}, 409), ("exhausted", "cancel", {}, 409),
                ("cancelled", "cancel", {}, 200), ("done", "unpark", {}, 200),
                ("done", "unpark", {"skip": True}, 409), ("exhausted", "unpark", {"skip": True}, 200),
                ("done", "run-now", {}, 409)):
            with self.subTest(action=action, outcome=outcome):
                self.stack.sql("UPDATE retry_task_history SET outcome = %s WHERE id = %s",
                               [outcome, running])
                answer = self.act(running, action, status, body)
                if status == 409:
                    self.assertIn(f"it has ended as {outcome}", answer["error"]["message"])
                else:
                    self.assertFalse(answer["changed"])
        for action in ("run-now", "cancel", "unpark", "requeue"):
            self.assertEqual(self.act(10 ** 12, action, 404)["error"]["code"], "not_found")
        self.assertEqual(self.act(queued, "requeue", 404)["error"]["code"], "not_found")
        self.assertEqual(self.act("x", "cancel", 400)["error"]["code"], "out_of_range")
        self.assertEqual(self.act(queued, "cancel", 400, {"skip": True})["error"]["at"], "/skip")

    def get(self, path, status=200, token=OPERATOR):
        answer = self.serve.call("GET", path, headers={"Authorization": f"Bearer {token}"})
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def test_actions_are_listed_page_by_page(self):
        tasks = [self.task(), self.task()]
        for task in tasks:
            self.act(task, "cancel", body={"by": "ann", "reason": "a test"})
        self.stack.tallybox("retry", "pause", "mail", "--wait", 0)
        first = self.get("/v1/audit?limit=1")
        self.assertEqual([(one["what"], one["by"], one["via"], one["why"], one["changed"])
                          for one in first["actions"]],
                         [(f"id={tasks[0]}", f"ann ({self.name})", "http", "a test", 1)])
        self.assertTrue(first["more"])
        rest = self.get(f"/v1/audit?after={first['after']}")
        self.assertEqual([(one["action"], one["via"], one["group"], one["scene"])
                          for one in rest["actions"]],
                         [("cancel", "http", None, None), ("pause", "shell", "default", "mail")])
        self.assertEqual((rest["more"], rest["after"]), (False, None))
        self.assertEqual(len(self.get("/v1/audit?scene=mail")["actions"]), 1)
        self.assertEqual(len(self.get("/v1/audit?by=ann%20(" + self.name + ")")["actions"]), 2)
        self.assertEqual(self.get("/v1/audit?until=1000")["actions"], [])
        for bad in ("limit=0", "limit=201", "scene=a%20b", "since=x", "after=-1"):
            self.get(f"/v1/audit?{bad}", 400)
        self.get("/v1/audit", 403, TASKS)

    def test_operators_find_tasks_of_all_groups(self):
        ours = self.task(task_group="default", biz_no="A-17", reason_class="transient")
        theirs = self.task(task_group="theirs", origin="relay", handler="kafka", biz_no="A-2")
        odd = self.task(biz_no="A_%|3", reason_class="ours")

        def ids(query, **more):
            return [one["id"] for one in self.get(f"/v1/tasks?{query}", **more)["tasks"]]

        self.assertEqual(ids(""), [ours, theirs, odd])
        self.assertEqual(ids("", token=TASKS), [ours, odd])
        self.assertEqual(ids("group=theirs"), [theirs])
        self.assertEqual(self.get(f"/v1/tasks/{theirs}")["group"], "theirs")
        self.get(f"/v1/tasks/{theirs}", 404, TASKS)
        self.assertEqual(ids("bizNoPrefix=A-"), [ours, theirs])
        self.assertEqual(ids("bizNoPrefix=A-", token=TASKS), [ours])
        self.assertEqual(ids("bizNoPrefix=A_"), [odd])
        self.assertEqual(ids("bizNoPrefix=A_%25%7C3"), [odd])
        self.assertEqual(ids("bizNoPrefix=a"), [])
        self.assertEqual(ids("handler=kafka"), [theirs])
        self.assertEqual(ids("reasonClass=ours"), [odd])
        self.assertEqual(ids("since=1000&until=2000"), [])
        self.assertEqual(ids("since=1000&until=253402300799999&limit=1"), [ours])
        self.act(ours, "cancel")
        self.assertEqual(ids("state=cancelled&bizNoPrefix=A"), [ours])
        for bad in ("bizNoPrefix=", "handler=a%20b", "reasonClass=bad", "since=-1", "until=x"):
            self.get(f"/v1/tasks?{bad}", 400)

    def test_a_page_of_tasks_reads_a_bounded_number_of_rows(self):
        """Of 30,000 tasks, a selective filter reads only its own."""
        digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ") "
        self.stack.sql(
            "INSERT INTO retry_task (scene, handler, biz_no, idempotency_key) SELECT 'bulk', 'exec', "
            "CONCAT('Z', a.d, b.d, c.d, e.d, f.d), CONCAT(a.d, b.d, c.d, e.d, f.d) FROM "
            + ", ".join(digits + name for name in "abcef") + " WHERE f.d < 3")
        ours = self.task(biz_no="A-17", state=BLOCKED, key="k", reason_class="ours")
        self.get("/v1/tasks?bizNo=A-17&state=blocked")
        for query, bound in (("bizNo=A-17", 200), ("bizNoPrefix=A-", 200), ("state=blocked", 200),
                             ("state=blocked&reasonClass=ours&scene=mail", 200),
                             # In windows of 20,000 ids, each read twice.
                             ("limit=5", 5000),
                             ("reasonClass=ours&handler=http&group=default", 70000)):
            with self.subTest(query=query):
                first = self.read_rows()
                before = self.read_rows()
                page = self.get(f"/v1/tasks?{query}")
                self.assertLess(self.read_rows() - before, before - first + bound)
                if "limit" not in query:
                    self.assertEqual([one["id"] for one in page["tasks"]], [ours])

    def read_rows(self):
        return sum(int(value) for name, value in self.stack.sql(
            "SHOW GLOBAL STATUS LIKE 'Handler_read%'") if name.lower() in (
                "handler_read_next", "handler_read_prev", "handler_read_key",
                "handler_read_rnd_next"))

    def test_only_operators_act_and_only_if_it_is_on(self):
        task = self.task()
        fault = self.act(task, "cancel", 403, token=TASKS)["error"]
        self.assertIn("lacks the scope operate", fault["message"])
        off = self.start("serve", sets={**self.sets, "api.operate": "off"})
        fault = self.act(task, "cancel", 403, serve=off)["error"]
        self.assertIn("api.operate = on", fault["message"])
        self.assertEqual((self.state(task)[0], self.audit()), (WAITING, []))

    def test_without_the_audit_nothing_is_done(self):
        task = self.task()
        self.stack.sql("RENAME TABLE retry_audit TO retry_audit_away")
        try:
            self.assertEqual(self.act(task, "cancel", 503)["error"]["code"], "unavailable")
        finally:
            self.stack.sql("RENAME TABLE retry_audit_away TO retry_audit")
        self.assertEqual(self.state(task)[0], WAITING)
        suite.wait_for("the queue to work again", lambda: self.act(task, "cancel")["changed"])


class Configuring(suite.Case):
    """Scenes and groups over HTTP."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{OPERATOR} operate\n{TASKS} tasks:default\n")
        tokens.chmod(0o600)
        grant_operating(cls.stack)
        cls.sets = {"api.tasks": "on", "api.operate": "on", "api.token_file": tokens,
                    "retry.http_hosts": "billing.example.org"}
        cls.serve = cls.stack.role("serve", sets=cls.sets)
        cls.name = "token:" + hashlib.sha256(OPERATOR.encode()).hexdigest()[:8]

    def setUp(self):
        for table in ("retry_task", "retry_scene", "retry_scene_version", "retry_audit"):
            self.stack.sql(f"DELETE FROM {table}")
        self.stack.sql("DELETE FROM retry_group WHERE name NOT IN ('default', 'outbox')")

    def call(self, method, path, status=200, body=None, token=OPERATOR, serve=None):
        answer = (serve or self.serve).call(
            method, path, None if method == "GET" else json.dumps(body or {}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def audit(self):
        return self.stack.sql("SELECT acted_by, via, action, task_group, scene, what, why, changed "
                              "FROM retry_audit ORDER BY id")

    def test_a_scene_is_paused_and_resumed(self):
        mail = "/v1/scenes/default/mail"
        self.assertEqual(self.call("POST", f"{mail}/pause", body={"by": "ann", "reason": "away"}),
                         {"group": "default", "scene": "mail", "action": "pause", "changed": True,
                          "version": 1})
        # Repeating is harmless.
        again = self.call("POST", f"{mail}/pause")
        self.assertEqual((again["changed"], again["version"]), (False, 1))
        self.assertIs(self.call("GET", mail)["paused"], True)
        self.assertEqual(self.call("POST", f"{mail}/resume")["version"], 2)
        self.assertIs(self.call("POST", "/v1/scenes/default/other/resume")["changed"], False)
        self.assertEqual(self.stack.sql("SELECT paused, changed_by, why FROM retry_scene_version "
                                        "ORDER BY number"),
                         [(1, f"ann ({self.name})", "away"), (0, self.name, "")])
        self.assertEqual(self.audit(), [
            (f"ann ({self.name})", "http", "pause", "default", "mail", "", "away", 1),
            (self.name, "http", "pause", "default", "mail", "", "", 0),
            (self.name, "http", "resume", "default", "mail", "", "", 1),
            (self.name, "http", "resume", "default", "other", "", "", 0)])

    def test_a_policy_is_set_by_its_version(self):
        mail = "/v1/scenes/default/mail"
        first = {"version": 0, "policy": {"attempts": 5}, "options": {"n": 1.50}}
        self.assertEqual(self.call("PATCH", mail, body=first)["version"], 1)
        # The answer may have been lost: the same again is no conflict.
        again = self.call("PATCH", mail, body=first)
        self.assertEqual((again["changed"], again["version"]), (False, 1))
        second = {"version": 1, "policy": {"attempts": 6}, "reason": "slow"}
        self.assertEqual(self.call("PATCH", mail, body=second)["version"], 2)
        for version in (0, 1, 3):
            fault = self.call("PATCH", mail, 409, {"version": version, "policy": None})["error"]
            self.assertEqual((fault["code"], fault["at"]), ("conflict", "/version"))
            self.assertIn("the version is 2", fault["message"])
        shown = self.call("GET", mail)
        self.assertEqual((shown["policy"], shown["options"], shown["version"], shown["fault"]),
                         ({"attempts": 6}, {"n": 1.5}, 2, None))
        self.assertEqual(shown["tasks"], {"active": 0, "queued": 0, "blocked": 0, "parked": 0})
        self.call("PATCH", mail, body={"version": 2, "policy": "preset:publish-week", "options": None})
        self.assertIsNone(self.call("GET", mail)["options"])
        self.call("PATCH", mail, body={"version": 3, "policy": None})
        self.assertEqual(self.stack.sql("SELECT policy, options, version FROM retry_scene"),
                         [(None, None, 4)])
        self.assertEqual([row[7] for row in self.audit()], [1, 0, 1, 0, 0, 0, 1, 1])
        self.assertIn('policy={"attempts": 6}', self.audit()[2][5])

    def test_two_operators_do_not_overwrite_each_other(self):
        mail = "/v1/scenes/default/mail"
        for path, name in ((mail, "policy"), ("/v1/groups/raced", "initScene")):
            def change(number, path=path, name=name):
                answer = self.serve.call(
                    "PATCH", path, json.dumps({"version": 0, name: {"attempts": number}}).encode(),
                    {"Content-Type": "application/json", "Authorization": f"Bearer {OPERATOR}"})
                return answer.status

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                statuses = sorted(pool.map(change, range(1, 9)))
            self.assertEqual(statuses, [200] + 7 * [409])
            self.assertEqual(self.call("GET", path)["version"], 1)

    def test_bad_bodies_are_named_with_their_place(self):
        mail = "/v1/scenes/default/mail"
        for body, code, at in (
                ({"policy": None}, "missing", "/version"), ({"version": 0}, "missing", None),
                ({"version": -1, "policy": None}, "out_of_range", "/version"),
                ({"version": "1", "policy": None}, "wrong_type", "/version"),
                ({"version": 0, "policy": 5}, "wrong_type", "/policy"),
                ({"version": 0, "policy": "standard"}, "wrong_type", "/policy"),
                ({"version": 0, "policy": "preset:publish-weak"}, "out_of_range", "/policy"),
                ({"version": 0, "policy": {"attempts": -1}}, "out_of_range", "/policy"),
                ({"version": 0, "policy": {"atempts": 5}}, "out_of_range", "/policy"),
                ({"version": 0, "options": []}, "wrong_type", "/options"),
                ({"version": 0, "policy": None, "why": "x"}, "unknown_field", "/why"),
                ({"version": 0, "policy": None, "reason": ""}, "out_of_range", "/reason"),
                ({"version": 0, "policy": None, "by": 1}, "wrong_type", "/by")):
            with self.subTest(body=body):
                fault = self.call("PATCH", mail, 400, body)["error"]
                self.assertEqual((fault["code"], fault.get("at")), (code, at), fault)
        for body, code, at in (
                ({"version": 0, "handlers": "a b"}, "out_of_range", "/handlers"),
                ({"version": 0, "scenes": 1}, "wrong_type", "/scenes"),
                ({"version": 0, "topics": "x" * 1001}, "out_of_range", "/topics"),
                ({"version": 0, "initScene": "other"}, "out_of_range", "/initScene"),
                ({"version": 0, "initScene": {"atempts": 5}}, "out_of_range", "/initScene"),
                ({"version": 0, "description": "x" * 256}, "out_of_range", "/description"),
                ({"version": 0, "route": "other"}, "out_of_range", "/route"),
                ({"version": 0, "shards": "0-16"}, "out_of_range", "/shards"),
                ({"version": 0, "policy": {}}, "unknown_field", "/policy")):
            with self.subTest(body=body):
                fault = self.call("PATCH", "/v1/groups/new", 400, body)["error"]
                self.assertEqual((fault["code"], fault.get("at")), (code, at), fault)
        self.call("POST", f"{mail}/pause", 400, {"version": 1})
        self.assertEqual(self.stack.sql("SELECT COUNT(*) FROM retry_scene"), [(0,)])
        self.assertEqual(self.audit(), [])

    def test_unknown_names_are_not_found(self):
        for method, path in (("POST", "/v1/scenes/nosuch/mail/pause"), ("GET", "/v1/groups/nosuch"),
                             ("GET", "/v1/scenes/default/nosuch"),
                             ("POST", "/v1/groups/nosuch/disable")):
            self.assertEqual(self.call(method, path, 404)["error"]["code"], "not_found", path)
        self.call("PATCH", "/v1/scenes/nosuch/mail", 404, {"version": 0, "policy": None})
        self.call("PATCH", "/v1/groups/nosuch", 404, {"version": 1, "handlers": "http"})
        for path in ("/v1/groups/a%20b", "/v1/groups/" + 65 * "g", "/v1/scenes/default/a%20b"):
            self.assertEqual(self.call("GET", path, 400)["error"]["code"], "out_of_range")
        self.assertEqual(self.stack.sql("SELECT COUNT(*) FROM retry_scene"), [(0,)])
        self.assertEqual(self.audit(), [])

    def test_a_group_is_made_changed_and_disabled(self):
        ours = "/v1/groups/ours"
        made = {"version": 0, "handlers": "http", "initScene": {"attempts": 3}, "shards": "0-3",
                "description": "of billing", "by": "ann", "reason": "new"}
        self.assertEqual(self.call("PATCH", ours, body=made),
                         {"group": "ours", "action": "group set", "changed": True, "version": 1})
        self.assertIs(self.call("PATCH", ours, body=made)["changed"], False)
        self.assertEqual(self.call("GET", ours), {
            "group": "ours", "owner": "client", "enabled": True, "version": 1, "handlers": "http",
            "scenes": "*", "topics": "", "initScene": {"attempts": 3}, "route": "round_robin",
            "shards": "0-3", "description": "of billing"})
        self.assertEqual(self.call("POST", f"{ours}/disable")["version"], 2)
        self.assertIs(self.call("POST", f"{ours}/disable")["changed"], False)
        fault = self.call("PATCH", ours, 409, {"version": 1, "topics": "mails"})["error"]
        self.assertEqual((fault["code"], fault["at"]), ("conflict", "/version"))
        self.assertEqual(self.call("PATCH", ours, body={"version": 2, "initScene": "refuse"})["version"], 3)
        self.assertEqual(self.call("POST", f"{ours}/enable")["version"], 4)
        self.assertEqual(self.call("GET", ours)["initScene"], "refuse")
        fault = self.call("PATCH", "/v1/groups/outbox", 422, {"version": 1, "topics": "x"})["error"]
        self.assertIn("belongs to the relay", fault["message"])
        self.assertEqual([(row[2], row[3], row[7]) for row in self.audit()], [
            ("group set", "ours", 1), ("group set", "ours", 0), ("group disable", "ours", 1),
            ("group disable", "ours", 0), ("group set", "ours", 0), ("group set", "ours", 1),
            ("group enable", "ours", 1), ("group set", "outbox", 0)])
        self.assertEqual(self.audit()[0][5], "version=0 handlers=http "
                         'initScene={"attempts": 3} shards=0-3 description=of billing')

    def test_scenes_and_groups_are_listed_page_by_page(self):
        names = [("default", "a"), ("default", "b"), ("ours", "a"), ("z", "0")]
        for group, scene in names:
            self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES (%s, %s, %s)",
                           [group, scene, "{}" if scene != "0" else '{"x": 1}'])

        def pages(path, key):
            found, after = [], ""
            while True:
                page = self.call("GET", f"{path}limit=1{after}")
                found += page[key]
                if not page["more"]:
                    self.assertIsNone(page["after"])
                    return found
                after = f"&after={page['after']}"

        found = pages("/v1/scenes?", "scenes")
        self.assertEqual([(one["group"], one["scene"]) for one in found], names)
        self.assertEqual([one["policy"] for one in found], [{}, {}, {}, {"x": 1}])
        self.assertIn("x", found[3]["fault"])
        self.assertEqual([one["scene"] for one in pages("/v1/scenes?group=default&", "scenes")],
                         ["a", "b"])
        self.assertEqual([one["group"] for one in pages("/v1/groups?", "groups")],
                         ["default", "outbox"])
        self.assertEqual(self.call("GET", "/v1/scenes?group=none"),
                         {"scenes": [], "more": False, "after": None})
        for bad in ("scenes?limit=0", "scenes?limit=201", "scenes?after=a", "scenes?after=a/",
                    "scenes?group=a%20b", "groups?after=", "groups?limit=x", "groups?group=a"):
            self.call("GET", f"/v1/{bad}", 400)

    def test_the_tasks_of_a_scene_are_counted_by_an_index(self):
        rows = ", ".join(f"('default', '{scene}', 'http', {state}, UUID(), UUID())"
                         for scene, state in 900 * [("other", WAITING)] + [
                             ("mail", WAITING), ("mail", RUNNING), ("mail", BLOCKED)])
        self.stack.sql("INSERT INTO retry_task (task_group, scene, handler, state, "
                       f"idempotency_key, ordering_key) VALUES {rows}")
        self.stack.sql("INSERT INTO retry_scene (task_group, scene) VALUES ('default', 'mail')")
        self.call("GET", "/v1/scenes/default/mail")
        first = self.read_rows()
        before = self.read_rows()
        shown = self.call("GET", "/v1/scenes/default/mail")
        # Reading the status reads rows, too.
        self.assertLess(self.read_rows() - before, before - first + 100)
        self.assertEqual(shown["tasks"], {"active": 2, "queued": 0, "blocked": 1, "parked": 0})

    def read_rows(self):
        return sum(int(value) for name, value in self.stack.sql(
            "SHOW GLOBAL STATUS LIKE 'Handler_read%'") if name.lower() in (
                "handler_read_next", "handler_read_prev", "handler_read_key",
                "handler_read_rnd_next"))

    def test_only_operators_change_and_only_if_it_is_on(self):
        off = self.start("serve", sets={**self.sets, "api.operate": "off"})
        for method, path in (("GET", "/v1/scenes"), ("GET", "/v1/scenes/default/mail"),
                             ("PATCH", "/v1/scenes/default/mail"), ("GET", "/v1/groups"),
                             ("POST", "/v1/scenes/default/mail/pause"),
                             ("POST", "/v1/scenes/default/mail/resume"),
                             ("GET", "/v1/groups/default"), ("PATCH", "/v1/groups/default"),
                             ("POST", "/v1/groups/default/disable"),
                             ("POST", "/v1/groups/default/enable")):
            fault = self.call(method, path, 403, token=TASKS)["error"]
            self.assertIn("lacks the scope operate", fault["message"])
            self.call(method, path, 403, serve=off)
        self.assertEqual(self.audit(), [])

    def test_without_the_audit_nothing_is_changed(self):
        self.stack.sql("RENAME TABLE retry_audit TO retry_audit_away")
        try:
            self.call("POST", "/v1/scenes/default/mail/pause", 503)
            self.call("POST", "/v1/groups/default/disable", 503)
        finally:
            self.stack.sql("RENAME TABLE retry_audit_away TO retry_audit")
        self.assertEqual(self.stack.sql("SELECT COUNT(*) FROM retry_scene"), [(0,)])
        self.assertEqual(self.stack.sql("SELECT enabled FROM retry_group WHERE name = 'default'"),
                         [(1,)])


if __name__ == "__main__":
    unittest.main()
