# SPDX-License-Identifier: MIT
"""The clients of docs/clients in four languages against a real server: work that fails is handed over
and done, also while the server is away or killed; what cannot be taken is named."""

import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]
import page_files  # noqa: E402
from ports import free_port  # noqa: E402
import suite  # noqa: E402

FOLDER = suite.ROOT / "docs" / "clients"
LANGUAGES = ("python", "go", "java", "node")
INTERPRETERS = {"python3": "python", "go": "go", "java": "java", "node": "node"}
TOKEN = "token-of-the-application-with-tasks"
STRANGER = "token-that-the-server-does-not-know"
SECONDS = 180  # for programs that start on a busy machine


class Clients(suite.Case):
    """The programs are those of README.md in the folder, with other arguments; Go's and Java's are
    compiled once."""

    needs = "languages"
    seconds = 90
    # The smallest body: a batch of 100 tasks is too large for it.
    settings = {"retry.poll_ms": 50, "api.tasks": "on", "api.body_bytes_max": 4096}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} tasks:default\n")
        tokens.chmod(0o600)
        cls.ports = {one: free_port(keep=True) for one in LANGUAGES}
        # The server takes tasks for the hosts that may be called; nothing listens on port 9.
        cls.serve = cls.stack.role("serve", sets={"api.token_file": tokens, "retry.http_hosts": ",".join(
            f"127.0.0.1:{port}" for port in [9, *cls.ports.values()])})
        page = page_files.files((FOLDER / "README.md").read_text(encoding="utf-8"))
        cls.stack.tallybox(*shlex.split(page["scene.sh"])[1:])
        cls.commands = {}
        for file in ("receive.sh", "report.sh"):
            for words in map(shlex.split, page[file].splitlines()):
                if words[0] in INTERPRETERS:
                    language = INTERPRETERS[words[0]]
                    cls.commands[language, file[:-3]] = cls.built(language, words)

    @classmethod
    def built(cls, language, words):
        """The command without its arguments, which are the last two."""
        words = words[:-2]
        out = cls.stack.folder / language
        if language == "java":
            if not out.exists():
                cls.compile(["javac", "-Xlint:all", "-Werror", "-d", str(out), words[1]])
            return ["java", "-cp", str(out), pathlib.Path(words[1]).stem, words[2]]
        if language == "go":
            if not out.exists():
                cache = dict(word.split("=", 1)
                             for word in os.environ["TALLYBOX_LANGUAGES"].split())["go"]
                cls.compile(["go", "build", "-o", str(out), words[2]], GOCACHE=f"{cache}/build",
                            GOFLAGS="-trimpath", GOTOOLCHAIN="local", GOPROXY="off")
            return [str(out), words[3]]
        return [sys.executable if language == "python" else words[0], *words[1:]]

    @staticmethod
    def compile(command, **env):
        done = subprocess.run(command, cwd=FOLDER, env=suite.clean_environment(**env),
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")

    def setUp(self):
        for table in ("retry_task", "retry_task_history", "retry_attempt", "retry_client"):
            self.stack.sql(f"DELETE FROM {table}")
        if not self.serve.alive:
            self.serve.start()
        self.serve.wait_up()

    def launch(self, language, program, *arguments, token=TOKEN, env=None):
        name = self.stack.folder / f"{self._testMethodName}-{language}-{program}"
        with open(f"{name}.out", "wb") as out, open(f"{name}.err", "wb") as err:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.commands[language, program],
                 *map(str, arguments)], cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=suite.clean_environment(
                    PYTHONDONTWRITEBYTECODE="1", TALLYBOX_TOKEN=token,
                    **{"TALLYBOX_URL": f"http://127.0.0.1:{self.serve.api_port}/", **(env or {})}))
        self.addCleanup(self.stop, process)
        process.output = lambda kind="out": pathlib.Path(f"{name}.{kind}").read_text("utf-8")
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def reported(self, processes, code=0):
        """{language: the last line of its report}"""
        counts = {}
        for language, process in processes.items():
            self.assertEqual(process.wait(SECONDS), code, process.output("err"))
            lines = process.output().splitlines()
            self.assertEqual(set(lines[:-1]), {"queued locally"}, language)
            counts[language] = {"queued": len(lines) - 1, **json.loads(lines[-1])}
        return counts

    def report_all(self, count, webhook, **more):
        return {language: self.launch(language, "report", count, webhook(language), **more)
                for language in LANGUAGES}

    def test_failed_work_is_handed_over_tried_again_and_done(self):
        count = 8  # ten failures in a row would open the circuit breaker of the webhook
        receivers = {one: self.launch(one, "receive", port, 1) for one, port in self.ports.items()}
        for language, process in receivers.items():
            suite.wait_for(f"the webhook in {language}", lambda: process.output().endswith("\n"),
                           SECONDS)
        self.start("retry", sets={"retry.http_hosts": ",".join(
            f"127.0.0.1:{port}" for port in self.ports.values())})
        running = self.report_all(count, lambda one: f"http://127.0.0.1:{self.ports[one]}/hook")
        for language, counts in self.reported(running).items():
            self.assertEqual(counts, {"queued": count, "reported": count, "refused": 0, "lost": 0,
                                      "failedCalls": 0}, language)
        suite.wait_for("all tasks to be done", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task_history WHERE outcome = 'done'")
            == count * len(LANGUAGES), SECONDS)
        for language, process in receivers.items():
            process.terminate()
            self.assertIn(process.wait(30), (0, 143), language)  # Java's runtime tells the signal
            calls = collections.defaultdict(list)
            for line in map(json.loads, process.output().splitlines()[1:]):
                calls[line["params"]["number"]].append(
                    (line["result"], line["attempt"], line["key"]))
            self.assertEqual(sorted(calls), list(range(count)), language)
            for number, made in calls.items():
                self.assertEqual([one[:2] for one in made],
                                 [("failed", 1), ("done", 2)], (language, number))
                self.assertEqual(len({key for _, _, key in made}), 1, (language, number))

    def config_versions(self):
        return {one for one, in self.stack.sql("SELECT config_version FROM retry_client")}

    def test_webhooks_register_themselves_and_share_the_tasks_of_their_group(self):
        chosen = {one: free_port(keep=True) for one in LANGUAGES}
        hosts = ",".join(f"127.0.0.1:{port}" for port in chosen.values())
        serve = self.stack.role("serve", sets={"api.token_file": self.stack.folder / "tokens",
                                               "retry.http_hosts": hosts})
        self.addCleanup(serve.kill)
        url = {"TALLYBOX_URL": f"http://127.0.0.1:{serve.api_port}", "TALLYBOX_GROUP": "default"}
        receivers = {one: self.launch(one, "receive", port, 0, env=url)
                     for one, port in chosen.items()}
        suite.wait_for("each webhook to register itself", lambda: {
            version for version, in self.stack.sql("SELECT version FROM retry_client")}
            == set(LANGUAGES), SECONDS)
        self.start("retry", sets={"retry.http_hosts": hosts})
        before = self.config_versions()
        self.stack.tallybox("retry", "group", "set", "default", "--description", "clients")
        for number in range(40):
            self.stack.sql("INSERT INTO retry_task (scene, handler, idempotency_key, options, params) "
                           "VALUES ('webhook', 'http', %s, '{\"path\": \"/\"}', %s)",
                           [number, f'{{"number": {number}}}'])
        suite.wait_for("one new version", lambda: len(self.config_versions()) == 1
                       and not self.config_versions() & before, SECONDS)
        suite.wait_for("all tasks to be done", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") == 0, SECONDS)
        version, = self.config_versions()
        # A beat that comes first tells the version instead.
        pushed = collections.Counter(json.loads(options)["url"] for options, in self.stack.sql(
            "SELECT options FROM retry_task_history WHERE scene = 'config'"))
        self.assertGreater(sum(pushed.values()), 0)
        numbers = []
        for language, process in receivers.items():
            lines = [json.loads(line) for line in process.output().splitlines()[1:]]
            done = [line["params"]["number"] for line in lines if line.get("result") == "done"]
            self.assertGreater(len(done), 3, language)
            self.assertEqual([line["config"] for line in lines if "config" in line],
                             [version] * pushed[f"http://127.0.0.1:{chosen[language]}"
                                                "/tallybox/config"], language)
            numbers += done
        self.assertEqual(sorted(numbers), list(range(40)))

    def test_a_server_that_is_away_and_killed_gets_every_task_once(self):
        count = 2500  # the window holds 1,000: the work must wait
        self.serve.kill()
        running = self.report_all(count, lambda one: f"http://127.0.0.1:9/{one}")
        for language, process in running.items():
            suite.wait_for(f"the window in {language} to be full",
                           lambda: process.output().count("queued locally") >= 1000, SECONDS)
        self.serve.start()
        suite.wait_for("the first tasks", lambda: self.stack.number(
            "SELECT COUNT(*) FROM retry_task") > 500, SECONDS)
        self.serve.kill()
        self.serve.start()
        for language, counts in self.reported(running).items():
            self.assertGreater(counts.pop("failedCalls"), 0, language)
            self.assertEqual(counts, {"queued": count, "reported": count, "refused": 0, "lost": 0},
                             language)
        rows = self.stack.sql("SELECT options, COUNT(*), COUNT(DISTINCT biz_no) FROM retry_task "
                              "GROUP BY options")
        self.assertEqual(sorted(row[1:] for row in rows), [(count, count)] * len(LANGUAGES))

    def test_a_task_that_can_never_run_is_named_and_the_process_fails(self):
        for language, counts in self.reported(self.report_all(3, lambda _: "ftp://x/"), 1).items():
            self.assertEqual(counts, {"queued": 3, "reported": 0, "refused": 3, "lost": 0,
                                      "failedCalls": 0}, language)
            err = (self.stack.folder / f"{self._testMethodName}-{language}-report.err").read_text()
            self.assertEqual(sum(line.startswith("refused: ") for line in err.splitlines()), 3, err)
            self.assertIn("https://host", err)

    def test_a_wrong_token_loses_nothing_before_close_gives_up(self):
        running = self.report_all(3, lambda _: "http://127.0.0.1:9/", token=STRANGER)
        for language, counts in self.reported(running, 1).items():
            self.assertGreater(counts.pop("failedCalls"), 1, language)
            self.assertEqual(counts, {"queued": 3, "reported": 0, "refused": 0, "lost": 3}, language)
        for process in running.values():
            self.assertNotIn(STRANGER, process.output() + process.output("err"))

    def test_a_wrong_command_is_told_how_to_call_it(self):
        for language in LANGUAGES:
            process = self.launch(language, "report", "7")
            self.assertEqual(process.wait(SECONDS), 2, language)
            self.assertIn("receive PORT [FAILURES]", process.output("err"))


if __name__ == "__main__":
    unittest.main()
