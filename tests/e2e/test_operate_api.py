# SPDX-License-Identifier: MIT
"""Actions of operators over HTTP: what they do, what they leave as it is, and their rows in the
audit. No engine runs here."""

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


def grant_operating(stack):
    """As RETRY.md tells: serve needs the privileges of retry_admin, too."""
    grants = stack.command(["migrate", "grants", "--role", "retry_admin", "--account",
                            "tallybox_serve@%"], {}).stdout
    for line in grants.splitlines():
        if line.startswith("GRANT "):
            stack.sql(line.rstrip(";"))


class Operating(suite.Case):
    """POST /v1/tasks/{id}/ACTION."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{OPERATOR} operate\n{TASKS} tasks:default\n")
        tokens.chmod(0o600)
        grant_operating(cls.stack)
        cls.sets = {"api.tasks": "on", "api.operate": "on", "api.token_file": tokens}
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
        self.assertFalse(rest["more"])
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


if __name__ == "__main__":
    unittest.main()
