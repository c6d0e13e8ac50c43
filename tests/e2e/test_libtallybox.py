# SPDX-License-Identifier: MIT
"""libtallybox as an application has it: installed into a folder of its own, found by pkg-config, and
linked by the programs of docs/clients/c on real servers."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import accounts  # noqa: E402
import page_files  # noqa: E402
import suite  # noqa: E402

FOLDER = suite.ROOT / "docs" / "clients"
BUILD = pathlib.Path(suite.BINARY).parent
TOKEN = "token-of-the-application-with-tasks"
SECONDS = 120
STRICT = "-Wall -Wextra -Werror -Wpedantic"

HEADERS_TWICE = """
#include <tallybox/retry_handler.h>
#include <tallybox/task.h>
#include <tallybox/outbox.h>
#include <tallybox/task.h>
#include <tallybox/outbox.h>
int main(void)
{
    struct tallybox_event event = struct_of_zeros;
    struct tallybox_error error;
    return tallybox_outbox_check(&event, 1, &error) == TALLYBOX_REJECT &&
                   tallybox_version()[0] != 0
               ? 0
               : 1;
}
"""

# lanes COUNT: appends an event to an outbox of so many lanes, and prints the database afterwards.
LANES = """
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <tallybox/outbox.h>
int main(int argc, char **argv)
{
    const struct tallybox_event event = {.aggregate_type = "a", .aggregate_id = "7", .type = "t"};
    struct tallybox_error error = {0};
    MYSQL *mysql = mysql_init(NULL);
    MYSQL_RES *rows;
    enum tallybox_result result;
    if (argc != 2 ||
        !mysql_real_connect(mysql, getenv("DB_HOST"), getenv("DB_USER"), getenv("DB_PASSWORD"),
                            getenv("DB_NAME"), (unsigned)atoi(getenv("DB_PORT")), NULL, 0) ||
        mysql_query(mysql, "START TRANSACTION"))
        return 9;
    result = tallybox_outbox_append_lanes(mysql, getenv("OUTBOX_DB"), (size_t)atoi(argv[1]), &event,
                                          1, &error);
    fprintf(stderr, "%s", error.text);
    if (mysql_query(mysql, "SELECT DATABASE()"))
        return 9;
    rows = mysql_store_result(mysql);
    printf("%s", mysql_fetch_row(rows)[0]);
    mysql_free_result(rows);
    mysql_query(mysql, result == TALLYBOX_OK ? "COMMIT" : "ROLLBACK");
    mysql_close(mysql);
    mysql_library_end();
    return (int)result;
}
"""


def setUpModule():
    """One installation for all classes of this process."""
    global PREFIX  # pylint: disable=global-statement
    PREFIX = suite.run().folder / "libtallybox"
    execute(["cmake", "--install", str(BUILD), "--prefix", str(PREFIX)])


def execute(words, expect=0, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False,
                          **options)
    if done.returncode != expect:
        raise AssertionError(f"{words} ended with {done.returncode} instead of {expect}\n"
                             f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def cached(expression):
    """What CMake found, or None."""
    found = re.search(expression, (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found and found[1]


def environment(**more):
    """With the files for pkg-config of the installation, and of Oracle's library that the build has
    in a folder of its own."""
    folders = [str(path) for path in PREFIX.rglob("pkgconfig")]
    library = cached(r"^pkgcfg_lib_mysqlclient_mysqlclient:FILEPATH=(\S+)$")
    if library:
        folders.append(str(pathlib.Path(library).parent / "pkgconfig"))
    folders += os.environ.get("PKG_CONFIG_PATH", "").split(":")
    return suite.clean_environment(PKG_CONFIG_PATH=":".join(filter(None, folders)), **more)


def sanitizer():
    """An archive with a sanitizer's calls needs it in each program."""
    kind = cached(r"^TALLYBOX_SANITIZE:STRING=(\S+)$")
    return f" -fsanitize={kind}" if kind else ""


def make_runnable(path):
    """A program with Oracle's library runs under the libc of that library, as tallybox does."""
    if not suite.BINARY.endswith("/tallybox-run"):
        return
    linked = path.with_suffix(".linked")
    path.rename(linked)
    path.write_text(f'#!/bin/sh\nTALLYBOX_BESIDE="{linked}" exec "{suite.BINARY}" "$@"\n')
    path.chmod(0o700)


def build(command, folder):
    """A command of a page: its sources are those of docs/clients, its program is made in folder."""
    name = re.search(r"-o (\S+)", command)[1]
    command = command.replace(f"-o {name}", f"-g {STRICT}{sanitizer()} -o {folder / name}")
    execute(["bash", "-ec", command], cwd=FOLDER, env=environment())
    make_runnable(folder / name)


class Programs(suite.Case):
    """The programs of docs/clients/c, built as its page says."""

    programs = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        page = page_files.files((FOLDER / "README.md").read_text(encoding="utf-8"))
        for command in page["build_c.sh"].splitlines():
            if re.search(r"-o (\S+)", command)[1] in cls.programs:
                build(command, cls.stack.folder)

    def launch(self, program, *words, stdin=subprocess.DEVNULL, env=None):
        name = self.stack.folder / f"{self._testMethodName}-{program}"
        with open(f"{name}.out", "wb") as out, open(f"{name}.err", "wb") as err:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(self.stack.folder / program),
                 *map(str, words)], stdin=stdin, stdout=out, stderr=err,
                env=environment(**(env or {})))
        process.output = lambda kind="out": pathlib.Path(f"{name}.{kind}").read_text("utf-8")
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()

    def ended(self, process, code=0):
        self.assertEqual(process.wait(SECONDS), code, process.output() + process.output("err"))
        return process.output()


class Package(unittest.TestCase):
    """What is installed: headers for C and C++, archives that show their own names only, and files
    for pkg-config that may be moved."""

    any_database = True

    def test_the_headers_are_for_c_and_for_cpp(self):
        folder = suite.run().folder
        flags = self.flags("--cflags", "--libs", "tallybox")
        for compiler, standard, ending, zeros in (
                ("cc", "-std=c11", "c", "{0}"), ("cc", "-std=gnu17", "c", "{0}"),
                ("c++", "-std=c++11", "cpp", "{}"), ("c++", "-std=c++20", "cpp", "{}")):
            with self.subTest(f"{compiler} {standard}"):
                source = folder / f"headers.{ending}"
                source.write_text(HEADERS_TWICE.replace("struct_of_zeros", zeros))
                words = f"{compiler} {standard} {STRICT} -Wno-missing-field-initializers"
                execute([*words.split(), *sanitizer().split(), str(source), *flags, "-o",
                         str(folder / "headers")])
                make_runnable(folder / "headers")
                execute([str(folder / "headers")])

    @staticmethod
    def flags(*words, **options):
        return execute(["pkg-config", *words], env=environment(), **options).stdout.split()

    def test_a_moved_installation_is_found_where_it_is(self):
        moved = suite.run().folder / "moved"
        execute(["cp", "-r", str(PREFIX), str(moved)])
        path, = moved.rglob("tallybox.pc")
        env = environment()
        env["PKG_CONFIG_PATH"] = env["PKG_CONFIG_PATH"].replace(
            str(next(PREFIX.rglob("pkgconfig"))), str(path.parent))
        include, = execute(["pkg-config", "--variable=includedir", "tallybox"],
                           env=env).stdout.split()
        self.assertEqual(pathlib.Path(include).resolve(), (moved / "include").resolve())
        self.assertTrue((pathlib.Path(include) / "tallybox" / "outbox.h").exists())

    def test_only_names_of_the_library_are_visible(self):
        for name, found in (("tallybox", "tallybox_outbox_append"),
                            ("tallybox-main", "tallybox_main")):
            with self.subTest(name):
                path, = PREFIX.rglob(f"lib{name}.a")
                names = {line.split()[-1] for line in execute(
                    ["nm", "--defined-only", "--extern-only", str(path)]).stdout.splitlines()
                    if " " in line}
                self.assertIn(found, names)
                self.assertEqual([one for one in names if not one.startswith("tallybox_")], [])

    def test_both_libraries_may_be_in_one_program(self):
        folder = suite.run().folder
        flags = self.flags("--cflags", "--libs", "tallybox", "tallybox-main")
        execute(["cc", *sanitizer().split(), str(FOLDER / "c" / "notes.c"), *flags, "-o",
                 str(folder / "both")])
        make_runnable(folder / "both")
        self.assertRegex(execute([str(folder / "both"), "version"]).stdout, r"^tallybox \d")


class Shop(Programs):
    """docs/clients/c/shop.c: an event and a task in the transaction of the application."""

    programs = ("shop",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shop = f"{cls.stack.name}_shop"
        page = page_files.files((suite.ROOT / "docs" / "outbox.md").read_text(encoding="utf-8"))
        cls.stack.sql(f"CREATE DATABASE {cls.shop}", database=None)
        connection = suite.connect(cls.shop)
        with connection, connection.cursor() as cursor:
            rights = page["shop_rights.sql"].replace("shop.", f"{cls.shop}.").replace(
                "'shop'@", "'tallybox_application'@")
            for statement in (page["shop.sql"] + rights).split(";"):
                if statement.strip():
                    cursor.execute(statement)

    def setUp(self):
        for table in (f"{self.shop}.orders", "outbox", "retry_task"):
            self.stack.sql(f"DELETE FROM {table}")

    def run_shop(self, *words, program="shop"):
        return self.launch(program, *words, env={
            "DB_HOST": suite.database().host, "DB_PORT": str(suite.database().port),
            "DB_NAME": self.shop, "DB_USER": "tallybox_application",
            "DB_PASSWORD": accounts.PASSWORD, "OUTBOX_DB": self.stack.name,
            "WEBHOOK_URL": "https://billing.example.org:8443/cancelled"})

    def place(self, number="A-1"):
        self.ended(self.run_shop("place", number, 7, 1990))

    def rows(self):
        return (self.stack.sql(f"SELECT number, cancelled FROM {self.shop}.orders ORDER BY 1"),
                [row[0] for row in self.stack.sql("SELECT type FROM outbox ORDER BY seq")],
                self.stack.number("SELECT COUNT(*) FROM retry_task"))

    def test_a_commit_has_the_order_its_event_and_its_task(self):
        self.place()
        row = self.stack.row("SELECT aggregatetype, aggregateid, type, payload, headers, id FROM "
                             "outbox")
        self.assertEqual(row[:5], ("order", "7", "OrderPlaced", b'{"number":"A-1","cents":1990}',
                                   None))
        self.assertRegex(row[5], r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$")
        self.assertEqual(self.ended(self.run_shop("cancel", "A-1")), "committed\n")
        self.assertEqual(self.rows(), ([("A-1", 1)], ["OrderPlaced", "OrderCancelled"], 1))
        task = self.stack.row("SELECT task_group, scene, handler, idempotency_key, biz_no, options, "
                              "params, params_type, origin FROM retry_task")
        self.assertEqual(task, (
            "default", "order-cancelled", "http", "cancel/A-1", "A-1",
            '{"url": "https://billing.example.org:8443/cancelled"}', b'{"number": "A-1"}',
            "application/json", "client"))

    def test_a_refused_order_leaves_nothing(self):
        self.place()
        self.assertEqual(self.ended(self.run_shop("place", "A-1", 7, 5), 1), "not committed\n")
        self.ended(self.run_shop("place", "A-2", 8, 5), 1)  # there is no such account
        self.ended(self.run_shop("cancel", "A-2"), 1)
        self.assertEqual(self.rows(), ([("A-1", 0)], ["OrderPlaced"], 0))

    def test_the_number_of_lanes_is_checked_and_the_database_is_selected_again(self):
        source = self.stack.folder / "lanes.c"
        source.write_text(LANES)
        build(f"cc -o lanes {source} $(pkg-config --cflags --libs tallybox)", self.stack.folder)
        process = self.run_shop(1, program="lanes")
        self.assertEqual(self.ended(process), self.shop)
        self.assertEqual(self.rows()[1], ["t"])
        process = self.run_shop(2, program="lanes")
        self.assertEqual(self.ended(process, 2), self.shop)  # TALLYBOX_REJECT
        self.assertIn("lane", process.output("err"))
        self.assertEqual(self.rows()[1], ["t"])

    def wait_for_the_task(self, number):
        """A shop that has written its event and waits for a lock with its task; the connection that
        holds the lock, and the number of the shop's."""
        holder = suite.connect(self.stack.name)
        self.addCleanup(lambda: holder.open and holder.close())
        holder.begin()
        with holder.cursor() as cursor:
            cursor.execute("INSERT INTO retry_task (scene, handler, idempotency_key) VALUES "
                           "('order-cancelled', 'http', %s)", [f"cancel/{number}"])
        process = self.run_shop("cancel", number)
        connection = suite.wait_for("the task to wait for a lock", lambda: (
            self.fail(process.output("err")) if process.poll() is not None else
            self.stack.sql("SELECT id FROM information_schema.processlist WHERE user = "
                           "'tallybox_application' AND db = %s AND info LIKE "
                           "'%%retry_task%%'", [self.stack.name])))[0][0]
        return holder, process, connection

    def test_a_shop_that_is_killed_before_its_commit_leaves_nothing(self):
        self.place()
        holder, process, _ = self.wait_for_the_task("A-1")
        process.kill()
        process.wait()
        holder.rollback()
        holder.close()
        self.assertEqual(self.ended(self.run_shop("cancel", "A-1")), "committed\n")
        self.assertEqual(self.rows(), ([("A-1", 1)], ["OrderPlaced", "OrderCancelled"], 1))

    def test_a_lost_connection_leaves_nothing_and_is_told(self):
        self.place()
        holder, process, connection = self.wait_for_the_task("A-1")
        self.stack.sql(f"KILL {int(connection)}")
        self.assertEqual(self.ended(process, 1), "not committed\n")
        self.assertIn("shop: task: ", process.output("err"))
        holder.rollback()
        holder.close()
        self.assertEqual(self.rows(), ([("A-1", 0)], ["OrderPlaced"], 0))

    def test_a_task_that_is_active_already_is_that_task(self):
        self.place()
        self.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key) VALUES "
                       "('order-cancelled', 'http', 'cancel/A-1')")
        self.ended(self.run_shop("cancel", "A-1"))
        self.assertEqual(self.rows(), ([("A-1", 1)], ["OrderPlaced", "OrderCancelled"], 1))

    def test_a_wrong_command_is_told_how_to_call_it(self):
        self.ended(self.run_shop("place", "A'1", 7, 5), 2)
        self.ended(self.run_shop("cancel"), 2)


class Report(Programs):
    """docs/clients/c/report.c: tasks over HTTP, through a window in memory."""

    programs = ("report",)
    seconds = 70
    # The smallest body: a batch of 100 tasks is too large for it.
    settings = {"api.tasks": "on", "api.body_bytes_max": 4096, "retry.http_hosts": "127.0.0.1:9"}
    webhook = "http://127.0.0.1:9/hook"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:default\n")
        tokens.chmod(0o600)
        cls.token_file = cls.stack.folder / "token"
        cls.token_file.write_text(f"{TOKEN}\n")
        cls.token_file.chmod(0o600)
        cls.serve = cls.stack.role("serve", sets={"api.token_file": tokens})

    def setUp(self):
        self.stack.sql("DELETE FROM retry_task")
        if not self.serve.alive():
            self.serve.start()
        self.serve.wait_up()

    def report(self, *words, stdin=subprocess.DEVNULL, **login):
        login = login or {"TALLYBOX_TOKEN": TOKEN}
        return self.launch("report", *words, stdin=stdin, env={
            "TALLYBOX_URL": f"http://127.0.0.1:{self.serve.api_port}/", **login})

    def counts(self, process, code=0):
        lines = self.ended(process, code).splitlines()
        self.assertEqual(set(lines[:-1]), {"queued locally"})
        return {"queued": len(lines) - 1, **json.loads(lines[-1])}

    def tasks(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_task")

    def test_every_task_is_there_when_the_program_has_closed_its_reporter(self):
        counts = self.counts(self.report(250, self.webhook,
                                         TALLYBOX_TOKEN_FILE=str(self.token_file)))
        self.assertEqual(counts, {"queued": 250, "reported": 250, "refused": 0, "lost": 0,
                                  "failedCalls": 0})
        self.assertEqual(self.stack.sql(
            "SELECT scene, handler, options, params, params_type, COUNT(*), MAX(biz_no = '7') FROM "
            "retry_task WHERE biz_no = '7' GROUP BY 1, 2, 3, 4, 5"),
            [("webhook", "http", f'{{"url": "{self.webhook}"}}', b'{"number": 7}',
              "application/json", 1, 1)])
        self.assertEqual(self.tasks(), 250)

    def test_exit_sends_the_window(self):
        process = self.report("--exit", 30, self.webhook)
        self.assertEqual(self.ended(process), "queued locally\n" * 30)
        self.assertEqual(self.tasks(), 30)

    def test_a_server_that_is_away_and_killed_gets_every_task_once(self):
        self.serve.kill()
        process = self.report(2500, self.webhook)  # the window holds 1,000: the work must wait
        suite.wait_for("the window to be full",
                       lambda: process.output().count("queued locally") >= 1000, SECONDS)
        self.serve.start()
        suite.wait_for("the first tasks", lambda: self.tasks() > 200, SECONDS)
        self.serve.kill()
        self.serve.start()
        counts = self.counts(process)
        self.assertGreater(counts.pop("failedCalls"), 0)
        self.assertEqual(counts, {"queued": 2500, "reported": 2500, "refused": 0, "lost": 0})
        self.assertEqual(self.stack.row("SELECT COUNT(*), COUNT(DISTINCT biz_no) FROM retry_task"),
                         (2500, 2500))

    def test_a_task_that_can_never_run_is_named_and_the_process_fails(self):
        process = self.report(3, "ftp://x/")
        self.assertEqual(self.counts(process, 1), {"queued": 3, "reported": 0, "refused": 3,
                                                   "lost": 0, "failedCalls": 0})
        lines = process.output("err").splitlines()
        self.assertEqual(sum(line.startswith("refused: ") for line in lines), 3, lines)
        self.assertIn("https://host", process.output("err"))

    def test_a_wrong_token_loses_nothing_before_close_gives_up(self):
        stranger = "token-that-the-server-does-not-know"
        process = self.report(3, self.webhook, TALLYBOX_TOKEN=stranger)
        counts = self.counts(process, 1)
        self.assertGreater(counts.pop("failedCalls"), 1)
        self.assertEqual(counts, {"queued": 3, "reported": 0, "refused": 0, "lost": 3})
        self.assertIn("3 tasks were not reported in time", process.output("err"))
        self.assertIn("status 401", process.output("err"))
        self.assertNotIn(stranger, process.output() + process.output("err"))

    def test_a_token_file_that_others_may_read_is_refused(self):
        path = self.stack.folder / "public"
        path.write_text(f"{TOKEN}\n")
        path.chmod(0o644)
        process = self.report(1, self.webhook, TALLYBOX_TOKEN_FILE=str(path))
        self.ended(process, 1)
        self.assertIn(str(path), process.output("err"))
        self.assertNotIn(TOKEN, process.output("err"))

    def test_a_kill_loses_the_window_alone(self):
        process = self.report("-", self.webhook, stdin=subprocess.PIPE)
        process.stdin.write(b"".join(b"%d\n" % number for number in range(100)))
        process.stdin.flush()
        suite.wait_for("the first tasks", lambda: self.tasks() == 100, SECONDS)
        self.serve.kill()
        process.stdin.write(b"".join(b"%d\n" % number for number in range(100, 140)))
        process.stdin.flush()
        suite.wait_for("the window", lambda: process.output().count("queued") == 140, SECONDS)
        process.kill()
        process.wait()
        self.serve.start()
        self.serve.wait_up()
        self.assertEqual(self.counts(self.report(1, self.webhook))["reported"], 1)
        self.assertEqual(self.stack.row(
            "SELECT COUNT(*), COUNT(DISTINCT biz_no), MAX(CAST(biz_no AS UNSIGNED)) FROM retry_task"),
            (101, 100, 99))

    def test_a_wrong_command_is_told_how_to_call_it(self):
        self.ended(self.report("7"), 2)


class OwnHandler(Programs):
    """docs/clients/c/notes.c: a program of its own with all of tallybox and one more handler."""

    seconds = 40
    programs = ("notes",)
    settings = {"api.tasks": "on", "retry.poll_ms": 50}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = str(cls.stack.folder / "notes")
        cls.notes = cls.stack.folder / "notes.txt"
        cls.env = {"NOTES_FILE": str(cls.notes), "NOTES_FAILURES": "1"}
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:default\n")
        tokens.chmod(0o600)
        cls.serve = cls.stack.role("serve", sets={"api.token_file": tokens}, program=cls.program)
        cls.stack.tallybox("retry", "scene", "set", "note", "--policy",
                           '{"wait": "fixed 100ms", "attempts": 3}')

    def setUp(self):
        self.notes.write_text("")
        for table in ("retry_task", "retry_task_history", "retry_attempt"):
            self.stack.sql(f"DELETE FROM {table}")

    def submit(self, *tasks):
        answer = self.serve.call(
            "POST", "/v1/tasks", [{"scene": "note", "handler": "note", **task} for task in tasks],
            {"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(answer.status, 200, answer.body)
        return json.loads(answer.body)

    def start_retry(self, **options):
        return self.start("retry", program=self.program, env={**self.env, **options})

    def wait_outcome(self, outcome, count):
        suite.wait_for(f"{count} tasks to be {outcome}", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task_history WHERE outcome = %s", [outcome]) == count)

    def test_its_tasks_run_fail_are_tried_again_and_done(self):
        count = 8  # ten failures in a row would open the circuit breaker
        answers = self.submit(*({"idempotencyKey": f"k{n}", "params": n} for n in range(count)))
        self.assertFalse([one for one in answers if "error" in one])
        self.start_retry()
        self.wait_outcome("done", count)
        self.assertEqual(sorted(self.notes.read_text().splitlines()),
                         sorted(f"k{n} 2 {n}" for n in range(count)))
        self.assertEqual(self.stack.sql(
            "SELECT outcome, reason, COUNT(*) FROM retry_attempt WHERE outcome = 'failed' GROUP BY "
            "1, 2"), [("failed", "attempt 1 fails, as NOTES_FAILURES asks", count)])

    def test_a_task_that_it_refuses_is_refused_by_the_api_too(self):
        bad, good = self.submit({}, {"params": "x"})
        self.assertIn("params are not one line", bad["error"]["message"])
        self.assertIn("id", good)

    def test_a_task_that_always_fails_is_exhausted(self):
        self.submit({"idempotencyKey": "lost", "params": 1})
        self.start_retry(NOTES_FAILURES="9")
        self.wait_outcome("exhausted", 1)
        self.assertEqual(self.notes.read_text(), "")

    def test_a_process_that_is_killed_leaves_its_tasks_to_the_next(self):
        self.submit(*({"idempotencyKey": f"k{n}", "params": n} for n in range(200)))
        first = self.start_retry(NOTES_FAILURES="0")
        suite.wait_for("the first notes", self.notes.read_text)
        first.kill()
        self.start_retry(NOTES_FAILURES="0")
        suite.wait_for("all notes", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 0, SECONDS)
        self.assertEqual(sorted(line.split()[0] for line in self.notes.read_text().splitlines()),
                         sorted(f"k{n}" for n in range(200)))

    def test_other_builds_leave_its_tasks_alone(self):
        self.submit({"idempotencyKey": "k", "params": 1})
        self.stack.sql("INSERT INTO retry_task (scene, handler, options, params) VALUES "
                       "('plain', 'exec', '{\"program\": \"/nowhere\"}', '1')")
        self.start("retry")
        suite.wait_for("the other task to be tried", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_attempt") > 0)
        self.assertEqual(self.stack.sql("SELECT state, attempts FROM retry_task WHERE handler = "
                                        "'note'"), [(0, 0)])

    def test_a_start_without_its_settings_is_told(self):
        done = subprocess.run([self.program, "retry", "--config", str(self.stack.ini)],
                              capture_output=True, text=True, timeout=SECONDS, check=False,
                              env=suite.clean_environment())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("NOTES_FILE is not set", done.stdout + done.stderr)

    def test_it_lists_its_handler(self):
        done = execute([self.program, "retry", "handlers"], env=suite.clean_environment())
        self.assertIn("note", done.stdout)
        self.assertIn("Appends a line to a file.", done.stdout)


if __name__ == "__main__":
    unittest.main()
