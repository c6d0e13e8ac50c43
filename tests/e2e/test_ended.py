# SPDX-License-Identifier: MIT
"""A tombstone in the outbox ends the tally of a content: votes before it count, later ones are
stale, and it stays so whatever is delivered again or killed."""

import collections
import json
import pathlib
import random
import sys
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402


class EndedCase(suite.Case):
    """One partition, so that the order of the topic is that of its offsets."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        wire.create_topic(suite.kafka().bootstrap, cls.stack.topic, 1)

    def vote(self, *votes):
        """(voter, content, voting) through the producer."""
        lines = "".join(f"{voter},{content},{voting}\n" for voter, content, voting in votes)
        self.stack.tallybox("vote", "--csv", "-",
                            stdin=f"voter_id,content_id,voting\n{lines}".encode())

    def end(self, *contents):
        self.stack.append([{"id": str(uuid.uuid4()), "aggregatetype": "vote",
                            "aggregateid": str(content), "type": "ContentDeleted",
                            "payload": None} for content in contents])

    def refuse(self, *contents):
        """From now on the producer takes no votes on them; before, it may be late."""
        for content in contents:
            self.stack.sql("INSERT INTO deleted_content (content_id) VALUES (%s)", [content])

    def wait_applied(self):
        """Until the consumer is at the end of the topic."""
        self.stack.wait_drained()
        end = wire.end_offset(suite.kafka().bootstrap, self.stack.topic, 0)
        suite.wait_for(f"offset {end} to be applied", lambda: self.stack.sql(
            "SELECT next_offset FROM consumer_progress") == [(end,)], 60)

    def tallies(self):
        """{content: (votes, seq, ended)}"""
        return {row[0]: row[1:] for row in self.stack.sql(
            "SELECT content_id, votes, seq, ended_at IS NOT NULL FROM vote_tally")}

    def restart_partition(self, consume):
        """From the beginning; returns the new process."""
        self.assertEqual(consume.terminate(), 0)
        self.stack.tallybox("consume", "--restart-partition", f"{self.stack.topic}/0@earliest")
        return self.start("consume")


class Ended(EndedCase):
    """One story."""

    def test_a_tombstone_ends_a_tally_for_good(self):
        self.start("relay")
        consume = self.start("consume")
        self.stack.sql("INSERT INTO remark (id) VALUES (1), (2), (3)")
        self.vote((1, 1, 1), (2, 1, 1), (3, 1, 1), (1, 2, 1))
        self.end(1, 3)
        self.vote((4, 1, 1), (1, 1, 0), (2, 2, 1))
        self.wait_applied()
        ended = {1: (3, 3, 1), 2: (2, 2, 0), 3: (0, 0, 1)}
        self.assertEqual(self.tallies(), ended)
        self.assertEqual(self.stack.sql("SELECT voter_id FROM vote_document WHERE content_id = 1 "
                                        "ORDER BY content_seq"), [(1,), (2,), (3,)])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM dead_record"), 0)
        self.assertEqual(consume.metric("tallybox_consumer_ended_tallies_total"), 2)
        self.assertEqual(consume.metric("tallybox_consumer_stale_votes_total"), 2)
        records = [one for one in self.stack.records() if one.value is None]
        self.assertEqual(sorted(one.key for one in records), [b"1", b"3"])
        self.assertEqual({one.headers["ce_type"] for one in records}, {"ContentDeleted"})

        # The writers' side has votes 4 more and 1 less of content 1; what else differs is found.
        self.assertEqual(self.stack.number("SELECT votes FROM vote_count WHERE content_id = 1"), 3)
        self.vote((5, 1, 1))
        self.wait_applied()
        self.stack.tallybox("rollup", "--once")
        self.refuse(1, 3)
        self.stack.verify(arguments=("--wait", "10"))
        self.assertEqual(self.stack.sql("SELECT id, votes, votes_seq FROM remark ORDER BY id"),
                         [(1, 3, 3), (2, 2, 2), (3, 0, 0)])
        self.stack.sql("UPDATE vote_count SET votes = votes + 1 WHERE content_id = 2")
        names = {check["name"] for check in self.stack.verify(expect=suite.FAILED)["checks"]
                 if check["violations"]}
        self.assertIn("log_matches_writers", names)
        self.stack.sql("UPDATE vote_count SET votes = votes - 1 WHERE content_id = 2")
        self.stack.sql("UPDATE vote_state SET voter_id = 77 WHERE content_id = 2 AND voter_id = 1")
        failed = {check["name"]: check for check in
                  self.stack.verify(expect=suite.FAILED)["checks"] if check["violations"]}
        self.assertIn("content 2", json.dumps(failed["voters_match"]))
        self.stack.sql("UPDATE vote_state SET voter_id = 1 WHERE content_id = 2 AND voter_id = 77")

        # The remover of a content may leave nothing of it on the writers' side.
        self.stack.sql("DELETE FROM vote_state WHERE content_id = 1")
        self.stack.sql("DELETE FROM vote_count WHERE content_id = 1")
        self.stack.sql("DELETE FROM remark WHERE id = 1")
        self.stack.verify()

        # Everything again, and the tombstone once more: the first time stays.
        first = self.stack.sql("SELECT content_id, ended_at FROM vote_tally ORDER BY content_id")
        self.restart_partition(consume)
        self.end(1)
        self.wait_applied()
        self.assertEqual(self.tallies(), ended)
        self.assertEqual(first, self.stack.sql("SELECT content_id, ended_at FROM vote_tally "
                                               "ORDER BY content_id"))
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_document"), 5)
        self.stack.tallybox("rollup", "--once")
        self.assertEqual(self.stack.sql("SELECT id FROM remark ORDER BY id"), [(2,), (3,)])
        self.stack.verify()


class EndedGroups(EndedCase):
    """Many contents whose voters differ."""

    def test_an_ended_content_is_in_no_group_that_verify_compares(self):
        self.start("relay")
        self.start("consume")
        self.vote(*((1, content, 1) for content in (*range(11, 17), 20, 21)))
        self.end(20, 21)
        self.vote((2, 20, 1), (1, 21, 0))
        self.wait_applied()
        self.refuse(20, 21)
        self.stack.verify()
        # Five contents are examples, further groups are only counted: here the one of content 16.
        self.stack.sql("UPDATE vote_state SET voter_id = 77 WHERE content_id BETWEEN 11 AND 16")
        failed = {check["name"]: check["violations"] for check in
                  self.stack.verify(expect=suite.FAILED)["checks"] if check["violations"]}
        self.assertEqual(failed, {"voters_match": 6})


class Anyone(EndedCase):
    """With the votes of other producers."""

    settings = {"consumer.votes_from": "anyone"}

    def test_a_tombstone_ends_a_tally_and_last_votes_stay_as_they_were(self):
        self.start("relay")
        consume = self.start("consume")
        self.vote((1, 1, 1), (2, 1, 1))
        self.end(1)
        self.vote((1, 1, 0), (3, 1, 1))
        self.wait_applied()
        self.assertEqual(self.tallies(), {1: (2, 2, 1)})
        self.assertEqual(self.stack.sql("SELECT voter_id, voting FROM vote_last ORDER BY voter_id"),
                         [(1, 1), (2, 1)])
        self.restart_partition(consume)
        self.wait_applied()
        self.assertEqual(self.tallies(), {1: (2, 2, 1)})
        self.stack.verify()


class EndedKilled(EndedCase):
    """The consumer is killed again and again among votes and tombstones."""

    CONTENTS = 40
    ROUNDS = 30

    def test_a_kill_leaves_no_vote_behind_a_tombstone_in_the_log(self):
        rng = random.Random(7)
        self.start("relay")
        consume = self.start("consume", sets={"consumer.batch_rows_max": 50})
        voter = 0
        for number in range(self.ROUNDS):
            votes = []
            for _ in range(60):
                voter += 1
                votes.append((voter, rng.randint(1, self.CONTENTS), 1))
            self.vote(*votes)
            self.end(*{rng.randint(1, self.CONTENTS) for _ in range(2)})
            if number % 4 == 3:
                consume.kill()
                consume = self.start("consume", sets={"consumer.batch_rows_max": 50}, ready=False)
        self.wait_applied()
        before, ended = collections.Counter(), set()
        for record in self.stack.records():
            if record.value is None:
                ended.add(int(record.key))
            elif int(record.key) not in ended:
                before[int(record.key)] += 1
        self.assertGreater(len(ended), 10)
        self.assertEqual(self.tallies(), {
            content: (before[content], before[content], int(content in ended))
            for content in ended | set(before)})
        self.refuse(*ended)
        self.stack.tallybox("rollup", "--once")
        self.stack.verify()


if __name__ == "__main__":
    unittest.main()
