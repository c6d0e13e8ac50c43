# SPDX-License-Identifier: MIT
"""The judge must find every damage: correct data is judged good, and each damage is named."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import judge  # noqa: E402

VOTES = "votes"
STEPS = "steps"


class World:
    """A run that went well, told by hand: three voters, two contents, two keys of steps."""

    def __init__(self):
        self.entries, self.records, self.rows = [], [], []
        self.grown, self.exact = {}, frozenset()
        self.states, self.counts = {}, {1: 0, 2: 0}
        self.transactions = set()
        self.counters = {"a": 0, "b": 0, "http-1": 0, "exec-1": 0}
        self.left, self.dead = {"outbox": []}, []
        self.tasks, self.ended = [], {}
        self.seqs = {1: 0, 2: 0}
        for voter, content, voting in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 0), (3, 1, 1),
                                       (1, 1, 1), (2, 1, 0)):
            self.vote(voter, content, voting)
        self.transaction("t1", [("a", 1), ("a", 2), ("b", 1)])
        self.transaction("t2", [("a", 3)])
        self.transaction("t3", [("b", 2)])
        self.poison("p1", ("exhausted", 2, 2))
        self.transaction("t4", [("a", 4), ("a", 5)], refused=["t4-a4", "t4-a5"])
        self.decide("t4-a4", "correct")
        self.decide("t4-a5", "skip")
        del self.records[self.place("t4-a5")]
        self.ended["t4-a5"] = ("cancelled", 1, 1)
        for n in (1, 2):
            self.call(f"c{n}", "http", "http-1", n)
        self.call("e1", "exec", "exec-1", 1)
        self.gone, self.closed, self.lasts = set(), set(), set()

    def happen(self, voter, content, voting):
        """A vote in all places but the ledger; its event and total."""
        event = f"v{len(self.rows)}"
        self.counts[content] += 1 if voting else -1
        self.seqs[content] += 1
        version = self.states.get((voter, content), (0, 0))[1]
        self.states[voter, content] = voting, version + 1
        votes = self.counts[content]
        self.rows.append(judge.Row(content, self.seqs[content], voter, voting, votes, event))
        self.records.append(judge.Record(VOTES, content % 2, len(self.records), str(content), event,
                                         voter, voting, votes, None))
        return event, votes

    def delete(self, remark, asked=10, told=11):
        """All of a deletion; told None: it had no answer."""
        self.entries.append({"what": "deletion", "outcome": "asked", "id": remark, "asked": asked})
        if told is not None:
            self.entries.append({"what": "deletion", "outcome": "deleted", "id": remark,
                                 "told": told})
        self.records.append(judge.Record(VOTES, remark % 2, len(self.records), str(remark),
                                         f"tombstone-{remark}", None, None, None, None))
        self.gone.add(remark)
        self.closed.add(remark)
        self.counts.pop(remark, None)
        self.states = {pair: state for pair, state in self.states.items() if pair[1] != remark}

    def tell(self, outcome, voter, content, voting, **more):
        self.entries.append({"what": "vote", "outcome": outcome, "voter": voter,
                             "content": content, "voting": voting, **more})

    def vote(self, voter, content, voting):
        event, votes = self.happen(voter, content, voting)
        self.tell("ok", voter, content, voting, changed=True, votes=votes, event=event)

    def transaction(self, name, steps, outcome="committed", refused=()):
        told = [[key, n, f"{name}-{key}{n}"] for key, n in steps]
        self.entries.append({"what": "transaction", "outcome": outcome, "id": name, "votes": [],
                             "steps": told, "refused": list(refused)})
        if outcome == "committed":
            self.commit(name, told)

    def commit(self, name, told):
        self.transactions.add(name)
        for key, n, event in told:
            self.counters[key] += 1
            self.publish(key, n, event)

    def poison(self, event, ended):
        """A task that cannot be done, and what the history says of it."""
        name = f"t-{event}"
        self.entries.append({"what": "transaction", "outcome": "committed", "id": name,
                             "votes": [], "steps": [], "poison": [event]})
        self.transactions.add(name)
        self.ended[event] = ended

    def decide(self, event, action):
        self.entries.append({"what": "decision", "event": event, "action": action})

    def call(self, event, handler, key, n, outcome="committed"):
        """A task of http or exec, and its effect."""
        self.entries.append({"what": "transaction", "outcome": outcome, "id": f"t-{event}",
                             "votes": [], "steps": [], "calls": [[handler, key, n, event]]})
        if outcome == "committed":
            self.transactions.add(f"t-{event}")
            self.counters[key] += 1
            self.effect(event, handler, key, n)

    def effect(self, event, handler, key, n):
        self.entries.append({"what": "effect", "handler": handler, "event": event, "key": key,
                             "n": n})

    def effect_place(self, event):
        return next(n for n, entry in enumerate(self.entries)
                    if entry["what"] == "effect" and entry["event"] == event)

    def publish(self, key, n, event):
        self.records.append(judge.Record(STEPS, 0, len(self.records), key, event, None, None,
                                         None, n))

    def place(self, event):
        return next(n for n, record in enumerate(self.records) if record.event == event)

    def row(self, event):
        return next(n for n, row in enumerate(self.rows) if row.event == event)

    def verdict(self):
        newest = {row.content: (row.votes, row.seq) for row in
                  sorted(self.rows, key=lambda row: row.seq)}
        remarks = {remark: total for remark, total in newest.items() if remark not in self.gone}
        tables = judge.Tables(self.rows, self.states, self.counts,
                              getattr(self, "tallies", newest), remarks, self.transactions,
                              self.counters, self.left, self.dead, self.tasks, self.ended,
                              self.closed, self.lasts, self.grown, self.exact)
        return judge.judge(self.entries, self.records, tables)


class JudgeCase(unittest.TestCase):
    """A good world for each test."""

    any_database = True

    def setUp(self):
        self.world = World()

    def assert_found(self, kind, count=None):
        """The judge counts and describes findings of this kind. Returns the verdict."""
        verdict = self.world.verdict()
        if count is None:
            self.assertGreater(verdict.counts[kind], 0, verdict.text())
        else:
            self.assertEqual(verdict.counts[kind], count, verdict.text())
        self.assertTrue(verdict.stories[kind])
        self.assertFalse(verdict.good)
        return verdict


class Judge(JudgeCase):
    """Each test damages the good world in one way."""

    def test_a_good_world_is_good(self):
        verdict = self.world.verdict()
        self.assertEqual(verdict.text(), "")
        self.assertEqual(verdict.line(), "lost=0 twice=0 reordered=0 totals=ok reads=ok")
        self.assertEqual(verdict.facts["votes ok"], 7)
        self.assertEqual(verdict.facts["steps"], 7)

    def test_duplicates_in_kafka_are_counted_and_allowed(self):
        self.world.records.append(self.world.records[0]._replace(offset=99))
        verdict = self.world.verdict()
        self.assertTrue(verdict.good, verdict.text())
        self.assertEqual(verdict.facts["duplicates in Kafka"], 1)

    def test_a_vote_that_is_nowhere_is_lost_once(self):
        del self.world.records[self.world.place("v6")]
        del self.world.rows[self.world.row("v6")]
        verdict = self.assert_found("lost", 1)
        self.assertIn("v6", verdict.stories["lost"][0])
        self.assertIn("lost=1", verdict.line())

    def test_a_vote_missing_in_the_topic_is_lost(self):
        del self.world.records[self.world.place("v3")]
        self.assert_found("lost", 1)

    def test_a_vote_missing_in_the_log_is_lost(self):
        del self.world.rows[self.world.row("v3")]
        self.assert_found("lost", 1)

    def test_a_step_missing_in_its_topic_is_lost(self):
        del self.world.records[self.world.place("t1-a2")]
        self.assertIn("step 2 of key a", self.assert_found("lost", 1).stories["lost"][0])

    def test_a_record_of_an_unanswered_vote_must_reach_the_log_too(self):
        self.world.tell("unknown", 9, 2, 1)
        self.world.happen(9, 2, 1)
        del self.world.rows[-1]
        self.assert_found("lost", 1)

    def test_an_answer_that_nothing_changed_must_be_true(self):
        self.world.tell("ok", 5, 1, 1, changed=False, votes=2, event=None)
        self.assert_found("lost", 1)

    def test_an_answer_that_names_the_last_change_must_be_true(self):
        self.world.tell("ok", 1, 2, 1, changed=False, votes=1, event="nobody's")
        self.assert_found("lost", 1)

    def test_true_answers_that_nothing_changed_are_good(self):
        self.world.tell("ok", 1, 2, 1, changed=False, votes=1, event="v2")
        self.world.tell("ok", 7, 2, 0, changed=False, votes=1, event=None)
        self.assertEqual(self.world.verdict().text(), "")

    def test_two_rows_of_one_event_are_twice(self):
        self.world.rows.append(self.world.rows[2]._replace(seq=2))
        self.assert_found("twice", 1)

    def test_an_unanswered_vote_may_be_there_or_not(self):
        self.world.tell("unknown", 8, 2, 1)
        self.world.tell("unknown", 9, 2, 1)
        self.world.happen(9, 2, 1)
        self.assertEqual(self.world.verdict().text(), "")

    def test_an_unanswered_vote_that_happened_twice_is_twice(self):
        self.world.tell("unknown", 9, 2, 1)
        self.world.happen(9, 2, 1)
        self.world.vote(9, 2, 0)
        self.world.happen(9, 2, 1)
        self.assert_found("twice", 1)

    def test_a_vote_that_nobody_asked_for_is_a_wrong_total(self):
        self.world.happen(9, 2, 1)
        self.assert_found("totals", 1)

    def test_steps_in_the_wrong_order_are_reordered(self):
        one, two = self.world.place("t1-a2"), self.world.place("t2-a3")
        records = self.world.records
        records[one], records[two] = records[two], records[one]
        self.assert_found("reordered", 1)

    def test_order_is_judged_on_the_first_occurrence(self):
        """A repeat of an old step behind newer ones is harmless; a first one is not."""
        self.world.publish("a", 1, "t1-a1")
        self.assertTrue(self.world.verdict().good)

    def test_votes_in_the_wrong_order_in_the_topic_are_reordered(self):
        one, two = self.world.place("v3"), self.world.place("v4")
        records = self.world.records
        records[one], records[two] = records[two], records[one]
        self.assert_found("reordered")

    def test_votes_in_the_wrong_order_in_topic_and_log_are_reordered(self):
        """The log follows the topic, but the commits went another way."""
        world = self.world
        one, two = world.place("v3"), world.place("v4")
        world.records[one], world.records[two] = world.records[two], world.records[one]
        one, two = world.row("v3"), world.row("v4")
        seqs = world.rows[one].seq, world.rows[two].seq
        world.rows[one] = world.rows[one]._replace(seq=seqs[1])
        world.rows[two] = world.rows[two]._replace(seq=seqs[0])
        self.assert_found("reordered")

    def test_answers_in_another_order_than_the_log_are_reordered(self):
        votes = [entry for entry in self.world.entries
                 if entry["what"] == "vote" and entry["voter"] == 1 and entry["content"] == 1]
        one, two = (self.world.entries.index(votes[n]) for n in (0, 2))
        entries = self.world.entries
        entries[one], entries[two] = entries[two], entries[one]
        self.assert_found("reordered")

    def test_a_key_in_two_partitions_is_reordered(self):
        at = self.world.place("t2-a3")
        self.world.records[at] = self.world.records[at]._replace(partition=1)
        self.assert_found("reordered", 1)

    def test_a_key_may_move_when_partitions_were_added(self):
        at = self.world.place("t2-a3")
        steps = self.world.records[at].topic
        place = self.world.records[at].offset
        self.world.records = [record._replace(partition=1) if record.topic == steps
                              and record.key == self.world.records[at].key
                              and record.offset >= place else record
                              for record in self.world.records]
        self.assert_found("reordered")
        self.world.grown = {steps: {0: place}}
        self.assertTrue(self.world.verdict().good, self.world.verdict().text())
        # It moves once.
        at = self.world.place("t4-a4")
        self.world.records[at] = self.world.records[at]._replace(partition=2)
        self.assert_found("reordered", 1)

    def test_an_event_of_a_lane_that_publishes_once_must_not_repeat(self):
        self.world.records = [record._replace(lane="outbox") for record in self.world.records]
        self.world.records.append(self.world.records[self.world.place("t1-a2")]._replace(offset=99))
        self.assertTrue(self.world.verdict().good, self.world.verdict().text())
        self.assertEqual(self.world.verdict().facts["duplicates in Kafka"], 1)
        self.world.exact = frozenset({"orders"})
        self.assertTrue(self.world.verdict().good, self.world.verdict().text())
        self.world.exact = frozenset({"orders", "outbox"})
        verdict = self.assert_found("twice", 1)
        self.assertIn("t1-a2", verdict.stories["twice"][0])
        self.assertEqual(verdict.facts["records of exactly-once lanes"], len(self.world.records))

    def test_a_rolled_back_step_in_the_topic_is_a_wrong_total(self):
        self.world.transaction("t9", [("a", 6)], "rolled back")
        self.assertTrue(self.world.verdict().good)
        self.world.publish("a", 6, "t9-a6")
        self.assertIn("rolled back", self.assert_found("totals", 1).stories["totals"][0])

    def test_an_unanswered_transaction_is_what_the_database_says(self):
        self.world.transaction("t9", [("a", 6)], "unknown")
        self.assertTrue(self.world.verdict().good)
        self.world.commit("t9", [["a", 6, "t9-a6"]])
        self.assertTrue(self.world.verdict().good)

    def test_an_unanswered_transaction_that_committed_must_be_published(self):
        self.world.transaction("t9", [("a", 6)], "unknown")
        self.world.commit("t9", [["a", 6, "t9-a6"]])
        del self.world.records[-1]
        self.assert_found("lost", 1)

    def test_a_transaction_that_the_database_forgot_is_a_wrong_total(self):
        self.world.transactions.remove("t2")
        self.assert_found("totals")

    def test_a_counter_without_its_steps_is_a_wrong_total(self):
        self.world.counters["b"] += 1
        self.assert_found("totals", 1)

    def test_a_wrong_state_is_a_wrong_total(self):
        self.world.states[1, 2] = 0, 1
        self.assert_found("totals")

    def test_a_wrong_version_is_a_wrong_total(self):
        self.world.states[1, 2] = 1, 2
        self.assert_found("totals", 1)

    def test_a_wrong_count_is_a_wrong_total(self):
        self.world.counts[2] += 1
        self.assert_found("totals")

    def test_a_wrong_tally_is_a_wrong_total(self):
        self.world.tallies = {1: (2, 6), 2: (2, 1)}
        self.assert_found("totals", 1)

    def test_wrong_votes_in_the_log_are_a_wrong_total(self):
        at = self.world.row("v4")
        self.world.rows[at] = self.world.rows[at]._replace(votes=77)
        self.assert_found("totals")

    def test_a_hole_in_content_seq_is_a_wrong_total(self):
        at = self.world.row("v6")
        self.world.rows[at] = self.world.rows[at]._replace(seq=17)
        self.assert_found("totals")

    def test_a_row_left_in_the_outbox_is_a_wrong_total(self):
        self.world.left["outbox"].append("x")
        self.assert_found("totals", 1)

    def test_a_task_that_is_left_is_a_wrong_total(self):
        self.world.tasks.append((7, "task-1", 2))
        self.assert_found("totals", 1)

    def test_a_task_that_vanished_without_a_word_is_lost(self):
        del self.world.ended["p1"]
        self.assert_found("lost", 1)

    def test_a_task_in_the_history_without_its_attempts_is_a_wrong_total(self):
        self.world.ended["p1"] = ("exhausted", 2, 1)
        self.assert_found("totals", 1)

    def test_a_task_that_never_was_tried_is_no_exhausted_one(self):
        self.world.ended["p1"] = ("exhausted", 0, 0)
        self.assert_found("totals", 1)

    def test_a_good_task_in_the_history_is_a_wrong_total(self):
        self.world.ended["t1-a1"] = ("exhausted", 1, 1)
        self.assert_found("totals", 1)

    def test_a_done_task_is_kept_for_a_while(self):
        self.world.ended["c1"] = ("done", 0, 0)
        self.assertEqual(self.world.verdict().text(), "")

    def test_a_task_that_can_never_be_done_is_not_kept_as_done(self):
        self.world.ended["p1"] = ("done", 1, 1)
        self.assertIn("can never", self.assert_found("totals", 1).stories["totals"][0])

    def test_a_task_without_an_effect_is_lost(self):
        del self.world.entries[self.world.effect_place("c2")]
        self.assertIn("c2", self.assert_found("lost", 1).stories["lost"][0])

    def submit(self, event, n, accepted=True):
        """A task over HTTP."""
        entry = {"what": "call", "handler": "client", "key": "client-0-0", "n": n, "event": event}
        self.world.entries.append({**entry, "outcome": "asked"})
        if accepted:
            self.world.entries.append({**entry, "outcome": "accepted"})

    def test_an_accepted_task_of_a_client_without_an_effect_is_lost(self):
        self.submit("h1", 1)
        self.assertIn("h1", self.assert_found("lost", 1).stories["lost"][0])

    def test_a_task_that_was_asked_for_without_an_answer_may_have_its_effect_or_not(self):
        self.submit("h1", 1)
        self.world.effect("h1", "client", "client-0-0", 1)
        self.submit("h2", 2, accepted=False)
        self.assertEqual(self.world.verdict().text(), "")
        self.world.effect("h2", "client", "client-0-0", 2)
        self.assertEqual(self.world.verdict().text(), "")

    def test_effects_of_clients_in_the_wrong_order_are_reordered(self):
        for n in (1, 2):
            self.submit(f"h{n}", n)
        self.world.effect("h2", "client", "client-0-0", 2)
        self.world.effect("h1", "client", "client-0-0", 1)
        self.assert_found("reordered", 1)

    def test_an_effect_that_happened_again_is_counted_and_allowed(self):
        """Also behind the next one of its key, by a call that was given up long ago."""
        self.world.effect("c1", "http", "http-1", 1)
        verdict = self.world.verdict()
        self.assertEqual(verdict.text(), "")
        self.assertEqual(verdict.facts["effects of http, repeated"], 1)

    def test_first_effects_in_the_wrong_order_are_reordered(self):
        entries = self.world.entries
        one, two = self.world.effect_place("c1"), self.world.effect_place("c2")
        entries[one], entries[two] = entries[two], entries[one]
        self.assert_found("reordered", 1)

    def test_an_effect_of_a_task_that_was_rolled_back_is_a_wrong_total(self):
        self.world.call("c9", "http", "http-1", 3, "rolled back")
        self.assertTrue(self.world.verdict().good)
        self.world.effect("c9", "http", "http-1", 3)
        self.assertIn("rolled back", self.assert_found("totals", 1).stories["totals"][0])

    def test_an_effect_that_no_task_asked_for_is_a_wrong_total(self):
        self.world.effect("nobody's", "exec", "exec-1", 2)
        self.assert_found("totals", 1)

    def test_an_effect_of_a_task_that_can_never_be_done_is_a_wrong_total(self):
        self.world.effect("p1", "exec", "exec-1", 0)
        self.assertIn("can never", self.assert_found("totals", 1).stories["totals"][0])

    def test_an_effect_under_the_idempotency_key_of_another_is_a_wrong_total(self):
        self.world.effect("c1", "http", "http-1", 2)
        self.assert_found("totals", 1)

    def test_an_effect_by_the_wrong_handler_is_a_wrong_total(self):
        at = self.world.effect_place("e1")
        self.world.entries[at]["handler"] = "http"
        self.assert_found("totals", 1)

    def test_a_task_of_http_that_is_in_the_history_is_a_wrong_total(self):
        self.world.ended["c1"] = ("exhausted", 1, 1)
        self.assert_found("totals", 1)

    def test_a_task_of_http_that_the_ledger_lacks_is_a_wrong_total(self):
        self.world.counters["http-1"] += 1
        self.assert_found("totals", 1)

    def test_a_refused_row_that_nobody_corrected_and_nobody_skipped_is_lost(self):
        del self.world.records[self.world.place("t4-a4")]
        self.assert_found("lost", 1)

    def test_a_skipped_row_that_is_not_in_the_history_is_lost(self):
        del self.world.ended["t4-a5"]
        self.assert_found("lost", 1)

    def test_a_row_that_is_in_the_history_though_it_was_to_be_corrected_is_lost(self):
        del self.world.records[self.world.place("t4-a4")]
        self.world.ended["t4-a4"] = ("cancelled", 1, 1)
        self.assert_found("lost", 1)

    def test_a_good_row_that_is_in_the_history_is_lost(self):
        del self.world.records[self.world.place("t2-a3")]
        self.world.ended["t2-a3"] = ("cancelled", 1, 1)
        self.assert_found("lost", 1)

    def test_a_skipped_row_that_was_published_is_a_wrong_total(self):
        self.world.publish("a", 5, "t4-a5")
        self.assert_found("totals", 1)

    def test_a_refused_row_that_was_published_as_it_stood_is_a_wrong_total(self):
        at = self.world.place("t4-a4")
        self.world.records[at] = self.world.records[at]._replace(n=-1)
        self.assert_found("totals")

    def test_a_refused_row_that_was_published_without_a_correction_is_a_wrong_total(self):
        self.world.entries = [entry for entry in self.world.entries
                              if entry.get("event") != "t4-a4"]
        self.assert_found("totals", 1)

    def test_a_corrected_row_behind_its_successor_is_reordered(self):
        self.world.transaction("t5", [("a", 6)])
        records = self.world.records
        one, two = self.world.place("t4-a4"), self.world.place("t5-a6")
        records[one], records[two] = records[two], records[one]
        self.assert_found("reordered", 1)

    def test_a_good_row_that_was_refused_is_a_wrong_total(self):
        self.world.decide("t2-a3", "correct")
        self.assert_found("totals", 1)

    def test_a_refused_row_of_a_transaction_that_was_rolled_back_is_nothing(self):
        self.world.transaction("t9", [("b", 3)], "rolled back", ["t9-b3"])
        self.assertEqual(self.world.verdict().text(), "")

    def test_a_good_vote_in_dead_record_is_a_wrong_total(self):
        record = self.world.records[self.world.place("v2")]
        del self.world.rows[self.world.row("v2")]
        self.world.dead.append((record.topic, record.partition, record.offset, "decode"))
        verdict = self.assert_found("totals")
        self.assertEqual(verdict.counts["lost"], 0)


class Deletions(JudgeCase):
    """A remark with votes is deleted, and later votes on it are refused."""

    def setUp(self):
        super().setUp()
        self.world.delete(1)
        self.world.tell("deleted", 1, 1, 0, asked=12, told=12.1)

    def test_a_removed_remark_is_good(self):
        verdict = self.world.verdict()
        self.assertEqual(verdict.text(), "")
        self.assertEqual(verdict.facts["removed remarks"], 1)

    def test_a_deletion_without_an_answer_may_have_worked_or_not(self):
        self.world.delete(2, told=None)
        self.assertEqual(self.world.verdict().text(), "")
        world = World()
        world.entries.append({"what": "deletion", "outcome": "asked", "id": 1, "asked": 10})
        self.assertEqual(world.verdict().text(), "")

    def test_a_remark_without_votes_is_deleted_as_well(self):
        self.world.delete(5)
        self.assertEqual(self.world.verdict().text(), "")

    def test_a_deleted_remark_that_is_left_is_a_wrong_total(self):
        world = World()
        world.entries += [{"what": "deletion", "outcome": "asked", "id": 1, "asked": 10},
                          {"what": "deletion", "outcome": "deleted", "id": 1, "told": 11}]
        self.world = world
        self.assertIn("its row is left", self.assert_found("totals", 1).stories["totals"][0])

    def test_a_vote_that_was_accepted_after_the_deletion_is_a_wrong_total(self):
        self.world.tell("ok", 1, 1, 1, changed=False, votes=2, event="v5", asked=10.5, told=12)
        self.assertEqual(self.world.verdict().text(), "")
        self.world.tell("ok", 1, 1, 1, changed=False, votes=2, event="v5", asked=11.5, told=12)
        self.assertIn("was accepted", self.assert_found("totals", 1).stories["totals"][0])

    def test_a_vote_that_was_refused_before_the_deletion_is_a_wrong_total(self):
        self.world.tell("deleted", 1, 1, 0, asked=9, told=9.5)
        self.assertIn("before its deletion", self.assert_found("totals", 1).stories["totals"][0])

    def test_a_vote_that_was_refused_without_a_deletion_is_a_wrong_total(self):
        self.world.tell("deleted", 1, 2, 0, asked=9, told=9.5)
        self.assertIn("no client deleted", self.assert_found("totals", 1).stories["totals"][0])

    def test_rows_that_are_left_are_a_wrong_total(self):
        for table in ("vote_state", "vote_count", "vote_last"):
            with self.subTest(table):
                self.setUp()
                if table == "vote_state":
                    self.world.states[3, 1] = 1, 1
                elif table == "vote_count":
                    self.world.counts[1] = 2
                else:
                    self.world.lasts.add(1)
                self.assertIn(table, self.assert_found("totals", 1).stories["totals"][0])

    def test_a_tally_that_has_not_ended_is_a_wrong_total(self):
        self.world.closed.clear()
        self.assert_found("totals", 1)

    def test_a_tally_that_is_not_that_of_the_log_is_a_wrong_total(self):
        self.world.tallies = {1: (1, 6), 2: (1, 1)}
        self.assert_found("totals", 1)

    def test_a_missing_tombstone_is_lost(self):
        del self.world.records[self.world.place("tombstone-1")]
        self.assert_found("lost", 1)

    def test_a_tombstone_that_nobody_asked_for_is_a_wrong_total(self):
        self.world.records.append(judge.Record(VOTES, 0, 99, "2", "t", None, None, None, None))
        self.assert_found("totals", 1)

    def test_a_vote_behind_the_tombstone_is_reordered(self):
        record = self.world.records.pop(self.world.place("v6"))
        self.world.records.append(record)
        self.assertIn("after its tombstone", self.assert_found("reordered").stories["reordered"][0])

    def test_a_repeated_vote_behind_the_tombstone_is_allowed(self):
        self.world.records.append(self.world.records[self.world.place("v6")]._replace(offset=99))
        self.world.records.append(self.world.records[self.world.place("tombstone-1")])
        self.assertEqual(self.world.verdict().text(), "")

    def test_a_vote_before_the_deletion_must_be_in_the_log(self):
        del self.world.rows[self.world.row("v6")]
        self.assert_found("lost", 1)


if __name__ == "__main__":
    unittest.main()
