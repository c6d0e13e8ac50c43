# SPDX-License-Identifier: MIT
"""The consumer on a real broker and database: duplicates, poison, rebalances, crashes, and offsets
that are not what they were."""

import base64
import json
import pathlib
import random
import sys
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import transactions  # noqa: E402
import wire  # noqa: E402


def event(voter, content, voting=1, **more):
    """A vote event as our producer writes it."""
    return {"eventId": str(uuid.uuid4()), "voterId": voter, "contentId": content,
            "voting": voting, "votes": 1, "occurredAt": int(time.time() * 1000), **more}


class ConsumerCase(suite.Case):
    """Helpers of this file."""

    @classmethod
    def make_topic(cls, partitions=2):
        wire.create_topic(suite.kafka().bootstrap, cls.stack.topic, partitions)

    def send(self, value, key=None, headers=None, partition=None):
        if isinstance(value, dict):
            key = str(value["contentId"]) if key is None else key
            value = json.dumps(value).encode()
        wire.produce(suite.kafka().bootstrap, self.stack.topic, value, key, headers, partition)

    def applied(self, content):
        return self.stack.sql("SELECT voter_id, voting, votes, content_seq FROM vote_document "
                              "WHERE content_id = %s ORDER BY content_seq", [content])

    def wait_applied(self, content, count):
        return suite.wait_for(f"{count} rows of content {content}",
                              lambda: len(self.applied(content)) >= count
                              and self.applied(content), 60)


class Records(ConsumerCase):
    """Records one by one, written by kcat."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_topic()
        cls.consume = cls.stack.role("consume")

    def test_an_event_published_twice_counts_once(self):
        twice = event(1, 200)
        headers = {"id": twice["eventId"]}
        self.send(twice, headers=headers)
        self.send(twice, headers=headers)
        self.send(event(2, 200))
        self.assertEqual(self.wait_applied(200, 2), [(1, 1, 1, 1), (2, 1, 2, 2)])
        self.send(twice, headers=headers)
        self.send(event(3, 200))
        self.assertEqual(self.wait_applied(200, 3)[2:], [(3, 1, 3, 3)])

    def test_an_event_inserted_into_the_outbox_again_counts_once(self):
        relay = self.start("relay")
        twice = event(1, 201)
        row = {"id": twice["eventId"], "aggregatetype": "vote", "aggregateid": "201",
               "type": "VoteChanged", "payload": json.dumps(twice)}
        self.stack.append([row])
        self.stack.wait_drained()
        other = event(2, 201)
        self.stack.append([row, {**row, "id": other["eventId"], "payload": json.dumps(other)}])
        self.assertEqual(self.wait_applied(201, 2), [(1, 1, 1, 1), (2, 1, 2, 2)])
        self.stack.wait_drained()
        self.assertEqual(relay.terminate(), 0)

    def test_a_redelivery_after_midnight_meets_its_first_copy(self):
        old = event(1, 202, occurredAt=int(time.time() * 1000) - 3 * 86400 * 1000)
        self.send(old)
        self.wait_applied(202, 1)
        self.send(old)
        self.send(event(2, 202))
        self.assertEqual(self.wait_applied(202, 2), [(1, 1, 1, 1), (2, 1, 2, 2)])
        days = self.stack.number("SELECT DATEDIFF(UTC_DATE(), create_date) FROM vote_document "
                                 "WHERE content_id = 202 AND voter_id = 1")
        self.assertIn(days, (3, 4))

    def test_poison_is_kept_whole_and_its_neighbours_are_applied(self):
        content = 203
        poison = {
            "not json": b"hello \xff\x00 world",
            "cut short": b'{"eventId": "',
            "not an object": b"[1, 2]",
            "no value and no content": None,
            "empty": b"",
            "voting is 2": json.dumps(event(1, content, voting=2)).encode(),
            "no voter": json.dumps({k: v for k, v in event(1, content).items()
                                    if k != "voterId"}).encode(),
            "voter is a text": json.dumps(event("1", content)).encode(),
            "content is 0": json.dumps(event(1, 0)).encode(),
            "no uuid": json.dumps(event(1, content, eventId="x")).encode(),
        }
        headers = {"id": "poison", "traceparent": "00-ab-cd-01"}
        before = self.consume.metric("tallybox_consumer_dead_total")

        def key_of(value):
            return f"{content}x" if value is None else str(content)

        self.send(event(1, content), partition=0)
        for value in poison.values():
            self.send(value, key=key_of(value), headers=headers, partition=0)
        self.send(event(2, content), partition=0)
        self.assertEqual(self.wait_applied(content, 2), [(1, 1, 1, 1), (2, 1, 2, 2)])
        rows = self.stack.sql(
            "SELECT payload, record_key, headers, reason, reason_class, topic, consumer_group, "
            "partition_id, record_offset FROM dead_record ORDER BY record_offset")
        self.assertEqual([row[0] for row in rows], list(poison.values()))
        places = {(one.partition, one.offset): one for one in self.stack.records()}
        for row in rows:
            self.assertEqual(row[1], key_of(row[0]).encode())
            kept = {name: base64.b64decode(text).decode() for name, text in json.loads(row[2])}
            self.assertEqual(kept, headers)
            self.assertGreater(len(row[3]), 10)
            self.assertTrue(row[4])
            self.assertEqual(row[5:7], (self.stack.topic, self.stack.group))
            self.assertEqual(places[row[7:9]].value, row[0])
        suite.wait_for("the dead to be counted", lambda: self.consume.metric(
            "tallybox_consumer_dead_total") == before + len(poison))


class Transactions(ConsumerCase):
    """Votes of a producer with transactions: their marks take offsets and are no records."""

    settings = {"admin.stale_ms": 3000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_topic(1)
        cls.consume = cls.stack.role("consume")

    def votes(self, content, *voters):
        return [(str(content).encode(), json.dumps(event(voter, content)).encode())
                for voter in voters]

    def behind(self):
        """What the process, the page of people and a restart take for lag."""
        page = json.loads(self.stack.tallybox("status", "--json").stdout)
        next_offset = self.stack.number("SELECT next_offset FROM consumer_progress")
        end = wire.end_offset(suite.kafka().bootstrap, self.stack.topic, 0)
        return (self.consume.metric("tallybox_consumer_lag_records"),
                [one["lag"] for one in page["consumer"]["partitions"]], end - next_offset)

    def assert_no_lag(self):
        suite.wait_for("no lag anywhere", lambda: self.behind() == (0, [0], 0), 30)

    def test_a_mark_at_the_end_is_no_lag(self):
        with transactions.Producer(suite.kafka().bootstrap, self.stack.topic, "marks") as producer:
            producer.transaction(self.votes(600, 1, 2))
            self.wait_applied(600, 2)
            self.assert_no_lag()
            producer.transaction(self.votes(600, 3), commit=False)
            self.assert_no_lag()
            time.sleep(4)  # longer than admin.stale_ms
            self.assertTrue(self.consume.ready(), self.consume.why_not_ready())
            producer.transaction(self.votes(600, 4))
            self.assertEqual([row[0] for row in self.wait_applied(600, 3)], [1, 2, 4])
            self.assert_no_lag()

    def test_an_open_transaction_is_not_passed(self):
        with transactions.Producer(suite.kafka().bootstrap, self.stack.topic, "open") as producer:
            producer.transaction(self.votes(601, 1))
            self.wait_applied(601, 1)
            self.assert_no_lag()
            producer.begin()
            producer.send(self.votes(601, 2, 3))
            suite.wait_for("records that wait for their commit",
                           lambda: self.consume.metric("tallybox_consumer_lag_records") == 2, 30)
            suite.wait_for("an old age",
                           lambda: self.consume.metric("tallybox_consumer_oldest_age_seconds") > 3)
            self.assertFalse(self.consume.ready())
            producer.end()
            self.wait_applied(601, 3)
            self.assert_no_lag()

    def test_a_restart_behind_a_mark_goes_on(self):
        with transactions.Producer(suite.kafka().bootstrap, self.stack.topic, "next") as producer:
            producer.transaction(self.votes(602, 1))
            self.wait_applied(602, 1)
            self.assert_no_lag()
            self.consume.kill()
            producer.transaction(self.votes(602, 2))
            self.consume.start().wait_ready()
            self.wait_applied(602, 2)
            self.assert_no_lag()


class Compacted(ConsumerCase):
    """A topic that forgets votes."""

    def test_a_compacted_topic_is_a_warning(self):
        wire.create_topic(suite.kafka().bootstrap, self.stack.topic, 1,
                          {"cleanup.policy": "compact"})
        consume = self.start("consume")
        page = suite.wait_for("the warning", lambda: [
            line for line in consume.admin("/readyz").body.decode().splitlines()
            if line.startswith("consume topics: warning: ")])
        self.assertIn(f"topic {self.stack.topic} is compacted", page[0])
        self.assertEqual(consume.admin("/readyz").status, 200)
        self.assertEqual(consume.log_text().count("event=check_failed check=topic_config"), 1)


class ForeignVotes(ConsumerCase):
    """Votes of producers that do not keep the last vote: repeated, stale, of many voters."""

    settings = {"consumer.votes_from": "anyone", "consumer.batch_rows_max": 20}
    voters, contents = 60, 5

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_topic()

    def last_votes(self):
        return self.stack.sql("SELECT content_id, voter_id, voting FROM vote_last WHERE content_id "
                              "<= %s ORDER BY content_id, voter_id", [self.contents])

    def records(self):
        """How many are applied."""
        return self.stack.number("SELECT COALESCE(SUM(GREATEST(next_offset, 0)), 0) "
                                 "FROM consumer_progress")

    def rounds(self, count):
        """Votes as they come, what each pair's last vote is then, and how many changed it."""
        rng = random.Random(7)
        events, last, changes, now = [], {}, 0, int(time.time() * 1000) - 100000
        for number in range(count):
            pair = (rng.randint(1, self.contents), rng.randint(1, self.voters))
            voting = rng.randint(0, 1)
            stale = pair in last and rng.random() < 0.2
            events.append(event(pair[1], pair[0], voting,
                                occurredAt=now - 50000 if stale else now + number))
            if not stale:
                changes += voting != last.get(pair, 0)
                last[pair] = voting
        return events, last, changes

    def send_many(self, events):
        wire.produce_many(suite.kafka().bootstrap, self.stack.topic,
                          [(str(one["contentId"]), json.dumps(one)) for one in events])

    def test_the_last_vote_of_each_voter_counts_once(self):
        events, last, changes = self.rounds(3000)
        before = self.records()
        consume = self.start("consume")
        self.send_many(events[:1500])
        suite.wait_for("some votes applied", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id <= 5") >= changes // 10, 60)
        consume.kill()
        consume = self.start("consume", ready=False)
        self.send_many(events[1500:])
        self.send_many(events[1500:])
        suite.wait_for("every record applied", lambda: self.records() == before + 4500, 90)
        self.assertEqual(self.stack.number(f"SELECT COUNT(*) FROM vote_document WHERE content_id <= "
                                           f"{self.contents}"), changes)
        self.assertEqual(self.last_votes(),
                         sorted((*pair, voting) for pair, voting in last.items()))
        for content in range(1, self.contents + 1):
            self.assertEqual(
                self.stack.number(f"SELECT votes FROM vote_tally WHERE content_id = {content}"),
                sum(voting for pair, voting in last.items() if pair[0] == content))
        suite.wait_for("the stale votes to be counted",
                       lambda: consume.metric("tallybox_consumer_stale_votes_total"))

    def test_a_log_with_votes_is_switched_over_as_operations_says(self):
        text = (suite.ROOT / "OPERATIONS.md").read_text(encoding="utf-8")
        section = text.split("## Votes of other producers")[1].split("\n## ")[0]
        statements = section.split("```sql")[1].split("```")[0].split(";")
        votes = [(1, 91, 1), (1, 91, 0), (2, 91, 1), (2, 92, 1)]
        consume = self.start("consume", sets={"consumer.votes_from": "tallybox"})
        at = int(time.time() * 1000) - 10000
        events = [event(voter, content, voting, occurredAt=at + number)
                  for number, (voter, content, voting) in enumerate(votes)]
        self.send_many(events)
        suite.wait_for("the votes applied", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id IN (91, 92)") == 4)
        self.assertEqual(consume.terminate(), 0)
        connection = suite.connect(self.stack.name)
        self.addCleanup(connection.close)
        with connection.cursor() as cursor:
            for statement in filter(str.strip, statements):
                cursor.execute(statement)
        connection.commit()
        self.assertEqual(self.stack.sql("SELECT content_id, voter_id, voting, occurred_ms FROM "
                                        "vote_last WHERE content_id > 90 ORDER BY 1, 2"),
                         [(91, 1, 0, at + 1), (91, 2, 1, at + 2), (92, 2, 1, at + 3)])
        self.start("consume")
        self.send_many([event(2, 91), event(1, 91), event(2, 92, 0)])
        suite.wait_for("what changes applied", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id IN (91, 92)") == 6)


class Rebalance(ConsumerCase):
    """Consumers come, go and crash in the middle of the stream; totals stay right."""

    # Small batches, so that everything happens in the middle of something.
    settings = {"consumer.batch_rows_max": 20}
    votes, contents = 8000, 50

    def setUp(self):
        for table in ("vote_document", "vote_tally", "vote_state", "vote_count"):
            self.stack.sql(f"DELETE FROM {table}")

    def load(self, round_number):
        """Appends votes through the command line; returns when all are in the topic."""
        lines = "".join(f"{voter},{round_number * 1000 + 1 + voter % self.contents}\n"
                        for voter in range(1, self.votes + 1))
        self.stack.tallybox("vote", "--csv", "-", stdin=b"voter_id,content_id\n" + lines.encode())
        relay = self.stack.role("relay")
        self.stack.wait_drained()
        self.assertEqual(relay.terminate(), 0)

    def count(self):
        return self.stack.number("SELECT COUNT(*) FROM vote_document")

    def wait_count(self, count):
        try:
            suite.wait_for(f"{count} applied votes", lambda: self.count() >= count, 60)
        except AssertionError as reason:
            raise AssertionError(f"{reason}; {self.count()} are") from None

    def test_a_consumer_joins_one_is_killed_and_one_stops(self):
        self.load(1)
        first = self.start("consume")
        self.wait_count(self.votes // 10)
        second = self.start("consume", ready=False)
        self.wait_count(self.votes // 4)
        first.kill()
        third = self.start("consume", ready=False)
        self.wait_count(self.votes // 2)
        self.assertEqual(second.terminate(), 0)
        self.wait_count(self.votes)
        third.wait_ready()
        self.check()

    def check(self):
        self.stack.tallybox("rollup", "--once")
        self.stack.tallybox("verify")

    def test_the_database_is_killed_under_load(self):
        self.load(2)
        consume = self.start("consume")
        self.wait_count(self.votes // 10)
        suite.database().kill()
        time.sleep(1)
        self.assertTrue(consume.alive())
        self.assertEqual(consume.admin("/healthz").status, 200)
        suite.database().restart()
        self.wait_count(self.votes)
        consume.wait_ready()
        self.check()


class Offsets(ConsumerCase):
    """The database knows how far the consumer is; Kafka's offsets are for lag tools only."""

    seconds = 45

    def setUp(self):
        """Each test has a topic and a group of its own."""
        stack, name = self.stack, self.id().rsplit(".", 1)[1]
        stack.topic, stack.group = f"votes-{name}", f"group-{name}"
        stack.write_ini(consumer__group=stack.group, consumer__topics=stack.topic)
        wire.create_topic(suite.kafka().bootstrap, stack.topic, 1)

    def fill(self, content, voters):
        wire.produce_many(suite.kafka().bootstrap, self.stack.topic,
                          [(content, json.dumps(event(voter, content))) for voter in voters])

    def wait_stopped(self, consume):
        """Until the partition has stopped, with a reason and a command for people."""
        suite.wait_for("the partition to stop", lambda: consume.metric(
            "tallybox_consumer_stopped_partitions") == 1, 60)
        suite.wait_for("it to say so", lambda: consume.admin("/readyz").status == 503)
        text = consume.why_not_ready()
        self.assertIn(f"{self.stack.topic}/0", text)
        self.assertIn("--restart-partition", text)

    def restart_partition(self, where):
        self.stack.tallybox("consume", "--restart-partition", f"{self.stack.topic}/0@{where}")

    def test_kafka_forgets_the_groups_offsets(self):
        consume = self.start("consume")
        self.fill(300, range(1, 101))
        self.wait_applied(300, 100)
        self.assertEqual(consume.terminate(), 0)
        wire.delete_group(suite.kafka().bootstrap, self.stack.group)
        self.start("consume")
        self.fill(300, range(101, 151))
        rows = self.wait_applied(300, 150)
        self.assertEqual([row[2] for row in rows], list(range(1, 151)))

    def test_a_topic_made_again_stops_until_a_person_decides(self):
        consume = self.start("consume")
        self.fill(301, range(1, 11))
        self.wait_applied(301, 10)
        self.assertEqual(consume.terminate(), 0)
        wire.delete_topic(suite.kafka().bootstrap, self.stack.topic)
        suite.wait_for("the topic to be made again", self.made_again)
        self.fill(301, range(11, 31))
        consume = self.start("consume", ready=False)
        self.wait_stopped(consume)
        self.assertEqual(len(self.applied(301)), 10)
        self.restart_partition("earliest")
        rows = self.wait_applied(301, 30)
        self.assertEqual([row[0] for row in rows], list(range(1, 31)))
        consume.wait_ready()

    def made_again(self):
        try:
            wire.create_topic(suite.kafka().bootstrap, self.stack.topic, 1)
            return True
        except AssertionError:
            return False

    def test_a_topic_made_again_under_a_running_consumer_stops_too(self):
        consume = self.start("consume")
        self.fill(302, range(1, 11))
        self.wait_applied(302, 10)
        wire.delete_topic(suite.kafka().bootstrap, self.stack.topic)
        suite.wait_for("the topic to be made again", self.made_again)
        self.fill(302, range(11, 31))
        self.wait_stopped(consume)
        # It may have read on before it heard of the new topic; what it skipped is not lost, what
        # it applied does not count twice.
        self.restart_partition("earliest")
        rows = self.wait_applied(302, 30)
        self.assertEqual(sorted(row[0] for row in rows), list(range(1, 31)))
        self.assertEqual([row[2:] for row in rows], [(n, n) for n in range(1, 31)])
        consume.wait_ready()

    def test_records_that_are_gone_stop_the_partition(self):
        consume = self.start("consume")
        self.fill(303, range(1, 11))
        self.wait_applied(303, 10)
        self.assertEqual(consume.terminate(), 0)
        self.fill(303, range(11, 31))
        wire.delete_records(suite.kafka().bootstrap, self.stack.topic, 0, 20)
        consume = self.start("consume", ready=False)
        self.wait_stopped(consume)
        self.assertEqual(len(self.applied(303)), 10)
        self.restart_partition("earliest")
        rows = self.wait_applied(303, 20)
        self.assertEqual([row[0] for row in rows[10:]], list(range(21, 31)))
        consume.wait_ready()


if __name__ == "__main__":
    unittest.main()
