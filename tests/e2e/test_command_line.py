# SPDX-License-Identifier: MIT
"""What `tallybox` prints about itself: help, man pages, completion. Needs no server."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import suite  # noqa: E402
import page_files  # noqa: E402

WITHOUT_PAGE = {"help", "man", "completion"}


def tallybox(*arguments, cwd=None):
    return subprocess.run([suite.BINARY, *arguments], capture_output=True, text=True, timeout=60,
                          check=False, stdin=subprocess.DEVNULL, cwd=cwd, env=suite.clean_environment())


def commands():
    page = tallybox("--help").stdout
    return re.findall(r"^  (\w+) +\S", page.split("Commands:")[1], re.M)


class CommandLine(unittest.TestCase):

    def test_every_command_has_a_page_for_people_and_a_man_page(self):
        self.assertIn("relay", commands())
        for command in commands():
            with self.subTest(command=command):
                help_page = tallybox(command, "--help")
                self.assertEqual((help_page.returncode, help_page.stderr), (0, ""))
                self.assertEqual(tallybox("help", command).stdout, help_page.stdout)
                page = tallybox("man", command)
                self.assertEqual((page.returncode, page.stderr), (0, ""))
                self.assertTrue(page.stdout.startswith(".TH TALLYBOX"), page.stdout[:80])
                if command not in WITHOUT_PAGE:
                    self.assertIn(f"tallybox\\-{command} \\- ", page.stdout)
                    self.assertIn(".SH OPTIONS", page.stdout)

    def test_groff_has_nothing_to_complain_about(self):
        for arguments in (["man"], *(["man", command] for command in commands())):
            with self.subTest(arguments=arguments):
                done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], capture_output=True,
                                      input=tallybox(*arguments).stdout, text=True, timeout=60,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def complete(self, *words):
        """What bash offers for the last word."""
        script = (f"{tallybox('completion', 'bash').stdout}\n"
                  'compopt() { compopts+=("$*"); }\n'
                  'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tallybox; '
                  'printf "%s\\n" "${COMPREPLY[@]}" "${compopts[@]/#/compopt:}"')
        done = subprocess.run(["bash", "-c", script, "bash", "tallybox", *words], text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line for line in done.stdout.splitlines() if line]

    def test_bash_completes_commands_options_and_settings(self):
        self.assertEqual(set(self.complete("")), set(commands()))
        self.assertEqual(self.complete("relay", "--mig"), ["--migrate"])
        self.assertEqual(self.complete("relay", "--set", "rollup.inter"),
                         ["rollup.interval_ms=", "compopt:-o nospace"])
        self.assertEqual(self.complete("relay", "--config", ""), [])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertFalse([word for word in self.complete("version", "") if word[0].isdigit()])

    def test_bash_completes_actions_and_their_options(self):
        self.assertEqual(self.complete("retry", "unp"), ["unpark"])
        self.assertEqual(self.complete("retry", "sce"), ["scene"])
        self.assertEqual(self.complete("retry", "--mig"), ["--migrate"])
        self.assertEqual(self.complete("retry", "list", "--biz"), ["--biz-no", "--biz-no-prefix"])
        self.assertEqual(self.complete("retry", "list", "--biz-no", ""), [])
        self.assertEqual(self.complete("migrate", "base"), ["baseline"])
        self.assertEqual(self.complete("migrate", "up", "--wi"), ["--with"])
        self.assertEqual(self.complete("dead", "repl"), ["replay"])
        self.assertEqual(self.complete("relay", "repl"), ["replay"])
        self.assertEqual(self.complete("relay", "replay", "--dry"), ["--dry-run"])

    def test_bash_completes_the_second_word_of_an_action_and_a_role(self):
        self.assertEqual(self.complete("retry", "scene", "s"), ["show", "set"])
        self.assertIn("presets", self.complete("retry", "scene", ""))
        self.assertEqual(self.complete("retry", "group", "dis"), ["disable"])
        for before, more in ((["migrate", "grants"], ["relay_wakeup", "relay_partitions", "relay_source"]), (["doctor"], []),
                             (["config"], [])):
            with self.subTest(before=before):
                self.assertEqual(self.complete(*before, "--role", "re"),
                                 ["relay", "retry", "retry_admin", *more])
        granted = set(re.findall(r"^-- (\w+): `", tallybox("migrate", "grants").stdout, re.M))
        self.assertLess({"relay", "lanes"}, granted)
        self.assertLessEqual(granted, set(self.complete("migrate", "grants", "--role", "")))
        for role in self.complete("config", "--role", ""):
            self.assertEqual(tallybox("config", "--role", role, "--config", "/dev/null").returncode,
                             0, role)

    def test_a_page_fits_a_screen_or_two_and_has_the_settings_apart(self):
        for command in commands():
            with self.subTest(command=command):
                page = tallybox(command, "--help").stdout
                self.assertLessEqual(len(page.splitlines()), 70)
        self.assertNotIn("relay.gap_wait_ms", tallybox("relay", "--help").stdout)
        self.assertIn("\n  relay.gap_wait_ms ", tallybox("relay", "--help=settings").stdout)
        page = tallybox("retry", "--help").stdout
        self.assertLess(page.index("\n  unpark [KEY]"), page.index("\nOptions:\n"))

    def test_pages_list_actions_with_their_arguments(self):
        for command, line in (("retry", "  unpark [KEY]            continues a blocked or parked key"),
                              ("dead", "  show ID                 one record with headers and payload"),
                              ("relay", "  replay LANE             publishes events again that the lane keeps"),
                              ("migrate", "  status                  shows the schema version and "
                                          "every migration")):
            with self.subTest(command=command):
                page = tallybox(command, "--help").stdout
                actions = page[page.index("\nActions:\n"):page.index("\nOptions:\n")]
                self.assertIn(line, actions.splitlines())
                self.assertIn(".SH ACTIONS", tallybox("man", command).stdout)

    def test_an_action_of_retry_reads_the_section_of_its_own_role(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as ini:
            ini.write("[mysql]\nhost = 127.0.0.1\n[role.retry]\nmysql.port = 1\n"
                      "[role.retry_admin]\nmysql.port = 2\n")
            ini.flush()
            done = tallybox("retry", "list", "--config", ini.name)
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertIn("127.0.0.1:2", done.stderr)

    def test_wrong_words_of_a_replay_are_refused(self):
        for words, text in ((["outbox"], "--from TIME is missing"), ([], "the name of one lane"),
                            (["outbox", "--from", "-2h", "--to", "0s"], "--from -2h: expected a time"),
                            (["outbox", "--from", "2h", "--to", "0s", "--after", "9"], "expected ENTRY/SEQ")):
            with self.subTest(words=words):
                done = tallybox("relay", "replay", *words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)

    def test_an_unknown_action_of_relay_is_refused(self):
        for words in (["nonsense"], ["--config", "/dev/null", "nonsense", "--help"]):
            with self.subTest(words=words):
                done = tallybox("relay", *words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn('tallybox relay: there is no action "nonsense"', done.stderr)

    def test_doctor_and_status_name_the_settings_file_of_a_failed_connection(self):
        sets = ("--set", "mysql.host=127.0.0.1", "--set", "mysql.port=1",
                "--set", "kafka.bootstrap.servers=127.0.0.1:1")
        with tempfile.TemporaryDirectory() as folder:
            for command in ("doctor", "status"):
                with self.subTest(command=command):
                    done = tallybox(command, *sets, cwd=folder)
                    self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                    self.assertIn("tallybox: no configuration file (./tallybox.ini not found): "
                                  "built-in defaults\n", done.stderr)
                    path = pathlib.Path(folder, "other.ini")
                    path.write_text("")
                    done = tallybox(command, *sets, "--config", str(path), cwd=folder)
                    self.assertIn(f"tallybox: configuration file {path}\n", done.stderr)

    def test_a_wrong_setting_ends_a_command_before_it_waits_for_a_server(self):
        away = ["--set", "mysql.host=127.0.0.1", "--set", "mysql.port=1",
                "--set", "kafka.bootstrap.servers=127.0.0.1:1", "--set", "admin.listen=off"]
        restart = ["consume", "--restart-partition", "vote-events/0@earliest"]
        wide = "other machines can reach this address: set {0}.token_file"
        for command, sets, text in (
                (["serve"], ["api.listen=0.0.0.0:0"], "api.listen: " + wide.format("api")),
                (["serve"], ["api.tls_cert=/nonexistent"], 'err="serve: api.tls_key is not set'),
                (["serve"], ["mysql.host=db.example", "mysql.tls_ca=/nonexistent"],
                 "serve: mysql.tls_ca: cannot read /nonexistent"),
                (["rollup"], ["sink.host=db.example", "sink.tls_ca=/nonexistent"],
                 "rollup: sink.tls_ca: cannot read /nonexistent"),
                (["relay"], ["admin.listen=0.0.0.0:0"], "admin.listen: " + wide.format("admin")),
                (["retry"], ["retry.http_ca=/nonexistent"], "/nonexistent"),
                (["relay"], ["kafka.nonsense=x"], "kafka.nonsense"),
                (restart, ["kafka.nonsense=x"], "kafka.nonsense"),
                (restart, ["kafka.ssl.ca.location=/nonexistent", "kafka.security.protocol=ssl"],
                 "ssl.ca.location failed"),
                (["consume"], ["kafka.group.id=mine"],
                 "kafka.group.id: group.id cannot be set here: consumer.group sets it")):
            with self.subTest(command=command, sets=sets):
                more = [word for one in sets for word in ("--set", one)]
                done = tallybox(*command, "--config", "/dev/null", *away, *more)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(text, done.stderr)

    def test_the_commands_of_the_page_make_every_man_page(self):
        """OPERATIONS.md, on a machine that has neither folder."""
        script = page_files.files((suite.ROOT / "OPERATIONS.md").read_text(encoding="utf-8"))["man.sh"]
        with tempfile.TemporaryDirectory() as folder:
            script = re.sub(r"(?<![\w.])/(etc|usr)/", rf"{folder}/\1/", script)
            self.assertEqual(script.count(f"{folder}/"), 4)
            program = pathlib.Path(folder, "tallybox")
            program.symlink_to(suite.BINARY)
            done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True,
                                  timeout=60, check=False, env={"PATH": f"{folder}:/usr/bin:/bin"})
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            pages = {path.name: path.read_text()
                     for path in pathlib.Path(folder, "usr/local/share/man/man1").iterdir()}
            self.assertIn("_tallybox()",
                          pathlib.Path(folder, "etc/bash_completion.d/tallybox").read_text())
        self.assertEqual(set(pages), {"tallybox.1", *(f"tallybox-{command}.1" for command in commands()
                                                      if command not in WITHOUT_PAGE)})
        for name, text in pages.items():
            self.assertIn(name[:-2].replace("-", "\\-") + " \\- ", text)

    def test_the_commands_before_the_unit_make_a_folder_for_tallybox_alone(self):
        """OPERATIONS.md, by this user and below another root."""
        script = page_files.files((suite.ROOT / "OPERATIONS.md").read_text(encoding="utf-8"))["service.sh"]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "build/release").mkdir(parents=True)
            (folder / "usr/local/bin").mkdir(parents=True)
            (folder / "etc").mkdir()
            shutil.copy(suite.BINARY, folder / "build/release/tallybox")
            (folder / "tallybox.ini").write_text("[mysql]\n")
            (folder / "useradd").write_text('#!/bin/sh\necho "$@" > added\n')
            (folder / "useradd").chmod(0o700)
            script = re.sub(r"(?<![\w.])/(etc|usr/local)/", rf"{folder}/\1/", script)
            script = script.replace("-o tallybox -g tallybox", f"-o {os.getuid()} -g {os.getgid()}")
            done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True,
                                  timeout=60, check=False, cwd=folder,
                                  env={"PATH": f"{folder}:/usr/bin:/bin"})
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            self.assertRegex((folder / "added").read_text(), "--system .* tallybox\n")
            self.assertEqual([(folder / path).stat().st_mode & 0o777 for path in (
                "usr/local/bin/tallybox", "etc/tallybox", "etc/tallybox/tallybox.ini")],
                [0o755, 0o700, 0o600])

    def test_the_script_for_zsh_loads_the_functions_of_bash(self):
        script = tallybox("completion", "zsh").stdout
        self.assertTrue(script.startswith("#compdef tallybox\nautoload -U +X bashcompinit"), script[:80])

    def test_wrong_arguments_are_refused(self):
        for arguments in (["completion"], ["completion", "fish"], ["man", "relay", "more"],
                          ["man", "rela"], ["relay", "--help=html"], ["version", "--nonsense"]):
            with self.subTest(arguments=arguments):
                done = tallybox(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertTrue(done.stderr)
        self.assertIn('did you mean "relay"?', tallybox("man", "rela").stderr)


if __name__ == "__main__":
    unittest.main()
