# SPDX-License-Identifier: MIT
"""The first hour of a new user, played from the documents alone: docs/outbox.md from an empty server
to the first record, a vote as README shows it, a webhook as RETRY.md hands it over, a poisoned event
corrected and a password changed as OPERATIONS.md tells. Commands and SQL are taken from the pages;
only addresses and names of this machine are put in."""

import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402
import wire  # noqa: E402


def page(name):
    return (suite.ROOT / name).read_text(encoding="utf-8")


def section(name, heading):
    """The text of a page from a heading to the next one of its level."""
    text = page(name)
    start = text.index(heading)
    level = heading.split(" ")[0] + " "
    end = text.find(f"\n{level}", start + 1)
    return text[start:] if end < 0 else text[start:end]


def block(text, language, name=None):
    return next(content for found, called, content in page_files.blocks(text)
                if found == language and called == name)


def commands(text):
    """The commands of an indented block, without the comments behind them."""
    return [re.sub(r" {2,}# .*", "", line.strip()) for line in text.splitlines()
            if line.startswith("    ") and re.match(r" {4}(tallybox|\(umask|curl|ALTER)", line)]


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


class FirstHour(unittest.TestCase):
    """On a database server of its own, because the pages create accounts."""

    seconds = 40

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="first-hour-", dir=suite.run().folder))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.server = suite.Server(suite.DATABASE, self.work / "server")
        self.addCleanup(self.server.kill)
        self.server.start()
        self.api_port = suite.free_port()
        self.running = {}
        self.program("tallybox", f'exec "{suite.BINARY}" "$@"')
        self.program("mariadb", f'exec "{shutil.which("mariadb")}" --no-defaults --host=127.0.0.1 '
                                f'--port={self.server.port} --user=root "$@"')
        (self.work / ".curlrc").write_text(
            f'silent\nconnect-to = "127.0.0.1:8080:127.0.0.1:{self.api_port}"\n')
        self.ini = self.work / "tallybox.ini"

    def program(self, name, text):
        path = self.work / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)

    def environment(self):
        return suite.clean_environment(PATH=f"{self.work}:{os.environ['PATH']}",
                                       CURL_HOME=str(self.work))

    def run_command(self, command):
        return subprocess.run(["bash", "-ec", f"set -o pipefail; {command}"], cwd=self.work,
                              capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment())

    def run_now(self, command):
        """The task may run already, or have ended, because its next attempt was due."""
        done = self.run_command(command)
        self.assertTrue(done.returncode == 0 or re.search("is running|no such|has ended|not there",
                                                          done.stdout + done.stderr),
                        done.stdout + done.stderr)

    def shell(self, command):
        done = self.run_command(command)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}\n"
                                             f"{self.logs()}")
        return done

    def logs(self):
        return "".join(f"--- {path.name}\n{suite.tail(path)}\n"
                       for path in self.work.glob("*.log"))

    def sql(self, statements, **login):
        """Statements of a page, each on its own lines, as one client."""
        connection = suite.connect(None, **{"host": self.server.host, "port": self.server.port,
                                            **login})
        with connection, connection.cursor() as cursor:
            for statement in statements.split(";"):
                if statement.strip():
                    cursor.execute(statement)
            return list(cursor.fetchall())

    def start(self, command):
        """A role, as a page starts it; it is ended with the test."""
        name = command.split()[1]
        with open(self.work / f"{name}.log", "ab") as log:
            role = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "bash", "-c",
                                     f"exec {command}"], cwd=self.work, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, env=self.environment())
        self.running[name] = role
        self.addCleanup(self.stop, name)
        return role

    def stop(self, name):
        role = self.running.pop(name, None)
        if role:
            role.terminate()
            self.assertEqual(role.wait(60), 0, self.logs())

    def restart(self, command):
        self.stop(command.split()[1])
        return self.start(command)

    def account(self, role, *more):
        """The account of a role by the command of the page; its password goes into a file."""
        done = self.shell(" ".join(["tallybox migrate grants --role", role, *more,
                                    "--create-user --config tallybox.ini | mariadb"]))
        self.note_account(role, done.stderr)

    def shell_blocks(self, text):
        """Every command of a section's sh blocks; new accounts go into the settings file."""
        for language, _, content in page_files.blocks(text):
            for command in content.splitlines() if language == "sh" else ():
                done = self.shell(command)
                role = re.search(r"--role (\S+) .*--create-user", command)
                if role:
                    self.note_account(role[1], done.stderr)

    def note_account(self, role, printed):
        match = re.search(r"mysql\.user = (\S+)\nmysql\.password = (\S+)", printed)
        self.assertTrue(match, printed)
        (self.work / f"{role}.password").write_text(match[2] + "\n")
        (self.work / f"{role}.password").chmod(0o600)
        if role == "application_insert":
            return
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"\n[role.{role}]\nmysql.user = {match[1]}\n"
                      f"mysql.password_file = {role}.password\n")

    def wait_record(self, topic, key):
        def look():
            for name, role in self.running.items():
                self.assertIsNone(role.poll(), f"{name} has ended")
            found = [record for record in wire.read_topic(suite.kafka().bootstrap, topic)
                     if record.key == key.encode()]
            return found and found[0]
        return suite.wait_for(f"a record with the key {key} in {topic}\n", look)

    def play_outbox(self, order):
        """docs/outbox.md to the first own event in Kafka."""
        text = page("docs/outbox.md")
        settings = block(text, "ini")
        self.assertIn("\nport = 3306\n", settings)
        settings = settings.replace("port = 3306", f"port = {self.server.port}")
        settings = settings.replace("127.0.0.1:9092", suite.kafka().bootstrap)
        self.ini.write_text(f"{settings}\n[api]\nlisten = 127.0.0.1:{self.api_port}\n")
        self.shell_blocks(section("docs/outbox.md", "## 2."))
        for command in block(section("docs/outbox.md", "## 3."), "sh").splitlines():
            self.start(command)
        files = page_files.files(text)
        self.sql("CREATE DATABASE shop")
        self.sql(files["shop.sql"], database="shop")
        login = {"user": "tallybox_application_insert",
                 "password": (self.work / "application_insert.password").read_text().strip()}
        self.sql("GRANT INSERT ON shop.orders TO 'tallybox_application_insert'@'%'")
        self.sql(files["order.sql"].replace("A-1001", order), database="shop", **login)
        record = self.wait_record("outbox.event.order", order)
        self.assertIn(f'"number":"{order}"'.encode(), record.value)
        done = self.shell("tallybox status --check --config tallybox.ini")
        self.assertTrue(done.stdout.startswith("ok"), done.stdout)

    def play_vote(self):
        """README's first vote, after the tables for votes were added."""
        self.shell_blocks(section("docs/outbox.md", "## Votes later"))
        self.account("serve")
        self.start("tallybox serve --config tallybox.ini")
        suite.wait_for("the API to answer", self.answers)
        command = next(line.strip() for line in page("README.md").splitlines()
                       if line.strip().startswith("curl -d '{\"voterId\":1"))
        suite.wait_for("the first vote", lambda: '"changed":true,"votes":1' in
                       self.shell(command).stdout)

    def answers(self):
        """Also a request without its token is answered."""
        try:
            return suite.http_call(self.api_port, "GET", "/v1/contents/2/votes").status < 500
        except OSError:
            return False

    def play_webhook(self, receiver):
        """RETRY.md's first task over HTTP: refused once, then accepted."""
        host = f"127.0.0.1:{receiver.server_port}"
        text = section("RETRY.md", "## Tasks over HTTP").replace("/etc/tallybox", str(self.work))
        token = self.shell(f"{block(text, 'sh')}echo $TOKEN").stdout.splitlines()[-1]
        settings = block(text, "ini").replace("billing.example.org", host)
        settings = settings.replace("[api]\n", f"[api]\nlisten = 127.0.0.1:{self.api_port}\n")
        self.ini.write_text(self.ini.read_text().replace(
            f"[api]\nlisten = 127.0.0.1:{self.api_port}\n", settings))
        self.restart("tallybox serve --config tallybox.ini")
        self.restart("tallybox retry --config tallybox.ini")
        command = next(line.strip() for line in text.splitlines()
                       if line.strip().startswith("curl ") and "/v1/tasks" in line)
        command = command.replace("https://billing.example.org", f"http://{host}")
        suite.wait_for("the API to answer", self.answers)
        answer = suite.wait_for("the task to be accepted", lambda: re.search(
            r'"id":(\d+)', self.shell(f"TOKEN={token}; {command}").stdout))
        suite.wait_for("the first call", lambda: receiver.calls)
        suite.wait_for("the task to wait for its next attempt", lambda: self.sql(
            f"SELECT 1 FROM tallybox.retry_task WHERE id = {answer[1]} AND attempts > 0"))
        self.run_now(f"tallybox retry run-now {answer[1]} --config tallybox.ini")
        suite.wait_for("the second call", lambda: len(receiver.calls) > 1)
        self.assertEqual(len(set(receiver.calls)), 1)
        suite.wait_for("the task to end", lambda: not self.sql(
            f"SELECT 1 FROM tallybox.retry_task WHERE id = {answer[1]}"))

    def play_poisoned_event(self, key):
        """OPERATIONS.md, Refused events: the commands, with the task's id."""
        self.sql("INSERT INTO tallybox.outbox (id, aggregatetype, aggregateid, type, payload, "
                 f"headers) VALUES ('{key}', 'order', '{key}', 'OrderPlaced', '{{}}', 'north')")
        shown = commands(section("OPERATIONS.md", "## Refused events"))
        listing = next(line for line in shown if line.startswith("tallybox retry list"))
        def list_task():
            text = self.shell(f"{listing} --config tallybox.ini").stdout
            found = re.search(rf"^ *(\d+) .*{key}", text, re.M)
            if not found:
                raise suite.NotThere(text)
            return found

        task = suite.wait_for("the event to be diverted", list_task)
        (self.work / "headers.json").write_text('{"tenant": "north"}')
        for line in shown:
            line = line.replace(" 17", f" {task[1]}") + " --config tallybox.ini"
            if re.match(r"tallybox retry (show \d+ --config|edit \d+ --headers)", line):
                self.shell(line)
            elif line.startswith("tallybox retry run-now"):
                self.run_now(line)
        record = self.wait_record("outbox.event.order", key)
        self.assertEqual((record.headers["tenant"], record.headers["id"]), ("north", key))
        self.assertEqual(record.headers["ce_type"], "OrderPlaced")

    def play_password(self, key):
        """OPERATIONS.md, Change a password: the relay continues without a restart."""
        relay = self.running["relay"]
        text = section("OPERATIONS.md", "### Change a password")
        alter, write = [line for line in commands(text)][:2]
        alter = re.sub(r" +-- .*", "", alter).replace("NEW", "another password")
        write = write.replace("NEW", "'another password'")
        write = write.replace("password.new", "relay.password.new")
        write = re.sub(r" password$", " relay.password", write)
        self.sql(alter)
        self.shell(write)
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
        try:
            self.play_outbox(f"A-{mark}")
            self.play_vote()
            self.play_webhook(receiver)
            self.play_poisoned_event(f"B-{mark}")
            self.play_password(f"C-{mark}")
        except BaseException:
            print(self.logs(), file=sys.stderr)
            raise


if __name__ == "__main__":
    unittest.main()
