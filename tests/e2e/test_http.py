# SPDX-License-Identifier: MIT
"""Every error of the HTTP API, its limits, and what it does while the database is away or clients
are slow."""

import collections
import json
import pathlib
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

JSON = {"Content-Type": "application/json"}
GOOD = {"voterId": 1, "contentId": 1, "voting": 1}
TOO_LARGE = 2**63

# One request and what it must be answered. `at` is the place in the body or the query.
Fault = collections.namedtuple("Fault", "name method path body headers status code at allow",
                               defaults=(None, None, 400, None, None, None))


def post(name, body, code, at=None, status=400, headers=None):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return Fault(name, "POST", "/v1/votes", body, JSON if headers is None else headers, status,
                 code, at)


def get(name, path, code, at=None, status=400):
    return Fault(name, "GET", path, None, {}, status, code, at)


def other(name, method, path, allow):
    return Fault(name, method, path, None, {}, 405, "method_not_allowed", None, allow)


FAULTS = [
    post("not JSON", b"{voterId", "not_json"),
    post("nothing", b"", "not_json"),
    post("cut short", b'[{"voterId":1,', "not_json"),
    post("trailing text", b'{"voterId":1,"contentId":1,"voting":1} x', "not_json"),
    post("bad UTF-8", b'{"voterId":1,"contentId":1,"voting":1,"\xff":1}', "not_json"),
    post("deep nesting", b"[" * 100000, "not_json"),
    post("a number", b"7", "wrong_type", ""),
    post("a text", b'"x"', "wrong_type", ""),
    post("null", b"null", "wrong_type", ""),
    post("an empty array", b"[]", "out_of_range", ""),
    post("1,001 items", [GOOD] * 1001, "out_of_range", ""),
    post("no voter", {"contentId": 1, "voting": 1}, "missing", "/voterId"),
    post("no content", {"voterId": 1, "voting": 1}, "missing", "/contentId"),
    post("no voting", {"voterId": 1, "contentId": 1}, "missing", "/voting"),
    post("a voter of text", {**GOOD, "voterId": "1"}, "wrong_type", "/voterId"),
    post("a voter of 1.0", b'{"voterId":1.0,"contentId":1,"voting":1}', "wrong_type", "/voterId"),
    post("a voter of null", {**GOOD, "voterId": None}, "wrong_type", "/voterId"),
    post("a voting of true", {**GOOD, "voting": True}, "wrong_type", "/voting"),
    post("voter 0", {**GOOD, "voterId": 0}, "out_of_range", "/voterId"),
    post("voter -1", {**GOOD, "voterId": -1}, "out_of_range", "/voterId"),
    post("voter 2^63", {**GOOD, "voterId": TOO_LARGE}, "out_of_range", "/voterId"),
    post("content 0", {**GOOD, "contentId": 0}, "out_of_range", "/contentId"),
    post("content 2^64", {**GOOD, "contentId": 2**64}, "out_of_range", "/contentId"),
    post("voting 2", {**GOOD, "voting": 2}, "out_of_range", "/voting"),
    post("voting -1", {**GOOD, "voting": -1}, "out_of_range", "/voting"),
    post("an unknown field", {**GOOD, "votes": 1}, "unknown_field", "/votes"),
    post("a name to escape", {**GOOD, "a/b~c": 1}, "unknown_field", "/a~1b~0c"),
    post("a field twice", b'{"voterId":1,"voterId":2,"contentId":1,"voting":1}', "not_json"),
    post("no content type", GOOD, "unsupported_media_type", status=415, headers={}),
    post("a form", GOOD, "unsupported_media_type", status=415,
         headers={"Content-Type": "application/x-www-form-urlencoded"}),
    get("content id is text", "/v1/contents/x/votes", "out_of_range"),
    get("content id 0", "/v1/contents/0/votes", "out_of_range"),
    get("content id 2^63", f"/v1/contents/{TOO_LARGE}/votes", "out_of_range"),
    get("bad voter", "/v1/contents/1/votes?voterId=x", "out_of_range", "voterId"),
    get("voter 0", "/v1/contents/1/votes?voterId=0", "out_of_range", "voterId"),
    get("unknown argument", "/v1/contents/1/votes?voter=1", "unknown_field", "voter"),
    get("no arguments", "/v1/votes", "missing", "contentIds"),
    get("empty voter", "/v1/votes?voterId=&contentIds=1", "out_of_range", "voterId"),
    get("no contents", "/v1/votes?voterId=1", "missing", "contentIds"),
    get("empty contents", "/v1/votes?voterId=1&contentIds=", "missing", "contentIds"),
    get("bad content in list", "/v1/votes?voterId=1&contentIds=1,x", "out_of_range", "contentIds"),
    get("hole in list", "/v1/votes?voterId=1&contentIds=1,,2", "out_of_range", "contentIds"),
    get("201 contents", "/v1/votes?voterId=1&contentIds=" + ",".join(map(str, range(1, 202))),
        "out_of_range", "contentIds"),
    get("root", "/", "not_found", status=404),
    get("unknown path", "/v1/nothing", "not_found", status=404),
    get("half a path", "/v1/contents/1", "not_found", status=404),
    get("a path behind", "/v1/votes/1", "not_found", status=404),
    other("PUT votes", "PUT", "/v1/votes", {"GET", "HEAD", "POST"}),
    other("DELETE votes", "DELETE", "/v1/votes", {"GET", "HEAD", "POST"}),
    other("POST a content", "POST", "/v1/contents/1/votes", {"GET", "HEAD"}),
]


class Faults(suite.Case):
    """One server for all of the table."""

    roles = ("serve",)

    def check(self, fault):
        answer = self.serve.call(fault.method, fault.path, fault.body, fault.headers)
        self.assertEqual(answer.status, fault.status, answer.body)
        self.assertTrue(answer.headers["content-type"].startswith("application/json"))
        error = json.loads(answer.body)["error"]
        self.assertEqual(error["code"], fault.code)
        self.assertEqual(error.get("at"), fault.at)
        self.assertGreater(len(error["message"]), 10)
        if fault.allow:
            allowed = {word.strip() for word in answer.headers["allow"].split(",")}
            self.assertEqual(allowed - {"OPTIONS"}, fault.allow)

    def test_every_fault_is_answered_as_promised(self):
        for fault in FAULTS:
            with self.subTest(fault.name):
                self.check(fault)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_state"), 0)

    def test_faults_inside_an_array_stand_at_their_item(self):
        bad = [GOOD, {**GOOD, "voting": 3}, 5, {**GOOD, "x": 1}, {"voterId": 1}]
        answer = self.serve.call("POST", "/v1/votes", [dict(item) if isinstance(item, dict)
                                                       else item for item in bad])
        self.assertEqual(answer.status, 200)
        items = json.loads(answer.body)
        self.assertEqual([item.get("error", {}).get("code") for item in items],
                         [None, "out_of_range", "wrong_type", "unknown_field", "missing"])
        self.assertEqual([item.get("error", {}).get("at") for item in items],
                         [None, "/1/voting", "/2", "/3/x", "/4/contentId"])
        self.stack.sql("DELETE FROM vote_state")

    def test_head_is_get_without_a_body(self):
        answer = self.serve.call("HEAD", "/v1/contents/1/votes")
        self.assertEqual((answer.status, answer.body), (200, b""))

    def test_the_server_goes_on_after_all_of_them(self):
        for fault in FAULTS:
            self.serve.call(fault.method, fault.path, fault.body, fault.headers)
        self.assertEqual(self.serve.get("/v1/contents/424242/votes")["votes"], 0)

    def test_limits_are_inclusive(self):
        answers = self.serve.vote(*[(voter, 77, 1) for voter in range(1, 1001)])
        self.assertEqual(answers[-1]["votes"], 1000)
        ids = ",".join(map(str, range(1, 201)))
        self.assertEqual(self.serve.call("GET", f"/v1/votes?voterId=1&contentIds={ids}").status,
                         200)
        self.stack.sql("DELETE FROM vote_state")


class Limits(suite.Case):
    """Small limits, so that they are easy to pass."""

    settings = {"api.body_bytes_max": 1024, "api.header_bytes_max": 2048,
                "api.connections_max": 20}
    roles = ("serve",)

    def open(self, data=b"", serve=None):
        """A connection that has sent something and goes silent."""
        port = (serve or self.serve).api_port
        connection = socket.create_connection(("127.0.0.1", port), 60)
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def test_a_web_page_that_rebinds_its_name_cannot_vote_or_read(self):
        headers = {**JSON, "Host": f"rebound.example:{self.serve.api_port}"}
        before = self.stack.number("SELECT COUNT(*) FROM vote_state")
        answer = self.serve.call("POST", "/v1/votes", GOOD, headers)
        self.assertEqual(answer.status, 421)
        self.assertEqual(json.loads(answer.body)["error"]["code"], "misdirected_request")
        self.assertEqual(self.serve.call("GET", "/v1/contents/1/votes", headers=headers).status, 421)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_state"), before)
        for path, status in (("/metrics", 421), ("/readyz", 421), ("/healthz", 200)):
            answer = suite.http_call(self.serve.admin_port, "GET", path, headers=headers)
            self.assertEqual((path, answer.status), (path, status))

    def test_a_host_that_is_named_is_answered(self):
        serve = self.start("serve", sets={"api.hosts": "votes.example,127.0.0.1:1"})
        for host, status in (("votes.example:8080", 200), ("localhost", 421), ("127.0.0.1", 421),
                             ("127.0.0.1:1", 200)):
            answer = serve.call("GET", "/v1/contents/1/votes", headers={"Host": host})
            self.assertEqual((host, answer.status), (host, status))

    def test_a_body_above_the_limit_is_413(self):
        answer = self.serve.call("POST", "/v1/votes", b" " * 1025, JSON)
        self.assertEqual(answer.status, 413)
        self.assertEqual(json.loads(answer.body)["error"]["code"], "too_large")
        body = json.dumps(GOOD).encode().ljust(1024)
        self.assertEqual(self.serve.call("POST", "/v1/votes", body, JSON).status, 200)

    def test_a_chunked_body_above_the_limit_is_413(self):
        connection = self.open(
            b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n" +
            b"400\r\n" + b" " * 1024 + b"\r\n0\r\n\r\n")
        self.assertRegex(connection.recv(4096), rb"^HTTP/1.1 413 ")

    def test_headers_above_the_limit_are_refused(self):
        answer = self.serve.call("GET", "/v1/contents/1/votes", headers={"X-Long": "x" * 4000})
        self.assertIn(answer.status, (431, 413))
        answer = self.serve.call("GET", "/v1/contents/1/votes?voterId=" + "1" * 4000)
        self.assertIn(answer.status, (400, 414, 431))

    def test_garbage_is_refused(self):
        connection = self.open(b"\x16\x03\x01garbage\r\n\r\n")
        data = connection.recv(4096)
        self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 400"), data)

    def open_silent(self, serve):
        return [self.open(data, serve) for data in (
            b"", b"POST /v1", b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\n",
            b"POST /v1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n{") for _ in range(2)]

    def test_slow_and_half_open_clients_do_not_block_others(self):
        serve = self.start("serve", sets={"api.request_timeout_ms": 120000,
                                          "api.header_timeout_ms": 120000,
                                          "api.body_timeout_ms": 120000})
        silent = self.open_silent(serve)
        began = time.monotonic()
        for voter in range(1, 11):
            serve.vote((voter, 9, 1))
        self.assertLess(time.monotonic() - began, 60)
        # The votes did not have to wait until one of them was let go.
        for connection in silent:
            connection.settimeout(0)
            with self.assertRaises(BlockingIOError):
                connection.recv(4096)

    def test_slow_and_half_open_clients_are_let_go(self):
        serve = self.start("serve", sets={"api.request_timeout_ms": 1500})
        for connection in self.open_silent(serve):
            data = connection.recv(4096)
            self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 4"), data)

    def test_connections_above_the_limit_wait_for_nobody_and_break_nothing(self):
        held = [self.open() for _ in range(40)]
        for connection in held:
            connection.close()
        suite.wait_for("an answer", lambda: self.works())

    def works(self):
        try:
            return self.serve.call("GET", "/v1/contents/1/votes", seconds=10).status == 200
        except OSError:
            return False


class Queue(suite.Case):
    """A full queue is 429, not a wait."""

    settings = {"api.queue_votes_max": 100, "api.batch_votes_max": 100,
                "api.request_timeout_ms": 60000, "api.committers": 1}
    roles = ("serve",)

    def test_a_full_queue_is_429_with_retry_after(self):
        self.serve.vote((1, 1, 1))
        holder = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(holder.close)
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM vote_count WHERE content_id = 1 FOR UPDATE")
        answers = []
        threads = [threading.Thread(target=self.ask, args=(answers, n)) for n in range(12)]
        for thread in threads:
            thread.start()
        suite.wait_for("a refusal", lambda: any(one.status == 429 for one in list(answers)), 40)
        holder.rollback()
        for thread in threads:
            thread.join(60)
        self.assertEqual(len(answers), 12)
        refused = [one for one in answers if one.status == 429]
        for answer in refused:
            self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
            self.assertEqual(json.loads(answer.body)["error"]["code"], "too_many_requests")
        # Other voters were refused; voter 1 was not.
        self.assertEqual(self.serve.vote((1, 1, 0))["changed"], True)

    def ask(self, answers, number):
        votes = [{"voterId": number * 40 + n + 2, "contentId": 1, "voting": 1} for n in range(40)]
        answers.append(self.serve.call("POST", "/v1/votes", votes))


class Away(suite.Case):
    """The database is away and comes back."""

    settings = {"api.request_timeout_ms": 8000, "mysql.connect_timeout_ms": 1000}
    roles = ("relay", "serve")

    def test_without_its_database_it_answers_503_and_recovers_by_itself(self):
        self.serve.vote((1, 1, 1))
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        for method, path, body in (("POST", "/v1/votes", GOOD),
                                   ("GET", "/v1/contents/1/votes", None),
                                   ("GET", "/v1/votes?voterId=1&contentIds=1", None)):
            with self.subTest(path):
                began = time.monotonic()
                answer = self.serve.call(method, path, body)
                self.assertEqual(answer.status, 503, answer.body)
                self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
                self.assertIn("code", json.loads(answer.body)["error"])
                self.assertLess(time.monotonic() - began, 20)
        suite.wait_for("it not to be ready", lambda: self.serve.admin("/readyz").status == 503)
        suite.database().restart()
        suite.wait_for("a vote to be taken", lambda: self.serve.call(
            "POST", "/v1/votes", {**GOOD, "voting": 0}).status == 200)
        self.serve.wait_ready()


if __name__ == "__main__":
    unittest.main()
