# SPDX-License-Identifier: MIT
"""Partitions move between consumers that join, leave, are killed or frozen in the middle of their
batches, under each way a group can share them out. TALLYBOX_ROUNDS=20 repeats what is timed more
often; the times are printed."""

import json
import os
import pathlib
import re
import signal
import statistics
import sys
import time
import unittest

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

ROUNDS = int(os.environ.get("TALLYBOX_ROUNDS") or 2)
SESSION_S = 3
PARTITIONS = 4
# What a loaded machine and the group's own steps may add to a time-out.
NOISE_S = 20
VOTES, CONTENTS = 6000, 50


class GroupCase(suite.Case):
    """Helpers: consumers, and who of them has claimed what."""

    def setUp(self):
        """Every test has a topic, a group and tables of its own."""
        stack, name = self.stack, self.id().rsplit(".", 1)[1]
        stack.topic, stack.group = f"{stack.name}-{name}"[:200], f"group-{stack.name}-{name}"
        stack.write_ini(consumer__group=stack.group, consumer__topics=stack.topic,
                        relay__topics=f"vote={stack.topic}")
        wire.create_topic(suite.kafka().bootstrap, stack.topic, PARTITIONS)
        for table in ("vote_document", "vote_tally", "vote_state", "vote_count"):
            stack.sql(f"DELETE FROM {table}")

    def vote(self, first, count, voting):
        lines = "".join(f"{voter},{1 + voter % CONTENTS},{voting}\n"
                        for voter in range(first, first + count))
        self.stack.tallybox("vote", "--csv", "-",
                            stdin=b"voter_id,content_id,voting\n" + lines.encode())

    def load(self, first=1, voting=1):
        """Votes are in the topic when this returns."""
        self.vote(first, VOTES, voting)
        relay = self.stack.role("relay")
        self.stack.wait_drained()
        self.assertEqual(relay.terminate(), 0)

    def count(self):
        return self.stack.number("SELECT COUNT(*) FROM vote_document")

    def wait_count(self, count, seconds=60):
        try:
            suite.wait_for(f"{count} applied votes", lambda: self.count() >= count, seconds)
        except AssertionError as reason:
            raise AssertionError(f"{reason}; {self.count()} are") from None

    def owned(self, role):
        """How many partitions this consumer claimed last."""
        return self.stack.number(
            "SELECT COUNT(*) FROM consumer_progress WHERE consumer_group = %s AND owner LIKE %s",
            [self.stack.group, f"%-{role.pid}-%"])

    def wait_shared(self, *roles):
        """Until each has some, and together they have all."""
        suite.wait_for("the partitions to be shared out",
                       lambda: all(map(self.owned, roles))
                       and sum(map(self.owned, roles)) == PARTITIONS, 40)

    def wait_all_owned(self, role, seconds):
        began = time.monotonic()
        suite.wait_for("one consumer to have all partitions",
                       lambda: self.owned(role) == PARTITIONS, seconds, every=0.02)
        return time.monotonic() - began

    def freeze(self, role):
        role.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.thaw, role)

    def thaw(self, role):
        if role.alive():
            role.process.send_signal(signal.SIGCONT)

    def check(self, votes=VOTES):
        self.wait_count(votes)
        self.assertEqual(self.count(), votes)
        self.stack.tallybox("rollup", "--once")
        self.stack.tallybox("verify")


class Moves:
    """The same for every way; batches are small, so that everything happens in the middle."""

    def test_partitions_of_a_killed_consumer_move_within_its_session(self):
        self.load()
        pair = [self.start("consume"), self.start("consume")]
        times = []
        for turn in range(ROUNDS):
            killed, other = pair[turn % 2], pair[1 - turn % 2]
            self.wait_shared(*pair)
            killed.kill()
            times.append(self.wait_all_owned(other, SESSION_S + NOISE_S))
            killed.start().wait_ready()
        self.check()
        print(f"\n{type(self).__name__}: take-over after a kill, session {SESSION_S} s: "
              f"n={len(times)} median={statistics.median(times):.2f} s max={max(times):.2f} s",
              file=sys.stderr)

    def test_a_consumer_frozen_past_its_session_applies_nothing_twice(self):
        self.load()
        first, second = self.start("consume"), self.start("consume")
        self.wait_count(VOTES // 20)
        self.freeze(first)
        # It may hold the locks of a transaction, which the server takes from it.
        self.wait_all_owned(second, SESSION_S + NOISE_S + 15)
        self.thaw(first)
        self.load(VOTES + 1)
        self.check(2 * VOTES)
        self.wait_shared(first, second)
        self.assertTrue(first.alive())

    def test_consumers_join_and_leave_in_the_middle_of_batches(self):
        self.load()
        first = self.start("consume")
        self.wait_count(VOTES // 20)
        second = self.start("consume", ready=False)
        self.wait_count(VOTES // 5)
        third = self.start("consume", ready=False)
        self.wait_count(VOTES // 3)
        self.assertEqual(first.terminate(), 0)
        self.wait_count(VOTES // 2)
        self.assertEqual(third.terminate(), 0)
        self.check()
        self.wait_all_owned(second, SESSION_S + NOISE_S)


class Eager(Moves, GroupCase):
    """Everything is given back in each rebalance."""

    seconds = 50
    settings = {"consumer.batch_rows_max": 10,
                "kafka.consumer.partition.assignment.strategy": "range"}


class Cooperative(Moves, GroupCase):
    """Only what moves is given back."""

    seconds = 60
    settings = {"consumer.batch_rows_max": 10,
                "kafka.consumer.partition.assignment.strategy": "cooperative-sticky"}


class BrokerAssigned(Moves, GroupCase):
    """Groups of KIP-848: the broker shares out, and knows the session's time-out."""

    seconds = 65
    settings = {"consumer.batch_rows_max": 10, "kafka.consumer.group.protocol": "consumer",
                "kafka.consumer.session.timeout.ms": None,
                "kafka.consumer.heartbeat.interval.ms": None}


class Locks(GroupCase):
    """A consumer that is frozen inside its transaction."""

    def test_the_locks_of_a_frozen_consumer_are_taken_from_it(self):
        self.load()
        first = self.start("consume")
        self.check()
        holder = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(holder.close)
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM vote_tally FOR UPDATE")
        self.load(VOTES + 1)
        # Its progress row is locked and it waits for the tally: frozen there, it wakes up to
        # nothing; when the tally is free, its session sleeps in the open transaction.
        # The server answers from its cache when it is asked more often.
        suite.wait_for("the consumer to wait in its transaction", self.waits, every=0.3)
        self.freeze(first)
        holder.rollback()
        second = self.start("consume", ready=False)
        began = time.monotonic()
        self.wait_count(2 * VOTES, 60)
        print(f"\nafter the freeze inside a transaction: {time.monotonic() - began:.1f} s",
              file=sys.stderr)
        self.thaw(first)
        self.check(2 * VOTES)
        self.assertTrue(second.alive())

    def waits(self):
        return self.stack.number("SELECT COUNT(*) FROM information_schema.innodb_trx "
                                 "WHERE trx_state = 'LOCK WAIT'")


class MorePartitions(GroupCase):
    """Partitions are added to the topic: OPERATIONS, Adding partitions."""

    seconds = 30
    more = 2 * PARTITIONS

    def grow(self):
        wire.grow_topic(suite.kafka().bootstrap, self.stack.topic, self.more)

    def rows_in_order(self):
        """Whether every voter's row that takes a vote back stands behind the one that gives it."""
        return self.stack.number(
            "SELECT COUNT(*) FROM vote_document g JOIN vote_document t ON t.content_id = g.content_id "
            "AND t.voter_id = g.voter_id AND t.voting = 0 AND g.voting = 1 "
            "AND t.content_seq < g.content_seq") == 0

    def check_all_taken_back(self):
        self.check(2 * VOTES)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_tally WHERE votes <> 0"), 0)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM dead_record"), 0)

    def test_votes_that_wait_in_old_partitions_are_not_lost_or_counted_twice(self):
        """The new partitions have the votes that take them back, and may be read first."""
        self.load()
        self.grow()
        self.load(voting=0)
        consumer = self.start("consume")
        self.check_all_taken_back()
        suite.wait_for("all partitions", lambda: self.owned(consumer) == self.more)
        print(f"\nrows in order: {self.rows_in_order()}", file=sys.stderr)

    def test_a_topic_grows_under_a_relay_and_a_consumer(self):
        """The relay is not stopped, so rows of a key may be in another order."""
        consumer = self.start("consume")
        relay = self.start("relay", sets={"kafka.producer.topic.metadata.refresh.interval.ms": 1000})
        for voting in (1, 0):
            for part in range(5):
                self.vote(1 + part * VOTES // 5, VOTES // 5, voting)
                if voting == 1 and part == 2:
                    self.grow()
        # A row is applied before the relay deletes it, and verify counts those that are left.
        self.stack.wait_drained()
        self.check_all_taken_back()
        suite.wait_for("all partitions", lambda: self.owned(consumer) == self.more)
        self.vote(VOTES + 1, VOTES, 1)
        self.stack.wait_drained()
        self.check(3 * VOTES)
        used = [number for number in range(self.more)
                if wire.end_offset(suite.kafka().bootstrap, self.stack.topic, number) > 0]
        self.assertEqual(len(used), self.more)
        self.assertTrue(relay.alive())

    def test_once_all_is_applied_the_order_is_kept(self):
        consumer = self.start("consume")
        self.load()
        self.check()
        self.grow()
        self.load(voting=0)
        self.check_all_taken_back()
        self.assertTrue(self.rows_in_order())
        suite.wait_for("all partitions", lambda: self.owned(consumer) == self.more)


class TwoInstallations(GroupCase):
    """Two databases whose consumers use one Kafka."""

    seconds = 60

    def test_the_second_is_refused_and_both_are_named(self):
        self.stack.sql("UPDATE installation SET name = 'aaaa0001' WHERE id = 1")
        first = self.start("consume")
        suite.wait_for("its partitions", lambda: self.owned(first) == PARTITIONS)
        self.stack.sql("UPDATE installation SET name = 'bbbb0002' WHERE id = 1")
        second = self.start("consume", ready=False)
        suite.wait_for("the refusal", lambda: re.search(
            "event=work_paused what=consumer_group .*installation aaaa0001 uses the consumer group "
            f"{self.stack.group}, too .*, bbbb0002: set consumer.group", second.log_text()))
        answer = second.admin("/readyz")
        self.assertEqual(answer.status, 503)
        self.assertIn("aaaa0001", answer.body.decode())
        self.assertEqual(self.owned(first), PARTITIONS)
        self.assertEqual(first.terminate(), 0)
        second.wait_ready()
        self.wait_all_owned(second, 30)

    def start_foreigner(self, installation, strategy):
        """A member that did not look at the group before it joined."""
        member = wire.join_group(suite.kafka().bootstrap, self.stack.group, self.stack.topic,
                                 f"tallybox-{installation}.x", strategy)
        self.addCleanup(member.wait)
        self.addCleanup(member.kill)
        return member

    def wait_members(self, count):
        suite.wait_for(f"{count} members of the group", lambda: len(wire.group_members(
            suite.kafka().bootstrap, self.stack.group)[1]) == count, every=0.2)

    def meet_a_lower_id(self, strategy):
        self.stack.sql("UPDATE installation SET name = 'bbbb0002' WHERE id = 1")
        self.load()
        consumer = self.start("consume", sets={
            "kafka.consumer.partition.assignment.strategy": strategy})
        self.check()
        foreigner = self.start_foreigner("aaaa0001", strategy)
        suite.wait_for("the consumer to leave", lambda: re.search(
            "event=work_paused what=consumer_group .*installation aaaa0001 .*"
            "until then bbbb0002 stays out of the group", consumer.log_text()))
        self.assertEqual(consumer.admin("/readyz").status, 503)
        self.wait_members(1)
        suite.wait_for("its partitions to be counted",
                       lambda: consumer.metric("tallybox_consumer_partitions") == 0)
        foreigner.kill()
        consumer.wait_ready()
        self.wait_members(1)
        self.load(VOTES + 1)
        self.check(2 * VOTES)

    def test_the_higher_id_leaves_an_eager_group(self):
        self.meet_a_lower_id("range")

    def test_the_higher_id_leaves_a_cooperative_group(self):
        self.meet_a_lower_id("cooperative-sticky")

    def test_the_lower_id_stays_and_is_not_ready_until_the_other_has_left(self):
        self.stack.sql("UPDATE installation SET name = 'bbbb0002' WHERE id = 1")
        consumer = self.start("consume")
        # A consumer that is ready may not have looked at its group yet, and would stay outside.
        suite.wait_for("all partitions", lambda: consumer.metric("tallybox_consumer_partitions")
                       == PARTITIONS)
        foreigner = self.start_foreigner("cccc0003", "cooperative-sticky")
        suite.wait_for("the other to be seen", lambda: re.search(
            "event=work_paused what=consumer_group .*installation cccc0003 .*"
            "until then bbbb0002 stays in the group", consumer.log_text()))
        self.wait_members(2)
        self.assertEqual(consumer.admin("/readyz").status, 503)
        self.assertGreater(consumer.metric("tallybox_consumer_partitions"), 0)
        foreigner.kill()
        consumer.wait_ready()
        suite.wait_for("all partitions", lambda: consumer.metric("tallybox_consumer_partitions")
                       == PARTITIONS)

    def test_of_two_that_start_together_the_lower_id_continues(self):
        """Each sees an empty group and joins, or one of them comes first and the other stays out."""
        other = suite.Stack(type(self).__name__, self.settings)
        self.addCleanup(other.close)
        other.topic, other.group = self.stack.topic, self.stack.group
        other.write_ini(consumer__group=other.group, consumer__topics=other.topic)
        self.stack.sql("UPDATE installation SET name = 'aaaa0001' WHERE id = 1")
        other.sql("UPDATE installation SET name = 'bbbb0002' WHERE id = 1")
        roles = {}
        for name, stack in (("aaaa0001", self.stack), ("bbbb0002", other)):
            roles[name] = stack.role("consume", ready=False)
            self.addCleanup(roles[name].end)
        suite.wait_for("one of them to work alone", lambda: sorted(
            role.metric("tallybox_consumer_partitions") for role in roles.values()) == [0, PARTITIONS]
            and sorted(map(suite.Role.ready, roles.values())) == [False, True])
        self.wait_members(1)
        working = next(name for name, role in roles.items() if role.ready())
        print(f"\nstarted together: {working} continues", file=sys.stderr)
        joined = [name for name, role in roles.items()
                  if "event=partitions_assigned" in role.log_text()]
        if len(joined) == 2:
            self.assertEqual(working, "aaaa0001")
        else:
            self.assertEqual(joined, [working])

    def test_the_default_group_names_the_installation(self):
        self.stack.sql("UPDATE installation SET name = 'cccc0003' WHERE id = 1")
        self.stack.write_ini(consumer__group="")
        wire.produce(suite.kafka().bootstrap, self.stack.topic, b"no vote", key="1")
        suite.wait_for("a record that waits", lambda: re.search(
            rf"records wait for longer than 100 ms in {self.stack.topic}/\d, held by none",
            self.stack.tallybox("status", "--check", expect=suite.FAILED,
                                sets={"admin.stale_ms": 100}).stdout), every=0.3)
        self.start("consume")
        suite.wait_for("its progress", lambda: self.stack.number(
            "SELECT COUNT(*) FROM consumer_progress "
            "WHERE consumer_group = 'tallybox-cccc0003'") == PARTITIONS)
        self.assertIn("consumer group tallybox-cccc0003\n", self.stack.tallybox("status").stdout)
        suite.wait_for("a dead record", self.dead_records, every=0.3)
        self.stack.tallybox("dead", "drop", "--all", "--yes")
        self.assertEqual(self.dead_records(), [])

    def test_a_name_that_cannot_be_an_id_is_refused_by_the_database(self):
        for name in ("shop.copy", "", "a b"):
            with self.assertRaises(pymysql.MySQLError):
                self.stack.sql("UPDATE installation SET name = %s WHERE id = 1", [name])

    def test_without_its_row_no_role_takes_another_group(self):
        self.stack.write_ini(consumer__group="", housekeep__progress_days=1)
        self.addCleanup(self.stack.settings.pop, "housekeep.progress_days")
        (row,) = self.stack.sql("SELECT id, name FROM installation")
        self.stack.sql("DELETE FROM installation")
        self.addCleanup(self.stack.sql, "INSERT INTO installation VALUES (%s, %s)", row)
        missing = "table installation of [sink] has no row id = 1"
        for words in (["consume"], ["run"], ["housekeep"], ["housekeep", "--once"],
                      ["dead", "list"],
                      ["consume", "--restart-partition", f"{self.stack.topic}/0@earliest"]):
            with self.subTest(words=words):
                done = self.stack.tallybox(*words, expect=suite.FAILED)
                self.assertIn(missing, done.stderr)
                self.assertIn("INSERT INTO installation", done.stderr)
        self.assertIn(missing, self.stack.tallybox("status", expect=None).stdout)

    def dead_records(self):
        return json.loads(self.stack.tallybox("dead", "list", "--json").stdout)["records"]


class SameName(GroupCase):
    """Two consumers with one name in the group."""

    def check_second_takes_over(self, **sets):
        self.load()
        first = self.stack.role("consume", sets=sets)
        self.wait_count(VOTES // 10)
        second = self.start("consume", ready=False, sets=sets)
        suite.wait_for("the first one to end", lambda: not first.alive(), 40)
        self.assertEqual(first.process.returncode, suite.FAILED)
        self.assertRegex(first.log_text(), "event=role_failed role=consume err=.*another consumer "
                         "of the group has the same group.instance.id: .* with "
                         "consumer.static_member = host run one consumer on each host")
        self.check()
        second.wait_ready()

    def test_the_first_of_two_ends_with_a_clear_error(self):
        self.check_second_takes_over(**{"kafka.consumer.group.instance.id": "one"})

    def test_the_first_of_two_on_a_host_does_so_too(self):
        self.check_second_takes_over(**{"consumer.static_member": "host"})


class Restarts:
    """One of two consumers is started again: what that does to the other."""

    votes = 0
    shared = None  # what the broker logs whenever the members share the partitions anew

    def events(self, role):
        """How often the group has assigned, revoked and taken away partitions of this consumer."""
        return [role.log_text().count(f"event=partitions_{event}")
                for event in ("assigned", "revoked", "lost")]

    def generation(self):
        """How often the members have shared the partitions, as the broker counts it."""
        log = (suite.kafka().folder / "log").read_text(errors="replace")
        found = re.findall(self.shared.format(re.escape(self.stack.group)), log)
        self.assertTrue(found)
        return int(found[-1])

    def seen_by(self, role):
        """With the partitions that it has claimed, and how often each was claimed."""
        claims = self.stack.sql(
            "SELECT partition_id, epoch FROM consumer_progress WHERE consumer_group = %s "
            "AND owner LIKE %s ORDER BY 1", [self.stack.group, f"%-{role.pid}-%"])
        return self.generation(), self.events(role), claims

    def settle(self, *roles):
        """Until the partitions are shared, and no rebalance follows for a while."""
        self.wait_shared(*roles)
        seen, since = None, 0
        while seen is None or time.monotonic() - since < 4:
            now = [self.seen_by(role) for role in roles]
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.2)

    def pair(self):
        """The name of the host is that of one of them."""
        roles = (self.start("consume", sets={"consumer.static_member": "host"}),
                 self.start("consume", sets={"kafka.consumer.group.instance.id": "other"}))
        self.settle(*roles)
        return roles

    def more_votes(self):
        self.votes += VOTES
        self.load(self.votes - VOTES + 1)

    def end_cleanly(self, role):
        self.assertEqual(role.terminate(), 0)

    def restart(self, role, other, end):
        """Votes arrive while the role is away. What the other has seen before and after."""
        before = self.seen_by(other)
        end(role)
        self.more_votes()
        role.start().wait_ready()
        self.check(self.votes)
        self.wait_shared(role, other)
        return before, self.seen_by(other)

    def test_a_clean_restart_of_a_static_member_moves_nothing(self):
        first, second = self.pair()
        for role, other in ((first, second), (second, first)):
            with self.subTest(role=role.sets):
                before, after = self.restart(role, other, self.end_cleanly)
                self.assertEqual(after, before)

    def test_a_restart_of_another_member_moves_partitions(self):
        """What the test of static members would see without them."""
        first, second = self.start("consume"), self.start("consume")
        self.settle(first, second)
        before, after = self.restart(first, second, self.end_cleanly)
        self.assertGreater(after[0], before[0])
        self.assertNotEqual(after[1], before[1])
        metrics = second.metrics()
        name = "tallybox_consumer_rebalances_total"
        self.assertEqual([metrics[f'{name}{{event="{event}"}}']
                          for event in ("assigned", "revoked", "lost")], self.events(second))
        # Its own partitions, then those of the other one.
        self.assertGreaterEqual(metrics["tallybox_consumer_rebalance_pause_seconds_count"],
                                PARTITIONS)

    def away(self, sets):
        first = self.start("consume", sets={"consumer.static_member": "host", **sets})
        second = self.start("consume", sets={"kafka.consumer.group.instance.id": "other", **sets})
        self.settle(first, second)
        self.end_cleanly(first)
        began = time.monotonic()
        self.wait_all_owned(second, SESSION_S + NOISE_S)
        # The broker has heard of it shortly before it ended.
        self.assertGreater(time.monotonic() - began, SESSION_S / 2)
        self.more_votes()
        self.check(self.votes)


class StaticCooperative(Restarts, GroupCase):
    """Static members of a group whose members share the partitions."""

    seconds = 60
    shared = r"Stabilized group {} generation (\d+)"
    settings = {"kafka.consumer.session.timeout.ms": 45000}

    def test_a_restart_after_a_kill_moves_nothing_either(self):
        first, second = self.pair()
        before, after = self.restart(first, second, suite.Role.kill)
        self.assertEqual(after, before)

    def test_partitions_of_a_member_that_stays_away_move_when_its_session_ends(self):
        self.away({"kafka.consumer.session.timeout.ms": SESSION_S * 1000})


class StaticEager(Restarts, GroupCase):
    """Static members of a group in which everything is given back in each rebalance."""

    seconds = 40
    shared = StaticCooperative.shared
    settings = {**StaticCooperative.settings,
                "kafka.consumer.partition.assignment.strategy": "range"}


class StaticBrokerAssigned(Restarts, GroupCase):
    """Static members of a group of KIP-848, of which the broker knows the session's time-out."""

    seconds = 60
    shared = r"GroupId {}\].* epoch to (\d+)"
    settings = BrokerAssigned.settings

    def set_session(self, seconds):
        wire.alter_group(suite.kafka().bootstrap, self.stack.group,
                         {"consumer.session.timeout.ms": seconds * 1000})

    def setUp(self):
        super().setUp()
        self.set_session(45)

    def test_partitions_of_a_member_that_stays_away_move_when_its_session_ends(self):
        self.set_session(SESSION_S)
        self.away({})

    def test_the_second_of_two_with_one_name_is_refused(self):
        sets = {"consumer.static_member": "host"}
        first = self.start("consume", sets=sets)
        self.wait_all_owned(first, 40)
        second = self.stack.tallybox("consume", sets={"admin.listen": "off", **sets},
                                     expect=suite.FAILED)
        self.assertIn("another consumer of the group has the same group.instance.id",
                      second.stderr)
        self.more_votes()
        self.check(self.votes)
        self.assertEqual(self.owned(first), PARTITIONS)

    def test_after_a_kill_the_name_is_free_when_the_session_ends(self):
        """Until then the supervisor starts it again and again."""
        self.set_session(15)
        role = self.start("consume", sets={"consumer.static_member": "host"})
        self.wait_all_owned(role, 40)
        role.kill()
        role.start()
        ends, until = 0, time.monotonic() + 15 + NOISE_S
        while self.owned(role) < PARTITIONS:
            self.assertLess(time.monotonic(), until)
            if not role.alive():
                self.assertEqual(role.process.returncode, suite.FAILED)
                self.assertIn("group.consumer.session.timeout.ms is over", suite.tail(role.log))
                ends += 1
                role.start()
            time.sleep(0.2)
        self.assertGreater(ends, 0)
        role.wait_ready()
        print(f"\nafter a kill: refused {ends} times", file=sys.stderr)
        self.more_votes()
        self.check(self.votes)


if __name__ == "__main__":
    unittest.main()
