# SPDX-License-Identifier: MIT
"""A scene that an operator changes: `tallybox retry scene set|revert|pause|resume` waits until every
live retry process has it in force, and names the processes that do not. Its versions are kept."""

import json
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

LEASE_S = 2        # where a test waits for its end
LONG_LEASE_S = 20  # so long that no process counts as dead on a busy machine
ROWS_MAX = 1024


class SceneCase(suite.Case):
    """Retry processes that run one program, which always fails."""

    settings = {"retry.lease_ms": LEASE_S * 1000, "retry.poll_ms": 50}

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene"):
            self.stack.sql(f"DELETE FROM {table}")
        program = self.stack.folder / "fails"
        program.write_text("#!/bin/sh\nexit 75\n")
        program.chmod(0o755)
        self.sets = {"retry.exec_programs": str(program)}
        self.options = json.dumps({"program": str(program)})

    def retry(self, *arguments, **options):
        return self.stack.tallybox("retry", *arguments, **options)

    def fails(self, scene):
        """A task of the scene, and in how many seconds it is tried again once it has failed."""
        self.stack.sql("INSERT INTO retry_task (scene, handler, options) VALUES (%s, 'exec', %s)",
                       [scene, self.options])
        return suite.wait_for("the attempt to be counted", lambda: self.stack.sql(
            "SELECT TIMESTAMPDIFF(SECOND, updated_at, next_at) FROM retry_task WHERE scene = %s AND "
            "attempts = 1", [scene]))[0][0]


class Changed(SceneCase):
    """A scene that is changed while a task of it runs."""

    def test_a_task_that_failed_under_the_old_options_is_tried_under_the_new_ones(self):
        program = self.stack.folder / "waits"
        program.write_text(f"#!/bin/sh\n[ \"$1\" = good ] && exit 0\ntouch {program}.began\n"
                           f"until [ -e {program}.end ]; do sleep 0.05; done\nexit 100\n")
        program.chmod(0o755)
        self.start("retry", sets={"retry.exec_programs": str(program)})
        self.retry("scene", "set", "mail", "--options", json.dumps({"program": str(program)}),
                   "--policy", '{"attempts": 1}')
        self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key) VALUES ('mail', "
                       "'exec', 'k')")
        suite.wait_for("the program to begin", (self.stack.folder / "waits.began").exists)
        # No process has the change in force before the attempt ends.
        self.stack.sql("UPDATE retry_scene SET version = version + 1, options = %s",
                       [json.dumps({"program": str(program), "args": ["good"]})])
        (self.stack.folder / "waits.end").touch()
        suite.wait_for("the task to end", lambda: self.stack.sql(
            "SELECT outcome, attempts FROM retry_task_history"))
        self.assertEqual(self.stack.sql("SELECT outcome, attempts FROM retry_task_history"),
                         [("done", 1)])


class FirstWait(SceneCase):
    """A scene whose tasks wait before their first attempt, also those of plain INSERTs."""

    WAIT_S = 6

    def test_a_first_attempt_waits_once_also_after_a_kill(self):
        self.retry("scene", "set", "mail", "--options", self.options, "--policy", json.dumps(
            {"first_wait": f"{self.WAIT_S}s", "wait": "fixed 1h", "lease": "1s"}))
        self.stack.sql("INSERT INTO retry_task (scene, handler, ordering_key) VALUES "
                       "('mail', 'exec', 'k'), ('mail', 'exec', 'k2')")
        # The claim of a process that was killed before it put the task off.
        self.stack.sql("UPDATE retry_task SET state = 1, epoch = 1, owner = 'dead', lease_ms = 1000, "
                       "lease_until = UTC_TIMESTAMP(3) WHERE ordering_key = 'k2'")
        self.start("retry", sets=self.sets)
        suite.wait_for("both tasks to be put off", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE waited = 1") == 2)
        self.assertEqual(self.stack.sql(
            "SELECT DISTINCT state, attempts, reason, "
            "TIMESTAMPDIFF(MICROSECOND, age_from, next_at) BETWEEN %s AND %s FROM retry_task "
            "WHERE attempts = 0", [self.WAIT_S * 1000000, self.WAIT_S * 1000000 + 900000]),
            [(0, 0, "", 1)])
        suite.wait_for("both attempts to be counted", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE attempts = 1") == 2)
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM retry_attempt a JOIN retry_task t ON t.id = a.task_id WHERE "
            "TIMESTAMPDIFF(MICROSECOND, t.age_from, a.attempted_at) >= %s",
            [self.WAIT_S * 1000000 - 1000000]), 2)

    def test_run_now_ends_the_wait(self):
        self.retry("scene", "set", "mail", "--options", self.options, "--policy",
                   json.dumps({"first_wait": "random 1h 2h", "wait": "fixed 1h"}))
        self.stack.sql("INSERT INTO retry_task (scene, handler) VALUES ('mail', 'exec')")
        self.start("retry", sets=self.sets)
        suite.wait_for("the task to be put off", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE waited = 1 AND next_at > UTC_TIMESTAMP() + "
            "INTERVAL 50 MINUTE") == 1)
        self.retry("run-now", "--scene", "mail", "--yes")
        suite.wait_for("the attempt to be counted", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE attempts = 1") == 1)

    def test_a_deadline_before_the_first_attempt_is_refused(self):
        refused = self.retry("scene", "set", "mail", "--policy",
                             json.dumps({"first_wait": "random 60s", "deadline": "60s"}),
                             expect=suite.USAGE)
        self.assertIn("shorter than the deadline", refused.stderr)


class Dedup(SceneCase):
    """A scene whose tasks refuse their idempotency key for some time after their end."""

    def insert(self, key, **more):
        columns = {"scene": "mail", "handler": "exec", "options": self.options,
                   "idempotency_key": key, **more}
        self.stack.sql(f"INSERT INTO retry_task ({', '.join(columns)}) VALUES "
                       f"({', '.join(['%s'] * len(columns))})", list(columns.values()))
        return self.stack.number("SELECT MAX(id) FROM retry_task WHERE idempotency_key = %s", [key])

    def wait_ended(self, task):
        return suite.wait_for(f"task {task} to end", lambda: self.stack.sql(
            "SELECT outcome, attempts, reason FROM retry_task_history WHERE id = %s", [task]))[0]

    def test_a_plain_insert_of_an_ended_task_ends_as_its_duplicate(self):
        self.retry("scene", "set", "mail", "--policy", json.dumps(
            {"dedup": "1h", "keep_done": "1m", "attempts": 1, "exhausted": "skip"}))
        works = self.stack.folder / "works"
        works.write_text("#!/bin/sh\nexit 0\n")
        works.chmod(0o755)
        self.start("retry", sets={"retry.exec_programs":
                                  f"{self.sets['retry.exec_programs']},{works}"})
        exhausted = self.insert("bad", ordering_key="k")
        self.assertEqual(self.wait_ended(exhausted)[:2], ("exhausted", 1))
        done = self.insert("good", ordering_key="k", options=json.dumps({"program": str(works)}))
        self.assertEqual(self.wait_ended(done)[0], "done")
        self.assertEqual(self.stack.sql(
            "SELECT id, TIMESTAMPDIFF(SECOND, ended_at, dedup_until) BETWEEN 3590 AND 3610, "
            "keep_until >= dedup_until FROM retry_task_history ORDER BY id"),
            [(exhausted, 1, None), (done, 1, 1)])
        for key, ended in (("bad", exhausted), ("good", done)):
            again = self.insert(key, ordering_key="k")
            outcome, attempts, reason = self.wait_ended(again)
            self.assertEqual((outcome, attempts), ("cancelled", 0))
            self.assertIn(f"duplicate: task {ended} had the same idempotency key", reason)
        # Another key of the same ordering key continues, and an operator may try a task again.
        self.assertEqual(self.wait_ended(self.insert("new", ordering_key="k"))[0], "exhausted")
        self.retry("requeue", exhausted, "--options", json.dumps({"program": str(works)}))
        requeued = self.stack.number("SELECT requeued_as FROM retry_task_history WHERE id = %s",
                                     [exhausted])
        self.assertEqual(self.wait_ended(requeued)[0], "done")
        # When the time has passed, the key is free.
        self.stack.sql("UPDATE retry_task_history SET dedup_until = UTC_TIMESTAMP(3)")
        self.assertEqual(self.wait_ended(self.insert("good"))[:2], ("exhausted", 1))


class Versions(SceneCase):
    """Every version of a scene is kept, and may be stored again."""

    def setUp(self):
        super().setUp()
        self.stack.sql("DELETE FROM retry_scene_version")

    def out(self, *arguments):
        return self.retry(*arguments).stdout

    def versions(self, scene="mail", *arguments):
        return json.loads(self.out("scene", "history", scene, "--json", *arguments))["versions"]

    def row(self):
        return self.stack.sql("SELECT policy, options, paused FROM retry_scene WHERE scene = 'mail'")

    def change(self, *arguments, **options):
        done = self.retry(*arguments, "--wait", "0", **options)
        return done.stdout + done.stderr

    def test_versions_tell_who_when_and_what_and_can_be_stored_again(self):
        self.assertEqual(self.versions(), [])
        self.assertIn("no command has changed", self.out("scene", "history", "mail"))
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}', "--reason", "a try")
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}')  # changes nothing
        self.change("scene", "set", "mail", "--options", '{"url": "http://a/"}')
        self.change("pause", "mail")
        found = self.versions()
        self.assertEqual([(one["version"], one["changed"], one["paused"], one["policy"],
                           one["options"], one["why"]) for one in found], [
            (3, ["paused"], True, '{"attempts": 2}', '{"url": "http://a/"}', ""),
            (2, ["options"], False, '{"attempts": 2}', '{"url": "http://a/"}', ""),
            (1, ["policy", "options", "paused"], False, '{"attempts": 2}', None, "a try")])
        for one in found:
            self.assertIn("@", one["by"])
            self.assertLess(abs(one["at_ms"] / 1000 - time.time()), 300)
        # The policy and the options of the first one; the scene stays paused.
        self.change("scene", "revert", "mail", "--to", "1")
        self.assertEqual(self.row(), [('{"attempts": 2}', None, 1)])
        self.assertIn("was so before",
                      self.change("scene", "revert", "mail", "--to", "1"))
        found = self.versions()
        self.assertEqual((len(found), found[0]["version"], found[0]["changed"]),
                         (4, 4, ["options"]))
        self.assertEqual([one["version"] for one in self.versions("mail", "--limit", "2")], [4, 3])
        text = self.out("scene", "history", "mail")
        self.assertRegex(text, r"version +1, of .+ UTC, by \S+@\S+: a try")
        self.assertEqual(text.count("changed   options\n"), 2)
        self.assertEqual(text.count("changed   created\n"), 1)
        actions = json.loads(self.out("audit", "--scene", "mail", "--json"))["actions"]
        self.assertEqual([(one["action"], one["changed"]) for one in actions[-2:]],
                         [("scene revert", 1), ("scene revert", 0)])
        self.assertIn("to=1", actions[-1]["what"])

    def test_a_version_that_sql_made_is_kept_when_a_command_replaces_it(self):
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}')
        self.stack.sql("UPDATE retry_scene SET policy = '{\"attempts\": 3}', version = version + 1")
        self.change("scene", "set", "mail", "--policy", '{"attempts": 4}')
        found = self.versions()
        self.assertEqual([one["policy"] for one in found],
                         ['{"attempts": 4}', '{"attempts": 3}', '{"attempts": 2}'])
        self.assertEqual([one["by"] == "" for one in found], [False, True, False])
        self.assertIn(", by SQL", self.out("scene", "history", "mail"))
        self.change("scene", "revert", "mail", "--to", str(found[1]["version"]))
        self.assertEqual(self.row(), [('{"attempts": 3}', None, 0)])

    def test_a_deleted_scene_comes_back_by_its_history(self):
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}')
        self.stack.sql("DELETE FROM retry_scene")
        self.change("scene", "revert", "mail", "--to", str(self.versions()[0]["version"]))
        self.assertEqual(self.row(), [('{"attempts": 2}', None, 0)])
        self.assertEqual(len(self.versions()), 2)

    def test_a_version_is_that_of_its_scene(self):
        """The history of all scenes has numbers of its own, which no command shows."""
        for attempts in range(1, 5):
            self.change("scene", "set", "mail", "--policy", f'{{"attempts": {attempts}}}')
            self.change("scene", "set", "fax", "--policy", f'{{"attempts": {attempts + 10}}}')
        self.assertEqual([one["version"] for one in self.versions("fax")], [4, 3, 2, 1])
        self.assertNotIn("number", self.versions("fax")[0])
        self.assertNotIn("number", self.out("scene", "history", "fax"))
        self.change("scene", "revert", "fax", "--to", "3")
        shown = json.loads(self.out("scene", "show", "fax", "--json"))
        self.assertEqual((shown["version"], shown["policy"]), (5, '{"attempts": 13}'))

    def test_of_two_contents_of_one_version_the_newer_is_taken(self):
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}')
        self.stack.sql("UPDATE retry_scene SET policy = '{\"attempts\": 3}'")
        self.change("scene", "set", "mail", "--policy", '{"attempts": 4}')
        self.assertEqual([one["version"] for one in self.versions()], [2, 1, 1])
        self.change("scene", "revert", "mail", "--to", "1")
        self.assertEqual(self.row(), [('{"attempts": 3}', None, 0)])

    def test_a_version_that_the_scene_has_not_is_refused(self):
        self.change("scene", "set", "mail", "--policy", '{"attempts": 2}')
        for arguments, words in ((["mail", "--to", "2"], "scene history mail"),
                                 (["mail", "--to", "-1"], "takes a version"),
                                 (["mail"], "--to is missing"),
                                 (["--to", "1"], "takes one SCENE")):
            answer = self.change("scene", "revert", *arguments, expect=suite.USAGE)
            self.assertIn(words, answer)
        self.stack.sql("UPDATE retry_scene_version SET policy = '{' WHERE scene = 'mail'")
        self.assertIn("nothing was changed", self.change(
            "scene", "revert", "mail", "--to", "1",
            expect=suite.USAGE))
        self.assertEqual(self.row(), [('{"attempts": 2}', None, 0)])


class InForce(SceneCase):
    """With processes that live."""

    settings = {**SceneCase.settings, "retry.lease_ms": LONG_LEASE_S * 1000}

    def test_a_task_that_fails_right_after_the_change_follows_the_new_policy(self):
        for _ in range(2):
            self.start("retry", sets=self.sets)
        for hours in range(2, 8):
            scene = f"scene-{hours}"
            done = self.retry("scene", "set", scene, "--policy", f'{{"wait": "fixed {hours}h"}}')
            self.assertEqual(round(self.fails(scene) / 3600), hours)
            self.assertIn("in force in 2 retry processes", done.stdout)

    def test_a_task_right_after_a_change_that_was_not_waited_for_has_the_new_options(self):
        """The task has no options of its own: by the scene before the change it would be refused."""
        self.start("retry", sets=self.sets)
        for number in range(4):
            self.retry("scene", "set", f"o{number}", "--options", self.options, "--wait", "0")
            self.stack.sql("INSERT INTO retry_task (scene, handler) VALUES (%s, 'exec')",
                           [f"o{number}"])
        suite.wait_for("the tasks to be tried", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task WHERE scene LIKE 'o%' AND attempts = 1") == 4)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task_history"), 0)

    def test_no_task_of_a_scene_begins_once_it_is_said_to_be_paused(self):
        self.start("retry", sets=self.sets)
        for number in range(4):
            self.retry("pause", f"p{number}")
            self.stack.sql("INSERT INTO retry_task (scene, handler, options) VALUES (%s, 'exec', "
                           "%s)", [f"p{number}", self.options])
        # Another scene's task is tried meanwhile.
        self.fails("runs")
        self.assertEqual(self.stack.sql("SELECT DISTINCT state, attempts FROM retry_task WHERE "
                                        "scene LIKE 'p%%'"), [(0, 0)])
        self.retry("resume", "p0")
        suite.wait_for("the first to be tried", lambda: self.stack.number(
            "SELECT attempts FROM retry_task WHERE scene = 'p0'") == 1)

    def test_a_process_that_starts_meanwhile_reads_it_by_itself(self):
        done = self.retry("scene", "set", "mail", "--policy", '{"wait": "fixed 3h"}')
        self.assertIn("no retry process is live", done.stdout)
        self.start("retry", sets=self.sets)
        self.assertEqual(round(self.fails("mail") / 3600), 3)
        # What was so before is waited for, too.
        done = self.retry("scene", "set", "mail", "--policy", '{"wait": "fixed 3h"}')
        self.assertIn("in force in 1 retry process\n", done.stdout)


class Limit(SceneCase):
    """As many rows as the processes read, and one more."""

    def setUp(self):
        super().setUp()
        rows = ", ".join(f"('default', 'scene-{number:04}')" for number in range(ROWS_MAX))
        self.stack.sql(f"INSERT INTO retry_scene (task_group, scene) VALUES {rows}")

    def rows(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_scene")

    def test_a_row_beyond_the_limit_is_refused(self):
        for words in (["pause", "mail"], ["scene", "set", "mail", "--options", "{}"]):
            with self.subTest(words=words):
                done = self.retry(*words, expect=suite.FAILED)
                self.assertIn(f"retry_scene has {ROWS_MAX} rows", done.stderr)
                self.assertIn("nothing was changed", done.stderr)
        self.assertEqual(self.rows(), ROWS_MAX)
        # Rows that are there change as ever, and one less makes room.
        self.retry("pause", "scene-1000")
        self.retry("scene", "set", "scene-1001", "--options", "{}")
        self.stack.sql("DELETE FROM retry_scene WHERE scene = 'scene-0000'")
        self.retry("pause", "mail")
        self.assertEqual(self.rows(), ROWS_MAX)

    def test_with_a_row_beyond_the_limit_nothing_is_claimed(self):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, paused) VALUES ('default', 'zzz', 1)")
        self.stack.sql("INSERT INTO retry_task (scene, handler, options) VALUES ('zzz', 'exec', "
                       "%s), ('scene-0000', 'exec', %s)", [self.options] * 2)
        role = self.start("retry", sets=self.sets, ready=False)
        suite.wait_for("the log to tell of it",
                       lambda: f"retry_scene has more than {ROWS_MAX} rows" in role.log_text())
        done = self.retry("pause", "scene-0001", "--wait", 3, expect=suite.UNAVAILABLE)
        self.assertNotIn("in force", done.stdout)
        self.assertEqual(self.stack.sql("SELECT DISTINCT state, attempts FROM retry_task"),
                         [(0, 0)])
        self.stack.sql("DELETE FROM retry_scene WHERE scene = 'scene-0002'")
        suite.wait_for("the other scene's task to be tried", lambda: self.stack.number(
            "SELECT attempts FROM retry_task WHERE scene = 'scene-0000'") == 1)
        self.assertEqual(self.stack.number(
            "SELECT attempts FROM retry_task WHERE scene = 'zzz'"), 0)


class Behind(SceneCase):
    """With one that does not answer."""

    settings = {**SceneCase.settings, "retry.lease_ms": LONG_LEASE_S * 1000}

    def test_a_frozen_process_is_named_until_it_goes_on(self):
        role = self.start("retry", sets=self.sets)
        other = self.start("retry", sets=self.sets)
        self.addCleanup(lambda: role.alive() and role.process.send_signal(signal.SIGCONT))
        role.process.send_signal(signal.SIGSTOP)
        for words in (["pause", "mail"], ["pause", "mail"], ["resume", "mail"],
                      ["scene", "set", "mail", "--options", "{}"]):
            with self.subTest(words=words):
                done = self.retry(*words, "--wait", 2, expect=suite.UNAVAILABLE)
                self.assertIn("1 of 2 retry processes", done.stderr)
                self.assertIn(f"-{role.pid}-", done.stderr)
                self.assertNotIn(f"-{other.pid}-", done.stderr)
        # The change is stored all the same, and with --wait 0 the command does not wait.
        done = self.retry("pause", "mail", "--wait", 0)
        self.assertNotIn("force", done.stdout + done.stderr)
        role.process.send_signal(signal.SIGCONT)
        done = self.retry("pause", "mail", "--wait", 60)
        self.assertIn("in force in 2 retry processes", done.stdout)


class Dead(SceneCase):
    """With one that was killed."""

    def test_a_dead_process_is_waited_for_no_longer_than_its_heartbeat_counts(self):
        role = self.start("retry", sets=self.sets)
        self.retry("pause", "mail")
        role.kill()
        done = self.retry("resume", "mail", "--wait", 60)
        self.assertIn("no retry process is live", done.stdout)

    def test_a_process_with_a_longer_lease_than_the_command_is_waited_for(self):
        role = self.start("retry", sets={**self.sets, "retry.lease_ms": 600000})
        self.retry("pause", "mail")
        role.kill()
        self.stack.sql("UPDATE instance SET seen_at = seen_at - INTERVAL 5 MINUTE")
        done = self.retry("resume", "mail", "--wait", 1, expect=suite.UNAVAILABLE)
        self.assertIn("not yet in force in 1 of 1 retry process", done.stderr)
        self.stack.sql("DELETE FROM instance")

    def test_wait_is_refused_where_it_means_nothing(self):
        for words in (["list", "--wait", 1], ["pause", "mail", "--wait", "-1"],
                      ["pause", "mail", "--wait", 3601]):
            with self.subTest(words=words):
                self.assertIn("--wait", self.retry(*words, expect=suite.USAGE).stderr)


if __name__ == "__main__":
    unittest.main()
