# SPDX-License-Identifier: MIT
"""What the groups of tasks allow: on the way in, when a task is to run, and as an operator changes it."""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

REASON = r"group \w+ (belongs to the relay|does not allow the \w+ [\w.]*\w)"
TOKEN = "token-of-every-group-of-this-file"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class GroupCase(suite.Case):
    """One retry process, and a program that writes down that it was started."""

    # A record or a program may need long on a loaded machine.
    settings = {"retry.poll_ms": 50, "relay.lease_ms": 60000, "relay.send_timeout_ms": 30000}

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene"):
            self.stack.sql(f"DELETE FROM {table}")
        self.stack.sql("DELETE FROM retry_group WHERE name NOT IN ('default', 'outbox')")
        policy = '{"wait": "fixed 1s", "attempts": 0}'
        for scene in ("mail", "order.paid"):
            self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('shop', %s, "
                           "%s)", [scene, policy])
        self.effects = self.stack.folder / "effects"
        self.effects.write_text("")
        program = self.stack.folder / "effect"
        program.write_text(f"#!/bin/sh\necho \"$1\" >>{self.effects}\n")
        program.chmod(0o755)
        self.program = str(program)
        self.topic = f"groups.{self.stack.name}.{next(suite.run().numbers)}"

    def command(self, *arguments, **options):
        return self.stack.tallybox("retry", *arguments, **options)

    def start_retry(self):
        return self.start("retry", sets={"retry.exec_programs": self.program})

    def exec_task(self, word, **columns):
        options = {"program": self.program, "args": [word]}
        return self.insert(handler="exec", options=json.dumps(options), **columns)

    def insert(self, **columns):
        self.stack.append([{"task_group": "shop", "scene": "mail", **columns}], "retry_task")

    def wait_ended(self):
        """Until what is left of the tasks is blocked."""
        left = "SELECT id, handler, state, attempts, reason FROM retry_task WHERE state < 3"
        try:
            suite.wait_for("all of them to end", lambda: not self.stack.sql(left))
        except AssertionError as reason:
            raise AssertionError(f"{reason}: {self.stack.sql(left)}") from None

    def done(self):
        return sorted(self.effects.read_text().split())


class Running(GroupCase):
    """Tasks of a plain INSERT, which the API cannot refuse."""

    seconds = 30

    def test_tasks_of_an_unknown_or_disabled_group_wait_and_it_is_said(self):
        retry = self.start_retry()
        self.exec_task("a", ordering_key="k")
        suite.wait_for("the log to say it", lambda: "event=group_closed" in retry.log_text())
        done = self.command("list")
        self.assertIn("tasks of group shop, scene mail and handler exec wait: no group configuration "
                      "found: there is no group shop",
                      done.stdout)
        self.assertIn("1 wait for the group shop, which does not exist",
                      self.stack.tallybox("status").stdout)
        task = self.stack.number("SELECT id FROM retry_task")
        self.assertIn("there is no group shop", self.command("show", str(task)).stdout)
        suite.wait_for("the metric", lambda: retry.metric("tallybox_retry_group_closed_tasks") == 1)
        self.command("group", "set", "shop", "--handlers", "exec")
        suite.wait_for("the task to run", lambda: self.done() == ["a"])
        self.command("group", "disable", "shop")
        suite.wait_for("the process to know", lambda: self.closed_again(retry))
        self.exec_task("b")
        self.assertIn("group shop is disabled", self.command("list").stdout)
        self.assertIn("2 wait for the group shop, which is disabled",
                      self.stack.tallybox("status").stdout)
        self.assertEqual(json.loads(self.stack.tallybox("status", "--json").stdout)
                         ["retry"]["closed_groups"], {"shop": 2})
        self.command("group", "enable", "shop")
        suite.wait_for("the task to run", lambda: "b" in self.done())
        self.assertEqual(self.done().count("b"), 1)

    def test_a_scene_without_a_row_has_what_its_group_says(self):
        self.command("group", "set", "shop", "--handlers", "exec", "--description", "orders of the shop",
                     "--init-scene", '{"wait": "fixed 1s", "attempts": 2}')
        self.start_retry()
        self.insert(scene="sms", handler="exec", options=json.dumps({"program": "/none"}))
        suite.wait_for("two attempts", lambda: self.stack.sql(
            "SELECT attempts, outcome FROM retry_task_history") == [(2, "exhausted")])
        # A row that a pause makes keeps the policy; one of another group has the default.
        self.command("pause", "sms", "--group", "shop")
        self.assertEqual(json.loads(self.stack.number(
            "SELECT policy FROM retry_scene WHERE scene = 'sms'")), {"wait": "fixed 1s", "attempts": 2})
        self.command("pause", "sms")
        self.assertEqual(self.stack.sql("SELECT policy FROM retry_scene WHERE scene = 'sms' AND "
                                        "task_group = 'default'"), [(None,)])
        self.command("group", "set", "shop", "--init-scene", "refuse")
        self.exec_task("r", scene="push")
        problem = "no scene configuration found: group shop refuses the unknown scene push"
        suite.wait_for("the reason", lambda: problem in self.command("list").stdout)
        self.assertIn("1 wait for a configuration of the scene shop/push",
                      self.stack.tallybox("status").stdout)
        self.assertEqual(json.loads(self.stack.tallybox("status", "--json").stdout)
                         ["retry"]["unconfigured_scenes"], {"shop/push": 1})
        self.command("scene", "set", "push", "--group", "shop", "--policy", "{}")
        suite.wait_for("the task to run", lambda: self.done() == ["r"])

    def test_an_invalid_policy_of_a_group_pauses_and_is_said(self):
        self.command("group", "set", "shop", "--handlers", "exec")
        self.stack.sql("UPDATE retry_group SET init_scene = '{\"attempt\": 1}' WHERE name = 'shop'")
        retry = self.start_retry()
        self.exec_task("p", scene="push")
        suite.wait_for("the log to say it", lambda: "event=scene_invalid" in retry.log_text())
        self.assertIn('init_scene of group shop: a policy has no field', retry.log_text())
        self.assertIn("no task of scene shop/push runs: init_scene of the group",
                      self.command("list").stdout)
        self.command("group", "set", "shop", "--init-scene", "preset:easyretry")
        suite.wait_for("the task to run", lambda: self.done() == ["p"])

    def closed_again(self, retry):
        """A task of a disabled group is seen, and waits."""
        if not self.stack.number("SELECT COUNT(*) FROM retry_task"):
            self.insert(handler="exec", options='{"program": "/none"}', next_at="2036-01-01")
        return retry.log_text().count("event=group_closed") == 2

    def test_what_a_group_does_not_allow_is_refused_with_its_reason(self):
        self.command("group", "set", "shop", "--handlers", "kafka,exec,steps", "--scenes",
                     "mail,order.*", "--topics", self.topic)
        wire.create_topic(suite.kafka().bootstrap, self.topic, 1)
        kafka = json.dumps({"topic": f"{self.topic}.x"})
        steps = {"steps": [{"handler": "exec", "options": {"program": self.program, "args": ["s"]}},
                           {"handler": "kafka", "options": {"topic": f"{self.topic}.x"}}]}
        self.insert(handler="kafka", options=kafka, params="1")
        self.insert(handler="steps", options=json.dumps(steps))
        self.insert(handler="http", options='{"url": "http://127.0.0.1:1/"}')
        self.insert(handler="vote", params="{}")
        self.exec_task("scene", scene="invoice")
        self.exec_task("owned", task_group="outbox", ordering_key="k")
        self.insert(handler="kafka", options=json.dumps({"topic": self.topic}), params="good")
        self.exec_task("good", scene="order.paid")
        # A topic of the scene's options counts like one of the task's.
        self.command("scene", "set", "order.y", "--group", "shop", "--wait", "0", "--options",
                     json.dumps({"topic": f"{self.topic}.y"}))
        self.insert(scene="order.y", handler="kafka", params="of the scene")
        self.start_retry()
        self.wait_ended()
        self.assertEqual(self.done(), ["good"])
        self.assertEqual([one.value for one in self.stack.records(self.topic)], [b"good"])
        refused = self.stack.sql("SELECT reason_class, reason FROM retry_task_history WHERE outcome "
                                 "= 'exhausted' UNION ALL SELECT reason_class, reason FROM "
                                 "retry_task WHERE state = 3")
        self.assertEqual({one[0] for one in refused}, {"refused"})
        self.assertEqual(sorted(re.search(REASON, one[1]).group(0) for one in refused), sorted([
            f"group shop does not allow the topic {self.topic}.x",
            f"group shop does not allow the topic {self.topic}.x",
            f"group shop does not allow the topic {self.topic}.y",
            "group shop does not allow the handler http",
            "group shop does not allow the handler vote",
            "group shop does not allow the scene invoice",
            "group outbox belongs to the relay"]))

    def test_a_name_with_a_blank_at_its_end_is_another_name_and_is_refused(self):
        """The database compares such a name as equal to the one without the blank."""
        self.command("group", "set", "shop", "--handlers", "exec")
        self.stack.sql("UPDATE retry_scene SET policy = '{\"deadline\": \"1s\"}' WHERE scene = "
                       "'order.paid'")
        self.exec_task("a", scene="mail ")
        self.exec_task("b", task_group="shop ")
        # Its deadline has passed; that of order.paid is not its deadline.
        self.exec_task("c", scene="order.paid ", age_from="2020-01-01")
        self.exec_task("good")
        self.start_retry()
        self.wait_ended()
        self.assertEqual(self.done(), ["good"])
        ended = self.stack.sql("SELECT CONCAT(task_group, '/', scene), reason FROM "
                               "retry_task_history WHERE outcome = 'exhausted' ORDER BY id")
        self.assertEqual([name for name, _ in ended], ["shop/mail ", "shop /mail", "shop/order.paid "])
        for (_, reason), wrong in zip(ended, ('scene "mail "', 'group "shop "',
                                              'scene "order.paid "'), strict=True):
            self.assertIn(f"{wrong} is not a name", reason)

    def test_a_row_whose_name_has_a_blank_at_its_end_is_that_of_the_name(self):
        """The tables cannot hold both rows."""
        self.stack.sql("UPDATE retry_scene SET scene = 'mail ', policy = "
                       "'{\"wait\": \"fixed 1h\", \"attempts\": 7}' WHERE scene = 'mail'")
        self.stack.sql("INSERT INTO retry_group (name, handlers, scenes) VALUES ('shop ', 'exec', "
                       "'*')")
        self.insert(handler="exec", options='{"program": "/none"}', ordering_key="k")
        self.exec_task("good")
        self.start_retry()
        suite.wait_for("both to have been tried", lambda: self.done() == ["good"] and
                       self.stack.number("SELECT MIN(attempts) FROM retry_task") == 1)
        self.assertEqual(self.stack.sql("SELECT state, next_at > UTC_TIMESTAMP(3) + INTERVAL 50 "
                                        "MINUTE FROM retry_task"), [(0, 1)])
        self.assertIn("fixed 1h", self.command("scene", "show", "mail", "--group", "shop").stdout)


class Shards(GroupCase):
    """A group that is given to certain processes."""

    def test_tasks_run_only_where_the_shards_of_their_group_are_held(self):
        self.command("group", "set", "shop", "--handlers", "exec", "--shards", "12-13")
        self.command("group", "set", "other", "--handlers", "exec")
        for key in range(40):
            self.exec_task(f"shop{key}", ordering_key=f"k{key}")
        self.exec_task("other", task_group="other")
        shard = self.stack.number("SELECT shard FROM retry_task WHERE task_group = 'other'")
        sets = {"retry.exec_programs": self.program}
        self.start("retry", sets={**sets, "retry.shards": "0-11,14-15"})
        if shard < 12 or shard > 13:
            suite.wait_for("the task of the other group to run", lambda: self.done() == ["other"])
        self.assertEqual(self.stack.sql("SELECT DISTINCT state, epoch FROM retry_task WHERE "
                                        "task_group = 'shop'"), [(0, 0)])
        self.start("retry", sets={**sets, "retry.shards": "12-13"})
        self.wait_ended()
        self.assertEqual(self.done(), sorted(["other"] + [f"shop{key}" for key in range(40)]))

    def test_a_group_changes_to_shards_of_another_process(self):
        self.command("group", "set", "shop", "--handlers", "exec", "--shards", "8")
        self.exec_task("first", ordering_key="k")
        self.exec_task("second", ordering_key="k")
        self.start("retry", sets={"retry.exec_programs": self.program, "retry.shards": "0-7"})
        suite.wait_for("the process to be up", lambda: self.stack.number(
            "SELECT COUNT(*) FROM instance WHERE role = 'retry'") > 0)
        self.assertEqual(self.done(), [])
        self.command("group", "set", "shop", "--shards", "7")
        self.wait_ended()
        self.assertEqual(self.effects.read_text().split(), ["first", "second"])


class Changing(GroupCase):
    """`tallybox retry group ...`"""

    def group(self, name):
        groups = json.loads(self.command("group", "list", "--json").stdout)["groups"]
        return next((one for one in groups if one["group"] == name), None)

    def test_groups_are_set_and_shown(self):
        self.assertEqual(self.group("outbox")["owner"], "relay")
        self.assertIsNone(self.group("shop"))
        self.assertIn("is set", self.command("group", "set", "shop").stdout)
        self.assertEqual(self.group("shop"), {"group": "shop", "owner": "client", "enabled": True,
                                              "version": 1,
                                              "handlers": "", "scenes": "*", "topics": "", "init_scene": "standard",
                                              "route": "round_robin", "shards": "",
                                              "description": ""})
        for words in ("is set", "was so before"):
            self.assertIn(words, self.command("group", "set", "shop", "--handlers", "http,exec",
                                              "--topics", "shop.*").stdout)
        self.command("group", "set", "shop", "--scenes", "mail")
        self.assertEqual(self.group("shop"), {"group": "shop", "owner": "client", "enabled": True,
                                              "version": 3,
                                              "handlers": "http,exec", "scenes": "mail",
                                              "topics": "shop.*", "init_scene": "standard",
                                              "route": "round_robin", "shards": "",
                                              "description": ""})
        self.command("group", "set", "shop", "--shards", "0-3, 7")
        self.assertEqual(self.group("shop")["shards"], "0-3, 7")
        self.assertIn("shards: 0-3, 7", self.command("group", "list").stdout)
        self.command("group", "set", "shop", "--shards", "")
        self.assertEqual(self.group("shop")["shards"], "")
        for action, enabled in (("disable", False), ("disable", False), ("enable", True)):
            self.command("group", action, "shop")
            self.assertEqual(self.group("shop")["enabled"], enabled)
        self.assertIn("shop.*", self.command("group", "list").stdout)
        self.command("group", "set", "shop", "--description", "Bestellungen, \u00fcber Nacht",
                     "--init-scene", "preset:rocketmq")
        self.assertIn("Bestellungen, \u00fcber Nacht", self.command("group", "list").stdout)
        self.assertEqual(json.loads(self.group("shop")["init_scene"])["attempts"], 17)
        # What is left empty allows nothing.
        self.command("group", "set", "shop", "--topics", "")
        self.assertEqual(self.group("shop")["topics"], "")

    def test_one_group_is_shown_whole(self):
        self.command("group", "set", "shop", "--handlers", "http", "--shards", "0-3",
                     "--description", "orders")
        shown = json.loads(self.command("group", "show", "shop", "--json").stdout)
        self.assertEqual(shown, self.group("shop"))
        self.command("group", "disable", "shop")
        text = self.command("group", "show", "shop").stdout
        for line in ("handlers        http", "shards          0-3", "description     orders",
                     "version         2, disabled: its tasks wait", "topics          (none)"):
            self.assertIn(f"{line}\n", text)
        done = self.command("group", "show", "nowhere", expect=suite.FAILED)
        self.assertIn("there is no group nowhere", done.stderr)
        self.assertEqual(self.command("audit", "--json").stdout.count('"group show"'), 0)

    def test_what_is_wrong_is_said_and_changes_nothing(self):
        for arguments, words in (
                (["group", "set", "outbox", "--topics", "x"], "group outbox belongs to the relay"),
                (["group", "set", "shop", "--topics", "a b"], "--topics takes names separated"),
                (["group", "set", "shop", "--shards", "3-20"], "--shards takes a list of shards"),
                (["group", "set", "shop", "--handlers", "x" * 256], "longer than 255 bytes"),
                (["group", "set", "shop", "--init-scene", "none"], "--init-scene is not standard"),
                (["group", "set", "shop", "--init-scene", ""], "--init-scene takes"),
                (["group", "set", "shop", "--init-scene", '{"attempts": -1}'], 'policy field "attempts"'),
                (["group", "set", "shop", "--init-scene", "preset:none"], "no policy preset"),
                (["group", "set", "shop", "--init-scene", '{"wait": "fixed 1s"}' + " " * 4000],
                 "up to 4000 ASCII"),
                (["group", "set", "shop", "--description", "x" * 256], "up to 255 printable"),
                (["group", "set", "shop", "--description", "a\x1bb"], "up to 255 printable"),
                (["group", "enable", "nowhere"], "there is no group nowhere"),
                (["group", "set", "a b"], "a group's name has"),
                (["group", "set"], "takes one GROUP"), (["group"], "an action is missing"),
                (["group", "list", "--topics", "x"], "has no meaning for group list")):
            with self.subTest(arguments=arguments):
                done = self.command(*arguments, expect=suite.USAGE)
                self.assertIn(words, done.stderr)
        self.assertIsNone(self.group("shop"))
        self.assertEqual(self.group("outbox")["topics"], "*")


class Submitting(GroupCase):
    """POST /v1/tasks, with a token that has the scopes of all groups."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:shop tasks:outbox tasks:none tasks:{cls.stack.group}\n")
        tokens.chmod(0o600)
        cls.serve = cls.stack.role("serve", sets={
            "api.tasks": "on", "api.token_file": tokens, "retry.http_hosts": "shop.example.org"})

    def post(self, **task):
        answer = self.serve.call("POST", "/v1/tasks", {"group": "shop", "scene": "mail", **task},
                                 BEARER)
        body = json.loads(answer.body)
        return answer.status, body.get("error", {}).get("message", "")

    def test_a_task_that_its_group_does_not_allow_is_not_taken(self):
        self.command("group", "set", "shop", "--handlers", "kafka,steps", "--topics", "shop.*")
        self.stack.sql("INSERT INTO retry_group (name, owner, handlers, scenes) VALUES (%s, "
                       "'consumer', 'vote', '*')", [self.stack.group])
        good = {"handler": "kafka", "options": {"topic": "shop.orders"}}
        bad = {"handler": "kafka", "options": {"topic": "votes"}}
        steps = {"handler": "steps", "options": {"steps": [good, bad]}}
        self.assertEqual(self.post(**good)[0], 201)
        for task, words in (
                (bad, "group shop does not allow the topic votes"),
                (steps, "group shop does not allow the topic votes"),
                ({**good, "handler": "vote"}, "group shop does not allow the handler vote"),
                ({**good, "group": "outbox", "scene": "publish"}, "group outbox belongs to the relay"),
                ({**good, "group": self.stack.group}, "belongs to the consumer")):
            with self.subTest(words=words):
                status, message = self.post(**task)
                self.assertEqual(status, 403)
                self.assertIn(words, message)
        self.command("group", "set", "shop", "--scenes", "sms")
        suite.wait_for("the change to be seen", lambda: self.post(**good, bizNo="2")[0] == 403)
        self.command("group", "set", "shop", "--scenes", "*")
        self.command("group", "disable", "shop")
        suite.wait_for("the change to be seen", lambda: self.post(**good, bizNo="3")[1] ==
                       "group shop is disabled")
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE task_group <> "
                                           "'shop'"), 0)

    def test_a_group_or_scene_without_a_configuration_is_refused(self):
        task = {"handler": "http", "options": {"url": "https://shop.example.org/"}}
        status, message = self.post(**task, group="none")
        self.assertEqual(status, 422)
        self.assertIn("no group configuration found: there is no group none", message)
        self.command("group", "set", "shop", "--handlers", "http", "--init-scene", "refuse")
        suite.wait_for("the change to be seen", lambda: self.post(**task, scene="sms")[0] == 422)
        status, message = self.post(**task, scene="sms", bizNo="2")
        self.assertIn("no scene configuration found: group shop refuses the unknown scene sms", message)
        self.assertEqual(self.post(**task, scene="mail")[0], 201)
        self.command("scene", "set", "sms", "--group", "shop", "--wait", "0", "--policy", "{}")
        suite.wait_for("the change to be seen",
                       lambda: self.post(**task, scene="sms", bizNo="3")[0] == 201)
        self.command("group", "set", "shop", "--init-scene", "standard")
        suite.wait_for("the change to be seen",
                       lambda: self.post(**task, scene="other", bizNo="4")[0] == 201)

    def test_a_limit_of_the_groups_policy_holds_for_scenes_without_a_row(self):
        task = {"handler": "http", "options": {"url": "https://shop.example.org/"}}
        self.command("group", "set", "shop", "--handlers", "http", "--init-scene", '{"max_pending": 1}')
        suite.wait_for("the group to be seen",
                       lambda: self.post(**task, scene="sms", bizNo="1")[0] in (200, 201))
        suite.wait_for("the limit", lambda: self.post(**task, scene="sms", bizNo="2")[0] == 429)

    def test_a_task_shows_what_it_waits_for(self):
        task = {"group": "shop", "scene": "sms", "handler": "http",
                "options": {"url": "https://shop.example.org/"}}
        self.command("group", "set", "shop", "--handlers", "http")
        suite.wait_for("the group to be seen", lambda: self.post(**task)[0] in (200, 201))
        number = self.stack.number("SELECT id FROM retry_task")

        def waits_for():
            answer = self.serve.call("GET", f"/v1/tasks/{number}", headers=BEARER)
            return json.loads(answer.body)["waitsFor"]
        self.assertIsNone(waits_for())
        self.command("group", "disable", "shop")
        self.assertEqual(waits_for(), "group shop is disabled")
        self.command("group", "enable", "shop")
        self.command("group", "set", "shop", "--init-scene", "refuse")
        self.assertIn("no scene configuration found", waits_for())
        self.command("pause", "sms", "--group", "shop", "--wait", "0")
        self.assertEqual(waits_for(), "scene sms is paused")
        self.command("resume", "sms", "--group", "shop", "--wait", "0")
        self.assertIsNone(waits_for())
        self.stack.sql("UPDATE retry_task SET handler = 'htp'")
        self.assertIn("there is no handler htp, did you mean http", waits_for())

    def test_the_tasks_of_a_role_are_not_shown_to_clients(self):
        self.stack.sql("INSERT INTO retry_task (id, task_group, scene, handler, origin, params) "
                       "VALUES (77, 'outbox', 'publish', 'kafka', 'relay', 'secret')")
        answer = self.serve.call("GET", "/v1/tasks?group=outbox", headers=BEARER)
        self.assertEqual(json.loads(answer.body)["tasks"], [])
        self.assertEqual(self.serve.call("GET", "/v1/tasks/77", headers=BEARER).status, 404)


if __name__ == "__main__":
    unittest.main()
