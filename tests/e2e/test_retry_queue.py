# SPDX-License-Identifier: MIT
"""Tasks of the retry queue on real servers: three `tallybox retry` processes share them, one is
killed in the middle of its batch, shards move, keys keep their order, a clean stop loses no time."""

import collections
import contextlib
import json
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

LEASE_S = 2
KEYS = 10
ORDERED = 100
BATCH = 1500

# Takes a while, once it may end, and tells of its beginning and end with one write() each.
PROGRAM = """#!/bin/sh
read number
echo $$ > {folder}/pid
echo "begin $number" >> {folder}/effects
while ! [ -e {folder}/open ]; do sleep 0.05; done
sleep 0.02
echo "end $number" >> {folder}/effects
"""
# What a loaded machine may add to a time-out. With it a lease is still shorter than the usual one.
NOISE_S = 12


class RetryCase(suite.Case):
    """Tasks whose effect is a record on a topic of this class."""

    # A record may wait for long: no pause of a loaded machine looks like an attempt that failed.
    settings = {"retry.lease_ms": LEASE_S * 1000, "retry.poll_ms": 50, "retry.rescue_ms": 500,
                "relay.lease_ms": 60000, "relay.send_timeout_ms": 30000}

    def setUp(self):
        self.topic = f"retry-{self.stack.name}-{self._testMethodName[:40]}"
        wire.create_topic(suite.kafka().bootstrap, self.topic, 1)
        self.stack.sql("DELETE FROM retry_task")
        self.stack.sql("DELETE FROM retry_scene")

    def scene(self, name, **policy):
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES ('default', %s, %s)",
                       [name, json.dumps(policy)])

    def put(self, scene, handler, rows):
        """The contract of applications: one INSERT. rows: key, idempotency key, options, payload."""
        connection = suite.connect(self.stack.name)
        try:
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO retry_task (scene, handler, ordering_key, idempotency_key, options, "
                    "params) VALUES (%s, %s, %s, %s, %s, %s)",
                    [(scene, handler, *row) for row in rows])
            connection.commit()
        finally:
            connection.close()

    def tasks(self, scene, count, keys=0, topic=None, first=0):
        """The payload is the place in the whole."""
        self.put(scene, "kafka", [
            (f"k{n % keys}" if keys else None, f"{self._testMethodName} {n}",
             json.dumps({"topic": topic or self.topic, "key": f"k{n % keys if keys else n}",
                         "headers": {"idempotency": f"{n}"}}), f"{n}")
            for n in range(first, first + count)])

    def program(self):
        """Its file is what effects are counted from. It waits for a file `open`."""
        path = self.stack.folder / "effect"
        (self.stack.folder / "effects").touch()
        # A second process of the test may ask while the first one runs it.
        if not path.exists():
            path.write_text(PROGRAM.format(folder=self.stack.folder))
            path.chmod(0o755)
        return str(path)

    def insert(self, scene, numbers, keys=0):
        """Tasks that run it."""
        options = json.dumps({"program": str(self.stack.folder / "effect")})
        self.put(scene, "exec", [(f"k{n % keys}" if keys else None, f"{n}", options, f"{n}\n")
                                 for n in numbers])

    def left(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_task")

    def running(self):
        return self.stack.number("SELECT COUNT(*) FROM retry_task WHERE state = 1")

    def wait_done(self, seconds=60):
        suite.wait_for("no task to be left", lambda: self.left() == 0, seconds)

    def effects(self):
        """Payloads of the topic, in their order."""
        return [record.value.decode() for record in self.stack.records(self.topic)]

    def shards(self, role, handler="kafka"):
        return self.stack.number("SELECT COUNT(*) FROM relay_lease WHERE lane LIKE %s AND "
                                 "owner LIKE %s AND lease_until > UTC_TIMESTAMP(3)",
                                 [f"retry:{handler}:%", f"%-{role.pid}-%"])

    def wait_shares(self, roles, handler="kafka", seconds=LEASE_S + NOISE_S):
        def look():
            held = [self.shards(role, handler) for role in roles]
            return held if sum(held) == 16 and max(held) - min(held) <= 1 else None
        return suite.wait_for("the shards to be shared", look, seconds)


class Killed(RetryCase):
    """One of three dies with its hands full."""

    seconds = 30

    def test_one_of_three_is_killed_in_the_middle_of_a_batch(self):
        for name in ("batch", "ordered"):
            self.scene(name, lease="10s", wait="fixed 200ms", attempts=0)
        sets = {"retry.batch_rows_max": 500, "retry.in_flight_max": 600, "retry.threads": 2,
                "retry.exec_programs": self.program()}
        roles = [self.start("retry", sets=sets) for _ in range(3)]
        self.wait_shares(roles)
        # All are there before the first of them may begin.
        self.stack.sql("UPDATE retry_scene SET paused = 1")
        self.wait_paused(roles)
        self.insert("ordered", range(ORDERED), keys=KEYS)
        self.insert("batch", range(ORDERED, ORDERED + BATCH))
        self.stack.sql("UPDATE retry_scene SET paused = 0")
        # No program ends before it may, so hands stay full.
        victim = suite.wait_for("one to have its hands full", lambda: next(
            (role for role in roles if self.in_flight(role) >= 250), None))
        in_flight = self.in_flight(victim)
        (self.stack.folder / "open").touch()
        suite.wait_for("some to end", lambda: "end" in (word for word, _ in self.told()))
        victim.kill()
        # They are taken from it only when their leases run out.
        in_flight = max(in_flight, self.in_flight(victim))
        self.wait_done(120)
        self.wait_shares([role for role in roles if role is not victim])
        ended = [number for word, number in self.told() if word == "end"]
        # At least once; twice only the tasks that the killed process ran.
        self.assertEqual(set(ended), set(range(ORDERED + BATCH)))
        self.assertLessEqual(len(ended) - len(set(ended)), in_flight)
        self.assert_order()
        print(f"\nkilled with {in_flight} tasks in flight, {len(ended) - len(set(ended))} done twice",
              file=sys.stderr)

    def wait_paused(self, roles):
        for role in roles:
            suite.wait_for("its scenes to be paused",
                           lambda one=role: one.log_text().count("event=scene_paused") == 2)

    def told(self):
        lines = (self.stack.folder / "effects").read_text().splitlines()
        return [(word, int(number)) for word, number in map(str.split, lines)]

    def in_flight(self, role):
        return self.stack.number("SELECT COUNT(*) FROM retry_task WHERE state = 1 AND owner LIKE %s",
                                 [f"%-{role.pid}-%"])

    def assert_order(self):
        """Tasks of a key are begun in their order, and one when the one before has ended."""
        begun, ended = collections.defaultdict(int), set()
        for word, number in self.told():
            if number >= ORDERED:
                continue
            if word == "end":
                ended.add(number)
                continue
            self.assertTrue(number < KEYS or number - KEYS in ended, number)
            self.assertGreaterEqual(number, begun[number % KEYS])
            begun[number % KEYS] = number


class Shared(RetryCase):
    """Who works on what."""

    def test_shards_move_to_a_newcomer_and_back_within_the_lease(self):
        first = self.start("retry")
        suite.wait_for("all shards", lambda: self.shards(first) == 16, LEASE_S + NOISE_S)
        second = self.start("retry")
        self.wait_shares([first, second])
        second.kill()
        suite.wait_for("all shards again", lambda: self.shards(first) == 16, LEASE_S + NOISE_S)

    def test_weights_and_fixed_lists_are_kept(self):
        heavy = self.start("retry", sets={"retry.weight": 3})
        light = self.start("retry")
        suite.wait_for("12 and 4 shards", lambda: (self.shards(heavy), self.shards(light)) == (12, 4),
                       LEASE_S + NOISE_S)
        fixed = self.start("retry", sets={"retry.shards": "0-3,9"})
        suite.wait_for("five shards of each handler", lambda: set(
            value for name, value in fixed.metrics().items()
            if name.startswith("tallybox_retry_shards_held")) == {5})
        self.assertEqual(self.shards(fixed), 0)

    def test_keys_keep_their_order_over_three_processes_and_clean_stops(self):
        self.scene("ordered", lease="60s", wait="fixed 200ms", attempts=0)
        roles = [self.start("retry") for _ in range(3)]
        self.tasks("ordered", 600, keys=KEYS)
        for role in roles[:2]:
            suite.wait_for("some to be done", lambda: self.left() < 600)
            self.assertEqual(role.terminate(), 0)
        self.wait_done()
        effects = [int(text) for text in self.effects()]
        # A clean stop does nothing twice and leaves nothing out.
        self.assertEqual(sorted(effects), list(range(600)))
        for key in range(KEYS):
            mine = [number for number in effects if number % KEYS == key]
            self.assertEqual(mine, sorted(mine))


class Handlers(RetryCase):
    """Processes that run different handlers: each holds shards of those alone."""

    seconds = 45

    def setUp(self):
        super().setUp()
        self.scene("work", wait="fixed 200ms", attempts=0)
        (self.stack.folder / "open").touch()
        (self.stack.folder / "effects").write_text("")

    def retry(self, handlers, **sets):
        return self.start("retry", sets={"retry.handlers": handlers, **sets,
                                         "retry.exec_programs": self.program()})

    def insert_work(self, count):
        """For kafka and exec, all of one scene."""
        self.insert("work", range(count))
        self.tasks("work", count)

    def done(self):
        return sorted(int(line.split()[1]) for line in
                      (self.stack.folder / "effects").read_text().splitlines()
                      if line.startswith("end"))

    def test_a_process_gets_no_task_that_it_cannot_run(self):
        self.retry("exec")
        self.retry("kafka")
        self.insert_work(100)
        self.wait_done()
        self.assertEqual(self.done(), list(range(100)))
        self.assertEqual(sorted(map(int, self.effects())), list(range(100)))

    def test_another_id_at_the_same_number_of_processes_gets_the_shards(self):
        stays, goes = self.retry("exec"), self.retry("exec")
        self.wait_shares([stays, goes], "exec")
        goes.kill()
        goes.start().wait_ready()
        self.wait_shares([stays, goes], "exec")

    def test_a_restart_with_other_handlers_moves_their_shards(self):
        stays, changes = self.retry("exec"), self.retry("kafka")
        self.wait_shares([stays], "exec")
        self.wait_shares([changes], "kafka")
        self.assertEqual(changes.terminate(), 0)
        both = self.retry("kafka,exec")
        self.wait_shares([stays, both], "exec")
        self.wait_shares([both], "kafka")
        both.kill()
        self.wait_shares([stays], "exec")
        self.assertEqual(self.shards(stays, "kafka"), 0)

    def test_a_handler_that_no_live_process_runs_is_named(self):
        first = self.retry("kafka", **{"admin.stale_ms": 1000})
        second = self.retry("kafka,exec", **{"admin.stale_ms": 1000})
        second.kill()
        self.insert("work", range(3))
        suite.wait_for("readiness to name it", lambda: first.admin("/readyz").status == 503 and
                       b"no live process runs its handler exec" in first.admin("/readyz").body, 60)
        self.assertEqual(first.metric("tallybox_retry_unknown_handler_tasks"), 3)
        self.assertIn("event=handler_unserved handler=exec", first.log_text())
        suite.wait_for("status to name it", lambda: "3 wait for the handler exec, which no live "
                       "process runs" in self.stack.tallybox("status", expect=None).stdout, 90)
        self.retry("exec")
        self.wait_done()
        suite.wait_for("readiness to be well", lambda: first.admin("/readyz").status == 200, 60)
        self.assertEqual(first.metric("tallybox_retry_unknown_handler_tasks"), 0)

    def test_a_handler_that_does_not_exist_is_named(self):
        """Its task is not refused by its group, because no process claims it."""
        self.stack.sql("INSERT INTO retry_task (scene, handler, params) VALUES ('work', 'exce', '')")
        role = self.retry("exec")
        suite.wait_for("the log to name it", lambda: "event=handler_unserved handler=exce "
                       in role.log_text(), 60)
        self.assertIn("there is no handler exce, did you mean exec", role.log_text())
        self.assertNotIn("group_refuses", role.log_text())
        self.assertEqual(self.stack.sql("SELECT state, attempts FROM retry_task"), [(0, 0)])

    def test_a_rate_is_kept_by_processes_with_different_handlers(self):
        self.stack.sql("DELETE FROM retry_scene")
        self.scene("work", wait="fixed 200ms", attempts=0, rate="10/s burst 10")
        self.insert_work(60)
        began = time.monotonic()
        self.retry("exec")
        self.retry("kafka")
        self.wait_done()
        self.assertGreater(time.monotonic() - began, 10)


class Stopped(RetryCase):
    """A stop costs no attempt; a freeze costs none either."""

    def test_a_stop_gives_back_what_it_has_and_costs_no_attempt(self):
        # Every attempt is held up for as long as the lease lasts.
        role = self.start("retry", sets={"retry.threads": 1, "retry.exec_programs": self.program()})
        self.insert("stopped", range(50))
        suite.wait_for("tasks to be claimed", self.running)
        self.assertEqual(role.terminate(), 0)
        rows = self.stack.sql("SELECT state, attempts, COUNT(*) FROM retry_task GROUP BY 1, 2")
        self.assertEqual(rows, [(0, 0, 50)])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt"), 0)

    def test_one_that_was_frozen_past_its_leases_does_no_harm(self):
        self.scene("frozen", lease="1s", wait="fixed 200ms", attempts=0)
        frozen = self.start("retry", sets={"retry.threads": 1, "retry.batch_rows_max": 200})
        suite.wait_for("all shards", lambda: self.shards(frozen) == 16, LEASE_S + NOISE_S)
        count = 0

        def hands_full():
            """Freezes it. One that was done with all of them goes on, and gets more."""
            nonlocal count
            if self.left() == 0:
                self.tasks("frozen", 200, keys=KEYS, first=count)
                count += 200
            if self.running() == 0:
                return False
            frozen.process.send_signal(signal.SIGSTOP)
            if self.running() > 0:
                return True
            frozen.process.send_signal(signal.SIGCONT)
            return False
        suite.wait_for("it to be frozen with tasks in its hands", hands_full, 60, 0.001)
        other = self.start("retry")
        self.wait_done()
        frozen.process.send_signal(signal.SIGCONT)
        suite.wait_for("both to share again", lambda: self.shards(frozen) == 8 and
                       self.shards(other) == 8, LEASE_S + NOISE_S)
        self.assertEqual({int(text) for text in self.effects()}, set(range(count)))
        self.assertEqual(self.left(), 0)


class Slow(RetryCase):
    """Attempts that take several times the lease of their task."""

    seconds = 30

    def setUp(self):
        super().setUp()
        for name in ("effects", "open"):
            (self.stack.folder / name).unlink(missing_ok=True)
        self.scene("slow", lease="2s", wait="fixed 200ms", attempts=0)
        self.role = self.start("retry", sets={"retry.exec_programs": self.program()})

    def insert_slow(self):
        options = json.dumps({"program": str(self.stack.folder / "effect"), "timeout": "10m"})
        self.put("slow", "exec", [(None, "1", options, "1\n")])
        suite.wait_for("the program to begin", self.words)

    def words(self):
        return (self.stack.folder / "effects").read_text().splitlines()

    def has_ended(self, pid):
        path = pathlib.Path(f"/proc/{pid}/stat")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return path.read_text().rpartition(")")[2].split()[0] in "ZX"
        return True

    def test_an_attempt_may_take_longer_than_the_lease_of_its_task(self):
        self.insert_slow()
        until = time.monotonic() + 8
        while time.monotonic() < until:
            self.assertEqual(self.stack.sql("SELECT state, epoch, attempts FROM retry_task"),
                             [(1, 1, 0)])
            time.sleep(0.2)
        (self.stack.folder / "open").touch()
        self.wait_done()
        self.assertEqual(self.words(), ["begin 1", "end 1"])

    def test_an_attempt_whose_lease_is_lost_ends_at_once(self):
        self.insert_slow()
        pid = int((self.stack.folder / "pid").read_text())
        # As after a pause of the whole process in which another one took the task.
        self.stack.sql("UPDATE retry_task SET epoch = epoch + 1")
        suite.wait_for("the program to be ended", lambda: self.has_ended(pid))
        self.assertEqual(self.words()[0], "begin 1")
        self.assertNotIn("end 1", self.words())
        suite.wait_for("it to begin again", lambda: self.words() == ["begin 1"] * 2)
        (self.stack.folder / "open").touch()
        self.wait_done()
        self.assertEqual(self.words(), ["begin 1", "begin 1", "end 1"])


class Waiting(RetryCase):
    """What is not run, and why."""

    def test_paused_invalid_and_unknown_wait_and_are_told(self):
        role = self.start("retry")
        self.scene("paused", wait="fixed 200ms", attempts=0)
        self.stack.sql("UPDATE retry_scene SET paused = 1")
        self.stack.sql("INSERT INTO retry_scene (task_group, scene, policy) VALUES "
                       "('default', 'invalid', '{\"attemps\": 3}')")
        suite.wait_for("the rubbish to be told", lambda: "scene_invalid" in role.log_text())
        self.tasks("paused", 1)
        self.stack.sql("INSERT INTO retry_task (scene, handler) VALUES ('invalid', 'kafka'), "
                       "('strange', 'fax')")
        suite.wait_for("the unknown handler to be told",
                       lambda: "handler=fax" in role.log_text())
        suite.wait_for("the metric of it", lambda: role.metrics().get(
            'tallybox_retry_unknown_handler_tasks{group="default",scene="strange"}') == 1, 30)
        self.assertEqual(self.stack.sql("SELECT DISTINCT state, attempts FROM retry_task"),
                         [(0, 0)])
        self.assertEqual(role.metric("tallybox_retry_invalid_scenes"), 1)
        self.assertEqual(role.log_text().count("event=scene_invalid"), 1)
        self.stack.sql("UPDATE retry_scene SET paused = 0 WHERE scene = 'paused'")
        suite.wait_for("the paused one to run", lambda: self.effects() == ["0"])

    def test_an_attempt_that_failed_is_kept_and_tried_again(self):
        # A name that no topic can have is refused; the scene lets it be tried on.
        self.scene("again", wait="fixed 100ms", attempts=3, stop=[],
                   on_exhausted={"scene": "told", "handler": "fax"})
        self.start("retry")
        self.tasks("again", 1, topic="no such topic!")
        suite.wait_for("its end", lambda: self.stack.sql(
            "SELECT outcome, attempts FROM retry_task_history") == [("exhausted", 3)])
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM retry_attempt WHERE outcome = "
                                           "'failed'"), 3)
        told = json.loads(self.stack.number("SELECT params FROM retry_task WHERE scene = 'told'"))
        self.assertEqual((told["outcome"], told["attempts"]), ("exhausted", 3))


if __name__ == "__main__":
    unittest.main()
