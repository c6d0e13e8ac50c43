# SPDX-License-Identifier: MIT
"""The readers themselves: what they ask for, what they write down, and which answers they take for
a defect."""

import http.server
import itertools
import json
import pathlib
import random
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import api_client  # noqa: E402
import judge_reads  # noqa: E402
import ledger  # noqa: E402
import readers  # noqa: E402
import writers  # noqa: E402


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the test has queued."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        status, headers, body = next(self.server.answers)
        self.server.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):  # pylint: disable=arguments-differ
        pass


class Client(unittest.TestCase):
    """Against a server of a few lines."""

    any_database = True

    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.server.asked = []
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.port = self.server.server_port
        self.client = api_client.ApiClient([self.port])
        self.addCleanup(thread.join, 20)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.client.close)

    def ask(self, status, headers=None, body=b"{}"):
        self.server.answers = itertools.repeat((status, headers or {}, body))
        return self.client.ask(self.port, "GET", "/x")

    def test_an_answer_is_given_as_it_is(self):
        self.assertEqual(self.ask(200, body=b"[1]"), (200, b"[1]"))
        self.assertEqual(self.ask(410), (410, b"{}"))
        self.assertEqual(self.server.asked[0], ("/x", f"Bearer {api_client.TOKEN}"))

    def test_a_refusal_must_say_when_to_come_back(self):
        for status in (429, 503):
            self.assertEqual(self.ask(status, {"Retry-After": "1"}).status, status)
            for headers in ({}, {"Retry-After": "soon"}):
                with self.assertRaisesRegex(AssertionError, f"{status} with Retry-After"):
                    self.ask(status, headers)

    def test_without_a_server_there_is_no_answer(self):
        self.client.close()
        self.server.shutdown()
        self.server.server_close()
        self.assertIsNone(self.client.ask(self.port, "GET", "/x"))


class Scripted:
    """A client whose answers are given; None is none."""

    ports = (1,)

    def __init__(self, *answers):
        self.answers = list(answers)
        self.paths = []

    def ask(self, _port, _method, path, _body=None, seconds=10):
        self.paths.append((path, seconds))
        answer = self.answers.pop(0)
        if answer is None or isinstance(answer, int):
            return answer and api_client.Answer(answer, b"{}")
        return api_client.Answer(200, json.dumps(answer).encode())

    def close(self):
        pass


def page_of(*ids, after=None, **more):
    return {"remarks": [{"id": remark, "itemId": 1, "votes": 2, "voting": 0, "score": 3,
                         "createdAt": 4, "rank": rank} for rank, remark in enumerate(ids, 1)],
            "next": after, "stale": False, "totalsAgeMs": 0, **more}


class Entries(unittest.TestCase):
    """What a reader and an author write into their ledgers."""

    any_database = True

    def make(self, kind, *answers):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.contents = writers.Contents()
        writer = kind("reader-1", 1, self.folder, threading.Event(), 0, ports=(1,),
                      contents=self.contents)
        writer.client = Scripted(*answers)
        self.addCleanup(writer.ledger.close)
        return writer

    def entries(self):
        return list(ledger.read(self.folder))

    def test_a_whole_list_is_one_entry(self):
        reader = self.make(readers.Reader, page_of(3, 2, after="n1.1.2"), None, 503, page_of(1))
        reader.read_pages()
        entry, = self.entries()
        self.assertEqual((entry["what"], entry["end"]), ("paging", "whole"))
        self.assertEqual([[row[0] for row in page["remarks"]] for page in entry["pages"]],
                         [[3, 2], [1]])
        self.assertIn("cursor=n1.1.2", reader.client.paths[-1][0])

    def test_a_list_without_an_answer_ends_short(self):
        reader = self.make(readers.Reader, page_of(3, after="n1.1.3"),
                           *[None] * readers.TRIES_MAX)
        reader.read_pages()
        self.assertEqual(self.entries()[0]["end"], "short")

    def test_only_a_cursor_of_the_order_by_votes_expires(self):
        reader = self.make(readers.Reader)
        for sort, expires in (("votes", True), ("newest", False)):
            reader.client = Scripted(page_of(3, after="c"), 410)
            reader.rng = Fixed(sort)
            if expires:
                reader.read_pages()
                self.assertEqual(self.entries()[-1]["end"], "expired")
            else:
                self.assertRaisesRegex(AssertionError, "410", reader.read_pages)
        reader.client = Scripted(410)
        reader.rng = Fixed("votes")
        self.assertRaisesRegex(AssertionError, "410", reader.read_pages)

    def test_other_errors_are_defects(self):
        for status in (400, 404, 500, 504):
            reader = self.make(readers.Reader, status)
            self.assertRaisesRegex(AssertionError, str(status), reader.read_list)

    def test_a_recommended_list_is_one_entry_that_can_be_judged(self):
        reader = self.make(readers.Reader, page_of(3, 2, list="a", window=0, count=2,
                                                   building=False))
        reader.read_list()
        entry, = self.entries()
        self.assertEqual(entry["remarks"][0][0], 3)
        self.assertEqual(entry["remarks"][0][4:], [1, 3, 4])
        reads = judge_reads.Reads({2: 1, 3: 1}, {0: {2: 1, 3: 1}}, 0, 0)
        self.assertEqual(list(reads.judge_list({**entry, "item": 1, "start": 0, "stop": 10}, {})),
                         [])

    def test_an_author_insists_and_then_votes_in_vain(self):
        deleted = [{"error": {"code": "deleted", "message": "gone"}}]
        author = self.make(readers.Author, None, 503, 201, None, 200, deleted)
        author.make()
        remark = writers.CONTENTS + 1
        self.assertEqual(self.contents.made, [remark])
        author.delete()
        self.assertEqual(self.contents.made, [])
        self.assertEqual([(entry["what"], entry["outcome"]) for entry in self.entries()],
                         [("remark", "asked"), ("remark", "made"), ("deletion", "asked"),
                          ("deletion", "deleted"), ("vote", "deleted")])

    def test_a_deletion_that_is_refused_is_a_defect(self):
        author = self.make(readers.Author, 404)
        self.contents.add(50)
        self.assertRaisesRegex(AssertionError, "404", author.delete)

    def test_a_vote_with_another_error_or_of_another_voter_is_a_defect(self):
        other = {"voterId": 8, "contentId": 1, "voting": 1, "changed": True, "votes": 1}
        for item in ({"error": {"code": "unknown", "message": ""}}, other):
            reader = self.make(readers.Reader, [item])
            self.assertRaises(AssertionError, reader.ask, {(9, 1): 1}, 1)


class Fixed(random.Random):
    """Reads by one order."""

    def __init__(self, sort):
        super().__init__(1)
        self.sort = sort

    def choice(self, seq):
        return self.sort if self.sort in seq else super().choice(seq)


class Final(unittest.TestCase):
    """The comparison at the end of a run."""

    any_database = True

    ROWS = {1: [(1, 5, 5, 0, 10), (2, 7, 7, 3, 20), (3, 7, 7, 0, 30)], 2: [], 3: []}

    def sql(self, statement, arguments=()):
        return self.ROWS[arguments[0]] if arguments else self.weights(statement)

    @staticmethod
    def weights(_statement):
        return [(1, 1, 0)]

    def differences(self, lists):
        return readers.final_differences(
            self, (1,), lambda _client, _port, item, sort: lists[sort] if item == 1 else [])

    def test_right_lists_have_no_difference_and_each_wrong_one_has(self):
        good = {"newest": [(3, 7), (2, 7), (1, 5)], "votes": [(3, 7), (2, 7), (1, 5)],
                "recommended": [(2, 7), (3, 7), (1, 5)]}
        self.assertEqual(self.differences(good), [])
        for sort in good:
            for wrong in (None, [], good[sort][:2], good[sort][::-1], [(1, 5), (2, 7), (3, 8)]):
                found, = self.differences({**good, sort: wrong})
                self.assertIn(f"item 1, {sort}", found)


if __name__ == "__main__":
    unittest.main()
