# SPDX-License-Identifier: MIT
"""The first hour of a new user, played from the documents alone: docs/outbox.md from an empty server
to the first record, a vote as README shows it, a webhook as RETRY.md hands it over, a poisoned event
corrected and a password changed as OPERATIONS.md tells. Every command is taken from a page; only
addresses, names, ids and waits of this test are put in. The settings are in ./tallybox.ini, where
commands look for them. The output has the time to the first event and to the first retried call."""

import http.server
import json
import os
import pathlib
import re
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402
import installation  # noqa: E402
from installation import block, commands, inline, page, role_command, section  # noqa: E402


class Receiver(http.server.ThreadingHTTPServer):
    """The other side of a webhook: refuses the first call."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.calls = []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class Answer(http.server.BaseHTTPRequestHandler):
    """One call."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append(self.headers["Idempotency-Key"])
        self.send_response(503 if len(self.server.calls) == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class FirstHour(installation.Installation):
    """From an empty server to a changed password."""

    seconds = 40

    def setUp(self):
        super().setUp()
        self.corrections = []
        self.began = time.monotonic()

    def tell(self, what):
        print(f"{what} after {time.monotonic() - self.began:.1f} s", file=sys.stderr, flush=True)

    def play_outbox(self, order):
        """docs/outbox.md to the first own event in Kafka."""
        self.make_outbox()
        files = page_files.files(page("docs/outbox.md"))
        self.sql("CREATE DATABASE shop")
        self.sql(files["shop.sql"], database="shop")
        self.sql(files["shop_rights.sql"])
        self.sql(files["order.sql"].replace("A-1001", order), database="shop", **self.shop_login)
        self.wait_record("outbox.event.order", "7", f'"number":"{order}"'.encode())
        self.tell("\nthe first event is in Kafka")
        check = next(line for line in commands(page("OPERATIONS.md")) if "status --check" in line)
        self.assertTrue(self.shell(check).stdout.startswith("ok"))

    def play_vote(self):
        """README's first vote, after the tables for votes were added."""
        self.make_votes()
        command = next(line.strip() for line in page("README.md").splitlines()
                       if line.strip().startswith("curl -d '{\"voterId\":1"))
        suite.wait_for("the first vote", lambda: '"changed":true,"votes":1' in
                       self.shell(command).stdout)

    def play_webhook(self, receiver):
        """RETRY.md's first task over HTTP: refused once, then accepted."""
        host = f"127.0.0.1:{receiver.server_port}"
        text = section("RETRY.md", "## Tasks over HTTP").replace("/etc/tallybox", str(self.work))
        token = self.shell(f"{block(text, 'sh')}echo $TOKEN").stdout.splitlines()[-1]
        settings = block(text, "ini").replace("billing.example.org", host)
        settings = settings.replace("[api]\n", f"[api]\nlisten = 127.0.0.1:{self.api_port}\n")
        self.ini.write_text(self.ini.read_text().replace(
            f"[api]\nlisten = 127.0.0.1:{self.api_port}\n", settings))
        self.restart(role_command("serve"))
        self.restart(role_command("retry"))
        self.wait_long("invoice")
        command = next(line.strip() for line in text.splitlines()
                       if line.strip().startswith("curl ") and "/v1/tasks" in line)
        command = command.replace("https://billing.example.org", f"http://{host}")
        suite.wait_for("the API to answer", self.answers)
        answer = suite.wait_for("the task to be accepted", lambda: re.search(
            r'"id":(\d+)', self.shell(f"TOKEN={token}; {command}").stdout))
        suite.wait_for("the first call", lambda: receiver.calls)
        suite.wait_for("the task to wait for its next attempt", lambda: self.sql(
            f"SELECT 1 FROM tallybox.retry_task WHERE id = {answer[1]} AND attempts > 0"))
        run_now = next(line for line in commands(section("RETRY.md", "## Runbook"))
                       if line.startswith("tallybox retry run-now 17"))
        self.shell(run_now.replace("17", answer[1]))
        suite.wait_for("the second call", lambda: len(receiver.calls) > 1)
        self.tell("the first webhook was called again")
        self.assertEqual(len(set(receiver.calls)), 1)
        suite.wait_for("the task to end", lambda: not self.sql(
            f"SELECT 1 FROM tallybox.retry_task WHERE id = {answer[1]}"))

    def wait_long(self, scene, *more):
        """By the command of RETRY.md: only run-now brings the next attempt within this test."""
        command = inline("RETRY.md", "tallybox retry scene set SCENE --policy")
        policy = "".join(['"fixed 1h"', *more])
        self.assertIn('"fixed 30s"', command)
        self.shell(command.replace("SCENE", scene).replace('"fixed 30s"', policy))

    def find_failed(self, listing, key):
        """The id of the task of an event whose first attempt has failed."""
        text = self.shell(listing).stdout
        found = re.search(rf"^ *(\d+) +outbox/publish +waiting +1 .*\b{key}\b", text, re.M)
        if not found:
            raise suite.NotThere(text)
        return found[1]

    def poison(self, key, kind="order", headers=None, payload="{}"):
        """An event that cannot be published; the task that it becomes, by the command of the page."""
        self.sql("INSERT INTO tallybox.outbox (id, aggregatetype, aggregateid, type, payload, "
                 f"headers) VALUES ('{key}', '{kind}', '{key}', 'OrderPlaced', '{payload}', "
                 f"{headers or 'NULL'})")
        listing = next(line for line in self.corrections if "retry list" in line)
        return suite.wait_for("the event to be diverted and its first attempt to fail",
                              lambda: self.find_failed(listing, key))

    def play_line(self, start, task):
        """The line of the page that begins so, with the task's id; what it printed."""
        line = next(line for line in self.corrections if f"{line} ".startswith(f"{start} "))
        return self.shell(line.replace(" 17", f" {task}")).stdout

    def correct(self, task, edit):
        self.play_line(edit, task)
        self.assertRegex(self.play_line("tallybox retry show 17", task), r"\bedited\b.*@")
        self.play_line("tallybox retry run-now", task)

    def play_poisoned_events(self, mark):
        """OPERATIONS.md, Refused events: the commands correct each kind of fault."""
        self.corrections = commands(section("OPERATIONS.md", "## Refused events"))
        self.corrections.append(inline("OPERATIONS.md", "tallybox retry edit 17 --headers h"))
        self.wait_long("publish --group outbox", ', "stop": []')

        payload = json.dumps({"number": f"P-{mark}", "note": "x" * 1_100_000})
        task = self.poison(f"P-{mark}", payload=payload)
        self.play_line("tallybox retry show 17 --raw", task)
        self.assertEqual((self.work / "payload.json").read_text(), payload)
        (self.work / "payload.json").write_text('{"note": "short"}')
        self.correct(task, "tallybox retry edit 17 --params")
        record = self.wait_record("outbox.event.order", f"P-{mark}")
        self.assertEqual(record.value, b'{"note": "short"}')

        (self.work / "headers.json").write_text('{"tenant": "north"}')
        task = self.poison(f"H-{mark}", headers="'north'")
        self.correct(task, "tallybox retry edit 17 --headers headers.json")
        record = self.wait_record("outbox.event.order", f"H-{mark}")
        self.assertEqual((record.headers["tenant"], record.headers["id"]), ("north", f"H-{mark}"))
        self.assertEqual(record.headers["ce_type"], "OrderPlaced")

        task = self.poison(f"T-{mark}", kind="no topic")
        self.correct(task, "tallybox retry edit 17 --options")
        self.assertEqual(self.wait_record("orders", f"T-{mark}").headers["id"], f"T-{mark}")

        task = self.poison(f"B-{mark}", kind="no topic", headers="'north'")
        self.correct(task, "tallybox retry edit 17 --headers headers.json --options")
        record = self.wait_record("orders", f"B-{mark}")
        self.assertEqual((record.headers["tenant"], record.headers["id"]), ("north", f"B-{mark}"))

    def play_password(self, key):
        """OPERATIONS.md, Change a password: the relay, whose password is in a file now, continues
        without a restart."""
        text = section("OPERATIONS.md", "### Change a password").replace("/etc/tallybox", str(self.work))
        self.shell(block(text, "sh", "password_file.sh"))
        self.assertIn(f"mysql.user = tallybox_relay\nmysql.password_file = {self.work}/relay.password\n",
                      self.ini.read_text())
        relay = self.restart(role_command("relay"))
        alter, write, check = commands(text)
        self.assertRegex(self.shell(check).stdout, " 0 failed")
        self.sql(re.sub(r" +-- .*", "", alter).replace("NEW", "another password"))
        self.assertEqual(self.run_command(check).returncode, suite.FAILED)
        self.shell(re.sub(r" +# .*", "", write).replace("NEW", "'another password'"))
        self.assertRegex(self.shell(check).stdout, " 0 failed")
        self.assertEqual((self.work / "relay.password").stat().st_mode & 0o777, 0o600)
        for number, in self.sql("SELECT id FROM information_schema.processlist WHERE user = "
                                "'tallybox_relay'"):
            try:
                self.sql(f"KILL {number}")
            except Exception as gone:  # pylint: disable=broad-except
                if gone.args[0] != 1094:
                    raise
        self.sql("INSERT INTO tallybox.outbox (id, aggregatetype, aggregateid, type, payload) "
                 f"VALUES ('{key}', 'order', '{key}', 'OrderPlaced', '{{}}')")
        self.wait_record("outbox.event.order", key)
        self.assertIsNone(relay.poll())

    def test_from_an_empty_server_to_a_changed_password(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        mark = f"{os.getpid()}-{self.server.port}"
        suite.kafka()
        self.began = time.monotonic()
        try:
            self.play_outbox(f"A-{mark}")
            self.play_vote()
            self.play_webhook(receiver)
            self.play_poisoned_events(mark)
            self.play_password(f"C-{mark}")
        except BaseException:
            print(self.logs(), file=sys.stderr)
            raise


if __name__ == "__main__":
    unittest.main()
