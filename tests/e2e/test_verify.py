# SPDX-License-Identifier: MIT
"""`tallybox verify` must fail, name the check and the place, whatever row is wrong."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

TABLES = ("vote_document", "vote_tally", "vote_count", "vote_state", "remark", "outbox",
          "deleted_content")


class Verify(suite.Case):
    """A small finished world; each test damages it and puts it back."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stack = cls.stack
        stack.sql("INSERT INTO remark (id) VALUES (1), (2), (3), (4)")
        roles = [stack.role(name) for name in ("relay", "consume")]
        lines = "voter_id,content_id,voting\n" + "".join(
            f"{voter},{content},{voting}\n" for content in (1, 2, 3)
            for voter in range(1, 8) for voting in (1, 0, 1)[:1 + voter % 3])
        stack.tallybox("vote", "--csv", "-", stdin=lines.encode())
        cls.rows = stack.number("SELECT COUNT(*) FROM outbox") + 0
        stack.wait_drained()
        events = stack.number("SELECT SUM(version) FROM vote_state")
        stack.wait_rows("vote_document", events)
        for role in roles:
            role.terminate()
        stack.tallybox("rollup", "--once")
        for table in TABLES:
            stack.sql(f"CREATE TABLE saved_{table} AS SELECT * FROM {table}")

    def tearDown(self):
        for table in TABLES:
            self.stack.sql(f"DELETE FROM {table}")
            self.stack.sql(f"INSERT INTO {table} SELECT * FROM saved_{table}")

    def failed_checks(self):
        """{name: check} of what does not hold, from --json; the text must say the same."""
        text = self.stack.tallybox("verify", expect=suite.FAILED).stdout
        report = self.stack.verify(expect=suite.FAILED)
        failed = {check["name"]: check for check in report["checks"] if check["violations"]}
        self.assertTrue(failed)
        for name in failed:
            self.assertIn(name, text)
        return failed

    def damage(self, *statements):
        """Each statement must hit something; returns the checks that then fail."""
        for statement in statements:
            connection = suite.connect(self.stack.name)
            with connection.cursor() as cursor:
                self.assertGreater(cursor.execute(statement), 0, statement)
            connection.close()
        return self.failed_checks()

    def assert_place(self, failed, place):
        self.assertIn(place, json.dumps(failed))

    def test_an_undamaged_world_holds(self):
        text = self.stack.tallybox("verify").stdout
        self.assertRegex(text, r"\nnot checked:\n +kafka_records +what Kafka holds")
        raw = self.stack.tallybox("verify", "--json").stdout
        self.assertRegex(raw, r'"seconds": \d+\.\d{1,3},')
        report = json.loads(raw)
        self.assertEqual([one["name"] for one in report["not_checked"]], [
            "kafka_records", "other_readers", "retry_tasks", "dead_records", "dropped_months"])
        self.assertGreaterEqual(len(report["checks"]), 6)
        for check in report["checks"]:
            self.assertEqual(check["violations"], 0)
            self.assertIn(check["name"], text)

    def test_a_new_remark_of_an_old_content_waits_and_is_caught_up(self):
        total = self.stack.number("SELECT votes FROM vote_tally WHERE content_id = 2")
        self.stack.sql("DELETE FROM remark WHERE id = 2")
        self.stack.tallybox("rollup", "--once")
        self.stack.sql("INSERT INTO remark (id) VALUES (2)")
        self.stack.verify()
        self.stack.tallybox("rollup", "--once")
        self.assertEqual(self.stack.number("SELECT votes FROM remark WHERE id = 2"), total)
        self.stack.verify()
        # What a roll-up has seen and left behind is a fault.
        failed = self.damage("UPDATE remark SET votes = 0, votes_seq = 0 WHERE id = 2",
                             "UPDATE vote_tally SET changed_at = changed_at - INTERVAL 1 HOUR")
        self.assert_place(failed, "remark 2")

    def test_a_deleted_row_is_found(self):
        failed = self.damage("DELETE FROM vote_document WHERE content_id = 2 AND content_seq = 4")
        self.assert_place(failed, "2")

    def test_a_deleted_newest_row_is_found(self):
        self.damage("DELETE FROM vote_document WHERE content_id = 3 "
                    "ORDER BY content_seq DESC LIMIT 1")

    def test_a_deleted_content_is_found(self):
        self.damage("DELETE FROM vote_document WHERE content_id = 3")

    def test_a_doubled_row_is_found(self):
        self.damage("INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, votes, "
                    "create_date, event_id, content_seq) SELECT gmt_create, voter_id, content_id, "
                    "voting, votes, create_date + INTERVAL 1 DAY, event_id, content_seq "
                    "FROM saved_vote_document WHERE content_id = 1 AND content_seq = 2")

    def test_a_doubled_row_with_a_new_event_is_found(self):
        self.damage("INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, votes, "
                    "create_date, event_id, content_seq) SELECT gmt_create, voter_id, content_id, "
                    "voting, votes, create_date, REPEAT('x', 16), content_seq "
                    "FROM saved_vote_document WHERE content_id = 1 AND content_seq = 2")

    def test_a_doubled_event_at_the_end_of_the_log_is_found(self):
        """Sequence, sums and totals fit; only the event id is there twice."""
        failed = self.damage(
            "INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, votes, "
            "create_date, event_id, content_seq) SELECT gmt_create, voter_id, content_id, "
            "voting, votes + IF(voting = 1, 1, -1), create_date + INTERVAL 1 DAY, event_id, "
            "content_seq + 1 FROM saved_vote_document WHERE content_id = 1 "
            "ORDER BY content_seq DESC LIMIT 1",
            "UPDATE vote_tally t JOIN vote_document d ON d.content_id = t.content_id "
            "AND d.content_seq = t.seq + 1 SET t.votes = d.votes, t.seq = d.content_seq "
            "WHERE t.content_id = 1")
        self.assertTrue(any("event" in name for name in failed), failed)

    def test_votes_changed_by_hand_are_found(self):
        failed = self.damage("UPDATE vote_document SET votes = votes + 1 "
                             "WHERE content_id = 2 AND content_seq = 3")
        self.assert_place(failed, "2")

    def test_a_voting_changed_by_hand_is_found(self):
        self.damage("UPDATE vote_document SET voting = 1 - voting "
                    "WHERE content_id = 2 AND content_seq = 3")

    def test_a_changed_voter_is_found(self):
        self.damage("UPDATE vote_document SET voter_id = 99 "
                    "WHERE content_id = 2 AND content_seq = 1")

    def test_a_changed_tally_is_found(self):
        self.damage("UPDATE vote_tally SET votes = votes + 1 WHERE content_id = 1")

    def test_a_changed_tally_seq_is_found(self):
        self.damage("UPDATE vote_tally SET seq = seq + 1 WHERE content_id = 1")

    def test_a_missing_tally_is_found(self):
        self.damage("DELETE FROM vote_tally WHERE content_id = 2")

    def test_a_changed_count_is_found(self):
        self.damage("UPDATE vote_count SET votes = votes - 1 WHERE content_id = 1")

    def test_a_missing_count_is_found(self):
        self.damage("DELETE FROM vote_count WHERE content_id = 3")

    def test_a_changed_state_is_found(self):
        self.damage("UPDATE vote_state SET voting = 1 - voting "
                    "WHERE content_id = 1 AND voter_id = 3")

    def test_a_missing_state_is_found(self):
        self.damage("DELETE FROM vote_state WHERE content_id = 1 AND voter_id = 3")

    def test_two_states_that_hide_each_other_in_the_sum_are_found(self):
        self.damage("UPDATE vote_state SET voter_id = 98 WHERE content_id = 1 AND voter_id = 3")

    def test_a_closed_content_whose_tally_goes_on_is_found(self):
        failed = self.damage("INSERT INTO deleted_content (content_id, closed_at) VALUES "
                             "(1, UTC_TIMESTAMP(3)), (70, UTC_TIMESTAMP(3))")
        self.assertEqual(list(failed), ["deleted_match"])
        self.assertEqual(failed["deleted_match"]["violations"], 2)
        for content in (1, 70):
            self.assert_place(failed, f"content {content}: closed in deleted_content, but")

    def test_an_ended_tally_of_a_content_that_takes_votes_is_found(self):
        failed = self.damage("UPDATE vote_tally SET ended_at = UTC_TIMESTAMP(3) "
                             "WHERE content_id = 2")
        self.assertEqual(list(failed), ["deleted_match"])
        self.assert_place(failed, "content 2: its tally in vote_tally has ended, but")
        self.stack.sql("INSERT INTO deleted_content (content_id) VALUES (2)")
        self.stack.tallybox("verify")

    def test_changed_remark_votes_are_found(self):
        failed = self.damage("UPDATE remark SET votes = votes + 1 WHERE id = 2")
        self.assertTrue(any("remark" in name for name in failed), failed)

    def test_a_row_left_in_the_outbox_is_found(self):
        failed = self.damage("INSERT INTO outbox (id, aggregatetype, aggregateid, type) "
                             "VALUES ('x', 'vote', '1', 'x')")
        self.assertTrue(any("outbox" in name for name in failed), failed)

    def test_a_database_that_is_away_is_not_a_violation(self):
        self.stack.tallybox("verify", expect=suite.UNAVAILABLE,
                            sets={"mysql.port": 1, "mysql.connect_timeout_ms": 500})


if __name__ == "__main__":
    unittest.main()
