# SPDX-License-Identifier: MIT
"""The way of a vote: from HTTP or the command line through the outbox and Kafka into the vote log
and a remark's total, and the proof that all of it is right."""

import concurrent.futures
import gzip
import json
import pathlib
import sys
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402


def documents(stack, content):
    """The vote log of a content: (voter, voting, votes, content_seq)s."""
    return stack.sql("SELECT voter_id, voting, votes, content_seq FROM vote_document "
                     "WHERE content_id = %s ORDER BY content_seq", [content])


class WayOfVotes(suite.Case):
    """All roles as processes; every test uses contents of its own."""

    roles = ("serve", "relay", "consume")

    def wait_documents(self, content, count):
        return suite.wait_for(f"{count} rows of content {content}", lambda: (
            lambda rows: rows if len(rows) >= count else None)(documents(self.stack, content)))

    def test_a_vote_travels_from_http_to_the_remark(self):
        self.stack.sql("INSERT INTO remark (id, header) VALUES (100, 'a remark')")
        first = self.serve.vote((1, 100, 1))
        self.assertEqual(first["voterId"], 1)
        self.assertEqual(first["contentId"], 100)
        self.assertEqual(first["voting"], 1)
        self.assertIs(first["changed"], True)
        self.assertEqual(first["votes"], 1)
        self.assertEqual(uuid.UUID(first["eventId"]).version, 7)
        self.serve.vote((2, 100, 1))
        self.assertEqual(self.serve.vote((1, 100, 0))["votes"], 1)

        self.assertEqual(self.wait_documents(100, 3), [(1, 1, 1, 1), (2, 1, 2, 2), (1, 0, 1, 3)])
        days_off, same_event = self.stack.sql(
            "SELECT SUM(create_date <> DATE(gmt_create)), SUM(event_id = %s) FROM vote_document "
            "WHERE content_id = 100", [uuid.UUID(first["eventId"]).bytes])[0]
        self.assertEqual((days_off, same_event), (0, 1))
        age = self.stack.number("SELECT MAX(ABS(TIMESTAMPDIFF(SECOND, gmt_create, "
                                "UTC_TIMESTAMP()))) FROM vote_document WHERE content_id = 100")
        self.assertLess(age, 600)

        self.stack.tallybox("rollup", "--once")
        self.assertEqual(self.stack.sql("SELECT votes, votes_seq FROM remark WHERE id = 100"),
                         [(1, 3)])
        self.stack.wait_drained()
        self.stack.tallybox("verify")

    def test_the_event_on_the_wire_is_what_readers_were_promised(self):
        answer = self.serve.vote((7, 107, 1))
        self.wait_documents(107, 1)
        record, = [one for one in self.stack.records() if one.key == b"107"]
        event = json.loads(record.value)
        self.assertEqual(abs(event.pop("occurredAt") - record.timestamp) <= 60000, True)
        self.assertEqual(event, {"eventId": answer["eventId"], "voterId": 7, "contentId": 107,
                                 "voting": 1, "votes": 1})
        self.assertEqual(record.headers["id"], answer["eventId"])

    def test_a_repeated_vote_changes_nothing_and_writes_no_event(self):
        first = self.serve.vote((1, 101, 1))
        again = self.serve.vote((1, 101, 1))
        self.assertEqual(again, {**first, "changed": False})
        never = self.serve.vote((2, 101, 0))
        self.assertEqual((never["changed"], never["votes"]), (False, 1))
        self.serve.vote((3, 101, 1))
        self.assertEqual(self.wait_documents(101, 2), [(1, 1, 1, 1), (3, 1, 2, 2)])

    def test_an_array_is_answered_item_by_item_in_order(self):
        answers = self.serve.vote((1, 102, 1), (1, 102, 0), (1, 102, 1), (2, 102, 1), (2, 103, 1))
        self.assertEqual([one["votes"] for one in answers], [1, 0, 1, 2, 1])
        self.assertEqual([one["contentId"] for one in answers], [102] * 4 + [103])
        self.assertTrue(all(one["changed"] for one in answers))
        self.assertEqual(self.wait_documents(102, 4),
                         [(1, 1, 1, 1), (1, 0, 0, 2), (1, 1, 1, 3), (2, 1, 2, 4)])

    def test_one_bad_item_fails_only_itself_in_place(self):
        body = [{"voterId": 1, "contentId": 104, "voting": 1},
                {"voterId": 1, "contentId": -5, "voting": 1},
                {"voterId": 2, "contentId": 104, "voting": 1}]
        answer = self.serve.call("POST", "/v1/votes", body)
        self.assertEqual(answer.status, 200)
        first, bad, last = json.loads(answer.body)
        self.assertEqual((first["votes"], last["votes"]), (1, 2))
        self.assertEqual(bad["error"]["at"], "/1/contentId")
        self.assertNotIn("changed", bad)
        self.assertEqual(len(self.wait_documents(104, 2)), 2)

    def test_totals_and_own_votes_can_be_read_back(self):
        self.serve.vote((1, 105, 1), (2, 105, 1), (2, 106, 1), (2, 106, 0))
        self.assertEqual(self.serve.get("/v1/contents/105/votes"), {"contentId": 105, "votes": 2})
        own = self.serve.get("/v1/contents/105/votes?voterId=2")
        self.assertEqual((own["votes"], own["voting"]), (2, 1))
        other = self.serve.get("/v1/contents/105/votes?voterId=9")
        self.assertEqual((other["votes"], other["voting"]), (2, 0))
        self.assertEqual(self.serve.get("/v1/contents/999999/votes")["votes"], 0)
        rows = self.serve.get("/v1/votes?voterId=2&contentIds=106,105,999999")
        rows = rows["votes"] if isinstance(rows, dict) else rows
        self.assertEqual([(one["contentId"], one["votes"], one["voting"]) for one in rows],
                         [(106, 0, 0), (105, 2, 1), (999999, 0, 0)])
        self.assertEqual(self.serve.get("/v1/votes?contentIds=106,105"),
                         [{"contentId": 106, "votes": 0}, {"contentId": 105, "votes": 2}])

    def test_largest_ids_survive_the_whole_way(self):
        largest = 2**63 - 1
        self.assertEqual(self.serve.vote((largest, largest, 1))["voterId"], largest)
        self.assertEqual(self.wait_documents(largest, 1), [(largest, 1, 1, 1)])


class GroupCommit(suite.Case):
    """Many clients on one hot content share transactions, and each still gets its own answer."""

    roles = ("serve", "relay", "consume")
    clients, votes_each = 32, 25

    def client(self, number):
        """One keep-alive client; its answers in order."""
        votes = []
        for n in range(self.votes_each):
            votes.append(self.serve.vote((1 + number * self.votes_each + n, 5, 1))["votes"])
        return votes

    def test_32_clients_on_one_content_each_get_an_exact_total(self):
        with concurrent.futures.ThreadPoolExecutor(self.clients) as pool:
            answers = list(pool.map(self.client, range(self.clients)))
        total = self.clients * self.votes_each
        for own in answers:
            self.assertEqual(own, sorted(own))
        self.assertEqual(sorted(sum(answers, [])), list(range(1, total + 1)))
        self.assertEqual(self.serve.get("/v1/contents/5/votes")["votes"], total)
        commits = self.serve.metric("tallybox_commit_seconds_count")
        self.assertLess(commits, total, "no commit was shared")
        self.stack.wait_rows("vote_document", total)
        self.assertEqual([row[2:] for row in documents(self.stack, 5)],
                         [(n, n) for n in range(1, total + 1)])
        self.stack.wait_drained()
        self.stack.tallybox("verify")


class GroupRead(suite.Case):
    """Requests for totals that wait together share a statement, and each gets its own answer."""

    roles = ("serve",)
    clients = 40

    def ask(self, number):
        """(own votes seen, own votes made) of a client; every fifth asks for no voter."""
        voter = f"voterId={number}&" if number % 5 else ""
        rows = self.serve.get(f"/v1/votes?{voter}contentIds=7,{number},{number + 1},7")
        return [(row["contentId"], row["votes"], row.get("voting")) for row in rows]

    def expected(self, number):
        """Voter n voted for the contents n and 7."""
        def row(content):
            votes = self.clients if content == 7 else int(content <= self.clients)
            mine = int(content in (7, number)) if number % 5 else None
            return content, votes, mine

        return [row(7), row(number), row(number + 1), row(7)]

    def statements(self):
        return int(self.stack.sql("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])

    def test_each_of_40_clients_gets_its_own_answer(self):
        self.serve.vote(*((n, n, 1) for n in range(1, self.clients + 1)),
                        *((n, 7, 1) for n in range(1, self.clients + 1) if n != 7))
        blocker = suite.connect(self.stack.name, autocommit=True)
        self.addCleanup(blocker.close)
        with concurrent.futures.ThreadPoolExecutor(self.clients) as pool:
            with blocker.cursor() as cursor:
                cursor.execute("LOCK TABLES vote_count WRITE")
                asked = [pool.submit(self.ask, n) for n in range(1, self.clients + 1)]
                suite.wait_for("the requests to wait", lambda: self.serve.metric(
                    "tallybox_read_queue_contents") >= 4 * (self.clients - 8))
                before = self.statements()
                cursor.execute("UNLOCK TABLES")
            for number, future in enumerate(asked, 1):
                self.assertEqual(future.result(), self.expected(number), number)
        self.assertLess(self.statements() - before, self.clients // 2)


class CommandLine(suite.Case):
    """`tallybox vote`."""

    def states(self):
        return self.stack.sql("SELECT voter_id, content_id, voting FROM vote_state "
                              "ORDER BY voter_id, content_id")

    def setUp(self):
        for table in ("vote_state", "vote_count", "outbox"):
            self.stack.sql(f"DELETE FROM {table}")

    def file(self, name, text):
        path = self.stack.folder / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    def test_one_vote_and_its_undo(self):
        self.stack.tallybox("vote", "1", "2")
        self.assertEqual(self.states(), [(1, 2, 1)])
        self.stack.tallybox("vote", "1", "2", "--undo")
        self.assertEqual(self.states(), [(1, 2, 0)])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 2)
        self.assertEqual(self.stack.number("SELECT votes FROM vote_count"), 0)

    def test_wrong_arguments_are_a_usage_error(self):
        for words in (["1"], ["x", "2"], ["0", "2"], ["1", "2", "3"], [], ["1", str(2**63)],
                      ["--csv", "a.csv", "1", "2"]):
            with self.subTest(words):
                done = self.stack.tallybox("vote", *words, expect=suite.USAGE)
                self.assertIn("tallybox", done.stderr)

    def test_a_csv_file_is_voted_line_by_line(self):
        text = "voter_id,content_id,voting\n1,10,1\n2,10,1\n1,10,0\n"
        self.stack.tallybox("vote", "--csv", self.file("plain.csv", text))
        self.assertEqual(self.states(), [(1, 10, 0), (2, 10, 1)])

    def test_a_gzip_file_without_the_voting_column(self):
        self.stack.tallybox("vote", "--csv", self.file("z.csv.gz", "voter_id,content_id\n3,4\n"))
        self.assertEqual(self.states(), [(3, 4, 1)])

    def test_standard_input_plain_and_gzip(self):
        text = b"voter_id,content_id\n5,6\n"
        self.stack.tallybox("vote", "--csv", "-", stdin=text)
        self.stack.tallybox("vote", "--csv", "-", stdin=gzip.compress(text.replace(b"5,", b"7,")))
        self.assertEqual(self.states(), [(5, 6, 1), (7, 6, 1)])

    def test_bad_lines_are_named_and_the_rest_goes_on(self):
        text = ("voter_id,content_id,voting\n1,1,1\nx,1,1\n2,1\n3,1,2\n4,0,1\n\n"
                "5,99999999999999999999,1\n6,1,1\n7,1,1,1\n" + "8" * 5000 + ",1,1\n9,1,1\n")
        done = self.stack.tallybox("vote", "--csv", self.file("bad.csv", text),
                                   expect=suite.FAILED)
        self.assertEqual([row[0] for row in self.states()], [1, 6, 9])
        for line in (3, 4, 5, 6, 8, 10, 11):
            self.assertRegex(done.stderr, rf"\bline {line}\b")
        for line in (2, 9, 12):
            self.assertNotRegex(done.stderr, rf"\bline {line}\b")

    def test_a_broken_gzip_file_is_said_and_what_came_before_is_kept(self):
        whole = gzip.compress(b"voter_id,content_id\n" + b"".join(
            b"%d,1\n" % n for n in range(1, 20001)))
        path = self.stack.folder / "half.csv.gz"
        path.write_bytes(whole[:len(whole) // 2])
        done = self.stack.tallybox("vote", "--csv", path, expect=suite.FAILED)
        self.assertIn("half.csv.gz", done.stderr)
        voters = [row[0] for row in self.states()]
        self.assertGreater(len(voters), 1000)
        self.assertEqual(voters, list(range(1, len(voters) + 1)))

    def test_a_missing_file_is_an_error(self):
        done = self.stack.tallybox("vote", "--csv", "/nonexistent/x.csv", expect=None)
        self.assertIn(done.returncode, (suite.FAILED, suite.USAGE))
        self.assertIn("/nonexistent/x.csv", done.stderr)

    def test_a_file_given_twice_changes_nothing_the_second_time(self):
        path = self.file("twice.csv", "voter_id,content_id\n1,1\n2,1\n1,2\n")
        self.stack.tallybox("vote", "--csv", path)
        events = self.stack.number("SELECT COUNT(*) FROM outbox")
        self.stack.tallybox("vote", "--csv", path)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), events)


if __name__ == "__main__":
    unittest.main()
