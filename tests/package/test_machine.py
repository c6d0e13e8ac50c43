# SPDX-License-Identifier: MIT
"""The package on a machine with a real systemd: installed, configured by the commands of the pages,
started, reloaded, hung, upgraded under load, booted, removed and purged. The database and Kafka run
beside the machine; every vote that a client was told to be accepted is in the log in the end."""

import http.client
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import machine  # noqa: E402
import suite  # noqa: E402

SETTINGS = "/etc/tallybox/tallybox.ini"
ROLES = ("serve", "relay", "consume", "retry", "rollup", "housekeep")
UNITS = " ".join(f"tallybox@{role}" for role in ROLES)
NEXT_VERSION = "999.1"
# What other programs of the machine write, and the memory of the package manager.
NOT_OURS = re.compile(r"(dev|proc|sys|run|tmp|var/(tmp|log|cache|lib/(apt|dpkg|systemd(?!/deb-)))"
                      r"|etc/(\.pwd\.lock|(passwd|group|shadow|gshadow)-?|ld\.so\.cache))(/|$)")


class Voter(threading.Thread):
    """Gives one vote after the other, each again until it is accepted."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.accepted = 0
        self.failures = 0
        self.answer = None  # the last one, or why there was none
        self.stopping = False

    def vote(self, voter):
        body = json.dumps({"voterId": voter, "contentId": voter % 20 + 1, "voting": 1})
        try:
            self.answer = suite.http_call(self.port, "POST", "/v1/votes", body,
                                          {"Content-Type": "application/json"}, seconds=30)
            return self.answer.status == 200
        except (OSError, http.client.HTTPException) as reason:
            self.answer = reason
            return False

    def wait_more(self, count):
        """Until so many more votes were accepted."""
        goal = self.accepted + count
        try:
            suite.wait_for(f"{goal} accepted votes", lambda: self.accepted >= goal, 120)
        except AssertionError as reason:
            raise AssertionError(f"{reason}; {self.accepted} were, the last answer is {self.answer!r}") from None

    def run(self):
        for voter in itertools.count(1):
            while not self.vote(voter):
                self.failures += 1
                time.sleep(0.05)
                if self.stopping:
                    return
            self.accepted = voter
            if self.stopping:
                return

    def finish(self):
        self.stopping = True
        if self.is_alive():
            self.join(60)


class Installation(unittest.TestCase):
    """The life of one installation. The steps need each other, so they are one test."""

    any_database = True

    def setUp(self):
        self.database = f"package_{os.getpid()}"
        self.port = suite.free_port()
        self.machine = machine.Machine("package")
        self.addCleanup(self.machine.stop)
        self.voter = Voter(self.port)
        self.addCleanup(self.voter.finish)

    def run(self, result=None):
        result = result if result is not None else self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            # systemd-nspawn is a part of systemd, so journalctl is here, too.
            journal = subprocess.run(["journalctl", f"--root={self.machine.root}", "--no-pager",
                                      "--lines=60", "--unit=tallybox*"], capture_output=True, text=True, check=False)
            print(suite.tail(self.machine.console), journal.stdout, journal.stderr, sep="\n",
                  file=sys.stderr)
        return result

    # The database, as its administrator sees it.

    def sql(self, statement):
        connection = suite.connect(self.database)
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def feed_mariadb(self, text):
        server = suite.database()
        done = subprocess.run(["mariadb", "--no-defaults", f"--host={server.host}", "--user=root",
                               f"--port={server.port}"], input=text, text=True, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    # The machine.

    def files(self):
        """The names of all files but those that are not ours."""
        found = set()
        for folder, folders, names in os.walk(self.machine.root):
            inside = os.path.relpath(folder, self.machine.root)
            keep = [name for name in folders
                    if not NOT_OURS.match(os.path.normpath(os.path.join(inside, name)) + "/")]
            links = [name for name in keep if os.path.islink(os.path.join(folder, name))]
            folders[:] = [name for name in keep if name not in links]
            found |= {os.path.normpath(os.path.join(inside, name)) for name in [*names, *keep]}
        return {name for name in found if not NOT_OURS.match(name)}

    def as_tallybox(self, command, **options):
        return self.machine.run(f"runuser --user tallybox -- {command}", **options)

    def states(self, units=UNITS):
        """How systemd calls each; it ends with 3 if one is not active."""
        return self.machine.call(f"systemctl is-active {units}").stdout.split()

    def pids(self):
        return {role: int(self.machine.show(f"tallybox@{role}", "MainPID")) for role in ROLES}

    def install(self, folder):
        return self.machine.run(f"apt-get install --yes /packages/{folder}/tallybox_*.deb 2>&1")

    # The steps.

    def install_first(self):
        before = self.files()
        told = self.install("first")
        self.assertNotRegex(told, r"(?i)error|fail|warning")
        self.assertRegex(self.machine.run("getent passwd tallybox"), ":/usr/sbin/nologin$")
        self.assertEqual(self.machine.run(f"stat -c '%a %U %G' /etc/tallybox {SETTINGS}"),
                         "700 tallybox tallybox\n600 tallybox tallybox\n")
        # No role runs, and none will after a boot.
        self.assertEqual(self.machine.run("systemctl list-units --all --no-legend 'tallybox@*'"), "")
        self.assertEqual(self.machine.run("systemctl list-dependencies --plain tallybox.target"),
                         "tallybox.target\n")
        self.assertEqual(self.states("tallybox.target"), ["active"])
        self.assertEqual(self.machine.run("systemctl is-enabled tallybox.target"), "enabled\n")
        self.machine.run("systemd-analyze --man=no verify tallybox@relay.service tallybox.target")
        self.machine.run(". /usr/share/bash-completion/completions/tallybox && complete -p tallybox")
        return before

    def configure(self):
        """With the accounts that the program prints. Only the first section is edited."""
        server = suite.database()
        path = self.machine.root / SETTINGS[1:]
        text = path.read_text()
        for found, put in (("port = 3306", f"port = {server.port}"),
                           ("database = tallybox", f"database = {self.database}"),
                           ("127.0.0.1:9092", suite.kafka().bootstrap),
                           ("127.0.0.1:9464+", f"127.0.0.1:{suite.free_port(keep=True)}+")):
            self.assertIn(found, text)
            text = text.replace(found, put)
        # As an editor of root does.
        path.write_text(f"{text}\n[api]\nlisten = 127.0.0.1:{self.port}\n\n"
                        f"[relay]\ntopics = vote=votes-{self.database}\n\n"
                        f"[consumer]\ntopics = votes-{self.database}\n")
        for role in ("migrate", *ROLES, "status", "verify"):
            if role == "serve":
                self.as_tallybox(f"tallybox migrate up --config {SETTINGS}")
            grants = self.as_tallybox(f"bash -c 'tallybox migrate grants --role {role} --create-user "
                                      f"--config {SETTINGS} 2>> {SETTINGS}'")
            self.feed_mariadb(grants)
        self.assertIn("[role.relay]", path.read_text())

    def start_roles(self):
        """systemctl returns when they work."""
        self.machine.run(f"systemctl enable --now {UNITS}")
        self.assertEqual(self.states(), ["active"] * len(ROLES))
        for role, pid in self.pids().items():
            self.assertEqual(self.machine.run(f"stat -c %U /proc/{pid}"), "tallybox\n", role)
        suite.wait_for("systemctl to tell that the relay is ready", lambda: 'Status: "ready' in
                       self.machine.run("systemctl status --no-pager tallybox@relay"))
        self.assertEqual(self.machine.run("systemctl --failed --no-legend"), "")

    def reload(self):
        path = self.machine.root / SETTINGS[1:]
        text = path.read_text()
        path.write_text(f"{text}\n[log]\nlevel = debug\n")
        pid = self.pids()["relay"]
        self.machine.run("systemctl reload tallybox@relay")
        suite.wait_for("the relay to read the settings", lambda: re.search(
            r"event=setting_changed .*log\.level", self.machine.journal("tallybox@relay")))
        suite.wait_for("the relay to be active", lambda: self.states("tallybox@relay") == ["active"])
        self.assertEqual(self.pids()["relay"], pid)
        path.write_text(text)

    def hang(self):
        """A process that does nothing for longer than WatchdogSec is killed and started again."""
        self.machine.run("mkdir -p /run/systemd/system/tallybox@rollup.service.d && "
                         "printf '[Service]\\nWatchdogSec=4\\n' > "
                         "/run/systemd/system/tallybox@rollup.service.d/test.conf && "
                         "systemctl daemon-reload && systemctl restart tallybox@rollup")
        pid = self.pids()["rollup"]
        # Longer than the limit it is well.
        time.sleep(6)
        self.assertEqual(self.pids()["rollup"], pid)
        self.machine.run(f"kill -STOP {pid}")
        suite.wait_for("the watchdog", lambda: "Watchdog timeout" in self.machine.journal("tallybox@rollup"),
                       every=0.5)
        suite.wait_for("another process", lambda: self.states("tallybox@rollup") == ["active"] and
                       self.pids()["rollup"] not in (0, pid), every=0.5)
        self.machine.run("rm -r /run/systemd/system/tallybox@rollup.service.d && systemctl daemon-reload && "
                         "systemctl restart tallybox@rollup")

    def upgrade(self):
        """Under load, with a role that an operator stopped."""
        self.machine.run("systemctl disable --now tallybox@housekeep")
        settings = self.machine.run(f"cat {SETTINGS} && stat -c '%a %U %G' /etc/tallybox {SETTINGS}")
        self.voter.wait_more(20)
        before = self.pids()
        self.assertNotIn(NEXT_VERSION, self.machine.run("tallybox version"))
        told = self.install("next")
        self.assertNotRegex(told, r"(?i)error|fail|warning")
        self.assertEqual(self.machine.run("tallybox version"), f"tallybox {NEXT_VERSION}\n")
        running = [role for role in ROLES if role != "housekeep"]
        suite.wait_for("the roles to be restarted", lambda: all(
            self.pids()[role] not in (0, before[role]) for role in running), 120, every=0.5)
        self.wait_for_roles()
        for role in running:
            program = self.machine.run(f"readlink /proc/{self.pids()[role]}/exe")
            self.assertEqual(program, "/usr/bin/tallybox\n", role)
        self.assertEqual(
            self.machine.run(f"cat {SETTINGS} && stat -c '%a %U %G' /etc/tallybox {SETTINGS}"), settings)
        self.voter.wait_more(20)

    def install_again(self):
        """With a policy that forbids restarts, as OPERATIONS.md describes it."""
        before = self.pids()
        policy = self.machine.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        self.machine.run("apt-get install --yes --reinstall /packages/next/tallybox_*.deb")
        policy.unlink()
        # A restart that was asked for would have begun before one that is asked for now.
        self.machine.run("systemctl restart tallybox@serve")
        after = self.pids()
        self.assertEqual({role for role in ROLES if after[role] != before[role]}, {"serve"})

    def upgrade_before_migration(self):
        """A package whose schema is not there yet: apt-get does not wait for the roles, which need it."""
        connection = suite.connect(self.database)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM schema_history ORDER BY version DESC LIMIT 1")
            newest = cursor.fetchone()
            cursor.execute("DELETE FROM schema_history WHERE version = %s", [newest[0]])
            self.machine.run("apt-get install --yes --reinstall /packages/next/tallybox_*.deb")
            self.assertEqual(self.states("tallybox@serve"), ["activating"])
            suite.wait_for("the role to tell what it waits for", lambda: "tallybox migrate" in
                           self.machine.call("systemctl status --no-pager tallybox@serve").stdout)
            marks = ", ".join(["%s"] * len(newest))
            cursor.execute(f"INSERT INTO schema_history VALUES ({marks})", newest)
        self.wait_for_roles()

    def wait_for_roles(self):
        """All but the one that an operator stopped."""
        suite.wait_for("the roles to work", lambda: self.states() == ["active"] * 5 + ["inactive"], 120,
                       every=0.5)

    def boot(self):
        """The enabled roles start, and no other."""
        self.machine.stop()
        self.machine.start()
        self.wait_for_roles()

    def restart_target(self):
        before = self.pids()
        self.machine.run("systemctl restart tallybox.target")
        self.wait_for_roles()
        self.assertEqual({role for role, pid in self.pids().items() if pid == before[role]}, {"housekeep"})

    def compare(self):
        """Each accepted vote once, by the tables and by verify."""
        self.voter.finish()
        self.as_tallybox(f"tallybox verify --wait 60 --config {SETTINGS}")
        accepted = self.voter.accepted
        rows = self.sql("SELECT voter_id, COUNT(*) FROM vote_document GROUP BY voter_id")
        # One more may have been accepted without an answer.
        self.assertEqual({count for _, count in rows}, {1})
        found = {int(voter) for voter, _ in rows}
        self.assertEqual(set(range(1, accepted + 1)) - found, set())
        self.assertLessEqual(found - set(range(1, accepted + 1)), {accepted + 1})
        total, = self.sql("SELECT SUM(votes) FROM vote_tally")[0]
        self.assertEqual(int(total), len(found))
        print(f"package: votes={accepted} unanswered={self.voter.failures} lost=0 twice=0", file=sys.stderr)

    def remove(self):
        self.machine.run("apt-get remove --yes tallybox")
        self.assertEqual(self.machine.run("systemctl list-units --no-legend 'tallybox*'"), "")
        self.assertEqual(self.machine.call("test -e /usr/bin/tallybox").returncode, 1)
        # The settings stay, with their account.
        self.assertEqual(self.machine.run(f"stat -c %U {SETTINGS}"), "tallybox\n")

    def purge(self, before):
        (self.machine.root / "etc/tallybox/relay.password").write_text("secret\n")
        told = self.machine.run("apt-get purge --yes tallybox 2>&1")
        self.assertNotRegex(told, r"(?i)error|fail|warning|not empty")
        self.assertEqual(self.machine.call("getent passwd tallybox").returncode, 2)
        self.assertEqual(self.machine.call("getent group tallybox").returncode, 2)
        self.assertEqual(self.machine.call("dpkg-query -W tallybox").returncode, 1)
        self.assertEqual(self.files() ^ before, set())

    def test_a_package_lives_from_its_installation_to_its_purge(self):
        self.machine.start()
        before = self.step(self.install_first)
        self.step(self.configure)
        self.step(self.start_roles)
        self.voter.start()
        for step in (self.reload, self.hang, self.upgrade, self.install_again,
                     self.upgrade_before_migration, self.boot,
                     self.restart_target, self.compare, self.remove):
            self.step(step)
        self.step(self.purge, before)

    def step(self, step, *words):
        began = time.monotonic()
        value = step(*words)
        print(f"{step.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        return value


if __name__ == "__main__":
    unittest.main()
