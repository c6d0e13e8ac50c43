# SPDX-License-Identifier: MIT
"""Contents that take no more votes: an application or an operator inserts a row into
deleted_content, or a client deletes the remark; every later vote is refused."""

import concurrent.futures
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

GONE = "deleted"


class Deletion(suite.Case):
    """One server; every test uses contents of its own."""

    roles = ("serve",)

    def delete(self, content):
        self.stack.sql("INSERT INTO deleted_content (content_id) VALUES (%s)", [content])

    def rows(self, content):
        """(rows of vote_state, rows of vote_count, events) of a content."""
        return self.stack.sql(
            "SELECT (SELECT COUNT(*) FROM vote_state WHERE content_id = %s), "
            "(SELECT COUNT(*) FROM vote_count WHERE content_id = %s), "
            "(SELECT COUNT(*) FROM outbox WHERE aggregateid = %s)",
            [content, content, str(content)])[0]

    def error(self, vote, status=404, serve=None):
        error = (serve or self.serve).vote(vote, status=status)["error"]
        self.assertEqual((error["code"], error["at"]), (GONE, "/contentId"))
        self.assertIn(f"content {vote[1]} is deleted", error["message"])

    def test_a_vote_on_a_deleted_content_is_refused_and_writes_nothing(self):
        self.serve.vote((1, 10, 1))
        self.serve.vote((2, 10, 1))
        self.delete(10)
        before = self.rows(10)
        self.assertEqual(before, (2, 1, 2))
        for vote in ((1, 10, 1), (1, 10, 0), (3, 10, 1), (3, 10, 0)):
            self.error(vote)
        self.assertEqual(self.rows(10), before)
        self.assertEqual(self.serve.get("/v1/contents/10/votes?voterId=1"),
                         {"contentId": 10, "votes": 2, "voterId": 1, "voting": 1})

    def test_a_content_that_never_had_votes_gets_no_row(self):
        self.delete(20)
        self.error((1, 20, 1))
        self.assertEqual(self.rows(20), (0, 0, 0))
        self.assertEqual(self.serve.get("/v1/contents/20/votes")["votes"], 0)

    def test_in_an_array_the_other_votes_count(self):
        self.serve.vote((1, 30, 1))
        self.delete(30)
        self.delete(31)
        answers = self.serve.vote((1, 32, 1), (2, 30, 1), (1, 33, 1), (2, 31, 1), (2, 32, 1))
        self.assertEqual([one.get("error", {}).get("code") for one in answers],
                         [None, GONE, None, GONE, None])
        self.assertEqual([one.get("error", {}).get("at") for one in answers],
                         [None, "/1/contentId", None, "/3/contentId", None])
        self.assertEqual([one.get("votes") for one in answers], [1, None, 1, None, 2])
        self.assertEqual([self.rows(content) for content in (30, 31, 32, 33)],
                         [(1, 1, 1), (0, 0, 0), (2, 1, 2), (1, 1, 1)])

    def test_a_thousand_votes_with_deleted_contents_among_them(self):
        self.stack.sql("INSERT INTO deleted_content (content_id) VALUES "
                       + ",".join(f"({content})" for content in range(10000, 11000, 7)))
        votes = [(voter, content, 1) for voter in (1, 2) for content in range(10000, 10500)]
        answers = self.serve.vote(*votes)
        for (voter, content, _), answer in zip(votes, answers):
            if content % 7 == 10000 % 7:
                self.assertEqual(answer["error"]["code"], GONE)
            else:
                self.assertEqual((answer["changed"], answer["votes"]), (True, voter))
        self.assertEqual(
            self.stack.number("SELECT COUNT(*) FROM vote_count c JOIN deleted_content d "
                              "ON d.content_id = c.content_id WHERE c.content_id >= 10000"), 0)

    def test_the_metric_counts_them(self):
        name = 'tallybox_votes_total{result="deleted"}'
        self.delete(40)
        before = self.serve.metrics()[name]
        self.serve.vote((1, 40, 1), (2, 40, 1), (1, 41, 1))
        self.assertEqual(self.serve.metrics()[name] - before, 2)

    def test_a_setting_makes_the_status_410(self):
        serve = self.stack.role("serve", sets={"api.deleted_status": 410})
        self.delete(50)
        self.error((1, 50, 1), 410, serve)
        self.assertEqual(serve.vote((1, 50, 1), (1, 51, 1))[0]["error"]["code"], GONE)
        done = self.stack.tallybox("serve", "--set", "api.deleted_status=405",
                                   expect=suite.USAGE)
        self.assertIn("api.deleted_status", done.stderr)
        self.assertIn("410", done.stderr)

    def test_the_command_line_refuses_it(self):
        self.delete(60)
        done = self.stack.tallybox("vote", "1", "60", expect=suite.FAILED)
        self.assertEqual(done.stdout, "")
        self.assertIn("content 60 is deleted", done.stderr)
        path = self.stack.folder / "deleted.csv"
        path.write_text("voter_id,content_id\n1,61\n1,60\n2,61\n")
        done = self.stack.tallybox("vote", "--csv", path, "--json", expect=suite.FAILED)
        self.assertIn("deleted.csv, line 3: the content is deleted", done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual((summary["changed"], summary["bad"]), (2, 1))
        self.assertEqual([self.rows(60), self.rows(61)], [(0, 0, 0), (2, 1, 2)])

    def test_under_the_lock_no_vote_is_counted_after_the_deletion(self):
        """The deletion and the votes are ordered by the row of vote_count."""
        for content in range(70, 80):
            self.serve.vote((1, content, 1))
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                votes = [pool.submit(self.serve.call, "POST", "/v1/votes",
                                     {"voterId": voter, "contentId": content, "voting": 1})
                         for voter in range(2, 42)]
                total = self.delete_locked(content)
                answers = [vote.result() for vote in votes]
            counted = [answer for answer in answers if answer.status == 200]
            self.assertEqual({answer.status for answer in answers} - {200}, {404})
            self.assertEqual(len(counted) + 1, total)
            self.assertEqual(self.rows(content), (total, 1, total))

    def delete_locked(self, content):
        """Returns the total of the content at its deletion."""
        connection = suite.connect(self.stack.name)
        try:
            with connection.cursor() as cursor:
                connection.begin()
                cursor.execute("SELECT votes FROM vote_count WHERE content_id = %s FOR UPDATE",
                               [content])
                total, = cursor.fetchone()
                cursor.execute("INSERT INTO deleted_content (content_id) VALUES (%s)", [content])
                connection.commit()
                return total
        finally:
            connection.close()


TOKEN = "a-token-that-may-delete-remarks"


class RemovalCase(suite.Case):
    """Deletes remarks over HTTP."""

    def setUp(self):
        super().setUp()
        self.tokens = self.stack.folder / "tokens"
        self.tokens.write_text(f"{TOKEN} votes read remarks\n")
        self.tokens.chmod(0o600)

    def serving(self):
        """Readiness does not wait for the queue of removals."""
        serve = self.start("serve", sets={"api.token_file": self.tokens})
        suite.wait_for("deletions to be taken", lambda: self.send(
            serve, "DELETE", "/v1/remarks/999999")[0] == 404)
        return serve

    @staticmethod
    def send(serve, method, path, body=None):
        answer = serve.call(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
        return answer.status, json.loads(answer.body)

    def vote_all(self, content, voters):
        lines = "".join(f"{voter},{content}\n" for voter in range(1, voters + 1))
        self.stack.tallybox("vote", "--csv", "-", stdin=f"voter_id,content_id\n{lines}".encode())

    def left(self, remark):
        """Rows of the remark in (vote_state, vote_count, vote_last, remark)."""
        tables = [f"(SELECT COUNT(*) FROM {table} WHERE {column} = {remark})" for table, column in (
            ("vote_state", "content_id"), ("vote_count", "content_id"),
            ("vote_last", "content_id"), ("remark", "id"))]
        return self.stack.sql(f"SELECT {', '.join(tables)}")[0]

    def wait_removed(self, remark):
        suite.wait_for(f"remark {remark} to be removed",
                       lambda: self.left(remark) == (0, 0, 0, 0), 60)

    def tombstones(self, remark):
        return [one.headers["ce_type"] for one in self.stack.records()
                if one.key == str(remark).encode() and one.value is None]


class Removal(RemovalCase):
    """DELETE /v1/remarks/{id}, and what is removed afterwards."""

    def test_a_deleted_remark_is_closed_at_once_and_removed_later(self):
        self.stack.sql("INSERT INTO remark (id, item_id, header) VALUES (1, 5, 'a'), (2, 5, 'b')")
        self.vote_all(1, 2500)
        self.vote_all(2, 3)
        serve = self.serving()
        self.assertEqual(len(self.send(serve, "GET", "/v1/remarks?itemId=5")[1]["remarks"]), 2)
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/1"), (200, {"id": 1}))
        page = self.send(serve, "GET", "/v1/remarks?itemId=5")[1]
        self.assertEqual([one["id"] for one in page["remarks"]], [2])
        vote = {"voterId": 1, "contentId": 1, "voting": 0}
        status, answer = self.send(serve, "POST", "/v1/votes", vote)
        self.assertEqual((status, answer["error"]["code"]), (404, GONE))
        self.assertEqual(self.send(serve, "PATCH", "/v1/remarks/1", {"header": "c"})[0], 404)

        # Without a consumer the remark waits with vote_last; the votes of the writers go.
        suite.wait_for("vote_state to be empty", lambda: self.left(1)[:2] == (0, 0))
        self.assertEqual(self.left(1)[3], 1)
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/1"), (200, {"id": 1}))
        self.start("relay")
        self.start("consume")
        self.wait_removed(1)
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/1"), (200, {"id": 1}))
        self.stack.sql("INSERT INTO deleted_content (content_id) VALUES (3)")
        self.stack.sql("INSERT INTO remark (id, item_id) VALUES (3, 5)")
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/3"), (200, {"id": 3}))
        self.wait_removed(3)
        self.stack.sql("INSERT INTO remark (id, item_id, deleted_at, remove_after) VALUES "
                       "(4, 5, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)), "
                       "(6, 5, UTC_TIMESTAMP(3), NULL)")
        self.wait_removed(4)
        self.assertEqual(self.left(6), (0, 0, 0, 1))
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/77")[0], 404)
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/x")[0], 400)
        self.stack.wait_drained()
        for remark in (1, 3, 4):
            self.assertEqual(self.tombstones(remark), ["ContentDeleted"])
        self.assertEqual(self.left(2)[:2], (3, 1))
        self.assertEqual(serve.metric("tallybox_removals_total"), 3)
        self.stack.tallybox("verify")

    def test_verify_holds_while_votes_are_removed(self):
        """The last batch of vote_state waits for a lock, when the tally has ended."""
        self.stack.sql("INSERT INTO remark (id, item_id) VALUES (11, 15), (12, 15)")
        self.vote_all(11, 2500)
        self.vote_all(12, 3)
        serve = self.serving()
        lock = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(lock.close)
        with lock.cursor() as cursor:
            cursor.execute("SELECT 1 FROM vote_state WHERE content_id = 11 AND voter_id = 2500 "
                           "FOR UPDATE")
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/11")[0], 200)
        suite.wait_for("a part of vote_state to be removed", lambda: self.left(11)[0] == 500)
        self.start("relay")
        self.start("consume")
        suite.wait_for("the tally to end", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_tally WHERE content_id = 11 AND ended_at IS NOT NULL"))
        self.assertEqual(self.left(11)[:2], (500, 1))
        self.stack.verify(arguments=("--wait", "10"))
        lock.rollback()
        self.wait_removed(11)
        self.stack.verify(arguments=("--wait", "10"))

    def test_a_deleted_remark_is_not_made_again(self):
        """A client sends its POST again after a time-out, and meanwhile the remark was deleted."""
        serve = self.serving()
        gone = self.start("serve", sets={"api.token_file": self.tokens,
                                         "api.deleted_status": 410})
        remark = {"id": 101, "itemId": 9, "header": "a"}

        def send_again(status, body=remark):
            for server, code in ((serve, 404), (gone, 410)):
                answer = self.send(server, "POST", "/v1/remarks", body)
                if status == 200:
                    self.assertEqual(answer, (200, {"id": body["id"], "existed": True}))
                else:
                    self.assertEqual((answer[0], answer[1]["error"]["code"],
                                      answer[1]["error"]["at"]), (code, GONE, "/id"))
            self.assertEqual([one["id"] for one in self.send(
                serve, "GET", "/v1/remarks?itemId=9")[1]["remarks"]],
                             [101] if status == 200 else [])

        self.assertEqual(self.send(serve, "POST", "/v1/remarks", remark)[0], 201)
        self.vote_all(101, 3)
        send_again(200)
        self.assertEqual(self.send(serve, "DELETE", "/v1/remarks/101")[0], 200)
        send_again(404)
        send_again(404, {**remark, "itemId": 10})
        self.start("relay")
        self.start("consume")
        self.wait_removed(101)
        send_again(404)
        send_again(404, {**remark, "itemId": 10})
        self.assertEqual(self.left(101), (0, 0, 0, 0))
        self.assertEqual(self.send(serve, "POST", "/v1/remarks", {"itemId": 9})[0], 201)


class Expiry(RemovalCase):
    """Contents that an application deleted by SQL: housekeep.vote_state_days. Every test uses
    contents of its own, and marks all that are old."""

    seconds = 30

    def once(self, *arguments, **sets):
        done = self.stack.tallybox("housekeep", *(arguments or ("--once",)), "--json",
                                   sets={f"housekeep.{key}": value for key, value in sets.items()})
        return json.loads(done.stdout)

    def delete_content(self, content, days):
        self.stack.sql("INSERT INTO deleted_content (content_id, deleted_at) VALUES "
                       "(%s, UTC_TIMESTAMP(3) - INTERVAL %s DAY)", [content, days])

    def state(self, content):
        """(closed, marked) of a row of deleted_content."""
        return self.stack.sql("SELECT closed_at IS NOT NULL, remove_after IS NOT NULL "
                              "FROM deleted_content WHERE content_id = %s", [content])[0]

    def test_old_deletions_are_marked_and_removed_and_young_ones_stay(self):
        self.stack.sql(
            "INSERT INTO remark (id, item_id, deleted_at) VALUES (1, 5, UTC_TIMESTAMP(3) - "
            "INTERVAL 31 DAY), (2, 5, UTC_TIMESTAMP(3) - INTERVAL 29 DAY), (3, 5, NULL)")
        for content in range(1, 8):
            self.vote_all(content, 10 + content)
        self.delete_content(4, 31)
        self.delete_content(5, 29)
        self.assertEqual(self.once()["marked"], {"remark": 0, "deleted_content": 0})
        self.assertEqual(
            sorted((one["would"], one["table"], one["rows"], one["olderThanDays"])
                   for one in self.once("--dry-run", vote_state_days=30) if "table" in one),
            [("mark", "deleted_content", 1, 30), ("mark", "remark", 1, 30)])
        self.assertEqual(self.once(vote_state_days=30)["marked"],
                         {"remark": 1, "deleted_content": 1})
        self.assertEqual(self.once(vote_state_days=30)["marked"],
                         {"remark": 0, "deleted_content": 0})
        self.assertEqual(self.state(4), (0, 1))

        serve = self.serving()
        suite.wait_for("vote_state of the content to be empty", lambda: self.left(4)[:2] == (0, 0))
        self.assertLess(serve.metric("tallybox_removal_oldest_seconds"), 86400)
        self.start("relay")
        self.start("consume")
        self.wait_removed(1)
        suite.wait_for("the mark of the content to end", lambda: self.state(4) == (1, 0))
        self.assertEqual(self.left(4), (0, 0, 0, 0))
        for content in (2, 3, 5, 6, 7):
            self.assertEqual(self.left(content)[:2], (10 + content, 1))
        self.assertEqual(self.state(5), (0, 0))
        self.stack.wait_drained()
        for content, count in ((1, 1), (2, 0), (3, 0), (4, 1), (5, 0)):
            self.assertEqual(len(self.tombstones(content)), count)
        vote = {"voterId": 1, "contentId": 4, "voting": 1}
        self.assertEqual(self.send(serve, "POST", "/v1/votes", vote)[0], 404)
        self.assertEqual(self.once(vote_state_days=30)["marked"],
                         {"remark": 0, "deleted_content": 0})
        self.stack.tallybox("verify")

    def test_a_round_marks_a_batch_and_the_next_one_the_rest(self):
        for content in range(101, 108):
            self.delete_content(content, 2)
            self.stack.sql("INSERT INTO remark (id, item_id, deleted_at) VALUES "
                           "(%s, 5, UTC_TIMESTAMP(3) - INTERVAL 2 DAY)", [content + 100])
        for marked in (5, 2, 0):
            self.assertEqual(self.once(vote_state_days=1, batch_rows_max=5)["marked"],
                             {"remark": marked, "deleted_content": marked})
        self.assertEqual([self.state(content) for content in range(101, 108)], [(0, 1)] * 7)

    def test_a_removal_that_is_killed_is_finished_by_another_process(self):
        self.vote_all(301, 8000)
        self.delete_content(301, 2)
        self.assertEqual(self.once(vote_state_days=1)["marked"]["deleted_content"], 1)
        self.start("relay")
        self.start("consume")
        serve = self.serving()
        suite.wait_for("some votes to be removed", lambda: self.left(301)[0] < 8000)
        serve.kill()
        self.serving()
        suite.wait_for("the mark of the content to end", lambda: self.state(301) == (1, 0), 60)
        self.assertEqual(self.left(301), (0, 0, 0, 0))
        self.stack.wait_drained()
        self.assertEqual(len(self.tombstones(301)), 1)
        self.stack.tallybox("verify")


class RemovalKilled(RemovalCase):
    """Deletions of many remarks while processes are killed."""

    def test_whatever_is_killed_each_deleted_remark_goes_and_all_else_stays(self):
        remarks = range(1, 41)
        self.stack.sql("INSERT INTO remark (id, item_id) VALUES "
                       + ",".join(f"({remark}, 5)" for remark in remarks))
        self.start("relay")
        self.start("consume")
        serves = [self.serving(), self.serving()]
        for remark in remarks:
            self.vote_all(remark, 1 + remark * 37 % 60)
        deleted = [remark for remark in remarks if remark % 3]

        def delete(remark):
            for attempt in range(60):
                try:
                    if self.send(serves[(remark + attempt) % 2], "DELETE",
                                 f"/v1/remarks/{remark}")[0] == 200:
                        return True
                except OSError:
                    pass
            return False

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(delete, remark) for remark in deleted]
            serves[0].kill()
            answered = [answer.result() for answer in answers]
        self.assertEqual(answered, [True] * len(deleted))
        serves[1].kill()
        self.serving()
        for remark in deleted:
            self.wait_removed(remark)
        self.stack.wait_drained()
        tombstones = [int(one.key) for one in self.stack.records() if one.value is None]
        self.assertEqual(sorted(set(tombstones)), deleted)
        for remark in set(remarks) - set(deleted):
            self.assertEqual(self.left(remark)[:2], (1 + remark * 37 % 60, 1))
        self.stack.tallybox("verify")


if __name__ == "__main__":
    unittest.main()
