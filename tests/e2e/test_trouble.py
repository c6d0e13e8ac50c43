# SPDX-License-Identifier: MIT
"""Trouble by kind: what MySQL answers when it is full, read-only, leaving or gone, with a Kafka that
is away, and what each role makes of it. No vote is lost or counted twice, nothing waits in silence,
and nothing is said again and again."""

import atexit
import http.client
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import logs  # noqa: E402
import mysql_edge  # noqa: E402
import wire  # noqa: E402

READ_ONLY = "The server is running with the --read-only option so it cannot execute this statement"

# What a server says in passing; the text matters for 1290 alone.
PASSING = {
    1021: "Disk full (/var/tmp); waiting for someone to free some space",
    1026: "Error writing file (errno: 28 - No space left on device)",
    1030: "Got error 28 from storage engine",
    1036: "Table is read only",
    1040: "Too many connections",
    1053: "Server shutdown in progress",
    1077: "Normal shutdown",
    1114: "The table is full",
    1158: "Got an error reading communication packets",
    1180: "Got error 28 during COMMIT",
    1203: "User already has more than max_user_connections active connections",
    1205: "Lock wait timeout exceeded; try restarting transaction",
    1206: "The total number of locks exceeds the lock table size",
    1213: "Deadlock found when trying to get lock; try restarting transaction",
    1226: "User has exceeded the max_queries_per_hour resource",
    1290: READ_ONLY,
    1317: "Query execution was interrupted",
    1792: "Cannot execute statement in a READ ONLY transaction",
    1836: "Running in read-only mode",
    1927: "Connection was killed",
    3024: "Query execution was interrupted, maximum statement execution time exceeded",
    3032: "The server is currently in offline mode",
    3101: "Plugin instructed the server to rollback the current transaction",
    3169: "Session was killed",
    4031: "The client was disconnected by the server because of inactivity",
    4081: "Connection closed. Global connection memory limit exceeded",
}

# One statement of every step of every role.
STATEMENTS = {
    "vote": r"^INSERT INTO vote_state",
    "append": r"^INSERT INTO `?outbox",
    "read": r"^\(?SELECT .*FROM `outbox`",
    "delete": r"^DELETE o FROM",
    "lease": r"^UPDATE relay_lease",
    "log": r"^INSERT INTO vote_document",
    "tally": r"^INSERT INTO vote_tally",
    "progress": r"consumer_progress",
    "remark": r"^UPDATE .*\bremark\b",
    "begin": r"^START TRANSACTION",
    "commit": r"^COMMIT",
}


class EdgeCase(suite.Case):
    """The roles reach the database through a place that makes trouble."""

    edge = None

    @classmethod
    def setUpClass(cls):
        database = suite.database()
        cls.edge = mysql_edge.Edge(database.host, database.port)
        cls.addClassCleanup(cls.edge.close)
        cls.settings = {"mysql.host": cls.edge.host, "mysql.port": cls.edge.port, **cls.settings}
        super().setUpClass()

    def tearDown(self):
        self.edge.well()

    def votes_arrive(self, role, contents):
        """Every vote of `role`'s API is in the log and in the remark."""
        def look():
            return dict(self.stack.sql("SELECT id, votes FROM remark")) == contents
        suite.wait_for(f"the remarks {contents}", look)


class Errors(EdgeCase):
    """Every error in passing, at every statement, while votes go the whole way."""

    seconds = 45
    roles = ("run",)
    # A vote whose answer is lost a dozen times in a row waits up to 15 s for its tries.
    settings = {"rollup.interval_ms": 1000, "api.request_timeout_ms": 50000}

    @staticmethod
    def unmet(troubles):
        return {name for name, trouble in troubles.items() if not trouble.hits}

    def test_every_passing_error_is_waited_out_at_every_statement(self):
        contents = {}
        for number, (code, text) in enumerate(PASSING.items(), 1):
            with self.subTest(code=code):
                self.stack.sql("INSERT INTO remark (id) VALUES (%s)", [number])
                contents[number] = 3
                troubles = {name: self.edge.answer(pattern, code, text)
                            for name, pattern in STATEMENTS.items()}
                for voter in (1, 2, 3):
                    self.one.vote((voter, number, 1))
                self.votes_arrive(self.one, contents)
                suite.wait_for("every step to meet its trouble",
                               lambda met=troubles: not self.unmet(met))
                self.edge.well()
                self.assertTrue(self.one.alive())
        self.one.wait_ready()
        self.stack.wait_drained()
        self.stack.tallybox("verify")

    def test_lost_answers_count_nothing_twice(self):
        self.stack.sql("INSERT INTO remark (id) VALUES (1000)")
        before = dict(self.stack.sql("SELECT id, votes FROM remark"))
        troubles = [self.edge.lose(STATEMENTS["commit"], 6)]
        troubles += [self.edge.lose(STATEMENTS[name], 2) for name in
                     ("vote", "append", "delete", "lease", "log", "progress", "remark")]
        troubles += [self.edge.cut(STATEMENTS["commit"], 6)]
        for voter in range(1, 21):
            self.one.vote((voter, 1000, 1))
        self.votes_arrive(self.one, {**before, 1000: 20})
        self.assertGreaterEqual(sum(trouble.hits for trouble in troubles), 12)
        self.edge.well()
        self.stack.wait_drained()
        self.assertEqual(self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id = 1000"), 20)
        self.stack.tallybox("verify")


class Silence(EdgeCase):
    """While something is away each role says so once, is not ready, and shows what waits growing
    older; when it is back, each says so once."""

    seconds = 60
    roles = ("serve", "relay", "consume", "rollup")
    # A lease or a session that a busy machine loses would be trouble of its own.
    settings = {"rollup.interval_ms": 1000, "admin.stale_ms": 3000, "relay.lease_ms": 15000,
                "kafka.consumer.max.poll.interval.ms": 6000,
                "kafka.consumer.session.timeout.ms": 6000}

    def all(self):
        return [self.serve, self.relay, self.consume, self.rollup]

    def wait_said(self, role, event, since):
        suite.wait_for(f"{event} in the log of {role.name}",
                       lambda: event in role.log_text()[since:])

    def events_since(self, role, since):
        return [name for _, name, _ in logs.EVENT.findall(role.log_text()[since:])]

    def wait_over(self, role, begin, end, since):
        """Trouble has begun since then, and is over as often as it began."""
        def look():
            events = self.events_since(role, since)
            return 0 < events.count(begin) == events.count(end)
        suite.wait_for(f"{role.name} to say {end}", look)

    def grows(self, role, metric):
        """The metric grows with the time, by a second at least."""
        first = role.metric(metric)
        suite.wait_for(f"{metric} of {role.name} to grow",
                       lambda: role.metric(metric) > first + 1)

    def is_down(self, role, dep):
        """The metrics show how long the server has failed, and that the process is not ready."""
        self.grows(role, f'tallybox_dependency_down_seconds{{dep="{dep}"}}')
        self.assertEqual(role.metric("tallybox_ready"), 0, role.name)

    def wait_up_again(self, role):
        suite.wait_for(f"no dependency of {role.name} to fail",
                       lambda: role.metric("tallybox_dependency_down_seconds") == 0
                       and role.metric("tallybox_ready") == 1)

    def test_a_database_that_comes_and_goes(self):
        marks = {role: len(role.log_text()) for role in self.all()}
        suite.kafka()
        # A row that Kafka may not have yet, and one that the log may not have yet.
        hold = self.edge.hang(r"^INSERT INTO vote_document", -1)
        self.serve.vote((1, 1, 1))
        suite.wait_for("a batch in hand", lambda: hold.hits)
        for code, text in ((1040, "Too many connections"), (1053, "Server shutdown in progress"),
                           (1040, "Too many connections")):
            self.edge.refuse_logins(code, text)
            self.edge.cut_all()
            time.sleep(2)
        for role in self.all():
            self.wait_said(role, "event=not_ready", marks[role])
            self.assertEqual(role.admin("/readyz").status, 503, role.name)
        for role, dep in ((self.serve, "mysql"), (self.relay, "mysql"), (self.consume, "sink"),
                          (self.rollup, "sink")):
            self.is_down(role, dep)
        self.grows(self.consume, "tallybox_consumer_oldest_age_seconds")
        self.edge.well()
        for role in self.all():
            role.wait_ready()
        self.stack.wait_rows("vote_document", self.stack.number(
            "SELECT SUM(version) FROM vote_state"))
        for role in self.all():
            self.wait_over(role, "not_ready", "ready_again", marks[role])
            self.assertEqual(logs.repeated(role), {}, role.name)
        for place, role in (("dep=mysql role=serve ", self.serve),
                            ("dep=sink role=consume ", self.consume),
                            ("dep=sink role=rollup ", self.rollup),
                            ("dep=mysql role=relay reason=cannot_read ", self.relay)):
            suite.wait_for(f"{place}to recover", lambda role=role, place=place: logs.recovered(
                role.log_text()[marks[role]:], place))
            self.assertRegex(role.log_text(), f"event=dependency_up {place}.*after_ms=[0-9]")
        for role in self.all():
            self.wait_up_again(role)

    def test_a_kafka_that_is_away(self):
        self.serve.vote((2, 1, 1))
        self.stack.wait_drained()
        marks = {role: len(role.log_text()) for role in self.all()}
        suite.kafka().stop()
        self.addCleanup(suite.kafka().restart)
        self.serve.vote((3, 1, 1))
        self.grows(self.relay, "tallybox_outbox_oldest_age_seconds")
        for role in (self.relay, self.consume):
            self.wait_said(role, "event=not_ready", marks[role])
            self.is_down(role, "kafka")
        self.serve.wait_ready()
        self.rollup.wait_ready()
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 1)
        suite.kafka().restart()
        for role in (self.relay, self.consume):
            role.wait_ready(120)
            self.wait_said(role, "event=ready_again", marks[role])
            self.assertEqual(logs.repeated(role), {}, role.name)
        self.stack.wait_drained()
        self.wait_said(self.consume, "event=dependency_up dep=kafka role=consume",
                       marks[self.consume])
        self.wait_said(self.relay, "event=dependency_up dep=kafka role=relay", marks[self.relay])
        for role in self.all():
            self.wait_up_again(role)


class Group(EdgeCase):
    """A consumer without its database pauses and stays in its group."""

    seconds = 45
    settings = {"kafka.consumer.max.poll.interval.ms": 6000,
                "kafka.consumer.session.timeout.ms": 6000}

    def members(self):
        return wire.group_members(suite.kafka().bootstrap, self.stack.group)

    def owners(self):
        return self.stack.sql("SELECT partition_id, owner FROM consumer_progress ORDER BY 1")

    def test_no_rebalance_while_the_database_is_away_for_long(self):
        wire.create_topic(suite.kafka().bootstrap, self.stack.topic, 2)
        relay, serve = self.start("relay"), self.start("serve")
        consume = self.start("consume")
        suite.wait_for("both partitions to be claimed", lambda: len(self.owners()) == 2)
        suite.wait_for("the group to be stable", lambda: self.members()[0] == "Stable")
        before, owners = self.members(), self.owners()
        for trouble in ("hang", "refuse"):
            with self.subTest(trouble):
                count = self.stack.number("SELECT COUNT(*) FROM vote_document")
                if trouble == "hang":
                    hung = self.edge.hang(r"vote_document", -1)
                else:
                    hung = self.edge.answer(r"vote_document|vote_tally", 1053, "leaving", times=-1)
                for voter in range(1, 30):
                    serve.vote((voter, voter % 5 + 1, int(trouble == "hang")))
                suite.wait_for("the trouble to be met", lambda met=hung: met.hits)
                # Longer than the session and than a poll may take.
                time.sleep(13)
                self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_document"), count)
                self.assertEqual(self.members(), before)
                self.edge.well()
                self.edge.cut_all()
                self.stack.wait_rows("vote_document", count + 29)
                self.assertEqual(self.members(), before)
                self.assertEqual(self.owners(), owners)
        text = consume.log_text()
        self.assertEqual(text.count("event=partitions_assigned"), 1)
        self.assertNotIn("partitions_revoked", text)
        self.assertNotIn("partitions_lost", text)
        self.assertEqual(relay.terminate(), 0)


class Limited(suite.Role):
    """A role that may have so much address space, as after `ulimit -v`."""

    limit_mib = 0

    def command(self):
        return ["prlimit", f"--as={self.limit_mib << 20}", *super().command()]


class Memory(suite.Case):
    """A role that gets no memory says so and ends, for a supervisor to start it again; what it was
    doing is undone or repeated. Nothing hangs, nothing is lost."""

    seconds = 30
    settings = {"rollup.interval_ms": 1000}
    limits_mib = (16, 24, 30, 36, 42, 48, 60, 72, 88, 96, 128, 192, 256, 512)

    def limited(self, name, limit_mib):
        role = Limited(self.stack, name, {}, ())
        role.limit_mib = limit_mib
        role.start()
        self.addCleanup(role.kill)
        return role

    def outcome(self, role):
        """"ready" (and stopped in order) or "ended"; every exit has a line that a person can read."""
        def look():
            if not role.alive():
                return "ended"
            try:
                return role.admin("/readyz", seconds=2).status == 200 and "ready"
            except (OSError, http.client.HTTPException):
                return None
        try:
            found = suite.wait_for(f"{role.name} with {role.limit_mib} MiB to work or to end", look)
        except AssertionError as reason:
            raise AssertionError(f"{reason}\n{role.why_not_ready()}\n"
                                 f"{suite.tail(role.log)}") from None
        # A role that is ready may still run out of memory, for example when librdkafka starts a
        # thread for another broker: its end is then judged like one at the start.
        if found == "ready" and role.terminate() == 0:
            return "ready"
        self.assert_end_is_explained(role)
        return "ended"

    def assert_end_is_explained(self, role):
        """A library that cannot go on without memory may abort the process: the supervisor sees the
        signal then, and no line can be written."""
        self.assertNotEqual(role.process.returncode, 0)
        if role.process.returncode > 0:
            self.assertRegex(role.log_text(), r"(?i)memory|resource|cannot (start|allocate)|"
                             r"failed to (map|create)|unable to create|start_stalled",
                             role.log_text()[-2000:])

    def test_every_role_under_every_limit_works_or_says_why_not(self):
        wire.create_topic(suite.kafka().bootstrap, self.stack.topic, 2)
        outcomes = {}
        for name in ("serve", "relay", "consume", "rollup"):
            for limit_mib in self.limits_mib:
                with self.subTest(role=name, limit_mib=limit_mib):
                    role = self.limited(name, limit_mib)
                    outcomes[name, limit_mib] = self.outcome(role)
                    if outcomes[name, limit_mib] == "ready":
                        break
        for name in ("serve", "relay", "consume", "rollup"):
            self.assertIn("ready", {found for (role, _), found in outcomes.items()
                                    if role == name}, name)
            self.assertIn("ended", {found for (role, _), found in outcomes.items()
                                    if role == name}, name)

    def supervise(self, roles, until):
        """Starts again what ended, as a supervisor does."""
        ends = 0
        deadline = time.monotonic() + 60
        while not until() and time.monotonic() < deadline:
            for role in roles:
                if not role.alive():
                    ends += 1
                    self.assertNotEqual(role.process.returncode, 0, suite.tail(role.log))
                    role.start()
            time.sleep(0.2)
        return ends

    def test_work_at_the_limit_is_undone_or_repeated(self):
        serve = self.start("serve")
        for number in range(1, 31):
            serve.vote(*[(voter, number, 1) for voter in range(1, 101)])
        for number in range(20):
            self.stack.append([{"id": f"big-{number}", "aggregatetype": "big", "type": "big",
                                "aggregateid": str(number), "payload": "x" * 950000}])
        roles = [self.limited(name, limit_mib) for name, limit_mib in
                 (("relay", 110), ("consume", 110), ("relay", 96), ("consume", 100))]
        began = time.monotonic()
        self.supervise(roles, lambda: time.monotonic() - began > 12)
        for role in roles:
            role.kill()
        self.start("relay")
        self.start("consume")
        self.stack.wait_drained()
        self.stack.wait_rows("vote_document", 3000)
        self.stack.tallybox("verify")


class Stop(EdgeCase):
    """SIGTERM in the middle of things: answered, finished or given back within the bound."""

    seconds = 30
    settings = {"admin.stop_timeout_ms": 16000, "consumer.batch_rows_max": 2000}

    def stop_soon(self, *roles):
        """All at the same time. A role that needs longer than it may says so with its exit code."""
        began = time.monotonic()
        for role in roles:
            role.process.send_signal(signal.SIGTERM)
        for role in roles:
            with self.subTest(role.name):
                self.assertEqual(role.wait_end(), 0, suite.tail(role.log))
        self.assertLess(time.monotonic() - began, 30)

    def test_requests_in_flight_are_answered(self):
        serve = self.start("serve")
        hold = self.edge.hang(r"^INSERT INTO vote_state")
        answers = []

        def ask(voter):
            answers.append(serve.call("POST", "/v1/votes", {"voterId": voter, "contentId": 1,
                                                            "voting": 1}).status)
        clients = [threading.Thread(target=ask, args=(voter,)) for voter in range(1, 9)]
        clients[0].start()
        suite.wait_for("a transaction under way", lambda: hold.hits)
        for client in clients[1:]:
            client.start()
        # A request that is still on its way would find no listener.
        suite.wait_for("the others to wait behind it",
                       lambda: serve.metric("tallybox_commit_queue_votes") == 7)
        self.stop_soon(serve)
        for client in clients:
            client.join(60)
        self.assertEqual(len(answers), 8)
        self.assertLessEqual(set(answers), {200, 503})
        done = self.stack.number("SELECT COUNT(*) FROM vote_state")
        self.assertGreaterEqual(done, answers.count(200))
        # Else the server keeps the transaction for a minute, and its table with it.
        self.edge.cut_all()

    def test_a_role_whose_database_is_silent_stops_in_time(self):
        relay, consume = self.start("relay"), self.start("consume")
        serve, rollup = self.start("serve"), self.start("rollup")
        serve.vote((100, 2, 1))
        hold = self.edge.hang(r".", -1)
        suite.wait_for("all to hang", lambda: hold.hits >= 7)
        self.stop_soon(relay, consume, serve, rollup)
        self.edge.well()
        self.edge.cut_all()

    def test_a_big_batch_under_way_is_finished_or_undone(self):
        serve, relay = self.start("serve"), self.start("relay")
        for number in range(10, 15):
            serve.vote(*[(voter, number, 1) for voter in range(1, 1001)])
        self.stack.wait_drained()
        consume = self.start("consume")
        suite.wait_for("the first rows", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document"))
        self.stop_soon(consume, relay)
        again = self.start("consume")
        self.stack.wait_rows("vote_document", self.stack.number(
            "SELECT SUM(version) FROM vote_state"))
        self.stop_soon(again)

    def test_a_second_signal_ends_at_once(self):
        # So long that the stop is not over before the second signal comes.
        relay = self.start("relay", sets={"admin.stop_timeout_ms": 200000})
        hold = self.edge.hang(r".", -1)
        suite.wait_for("it to hang", lambda: hold.hits)
        relay.process.terminate()
        suite.wait_for("the stop", lambda: "event=stopping" in relay.log_text())
        time.sleep(0.6)  # sooner it would be an echo of the first
        relay.process.terminate()
        self.assertEqual(relay.wait_end(20), suite.FAILED)
        self.assertIn("event=stop_forced", relay.log_text())
        self.edge.well()
        self.edge.cut_all()


class Reload(suite.Case):
    """SIGHUP on a role at work."""

    def test_live_settings_change_under_load_and_others_are_named(self):
        role = self.start("run")
        for number in range(1, 6):
            self.stack.write_ini(relay__poll_ms=number, admin__stale_ms=50000 + number,
                                 relay__read_rows_max=4000 + number, rollup__interval_ms=1000)
            role.process.send_signal(signal.SIGHUP)
            role.vote((number, 1, 1))
            suite.wait_for("the reload", lambda count=number: role.log_text().count(
                "event=reloaded") == count)
        text = role.log_text()
        self.assertIn("setting=relay.poll_ms from=4 to=5", text)
        self.assertIn("setting=rollup.interval_ms from=3600000 to=1000", text)
        self.assertEqual(text.count("settings=relay.read_rows_max"), 5)
        self.stack.sql("INSERT INTO remark (id) VALUES (1)")
        suite.wait_for("the next roll-up", lambda: self.stack.number(
            "SELECT votes FROM remark WHERE id = 1") == 5)


class DeletedTopic(suite.Case):
    """A topic that is deleted under the roles."""

    settings = {"kafka.topic.metadata.propagation.max.ms": 2000}

    def test_a_deleted_topic_is_made_again_and_its_consumer_waits_for_a_person(self):
        bootstrap = suite.kafka().bootstrap
        serve, relay, consume = self.start("serve"), self.start("relay"), self.start("consume")
        serve.vote((1, 2, 1))
        suite.wait_for("the vote", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id = 2"))
        wire.delete_topic(bootstrap, self.stack.topic)
        # The broker takes records until it has heard of it from its controller.
        suite.wait_for("the topic to be gone",
                       lambda: wire.partitions(bootstrap, self.stack.topic) == 0)
        serve.vote((2, 2, 1))
        self.stack.wait_drained()
        suite.wait_for("the consumer to stop its partitions",
                       lambda: "event=work_paused what=partition" in consume.log_text())
        suite.wait_for("it not to be ready", lambda: consume.admin("/readyz").status == 503)
        self.assertTrue(relay.alive() and consume.alive())
        partition = suite.wait_for("the record in the new topic", self.stack.records)[0].partition
        self.stack.tallybox("consume", "--restart-partition",
                            f"{self.stack.topic}/{partition}@earliest")
        suite.wait_for("the vote after it", lambda: self.stack.number(
            "SELECT COUNT(*) FROM vote_document WHERE content_id = 2") == 2)


class FullDisk(unittest.TestCase):
    """The database's disk is full: a wait with a reason, and nothing half written. Its data folder
    is on a small file system of its own, which only root can make."""

    size_mib = {"mariadb": 300, "mysql": 600}
    left_kib = 6000

    @classmethod
    def setUpClass(cls):
        kind = suite.DATABASE
        folder = suite.run().folder / "small"
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={cls.size_mib[kind]}m", "tmpfs",
                               str(folder)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise unittest.SkipTest(f"no small file system: {made.stderr.strip()}")
        cls.folder = folder
        cls.kept = suite.run().servers.pop(kind, None)
        cls.server = suite.Server(kind, folder / "server")
        suite.run().servers[kind] = cls.server
        # Ctrl-C knows no class cleanups.
        for later in (cls.addClassCleanup, atexit.register):
            later(cls.put_back, kind)
        cls.server.start()
        cls.stack = suite.Stack(cls.__name__, {"mysql.query_timeout_ms": 4000,
                                               "api.request_timeout_ms": 10000,
                                               "rollup.interval_ms": 1000})

    @classmethod
    def put_back(cls, kind):
        if suite.run().servers.get(kind) is not cls.server:
            return
        suite.run().servers.pop(kind).script("kill", check=False)
        subprocess.run(["umount", "-l", str(cls.folder)], check=False)
        if cls.kept:
            suite.run().servers[kind] = cls.kept

    def fill(self):
        """A file that leaves little room."""
        state = os.statvfs(self.folder)
        with open(self.folder / "ballast", "wb") as ballast:
            ballast.write(bytes(max(0, state.f_bavail * state.f_frsize - self.left_kib * 1024)))

    def vote_until_full(self, serve):
        """Contents whose votes were all answered 200, and the first that was not."""
        for content in range(1, 400):
            items = [{"voterId": voter, "contentId": content, "voting": 1}
                     for voter in range(1, 501)]
            try:
                answer = serve.call("POST", "/v1/votes", items)
            except (OSError, http.client.HTTPException):
                return content
            if answer.status != 200 or b'"error"' in answer.body:
                return content
        raise AssertionError("the disk did not get full")

    def test_votes_wait_for_room_and_none_is_lost(self):
        roles = [self.stack.role(name) for name in ("serve", "relay", "consume", "rollup")]
        self.addCleanup(lambda: [role.kill() for role in roles])
        serve = roles[0]
        self.fill()
        full = self.vote_until_full(serve)
        suite.wait_for("serve to say so", lambda: serve.admin("/readyz").status == 503)
        suite.wait_for("a reason", lambda: "event=dependency_down dep=mysql" in serve.log_text())
        self.assertTrue(all(role.alive() for role in roles))
        (self.folder / "ballast").unlink()
        # MySQL ends itself rather than lose a line of its binary log.
        self.server.restart()
        for role in roles:
            role.wait_ready(120)
        for content in range(full, full + 3):
            suite.wait_for("room for votes", lambda n=content: serve.call(
                "POST", "/v1/votes", [{"voterId": voter, "contentId": n, "voting": 1}
                                      for voter in range(1, 501)]).status == 200)
        self.stack.wait_drained()
        self.assertEqual(self.stack.sql("SELECT content_id, votes FROM vote_count WHERE votes <> "
                                        "500"), [])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM vote_count"), full + 2)
        self.stack.wait_rows("vote_document", 500 * (full + 2))
        self.stack.tallybox("verify")


if __name__ == "__main__":
    unittest.main()
