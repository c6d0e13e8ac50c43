# SPDX-License-Identifier: MIT
"""What plays the pages: takes the commands from them, and an installation that is made by nothing
else. Only addresses, names, ids and waits of a test are put in."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
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
    """The first fenced block of this language and name; those of lists are indented."""
    text = re.sub(r"^ {3}(?! )", "", text, flags=re.M)
    return next(content for found, called, content in page_files.blocks(text)
                if found == language and called == name)


def commands(text):
    """The commands of an indented block, without the comments behind them."""
    return [re.sub(r" {2,}# .*", "", line.strip()) for line in text.splitlines()
            if line.startswith("    ") and re.match(r" {4}(tallybox|\(umask|curl|ALTER)", line)]


def inline(name, start):
    """The command within the text of a page that begins with these words."""
    found = re.search(rf"`({re.escape(start)}[^`\n]*)`", page(name))
    if not found:
        raise AssertionError(f"{name} has no command `{start} ...`")
    return found[1]


def role_command(role):
    """What starts a role, after the one that docs/outbox.md starts first."""
    first = block(section("docs/outbox.md", "## 3."), "sh").splitlines()[0]
    return first.replace("relay", role)


class Installation(unittest.TestCase):
    """On a database server of its own, because the pages create accounts. Commands find the settings
    in ./tallybox.ini, the programs on PATH, and the API where the pages say that it is."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="pages-", dir=suite.run().folder))
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
        """A role, as a page starts it; it is ended with the test. It can be told to stop when this
        returns."""
        name = command.split()[1]
        listening = self.log(name).count("event=admin_listening")
        with open(self.work / f"{name}.log", "ab") as log:
            role = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "bash", "-c",
                                     f"exec {command}"], cwd=self.work, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, env=self.environment())
        self.running[name] = role
        self.addCleanup(self.stop, name)
        suite.wait_for(f"{name} to come up", lambda: role.poll() is not None or self.log(name).count(
            "event=admin_listening") > listening)
        return role

    def log(self, name):
        try:
            return (self.work / f"{name}.log").read_text()
        except FileNotFoundError:
            return ""

    def stop(self, name):
        role = self.running.pop(name, None)
        if role:
            role.terminate()
            self.assertEqual(role.wait(60), 0, self.logs())

    def restart(self, command):
        self.stop(command.split()[1])
        return self.start(command)

    def account(self, role):
        """The account of a role by the command of README; its password goes into a file."""
        command = inline("README.md", "tallybox migrate grants --role relay --create-user")
        self.note_account(role, self.shell(command.replace("relay", role)).stderr)

    def shell_blocks(self, text):
        """Every command of a section's sh blocks. New accounts go into the settings file, by the
        command itself or after it; the application's goes into self.shop_login."""
        for language, _, content in page_files.blocks(text):
            for command in content.splitlines() if language == "sh" else ():
                done = self.shell(command)
                role = re.search(r"--role (\S+) .*--create-user", command)
                if role and role[1].startswith("application"):
                    user, password = re.search(r"# user = (\S+)\n# password = (\S+)",
                                               done.stderr).groups()
                    self.shop_login = {"user": user, "password": password}
                elif role and "2>> tallybox.ini" not in command:
                    self.note_account(role[1], done.stderr)

    def note_account(self, role, printed):
        match = re.search(r"mysql\.user = (\S+)\nmysql\.password = (\S+)", printed)
        self.assertTrue(match, printed)
        (self.work / f"{role}.password").write_text(match[2] + "\n")
        (self.work / f"{role}.password").chmod(0o600)
        with open(self.ini, "a", encoding="utf-8") as ini:
            ini.write(f"\n[role.{role}]\nmysql.user = {match[1]}\n"
                      f"mysql.password_file = {role}.password\n")

    def wait_record(self, topic, key, part=b""):
        """The first record with this key that has this part in its value."""
        def look():
            for name, role in self.running.items():
                self.assertIsNone(role.poll(), f"{name} has ended")
            found = [record for record in wire.read_topic(suite.kafka().bootstrap, topic)
                     if record.key == key.encode() and part in (record.value or b"")]
            return found and found[0]
        return suite.wait_for(f"a record with the key {key} in {topic}\n", look)

    def make_settings(self):
        """Section 1 of docs/outbox.md."""
        settings = block(page("docs/outbox.md"), "ini")
        self.assertIn("\nport = 3306\n", settings)
        settings = settings.replace("port = 3306", f"port = {self.server.port}")
        settings = settings.replace("127.0.0.1:9092", suite.kafka().bootstrap)
        self.ini.write_text(f"{settings}\n[api]\nlisten = 127.0.0.1:{self.api_port}\n")

    def make_outbox(self):
        """Sections 1 to 3 of docs/outbox.md: settings, accounts, tables, the relay and retry."""
        self.make_settings()
        self.shell_blocks(section("docs/outbox.md", "## 2."))
        for command in block(section("docs/outbox.md", "## 3."), "sh").splitlines():
            self.start(command)

    def make_votes(self):
        """The tables for votes, added as docs/outbox.md tells, and the API."""
        self.shell_blocks(section("docs/outbox.md", "## Votes later"))
        self.account("serve")
        self.start(role_command("serve"))
        suite.wait_for("the API to answer", self.answers)

    def answers(self):
        """Also a request without its token is answered."""
        try:
            return suite.http_call(self.api_port, "GET", "/v1/contents/2/votes").status < 500
        except OSError:
            return False
