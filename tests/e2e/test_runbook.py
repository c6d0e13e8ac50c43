# SPDX-License-Identifier: MIT
"""The pages as an operator uses them: the program knows every command that they print, and those of
the runbooks do what the pages tell, with the exit codes that they tell."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402
from installation import commands, inline, page, section  # noqa: E402
import wire  # noqa: E402

PAGES = ("README.md", "OPERATIONS.md", "RETRY.md", "SECURITY.md",
         *(f"docs/{path.name}" for path in sorted((suite.ROOT / "docs").glob("*.md"))))
# What the pages write in place of a word.
WORDS = {"TOPIC/PARTITION@earliest": "vote-events/0@earliest", "ACTION": "list", "SCENE": "mail", "ID": "17",
         "KEY": "order/7", "OLD": "1", "VOTER": "1", "CONTENT": "2", "[--undo]": "--undo",
         "$role": "relay", "--watch": "--help", "600": "1", "300": "1", "60": "1",
         "INSTANCE": "relay-1", "FILE|-": "vote.csv"}
# Commands that end by themselves without an argument; the others are roles.
ENDS = ("config", "events", "doctor", "status", "verify")
FILES = {"payload.json": "{}", "headers.json": "{}", "corrected.json": "{}", "vote.json": "{}",
         "vote.csv": "voter_id,content_id\n1,2\n"}


def printed():
    """{command: page} of every command of the pages: in a text, alone on a line, or in a pipe."""
    found = {}
    for name in PAGES:
        text = page(name)
        lines = [line for language, _, content in page_files.blocks(text) if language == "sh"
                 for line in content.splitlines()]
        lines += [line for line in text.splitlines() if line.startswith("   ")]
        lines = [re.sub(r" +# .*", "", line.strip()) for line in lines
                 if re.match(r" *tallybox ", line)]
        for command in [*re.findall(r"`(tallybox [^`\n]+)`", text), *lines]:
            command = re.split(r" (?:\||2?>>?) ", command)[0].removesuffix(" ...")
            head, _, last = command.rpartition(" ")
            # "list|show|run-now" are three.
            for word in last.split("|") if re.fullmatch(r"[a-z|-]+", last) else [last]:
                found.setdefault(f"{head} {word}", name)
    return found


class Words(unittest.TestCase):
    """No server is there: what counts is that a command is not refused as wrong usage."""

    any_database = True
    seconds = 20

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=suite.run().folder))
        port = suite.free_port()
        (self.work / "tallybox.ini").write_text(
            f"[mysql]\nport = {port}\nconnect_timeout_ms = 500\n"
            "[api]\nrequest_timeout_ms = 1000\n"
            f"[admin]\nlisten = 127.0.0.1:{port}\n"
            f"[kafka]\nbootstrap.servers = 127.0.0.1:{port}\n")
        for name, content in FILES.items():
            (self.work / name).write_text(content)

    def run_words(self, words):
        return subprocess.run([suite.BINARY, *words], cwd=self.work, capture_output=True, text=True,
                              timeout=100, check=False, stdin=subprocess.DEVNULL,
                              env=suite.clean_environment())

    def judge(self, command):
        """What is wrong with it, or "". """
        words = [WORDS.get(word, word) for word in shlex.split(command)[1:]]
        actions = [word for word in words if re.fullmatch("[a-z-]+", word) and word[0] != "-"]
        if words[1:] in ([], ["--config", "tallybox.ini"]) and words[0] not in ENDS:
            words = [words[0], "--help"]
        done = self.run_words(words)
        if done.returncode == suite.USAGE and len(actions) > 1:
            # It is only named, without its arguments.
            done = self.run_words([*actions[:2], "--help"])
            named = " ".join(actions[1:])
            # In the list of actions, in the usage of the command, or on a page of its own.
            if not re.search(rf"(?m)^(  {named} [A-Z\[-]|Usage: tallybox {actions[0]} (.* )?{named} )",
                             done.stdout):
                return done.stdout
        known = done.returncode in (suite.DONE, suite.FAILED, suite.UNAVAILABLE)
        return "" if known else done.stdout + done.stderr

    def test_every_printed_command_is_known(self):
        found = printed()
        self.assertGreater(len(found), 100, found)
        # Some wait for a server for seconds.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for command, fault in zip(found, pool.map(self.judge, found)):
                with self.subTest(page=found[command], command=command):
                    self.assertEqual(fault, "")


class Runbook(suite.Case):
    """Commands as they are printed, in a shell. The settings are in ./tallybox.ini."""

    seconds = 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = cls.stack.folder / "shell"
        cls.work.mkdir()
        (cls.work / "tallybox.ini").symlink_to(cls.stack.ini)
        program = cls.work / "tallybox"
        program.write_text(f'#!/bin/sh\nexec "{suite.BINARY}" "$@"\n')
        program.chmod(0o700)
        wire.create_topic(suite.kafka().bootstrap, cls.stack.topic, 1)

    def shell(self, command, code=suite.DONE, answer=None):
        """The output; with an answer to the question that a terminal is asked."""
        words = ["bash", "-ec", command]
        if answer:
            words = ["script", "-qec", command, "/dev/null"]
        done = subprocess.run(words, cwd=self.work, input=answer, capture_output=True, text=True,
                              timeout=120, check=False, env=suite.clean_environment(
                                  PATH=f"{self.work}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def line(self, start, **words):
        """The printed line that begins so, with other words for some of it."""
        found = next(line for line in self.lines if f"{line} ".startswith(f"{start} "))
        for old, new in words.items():
            self.assertIn(old.strip("_"), found)
            found = found.replace(old.strip("_"), str(new))
        return found


class DeadRecords(Runbook):
    """OPERATIONS.md, Dead records."""

    lines = commands(section("OPERATIONS.md", "## Dead records"))

    def send(self, voter, content):
        event = {"eventId": str(uuid.uuid4()), "voterId": voter, "contentId": content, "voting": 1,
                 "votes": 1, "occurredAt": int(time.time() * 1000)}
        wire.produce(suite.kafka().bootstrap, self.stack.topic, json.dumps(event).encode(),
                     str(content))
        return event

    def wait_dead(self, count):
        """Their ids."""
        def look():
            rows = self.stack.sql("SELECT id FROM dead_record ORDER BY id")
            return len(rows) == count and [number for number, in rows]
        return suite.wait_for(f"{count} dead records", look)

    def applied(self, voter):
        return self.stack.number("SELECT COUNT(*) FROM vote_document WHERE voter_id = %s", [voter])

    def test_the_block_is_played(self):
        self.start("consume")
        self.stack.sql("ALTER TABLE vote_document ADD CONSTRAINT no_four CHECK (voter_id <> 4)")
        for payload in (b"no vote 1", b"no vote 2", b"no vote 3"):
            wire.produce(suite.kafka().bootstrap, self.stack.topic, payload, "7")
        self.send(4, 8)
        first, second, third, refused = self.wait_dead(4)
        listed = self.shell(self.line("tallybox dead list"))
        for number in (first, second, third, refused):
            self.assertRegex(listed, rf"(?m)^ *{number}\b")
        page_two = self.shell(self.line("tallybox dead list --limit", _4711=second))
        self.assertRegex(page_two, rf"(?m)^ *{third}\b")
        self.assertNotRegex(page_two, rf"(?m)^ *{second}\b")
        self.assertIn("no vote 1", self.shell(self.line("tallybox dead show 17", _17=first)))
        self.shell(self.line("tallybox dead show 17 --payload", _17=first))
        self.assertEqual((self.work / "vote.json").read_text(), "no vote 1")
        (self.work / "vote.json").write_text(json.dumps(
            {"eventId": str(uuid.uuid4()), "voterId": 1, "contentId": 7, "voting": 1, "votes": 1,
             "occurredAt": int(time.time() * 1000)}))
        self.shell(self.line("tallybox dead replay 17 --value", _17=first))
        self.assertEqual(self.applied(1), 1)
        # The same bytes are no vote now, either.
        self.assertIn("2 dead records", self.shell(self.line("tallybox dead replay --class decode"),
                                                   suite.FAILED, "y\n"))
        self.stack.sql("ALTER TABLE vote_document DROP CONSTRAINT no_four")
        self.shell(self.line("tallybox dead replay --class refused"), answer="y\n")
        self.start("retry")
        suite.wait_for("the refused vote", lambda: self.applied(4))
        self.shell(self.line("tallybox dead drop 18", _18=second), suite.FAILED, "n\n")
        self.shell(self.line("tallybox dead drop 18", _18=second), answer="y\n")
        self.shell(self.line("tallybox dead drop --until"))
        self.assertEqual(self.wait_dead(1), [third])
        decided = self.shell(self.line("tallybox dead list --decided"))
        for number, decision in ((first, "applied"), (second, "dropped"), (refused, "applied")):
            self.assertRegex(decided, rf"(?m)^ *{number} .*{decision}.*@")
        check = next(line for line in commands(page("OPERATIONS.md")) if "status --check" in line)
        self.assertIn("dead", self.shell(check, suite.FAILED))


class Receiver(http.server.ThreadingHTTPServer):
    """A destination that works; nothing listens at its port before."""

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Answer)
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
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class RetryRunbook(Runbook):
    """RETRY.md, Runbook."""

    lines = commands(section("RETRY.md", "## Runbook"))

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_scene"):
            self.stack.sql(f"DELETE FROM {table}")
        self.port = suite.free_port()
        self.start("retry", sets={"retry.http_hosts": f"127.0.0.1:{self.port}"})

    def receive(self):
        receiver = Receiver(self.port)
        self.addCleanup(receiver.close)

    def set_policy(self, policy):
        command = inline("RETRY.md", "tallybox retry scene set SCENE --policy")
        self.shell(command.replace("SCENE", "invoice").replace('{"wait": "fixed 30s"}', policy))

    def submit(self, key, ordering_key=None):
        self.stack.append([{"scene": "invoice", "handler": "http", "idempotency_key": key,
                            "ordering_key": ordering_key, "params": "{}", "options": json.dumps(
                                {"url": f"http://127.0.0.1:{self.port}/"})}], table="retry_task")
        return self.stack.number("SELECT id FROM retry_task WHERE idempotency_key = %s", [key])

    def wait_state(self, task, state):
        suite.wait_for(f"task {task} to be in the state {state}", lambda: self.stack.sql(
            "SELECT 1 FROM retry_task WHERE id = %s AND state = %s", [task, state]))

    def outcome(self, task):
        rows = self.stack.sql("SELECT outcome FROM retry_task_history WHERE id = %s", [task])
        return rows[0][0] if rows else None

    def wait_outcome(self, task, outcome):
        suite.wait_for(f"the outcome {outcome} of {task}", lambda: self.outcome(task) == outcome)

    def test_a_blocked_key_goes_on(self):
        self.set_policy('{"attempts": 1, "exhausted": "block"}')
        first = self.submit("1", "customer/4711")
        second = self.submit("2", "customer/4711")
        self.wait_state(first, 3)
        listed = self.shell(self.line("tallybox retry list --state"))
        self.assertRegex(listed, rf"(?m)^ *{first} .*blocked.*customer/4711")
        self.assertIn("customer/4711", self.shell(self.line("tallybox retry show 17", _17=first)))
        self.shell(self.line("tallybox retry unpark customer/4711"))
        suite.wait_for("another attempt", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_attempt WHERE task_id = %s", [first]) > 1)
        self.wait_state(first, 3)
        self.receive()
        self.shell(self.line("tallybox retry unpark customer/4711 --skip"))
        self.assertEqual(self.outcome(first), "cancelled")
        self.wait_outcome(second, "done")
        # Nothing is left to change.
        self.shell(self.line("tallybox retry unpark customer/4711"), suite.FAILED)

    def test_a_failing_destination_is_paused_and_resumed(self):
        self.set_policy('{"wait": "fixed 1h"}')
        first = self.submit("1")
        suite.wait_for("its attempt to fail", lambda: self.stack.sql(
            "SELECT 1 FROM retry_task WHERE reason_class = 'transient' AND attempts = 1"))
        self.shell(self.line("tallybox retry pause"))
        second = self.submit("2")
        self.receive()
        self.shell(self.line("tallybox retry resume"))
        self.wait_outcome(second, "done")
        self.assertIn("1 task", self.shell(self.line("tallybox retry run-now --scene"),
                                           answer="y\n"))
        self.wait_outcome(first, "done")

    def test_exhausted_tasks_are_requeued(self):
        self.set_policy('{"attempts": 1, "exhausted": "skip"}')
        tasks = [self.submit(key) for key in "12"]
        for task in tasks:
            self.wait_outcome(task, "exhausted")
        listed = self.shell(self.line("tallybox retry history"))
        for task in tasks:
            self.assertRegex(listed, rf"(?m)^ *{task} .*exhausted")
        self.receive()
        self.assertIn("2 tasks", self.shell(self.line("tallybox retry requeue --outcome"), answer="y\n"))
        suite.wait_for("both to be done", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task_history WHERE outcome = 'done'") == 2)


class OtherCommands(Runbook):
    """Of OPERATIONS.md."""

    lines = commands(page("OPERATIONS.md"))

    def test_status_ends_with_the_codes_that_the_page_tells(self):
        # No relay runs; a lease may be left of one.
        suite.wait_for("a problem", lambda: self.shell(self.line("tallybox status"))
                       .startswith("PROBLEMS: "))
        check = self.shell(self.line("tallybox status --check"), suite.FAILED)
        self.assertRegex(check, r"^PROBLEMS: .*\n$")
        self.assertTrue(json.loads(self.shell(self.line("tallybox status --json")))["problems"])
        self.start("relay")
        suite.wait_for("no problem", lambda: self.shell(self.line("tallybox status"))
                       .startswith("ok\n"))
        self.assertEqual(self.shell(self.line("tallybox status --check")), "ok\n")
        down = f" --set mysql.port={suite.free_port()}"
        self.shell(self.line("tallybox status") + down, suite.UNAVAILABLE)

    def test_a_remark_that_is_behind_is_rolled_up_again(self):
        self.stack.sql("INSERT INTO remark (id) VALUES (7)")
        self.stack.sql("INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES "
                       "(7, 3, 3, UTC_TIMESTAMP(3))")
        once = inline("OPERATIONS.md", "tallybox rollup --once --all").removesuffix(" --all")
        self.shell(once)
        self.assertEqual(self.stack.sql("SELECT votes FROM remark"), [(3,)])
        # As after a restore; the last change is older than what a roll-up reads again.
        self.stack.sql("UPDATE remark SET votes = 2, votes_seq = 2")
        self.stack.sql("UPDATE vote_tally SET changed_at = UTC_TIMESTAMP(3) - INTERVAL 2 DAY")
        self.shell(once)
        self.assertEqual(self.stack.sql("SELECT votes FROM remark"), [(2,)])
        self.assertIn("1 remarks changed", self.shell(f"{once} --all"))
        self.assertEqual(self.stack.sql("SELECT votes FROM remark"), [(3,)])

    def test_a_dead_instance_is_forgotten(self):
        relay = self.start("relay")
        name, = self.stack.row("SELECT name FROM instance WHERE role = 'relay'")
        forget = inline("OPERATIONS.md", "tallybox housekeep --forget").replace("INSTANCE", name)
        self.shell(forget, suite.FAILED)
        relay.kill()
        check = self.line("tallybox status --check")

        def look():
            done = subprocess.run(["bash", "-c", f"{self.work}/{check}"], cwd=self.work, text=True,
                                  capture_output=True, timeout=60, check=False,
                                  env=suite.clean_environment())
            return name in done.stdout
        suite.wait_for("the dead relay to be a problem", look)
        self.shell(forget)
        self.assertFalse(look())
        self.shell(forget, suite.FAILED)


if __name__ == "__main__":
    unittest.main()
