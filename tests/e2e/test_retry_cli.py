# SPDX-License-Identifier: MIT
"""`tallybox retry ACTION`: what a person sees of the retry queue and does to it, on tasks that plain
SQL inserted. No engine runs here: claims are what a second connection does."""

import json
import pathlib
import re
import subprocess
import sys
import threading
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

WAITING, RUNNING, QUEUED, BLOCKED, PARKED = range(5)
STATES = ("waiting", "running", "queued", "blocked", "parked")


class RetryCase(suite.Case):
    """Helpers of this file."""

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene", "retry_audit"):
            self.stack.sql(f"DELETE FROM {table}")

    def task(self, **columns):
        """One plain INSERT; the id it has got."""
        columns = {"scene": "mail", "handler": "http", "params": b'{"n": 1}', **columns}
        columns.setdefault("idempotency_key", None)
        if columns["idempotency_key"] is None:
            columns["idempotency_key"] = f"k{self.next_number()}"
        names = ", ".join(columns)
        marks = ", ".join(["%s"] * len(columns))
        with suite.connect(self.stack.name) as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO retry_task ({names}) VALUES ({marks})",
                           list(columns.values()))
            return cursor.lastrowid

    numbers = 0

    @classmethod
    def next_number(cls):
        RetryCase.numbers += 1
        return RetryCase.numbers

    def retry(self, *arguments, **options):
        return self.stack.tallybox("retry", *arguments, **options)

    def read(self, *arguments, **options):
        return json.loads(self.retry(*arguments, "--json", **options).stdout)

    def ids(self, *arguments):
        return [one["id"] for one in self.read(*arguments)["tasks"]]

    def row(self, task):
        """state, attempts, is it due; None when it is gone."""
        rows = self.stack.sql("SELECT state, attempts, next_at <= UTC_TIMESTAMP(3) FROM retry_task "
                              "WHERE id = %s", [task])
        return rows[0] if rows else None

    def outcome(self, task):
        rows = self.stack.sql("SELECT outcome, owner FROM retry_task_history WHERE id = %s", [task])
        return rows[0] if rows else None

    def key_of(self, key, *states, **columns):
        """Tasks of one ordering key in these states; blocked ones have failed six times."""
        return [self.task(ordering_key=key, state=state,
                          attempts=6 if state in (BLOCKED, PARKED) else 0, **columns)
                for state in states]

    def end(self, task, outcome="exhausted"):
        """Moves a task into the history, as the engine does."""
        columns = ("id, task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, "
                   "params, params_type, state, attempts, next_at, reason_class, reason, owner, "
                   "epoch, lease_until, parent_id, step, step_result, created_at, updated_at")
        self.stack.sql(f"INSERT INTO retry_task_history ({columns}, outcome, ended_at) SELECT "
                       f"{columns}, %s, UTC_TIMESTAMP(3) FROM retry_task WHERE id = %s",
                       [outcome, task])
        self.stack.sql("DELETE FROM retry_task WHERE id = %s", [task])


class Looking(RetryCase):
    """list, show and history."""

    def test_tasks_are_listed_by_what_they_are(self):
        first = self.task(biz_no="B-1", task_group="shop")
        second = self.task(scene="sms", handler="exec", ordering_key="a b")
        third = self.task(state=BLOCKED, attempts=6, reason_class="refused", reason="no",
                          ordering_key="c")
        everything = [first, second, third]
        for words, wanted in (
                ((), everything), (("--group", "shop"), [first]), (("--scene", "sms"), [second]),
                (("--handler", "http"), [first, third]), (("--state", "blocked"), [third]),
                (("--state", "waiting,blocked"), everything), (("--state", "running"), []),
                (("--key", "a b"), [second]), (("--biz-no", "B-1"), [first]),
                (("--biz-no", "B-1", "--scene", "sms"), []), (("--id", third), [third]),
                ((second, first, 10 ** 12), [first, second]),
                (("--reason-class", "refused"), [third]), (("--since", "1h"), everything),
                (("--until", "1h"), []), (("--scene", "' OR 1 --"), [])):
            with self.subTest(words=words):
                self.assertEqual(self.ids("list", *words), wanted)
        # As equal as the columns' collation takes them, they are others.
        for words in (("--key", "a b "), ("--biz-no", "B-1 "), ("--scene", "sms ")):
            self.assertEqual(self.ids("list", *words), [])
        page = self.read("list", "--limit", 2)
        self.assertEqual((len(page["tasks"]), page["more"], page["after"]), (2, True, second))
        page = self.read("list", "--limit", 2, "--after", second)
        self.assertEqual(([one["id"] for one in page["tasks"]], page["more"], page["after"]),
                         ([third], False, None))
        self.assertEqual(self.retry("list", "--scene", "none").stdout, "no task matches\n")
        self.assertEqual(self.retry("history").stdout, "no task in the history matches\n")
        text = self.retry("list").stdout
        for word in ("shop/mail", "default/sms", "a b", "refused: no", "blocked", "due"):
            self.assertIn(word, text)
        self.assertIn(f"--after {first}", self.retry("list", "--limit", 1).stdout)

    def test_a_filter_that_fits_little_finds_it_among_many(self):
        for start in range(0, 45000, 5000):
            rows = ", ".join(f"('{'rare' if n % 22000 == 21999 else 'mail'}', 'http', 'many{n}')"
                             for n in range(start, start + 5000))
            self.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key) VALUES "
                           f"{rows}")
        self.assertEqual(len(self.ids("list", "--scene", "rare")), 2)
        self.assertEqual(len(self.ids("list", "--scene", "rare", "--limit", 1)), 1)
        done = self.read("cancel", "--scene", "mail", "--limit", 1234, "--yes", seconds=120)
        self.assertEqual((done["matched"], done["done"]), (1234, 1234))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 45000 - 1234)
        self.assertEqual(len(self.ids("history", "--limit", 2000)), 1234)

    def test_one_task_is_shown_whole(self):
        params = b"\x00\xff binary"
        task = self.task(params=params, params_type="application/octet-stream", options='{"a": 1}',
                         ordering_key="\u00e4\u20ac\x1b[2J", step=2, step_result=b"half",
                         reason="it \x1b[31m failed", reason_class="transient", attempts=2)
        for number in range(3):
            self.stack.sql("INSERT INTO retry_attempt (task_id, attempted_at, owner, step, took_ms, "
                           "outcome, reason_class, reason) VALUES (%s, UTC_TIMESTAMP(3), 'me', 0, "
                           "%s, 'failed', 'transient', %s)", [task, number, f"try {number}"])
        one = self.read("show", task)
        self.assertEqual((one["task"]["params"], one["task"]["params_base64"]),
                         (None, "AP8gYmluYXJ5"))
        self.assertEqual((one["task"]["step_result"], one["task"]["options"]), ("half", '{"a": 1}'))
        self.assertEqual([each["reason"] for each in one["attempts"]], ["try 0", "try 1", "try 2"])
        text = self.retry("show", task).stdout
        self.assertNotIn("\x1b", text)
        for word in ("\u00e4\u20ac", "00 ff 20", "try 2", "2 failed", '{"a": 1}'):
            self.assertIn(word, text)
        done = subprocess.run([suite.BINARY, "retry", "show", str(task), "--raw", "--config",
                               str(self.stack.ini)], capture_output=True, timeout=30, check=True)
        self.assertEqual(done.stdout, params)
        self.end(task)
        self.assertEqual(self.read("show", task)["task"]["outcome"], "exhausted")
        self.retry("show", 10 ** 12, expect=suite.FAILED)

    def test_a_parked_one_is_shown_from_the_history(self):
        task = self.task(ordering_key="p", params=b"whole")
        self.end(task)
        self.task(id=task, ordering_key="p", params=None, state=PARKED)
        one = self.read("show", task)
        self.assertEqual((one["task"]["params"], one["parked"]), ("whole", True))
        self.assertIn("unpark", self.retry("show", task).stdout)

    def test_the_history_is_listed_by_outcome(self):
        done, cancelled = self.task(), self.task(biz_no="B")
        self.end(done, "done")
        self.end(cancelled, "cancelled")
        self.assertEqual(self.ids("history"), [done, cancelled])
        self.assertEqual(self.ids("history", "--outcome", "done"), [done])
        self.assertEqual(self.ids("history", "--biz-no", "B"), [cancelled])
        self.assertEqual(self.ids("history", "--scene", "mail", "--group", "default"),
                         [done, cancelled])
        self.assertIn("cancelled", self.retry("history").stdout)

    def test_a_key_is_never_cut(self):
        key = "customer/" + "\u00e4\u00f6" * 60 + "/end"
        self.task(ordering_key=key)
        self.task(biz_no="B" * 64)
        text = self.retry("list").stdout
        self.assertIn(f"  {key}  ", text)
        self.assertIn("B" * 64, text)

    def test_an_unknown_handler_says_that_its_tasks_do_not_run(self):
        task = self.task(handler="htp", ordering_key="k")
        for words in (["list"], ["show", task]):
            text = self.retry(*words).stdout
            self.assertIn("no task of the handler htp runs: there is no handler htp, did you mean "
                          "http; `tallybox retry handlers` lists them", text)
        self.assertIn("wait for the handler htp", self.stack.tallybox("status").stdout)
        self.task()
        self.assertNotIn("handler http", self.retry("list", "--handler", "http").stdout)
        # With a blank at its end it is another handler, of which no process runs a task either.
        self.stack.sql("INSERT INTO instance (name, role, started_at, seen_at, lease_ms) VALUES "
                       "('x', 'retry:http', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 60000)")
        self.addCleanup(self.stack.sql, "DELETE FROM instance WHERE name = 'x'")
        self.assertNotIn("wait for the handler http", self.stack.tallybox("status").stdout)
        self.task(handler="http ")
        self.assertIn("1 wait for the handler http ,", self.stack.tallybox("status").stdout)

    def test_every_kind_of_task_has_its_reason(self):
        for number in range(40):
            self.task(handler=f"fax{number}", idempotency_key=f"f{number}")
        text = self.retry("list", "--limit", 1000).stdout
        for number in range(40):
            self.assertIn(f"no task of the handler fax{number} runs", text)
        self.assertNotIn("kinds of these tasks", text)
        for number in range(40, 260):
            self.task(handler=f"fax{number}", idempotency_key=f"f{number}")
        self.assertIn("only the first 256 kinds of these tasks", self.retry("list", "--limit", 1000).stdout)

    def test_the_help_lists_the_actions(self):
        for words in (["--help"], ["list", "--help"]):
            text = self.retry(*words).stdout
            for action in ("run-now [ID]...", "unpark [KEY]", "scene set SCENE", "history [ID]..."):
                self.assertIn(action, text)

    def test_other_letters_than_a_column_holds_are_refused_in_words(self):
        self.task(ordering_key="\u00e4", biz_no="\u00e4")
        self.assertEqual(len(self.ids("list", "--key", "\u00e4", "--biz-no", "\u00e4")), 1)
        for words in (["list", "--scene", "\u00e4"], ["list", "--group", "\u00e4"],
                      ["history", "--handler", "\u00e4"], ["requeue", "--outcome", "\u00e4"],
                      ["list", "--reason-class", "\u00e4"], ["pause", "\u00e4"],
                      ["scene", "show", "\u00e4"], ["scene", "set", "\u00e4", "--policy", "{}"],
                      ["scene", "list", "--group", "\u00e4"], ["group", "enable", "\u00e4"],
                      ["pause", "mail", "--group", "\u00e4"],
                      ["group", "set", "shop", "--handlers", "\u00e4"],
                      ["group", "set", "shop", "--scenes", "\u00e4"],
                      ["group", "set", "shop", "--topics", "\u00e4"]):
            with self.subTest(words=words):
                done = self.retry(*words, expect=suite.USAGE)
                self.assertIn("tallybox retry: ", done.stderr)
                self.assertNotIn("ollation", done.stderr)

    def test_words_that_make_no_sense_are_refused(self):
        for words in (["lits"], ["show"], ["show", "1", "2"], ["list", "x"], ["cancel"],
                      ["run-now"], ["cancel", "--all", "--scene", "x"], ["list", "--yes"],
                      ["list", "--state", "dead"], ["list", "--since", "soon"], ["list", "--skip"],
                      ["list", "--limit", "0"], ["show", "1", "--json", "--raw"], ["pause"],
                      ["pause", "a", "b"], ["scene"], ["scene", "drop"], ["scene", "set", "x"],
                      ["unpark"], ["unpark", "a", "b"], ["cancel", "1", "--scene", "x"],
                      ["history", "--state", "blocked"], ["pause", "x" * 65],
                      ["run-now", "1", "--force"]):
            with self.subTest(words=words):
                done = self.retry(*words, expect=suite.USAGE)
                self.assertIn("tallybox retry: ", done.stderr)
        self.assertIn("did you mean list", self.retry("lits", expect=suite.USAGE).stderr)
        self.retry("list", expect=suite.UNAVAILABLE,
                   sets={"mysql.port": 1, "mysql.connect_timeout_ms": 500})


class Documented(RetryCase):
    """What RETRY.md says can be done as it stands there."""

    def test_the_insert_of_the_page_makes_a_task(self):
        page = (suite.ROOT / "RETRY.md").read_text()
        insert = page.split("```sql", 1)[1].split("```", 1)[0]
        insert = insert[insert.index("INSERT"):insert.index("COMMIT")].strip().rstrip(";")
        self.stack.sql(insert)
        self.assertEqual(len(self.ids("list", "--biz-no", "815", "--key", "customer/4711")), 1)
        with self.assertRaises(pymysql.err.IntegrityError) as caught:
            self.stack.sql(insert)
        self.assertEqual(caught.exception.args[0], 1062)
        again = f"{insert} ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(retry_task.id)"
        self.stack.sql(again)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1)

    def test_the_tables_of_words_need_no_database(self):
        for words, said in ((("scene", "fields"), "max_pending"), (("scene", "waits"), "rocketmq"),
                            (("scene", "presets"), "publish-week"), (("handlers",), "kafka")):
            done = self.retry(*words, sets={"mysql.port": 1})
            self.assertIn(f"`{said}`", done.stdout)


class Deciding(RetryCase):
    """run-now, cancel, unpark and requeue, each of them twice."""

    def test_what_waits_runs_now(self):
        task = self.task(next_at="2099-01-01", attempts=3)
        self.assertEqual(self.row(task), (WAITING, 3, 0))
        for _ in range(2):
            self.assertEqual(self.read("run-now", task)["done"], 1)
            self.assertEqual(self.row(task), (WAITING, 3, 1))

    def test_what_is_blocked_is_tried_again_before_its_key_goes_on(self):
        head, after = self.key_of("b", BLOCKED, QUEUED)
        self.assertEqual(self.read("run-now", head)["done"], 1)
        self.assertEqual((self.row(head), self.row(after)[0]), ((WAITING, 0, 1), QUEUED))
        self.assertEqual(self.read("run-now", head)["done"], 1)

    def test_what_cannot_run_now_says_why(self):
        running, queued = self.key_of("r", RUNNING, QUEUED)
        ended = self.task()
        self.end(ended)
        done = self.read("run-now", running, queued, ended, 10 ** 12, expect=suite.FAILED)
        self.assertEqual([one["outcome"] for one in done["tasks"]],
                         ["running", "unfit", "ended", "unknown"])
        text = self.retry("run-now", running, queued, ended, 10 ** 12, expect=suite.FAILED).stdout
        for word in ("is running", "until its key goes on", "history", "no such task"):
            self.assertIn(word, text)
        self.assertEqual((self.row(running)[0], self.row(queued)[0]), (RUNNING, QUEUED))

    def test_a_cancelled_head_lets_its_key_go_on(self):
        for state in (WAITING, BLOCKED):
            with self.subTest(state=STATES[state]):
                head, second, third = self.key_of(f"c{state}", state, QUEUED, QUEUED)
                self.assertEqual(self.read("cancel", head)["done"], 1)
                self.assertEqual(self.outcome(head)[0], "cancelled")
                self.assertIn("@", self.outcome(head)[1])
                self.assertIsNone(self.row(head))
                self.assertEqual((self.row(second), self.row(third)[0]),
                                 ((WAITING, 0, 1), QUEUED))
                self.assertEqual(self.read("cancel", head)["ended"], 1)
                self.assertEqual(self.row(third)[0], QUEUED)

    def test_an_action_on_an_ended_task_succeeds_if_the_task_is_as_asked_for(self):
        done, exhausted, cancelled = (self.task() for _ in range(3))
        for task, outcome in ((done, "done"), (exhausted, "exhausted"), (cancelled, "cancelled")):
            self.end(task, outcome)
        for words, left in (((["cancel"]), {"done", "exhausted"}),
                            ((["run-now"]), {"done", "exhausted", "cancelled"}),
                            ((["unpark", "--id"]), set()),
                            ((["unpark", "--skip", "--id"]), {"done"})):
            for task, outcome in ((done, "done"), (exhausted, "exhausted"), (cancelled, "cancelled")):
                with self.subTest(words=words, outcome=outcome):
                    code = suite.FAILED if outcome in left else suite.DONE
                    text = self.retry(*words, task, expect=code).stdout
                    self.assertIn(f"has ended as {outcome} and stays so" if outcome in left
                                  else f"has ended before, as {outcome}", text)
                    one = self.read(*words, task, expect=code)
                    self.assertEqual((one["ended"], one["tasks"][0]["ended"]), (1, outcome))

    def test_a_cancelled_one_in_the_middle_wakes_nobody(self):
        head, second, third = self.key_of("m", BLOCKED, QUEUED, QUEUED)
        self.retry("cancel", second)
        self.assertEqual((self.row(head)[0], self.row(second), self.row(third)[0]),
                         (BLOCKED, None, QUEUED))

    def test_what_runs_is_cancelled_by_force_alone(self):
        head, after = self.key_of("f", RUNNING, QUEUED)
        done = self.read("cancel", head, expect=suite.FAILED)
        self.assertEqual(done["running"], 1)
        self.assertEqual(self.row(head)[0], RUNNING)
        self.assertEqual(self.read("cancel", "--key", "f", "--state", "running", "--yes",
                                   expect=suite.FAILED)["running"], 1)
        self.assertEqual(self.read("cancel", head, "--force")["done"], 1)
        self.assertEqual((self.row(head), self.row(after)[0]), (None, WAITING))

    def test_a_parked_one_is_not_cancelled(self):
        head, after = self.key_of("p", PARKED, QUEUED)
        self.assertEqual(self.read("cancel", head, expect=suite.FAILED)["unfit"], 1)
        self.assertEqual((self.row(head)[0], self.row(after)[0]), (PARKED, QUEUED))

    def test_a_blocked_key_is_unparked(self):
        head, after = self.key_of("u", BLOCKED, QUEUED)
        self.assertEqual(self.read("unpark", "u")["done"], 1)
        self.assertEqual((self.row(head), self.row(after)[0]), ((WAITING, 0, 1), QUEUED))
        done = self.retry("unpark", "u", expect=suite.FAILED)
        self.assertIn(f"task {head} is waiting: tallybox retry run-now {head}", done.stderr)
        self.assertEqual(self.read("unpark", "--id", head)["was_so"], 1)

    def test_a_key_with_a_blank_at_its_end_is_another_key(self):
        other, = self.key_of("u ", BLOCKED)
        self.assertEqual(self.retry("unpark", "u", expect=suite.FAILED).returncode, suite.FAILED)
        self.assertEqual(self.row(other)[0], BLOCKED)
        self.assertEqual(self.read("unpark", "u ")["done"], 1)
        self.assertEqual(self.row(other)[0], WAITING)

    def paste(self, hint, *more):
        """Runs a command as the shell takes it."""
        return subprocess.run(["sh", "-c", hint.replace("tallybox retry", f"{suite.BINARY} retry "
                                                        f"--config {self.stack.ini}")
                               + " ".join(more)], capture_output=True, text=True, timeout=60,
                              check=True, env=suite.clean_environment()).stdout

    def test_a_hint_is_a_command_that_the_shell_takes(self):
        for number, key in enumerate(("plain/7", "two words", "it's; echo $HOME", "-x", "\u00e4 *",
                                      "a\tb\x1b")):
            with self.subTest(key=key):
                self.stack.sql("DELETE FROM retry_task")
                head, = self.key_of(key, PARKED)
                done = self.retry("run-now", "--key", key, "--yes", expect=suite.FAILED)
                hint = re.search(r"(tallybox retry unpark .*) continues its key", done.stderr)[1]
                self.assertEqual("'" in hint, number not in (0, 5))
                self.paste(hint)
                self.assertIsNone(self.row(head))
                head, = self.key_of(key, RUNNING)
                self.key_of(key, QUEUED, biz_no="after")
                done = self.retry("run-now", "--biz-no", "after", "--yes", expect=suite.FAILED)
                hint = re.search(r"see (tallybox retry list .*)", done.stderr)[1]
                self.assertEqual(json.loads(self.paste(hint, " --json"))["tasks"][0]["id"], head)

    def test_a_parked_key_drains_when_it_is_unparked(self):
        head, second, third = self.key_of("d", PARKED, QUEUED, QUEUED)
        other = self.key_of("other", PARKED)[0]
        self.assertEqual(self.read("unpark", "d")["done"], 1)
        self.assertEqual((self.row(head), self.row(second)[0], self.row(third)[0]),
                         (None, WAITING, QUEUED))
        self.assertEqual(self.read("unpark", "d", expect=suite.FAILED)["matched"], 0)
        self.assertEqual(self.row(third)[0], QUEUED)
        self.assertEqual(self.row(other)[0], PARKED)

    def test_a_blocked_head_is_skipped(self):
        head, after = self.key_of("s", BLOCKED, QUEUED)
        self.assertEqual(self.read("unpark", "s", "--skip")["done"], 1)
        self.assertEqual((self.outcome(head)[0], self.row(after)[0]), ("cancelled", WAITING))
        self.assertEqual(self.read("unpark", "s", "--skip", expect=suite.FAILED)["matched"], 0)

    def test_nothing_to_do_is_a_failure_that_says_what_to_use(self):
        parked, queued = self.key_of("n", PARKED, QUEUED)
        running = self.key_of("order/7", RUNNING)[0]
        alone = self.task()
        for words, said in (
                (["unpark", "nobody"], "tallybox retry list --state blocked,parked"),
                (["unpark", "--key", "nobody"], "tallybox retry list --state blocked,parked"),
                (["unpark", running], f"task {running} has the key order/7"),
                (["unpark", alone], f"tallybox retry run-now {alone}"),
                (["unpark", "order/7"], f"task {running} is running"),
                (["run-now", "--key", "n"], f"task {parked} is parked: tallybox retry unpark n"),
                (["cancel", "--key", "order/7"], "--force"),
                (["cancel", "--scene", "nobody"], "tallybox retry list"),
                (["requeue", "--scene", "nobody"], "tallybox retry history")):
            with self.subTest(words=words):
                done = self.retry(*words, expect=suite.FAILED)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual([self.row(one)[0] for one in (parked, queued, running, alone)],
                         [PARKED, QUEUED, RUNNING, WAITING])
        self.assertEqual(self.read("requeue", "--all", "--yes")["matched"], 0)

    def test_a_key_is_one_of_its_group(self):
        mine = self.key_of("k", BLOCKED, task_group="a")[0]
        theirs = self.key_of("k", BLOCKED, task_group="b")[0]
        self.retry("unpark", "k", "--group", "a")
        self.assertEqual((self.row(mine)[0], self.row(theirs)[0]), (WAITING, BLOCKED))

    def test_an_ended_one_is_requeued_once(self):
        task = self.task(biz_no="B-7", options='{"a": 1}', ordering_key="q", attempts=6)
        self.end(task)
        done = self.read("requeue", task)
        new = done["tasks"][0]["task"]
        self.assertEqual((done["done"], self.row(new)), (1, (WAITING, 0, 1)))
        rows = self.stack.sql("SELECT parent_id, biz_no, options, ordering_key, params FROM "
                              "retry_task WHERE id = %s", [new])
        self.assertEqual(rows[0], (task, "B-7", '{"a": 1}', "q", b'{"n": 1}'))
        again = self.read("requeue", task)
        self.assertEqual((again["was_so"], again["tasks"][0]["task"]), (1, new))
        self.assertIn(f"as {new}", self.retry("requeue", task).stdout)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1)
        self.assertEqual(self.read("requeue", "--all", "--yes")["matched"], 0)
        self.assertEqual(self.read("requeue", 10 ** 12, expect=suite.FAILED)["unknown"], 1)

    def test_an_ended_one_is_requeued_with_corrected_content(self):
        self.retry("group", "set", "default", "--handlers", "http,exec,steps,kafka", "--topics", "*")
        task = self.task(handler="http", options='{"url": "http://typo.example.org/"}', attempts=6)
        self.end(task)
        params = self.stack.folder / "corrected.json"
        params.write_bytes(b'{"n": 2}')
        text = self.retry("requeue", task, "--options", '{"uri": "http://right.example.org/"}',
                          expect=suite.USAGE).stderr
        self.assertIn("nothing was changed", text)
        done = self.read("requeue", task, "--options", '{"url": "http://right.example.org/"}',
                         "--params", params, "--reason", "the host was mistyped")
        self.assertEqual((done["id"], done["outcome"]), (task, "requeued"))
        self.assertEqual(self.stack.sql(
            "SELECT id, parent_id, options, params, attempts FROM retry_task"),
            [(done["task"], task, '{"url": "http://right.example.org/"}', b'{"n": 2}', 0)])
        again = self.read("requeue", task, "--no-params", expect=suite.FAILED)
        self.assertEqual((again["outcome"], again["task"]), ("was_so", done["task"]))
        self.assertEqual(self.read("requeue", 10 ** 12, "--no-params",
                                   expect=suite.FAILED)["outcome"], "unknown")
        self.assertIn("requeue takes one ID", self.retry(
            "requeue", "--all", "--yes", "--no-params", expect=suite.USAGE).stderr)

    def test_a_cancelled_one_has_its_callback(self):
        self.retry("scene", "set", "work", "--wait", 0, "--policy",
                   '{"on_cancelled": {"scene": "told", "handler": "http"}}')
        self.addCleanup(self.stack.sql, "DELETE FROM retry_scene")
        head, second = self.key_of("cb", BLOCKED, QUEUED, biz_no="B-1", scene="work", traceparent="t")
        silent = self.task(scene="other")
        self.retry("cancel", silent)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE parent_id > 0"), 0)
        self.retry("cancel", second, "--reason", "it's a test")
        self.retry("unpark", "cb", "--skip")
        rows = self.stack.sql("SELECT parent_id, task_group, scene, handler, idempotency_key, origin, "
                              "traceparent, params FROM retry_task WHERE parent_id > 0 ORDER BY id")
        self.assertEqual([row[:7] for row in rows], [
            (one, "default", "told", "http", f"callback/{one}/cancelled", "client", "t")
            for one in (second, head)])
        told = json.loads(rows[0][7])
        by = told.pop("by")
        self.assertIn("@", by)
        self.assertTrue(told.pop("idempotencyKey"))
        self.assertEqual(told, {
            "taskId": second, "group": "default", "scene": "work", "bizNo": "B-1",
            "orderingKey": "cb", "outcome": "cancelled", "attempts": told["attempts"],
            "reasonClass": told["reasonClass"], "reason": "it's a test",
            "paramsType": "application/json", "params": {"n": 1}, "result": None})
        # Once: what is cancelled has ended.
        self.assertEqual(self.read("cancel", second)["ended"], 1)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE parent_id > 0"), 2)

    def test_what_is_active_again_is_not_requeued_beside_it(self):
        task = self.task(idempotency_key="one")
        self.end(task)
        active = self.task(idempotency_key="one")
        done = self.read("requeue", task, expect=suite.FAILED)
        self.assertEqual((done["active"], done["tasks"][0]["task"]), (1, active))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), 1)
        self.retry("cancel", active)
        self.assertEqual(self.read("requeue", task)["done"], 1)

    def test_what_has_not_ended_is_edited_and_stays_in_its_state(self):
        options = '{"url": "http://x/"}'
        for state in (WAITING, QUEUED, BLOCKED):
            with self.subTest(state=STATES[state]):
                task = self.key_of(f"e{state}", state)[0]
                for _ in range(2):
                    done = self.retry("edit", task, "--params", "-", "--options", options,
                                      stdin=b"\x00 new")
                    self.assertIn("is edited", done.stdout)
                rows = self.stack.sql("SELECT state, params, options FROM retry_task WHERE id = %s",
                                      [task])
                self.assertEqual(rows[0], (state, b"\x00 new", options))
        self.retry("scene", "set", "mail", "--options", options)
        self.assertEqual(self.read("edit", task, "--options", "")["outcome"], "edited")
        rows = self.stack.sql("SELECT params, options FROM retry_task WHERE id = %s", [task])
        self.assertEqual(rows[0], (b"\x00 new", None))
        self.retry("edit", task, "--headers", '{"x": "y"}')
        shown = self.read("show", task)
        self.assertEqual(json.loads(shown["task"]["options"]), {"headers": {"x": "y"}})
        self.assertEqual([(one["outcome"], one["reason"]) for one in shown["attempts"]],
                         [("edited", "params, options")] * 2 + [("edited", "options"),
                                                                ("edited", "headers")])
        self.assertIn("edited", self.retry("show", task).stdout)

    def test_an_edit_keeps_the_idempotency_key_of_a_task(self):
        """Without a key of its own, calls carry the hash of what the task did when it was made."""
        sent = ("SELECT COALESCE(idempotency_key, LOWER(HEX(task_hash))) FROM retry_task "
                "WHERE id = %s")
        task = self.key_of("ik", BLOCKED, options='{"url": "http://x/"}')[0]
        self.stack.sql("UPDATE retry_task SET idempotency_key = NULL WHERE id = %s", [task])
        before = self.stack.sql(sent, [task])
        for number in range(2):
            self.retry("edit", task, "--params", "-", stdin=b"%d" % number)
            self.assertEqual(self.stack.sql(sent, [task]), before)
        self.retry("unpark", "ik")
        self.assertEqual(self.stack.sql(sent, [task]), before)
        named = self.task(options='{"url": "http://x/"}', idempotency_key="mine")
        self.retry("edit", named, "--no-params")
        self.assertEqual(self.stack.sql(sent, [named]), [("mine",)])
        # A requeued task keeps the key, too.
        self.retry("cancel", task)
        again = self.read("requeue", task)["tasks"][0]["task"]
        self.assertEqual(self.stack.sql(sent, [again]), before)

    def test_what_cannot_be_edited_says_why_and_stays(self):
        ended = self.task()
        self.end(ended)
        tasks = {"running": self.key_of("er", RUNNING)[0], "parked": self.key_of("ep", PARKED)[0],
                 "ended": ended, "unknown": 10 ** 12}
        for outcome, task in tasks.items():
            with self.subTest(outcome=outcome):
                done = self.read("edit", task, "--options", "{}", expect=suite.FAILED)
                self.assertEqual((done["id"], done["outcome"]), (task, outcome))
                self.retry("edit", task, "--options", "{}", expect=suite.FAILED)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE options = '{}'"),
                         0)

    def test_an_edit_that_makes_no_sense_changes_nothing(self):
        task, other = self.task(), self.task()
        self.retry("scene", "set", "mail", "--options", '{"url": "http://x/"}')
        self.stack.sql("UPDATE retry_task SET idempotency_key = NULL, params = id")
        for words in (("--options", "[1]"), ("--options", "{"), ("--options", "x" * 70000),
                      ("--options", "@/nowhere"), ("--params", "/nowhere"),
                      ("--options", '{"a": 1}'), ("--headers", '{"a": 1}'),
                      ("--headers", "[["), ("--headers", "/nowhere")):
            with self.subTest(words=words):
                done = self.retry("edit", task, *words, expect=None)
                self.assertIn(done.returncode, (suite.FAILED, suite.USAGE))
                self.assertIn("tallybox", done.stderr)
        done = self.retry("edit", task, "--params", "-", stdin=str(other).encode(),
                          expect=suite.USAGE)
        self.assertIn("another active task", done.stderr)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task WHERE params = id AND "
                                           "options IS NULL"), 2)

    def test_parameters_that_no_record_can_have_are_refused(self):
        options = json.dumps({"topic": "t", "key": "k" * 20})
        task = self.task(handler="kafka", options=options, params=b"old")
        self.stack.sql("UPDATE retry_group SET topics = '*' WHERE name = 'default'")
        self.addCleanup(self.stack.sql, "UPDATE retry_group SET topics = '' WHERE name = 'default'")
        done = self.retry("edit", task, "--params", "-", stdin=b"x" * 1981, expect=suite.USAGE,
                          sets={"relay.row_bytes_max": 2000})
        self.assertIn("key and value have 2001 bytes, relay.row_bytes_max is 2000", done.stderr)
        self.retry("edit", task, "--params", "-", stdin=b"x" * 1980,
                   sets={"relay.row_bytes_max": 2000})
        self.assertEqual(self.stack.number("SELECT LENGTH(params) FROM retry_task"), 1980)

    def test_parameters_can_be_removed(self):
        """An event without a payload is a tombstone; one with an empty payload is none."""
        task = self.task(options='{"url": "http://x/"}')
        self.retry("edit", task, "--params", "-", stdin=b"")
        self.assertEqual(self.stack.sql("SELECT params FROM retry_task"), [(b"",)])
        self.retry("edit", task, "--no-params")
        self.assertEqual(self.stack.sql("SELECT params FROM retry_task"), [(None,)])
        self.assertEqual([one["reason"] for one in self.read("show", task)["attempts"]],
                         ["params", "no params"])
        self.retry("edit", task, "--no-params", "--params", "-", stdin=b"x", expect=suite.USAGE)
        self.retry("edit", task, "--no-params", "--options", '{"url": "http://y/"}')
        self.assertEqual(self.stack.sql("SELECT params, options FROM retry_task"),
                         [(None, '{"url": "http://y/"}')])
        self.retry("edit", task, "--headers", '{"x": "y"}')
        self.assertEqual(self.stack.sql("SELECT params FROM retry_task"), [(None,)])

    def test_many_are_asked_for_and_told(self):
        tasks = [self.task(scene="bulk", next_at="2099-01-01") for _ in range(250)]
        other = self.task(next_at="2099-01-01")
        done = self.retry("run-now", "--scene", "bulk", expect=suite.USAGE, stdin=b"y\n")
        self.assertIn("250 tasks match", done.stderr)
        self.assertIn("use --yes to run them now\n", done.stderr)
        self.assertEqual(self.row(tasks[0])[2], 0)
        self.assertEqual(self.read("run-now", "--scene", "bulk", "--limit", 10, "--yes")["done"],
                         10)
        self.assertEqual(self.read("run-now", "--scene", "bulk", "--yes")["done"], 250)
        self.assertEqual((self.row(tasks[-1])[2], self.row(other)[2]), (1, 0))
        self.assertIn("251 cancelled", self.retry("cancel", "--all", "--yes").stdout)
        self.assertIn("no task matches", self.retry("cancel", "--all", "--yes").stdout)
        self.assertEqual(self.read("requeue", "--scene", "bulk", "--yes")["done"], 250)
        words = " ".join([suite.BINARY, "retry", "cancel", "--all", "--config",
                          str(self.stack.ini)])
        for answer, left, code in ((b"n\n", 250, 1), (b"y\n", 0, 0)):
            asked = subprocess.run(["script", "-qec", words, "/dev/null"], input=answer,
                                   capture_output=True, timeout=60, check=False)
            self.assertIn(b"250 tasks match", asked.stdout)
            self.assertEqual(asked.returncode, code, asked.stdout)
            self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_task"), left)

    def test_an_action_waits_for_a_claim_and_sees_what_it_did(self):
        head, after = self.key_of("w", WAITING, QUEUED)
        claim = suite.connect(self.stack.name)
        self.addCleanup(claim.close)
        claim.begin()
        with claim.cursor() as cursor:
            cursor.execute("SELECT id FROM retry_task WHERE id = %s FOR UPDATE", [head])
            cursor.execute("UPDATE retry_task SET state = 1, epoch = epoch + 1 WHERE id = %s",
                           [head])
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            self.retry("cancel", head, "--json", expect=None)))
        thread.start()
        # The server answers from its cache when it is asked more often than each 0.1 s.
        suite.wait_for("the cancel to wait", lambda: self.stack.number(
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"),
            every=0.3)
        claim.commit()
        thread.join(60)
        self.assertEqual(json.loads(answers[0].stdout)["running"], 1)
        self.assertEqual((self.row(head)[0], self.row(after)[0]), (RUNNING, QUEUED))

    def test_an_action_passes_by_what_is_held_elsewhere(self):
        held, free = self.task(), self.task()
        claim = suite.connect(self.stack.name)
        self.addCleanup(claim.close)
        claim.begin()
        with claim.cursor() as cursor:
            cursor.execute("SELECT id FROM retry_task WHERE id = %s FOR UPDATE", [held])
        self.assertEqual(self.read("cancel", free)["done"], 1)
        self.assertEqual(self.ids("list"), [held])


class Audit(RetryCase):
    """`retry audit`: every action that changes something has a row."""

    def actions(self, *arguments):
        return self.read("audit", *arguments)["actions"]

    def test_each_action_has_its_row(self):
        waiting = self.task(ordering_key="k", next_at="2100-01-01",
                            options='{"url": "http://billing.example.org/"}')
        self.retry("run-now", waiting, "--reason", "the customer can't wait")
        blocked, = self.key_of("b", BLOCKED)
        self.retry("unpark", "b")
        self.retry("edit", waiting, "--no-params")
        self.retry("edit", waiting, "--options", '{"uri": 1}', expect=suite.USAGE)
        self.retry("cancel", "--scene", "mail", "--group", "default", "--yes")
        self.retry("requeue", blocked)
        self.retry("group", "set", "audited", "--handlers", "http")
        self.retry("group", "disable", "audited")
        self.retry("pause", "mail", "--wait", 0, "--reason", "maintenance")
        self.retry("pause", "mail", "--wait", 0)
        self.retry("resume", "mail", "--wait", 0)
        self.retry("scene", "set", "mail", "--wait", 0, "--policy", '{"attempts": 2}')
        self.retry("scene", "set", "mail", "--policy", '{"atempts": 2}', expect=suite.USAGE)
        rows = self.actions()
        self.assertEqual([(one["action"], one["group"], one["scene"], one["what"], one["why"],
                           one["changed"]) for one in rows], [
            ("run-now", "", "", f"id={waiting}", "the customer can't wait", 1),
            ("unpark", "", "", "key=b", "", 1),
            ("edit", "", "", f"id={waiting} params=none", "", 1),
            ("edit", "", "", f"id={waiting} options=given", "", 0),
            ("cancel", "default", "mail", "", "", 2),
            ("requeue", "", "", f"id={blocked}", "", 1),
            ("group set", "audited", "", "handlers=http", "", 1),
            ("group disable", "audited", "", "", "", 1),
            ("pause", "default", "mail", "", "maintenance", 1),
            ("pause", "default", "mail", "", "", 0),
            ("resume", "default", "mail", "", "", 1),
            ("scene set", "default", "mail", 'policy={"attempts": 2}', "", 1),
            ("scene set", "default", "mail", 'policy={"atempts": 2}', "", 0)])
        self.assertEqual({one["via"] for one in rows}, {"shell"})
        self.assertEqual(len({one["by"] for one in rows}), 1)
        text = self.retry("audit").stdout
        self.assertIn("cancel default/mail  changed 2", text)
        self.assertIn("changed 1: the customer can't wait", text)

    def test_rows_are_found_page_by_page(self):
        for number in range(5):
            self.task(scene="mail")
            self.retry("cancel", "--scene", "mail" if number % 2 else "other", "--all", expect=suite.USAGE)
            self.retry("cancel", "--scene", "mail" if number % 2 else "other", "--yes",
                       expect=suite.DONE if number % 2 else suite.FAILED)
        # An action that finds no task has begun nothing.
        self.assertEqual(len(self.actions()), 2)
        self.retry("pause", "other", "--wait", 0)
        first = self.read("audit", "--limit", 1)
        self.assertTrue(first["more"])
        self.assertEqual([one["action"] for one in self.actions("--after", first["after"])],
                         ["cancel", "pause"])
        self.assertEqual([one["action"] for one in self.actions("--scene", "other")], ["pause"])
        self.assertEqual(self.actions("--by", "nobody"), [])
        self.assertEqual(self.actions("--until", "1h"), [])
        self.assertEqual(len(self.actions("--since", "1h", "--group", "default")), 1)

    def test_without_its_row_no_action_begins(self):
        task = self.task()
        self.stack.sql("RENAME TABLE retry_audit TO retry_audit_away")
        try:
            for action in (("cancel", task), ("edit", task, "--no-params"), ("pause", "mail")):
                text = self.retry(*action, expect=suite.FAILED).stderr
                self.assertIn("the audit cannot be written, nothing was changed", text)
        finally:
            self.stack.sql("RENAME TABLE retry_audit_away TO retry_audit")
        self.assertEqual(self.row(task)[0], WAITING)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_scene"), 0)


class Status(RetryCase):
    """The lane's part of `tallybox status`."""

    def status(self):
        return json.loads(self.stack.tallybox("status", "--json").stdout)["retry"]

    def test_the_lane_is_counted(self):
        self.assertEqual(self.status()["oldest_due_age_ms"], None)
        self.key_of("s", BLOCKED, QUEUED, QUEUED)
        self.key_of("p", PARKED)
        self.task(next_at="2020-01-01")
        self.retry("pause", "mail")
        found = self.status()
        self.assertEqual(found["tasks"], {"waiting": 1, "running": 0, "queued": 2, "blocked": 1,
                                          "parked": 1})
        self.assertGreater(found["oldest_due_age_ms"], 10 ** 9)
        self.assertEqual((found["error"], found["paused_scenes"]), (None, ["default/mail"]))
        text = self.stack.tallybox("status").stdout
        for word in ("2 keys wait for an operator", "scene default/mail is paused", "no process"):
            self.assertIn(word, text)

    def test_one_thread_isolates_nothing(self):
        self.assertTrue(self.status()["scenes_isolated"])
        self.assertNotIn("isolation", self.stack.tallybox("status").stdout)
        text = self.stack.tallybox("status", sets={"retry.threads": 1}).stdout
        self.assertIn("isolation of scenes is off", text)


class Scenes(RetryCase):
    """Policies, and scenes that are paused."""

    def scene(self, name="mail"):
        return self.read("scene", "show", name)

    def test_a_scene_is_paused_and_goes_on(self):
        self.assertEqual(self.scene()["version"], 0)
        for _ in range(2):
            self.retry("pause", "mail")
            self.assertEqual((self.scene()["paused"], self.scene()["version"]), (True, 1))
        self.assertIn("scene default/mail is paused", self.retry("list").stdout)
        for _ in range(2):
            self.retry("resume", "mail")
            self.assertEqual((self.scene()["paused"], self.scene()["version"]), (False, 2))
        self.retry("resume", "never")
        self.assertEqual(len(self.read("scene", "list")["scenes"]), 1)

    def test_a_policy_is_checked_and_written(self):
        policy = '{"wait": "fixed 30s", "attempts": 5}'
        for _ in range(2):
            self.retry("scene", "set", "mail", "--policy", policy)
            self.assertEqual((self.scene()["policy"], self.scene()["version"]), (policy, 1))
        self.retry("scene", "set", "mail", "--options", "@-", stdin=b'{"url": "http://x/"}')
        self.assertEqual((self.scene()["policy"], self.scene()["options"], self.scene()["version"]),
                         (policy, '{"url": "http://x/"}', 2))
        for words, said in ((["--policy", '{"wait": "soon"}'], "wait"),
                            (["--policy", '{"attemps": 1}'], "attemps"),
                            (["--policy", "[]"], "JSON object"), (["--policy", "{"], "line 1"),
                            (["--options", "[1]"], "JSON object"),
                            (["--options", "@/no/such/file"], "No such file")):
            with self.subTest(words=words):
                done = self.retry("scene", "set", "mail", *words, expect=None)
                self.assertIn(done.returncode, (suite.USAGE, suite.FAILED))
                self.assertIn(said, done.stderr)
                self.assertEqual(self.scene()["version"], 2)
        self.retry("scene", "set", "mail", "--policy", "preset:publish-week")
        self.assertIn('"deadline": "7d"', self.retry("scene", "show", "mail").stdout)
        done = self.retry("scene", "set", "mail", "--policy", "preset:never", expect=None)
        self.assertEqual(done.returncode, suite.USAGE)
        self.assertIn("there is no policy preset", done.stderr)
        done = self.retry("scene", "set", "mail", "--policy", "preset:publsh", expect=None)
        self.assertIn('there is no policy preset "publsh"; did you mean "publish"?', done.stderr)
        self.retry("scene", "set", "mail", "--policy", "", "--options", "")
        self.assertEqual((self.scene()["policy"], self.scene()["options"]), (None, None))

    def test_rubbish_that_somebody_wrote_is_told(self):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES "
                       "('default', 'mail', '{\"wait\": 7}')")
        self.assertIn("wait", self.scene()["fault"])
        for words in (["list"], ["scene", "list"], ["scene", "show", "mail"],
                      ["show", self.task()]):
            self.assertIn('policy field "wait"', self.retry(*words).stdout, words)


if __name__ == "__main__":
    unittest.main()
