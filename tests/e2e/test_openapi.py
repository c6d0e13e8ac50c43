# SPDX-License-Identifier: MIT
"""docs/openapi.yaml against a running server: schemathesis makes requests from the document, good
and bad ones, and each answer must have a status, headers and a body that the document allows."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import test_operate_api  # noqa: E402

PAGE = suite.ROOT / "docs" / "openapi.yaml"
TOKEN = "token-with-every-scope-of-the-api"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
TASK = {"scene": "mail", "handler": "kafka", "options": {"topic": "somewhere"}}
SEED = 20240229
EXAMPLES = 100
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "unsupported_method",
          "ignored_auth")
# An array may hold bad items and is answered with 200 all the same: only a GET must be refused when
# it breaks the document. Good data may be refused, because handlers and groups are settings.
CHECKS_OF_GET = CHECKS + ("negative_data_rejection",)


def run_python(folder, *words, seconds=900):
    """Python with the packages of scripts/part_schemathesis.sh; it leaves files in the folder."""
    env = {**os.environ, "PYTHONPATH": os.environ["TALLYBOX_SCHEMATHESIS"], "NO_COLOR": "1",
           "COLUMNS": "100"}
    return subprocess.run([sys.executable, "-B", *map(str, words)], capture_output=True, text=True,
                          env=env, cwd=folder, timeout=seconds, check=False)


class OpenApi(suite.Case):
    """The document and the server say the same."""

    needs = "schemathesis"
    seconds = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = cls.stack.folder / "tokens"
        tokens.write_text(f"{TOKEN} votes read operate tasks:default\n")
        tokens.chmod(0o600)
        test_operate_api.grant_operating(cls.stack)
        cls.stack.add_privileges("first_try", "tallybox_serve")
        cls.serve = cls.stack.role("serve", sets={"api.tasks": "on", "api.operate": "on",
                                                     "api.try_max": 2,
                                                     "api.token_file": tokens})

    def test_the_document_is_valid(self):
        done = run_python(self.stack.folder, "-m", "openapi_spec_validator", PAGE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def wait_dead(self):
        """Readiness does not wait for the queue of dead records either."""
        suite.wait_for("dead records to be asked for", lambda: self.serve.call(
            "GET", "/v1/dead", headers=BEARER).status == 200)

    def run_schemathesis(self, checks, *words):
        done = run_python(
            self.stack.folder, "-m", "schemathesis.cli", "run", PAGE,
            "--url", f"http://127.0.0.1:{self.serve.api_port}",
            "--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(checks),
            "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", SEED,
            "--generation-database", "none", "--continue-on-failure", "--warnings", "off", *words)
        self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-4000:])
        self.assertTrue(self.serve.alive())

    def test_answers_to_reads_are_those_of_the_document(self):
        # The ids of the examples in the document. Readiness does not wait for the retry queue.
        suite.wait_for("a task to be accepted", lambda: self.serve.call(
            "POST", "/v1/tasks", TASK, BEARER).status == 201)
        self.wait_dead()
        self.serve.call("POST", "/v1/votes", {"voterId": 1, "contentId": 1, "voting": 1}, BEARER)
        self.assertEqual(self.serve.call("GET", "/v1/tasks/1", headers=BEARER).status, 200)
        self.run_schemathesis(CHECKS_OF_GET, "--include-method", "GET")

    def test_answers_to_writes_are_those_of_the_document(self):
        self.wait_dead()
        self.run_schemathesis(CHECKS, "--include-method", "POST")
        self.assertGreater(self.stack.number("SELECT COUNT(*) FROM vote_count"), 0)
        self.assertGreater(self.stack.number("SELECT COUNT(*) FROM retry_task"), 0)


if __name__ == "__main__":
    unittest.main()
