# SPDX-License-Identifier: MIT
"""All roles in one process, what a daemon says about itself, how it stops, and how it refuses a
wrong set-up."""

import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? '
                    r'(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|\+Inf|-Inf)$')
SECRET = "s3cret-Pass"
CLEAR_SCREEN = b"\033[H\033[2J"


def base_name(sample, kinds):
    """The metric a sample belongs to: histograms have three."""
    for suffix in ("_bucket", "_sum", "_count"):
        name = sample[:-len(suffix)]
        if sample.endswith(suffix) and kinds.get(name) == "histogram":
            return name
    return sample


def metrics_faults(text):
    """What promtool would complain about."""
    faults, kinds, helps, seen, last = [], {}, set(), set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helps.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            faults += [f"{name} has two types"] if name in kinds else []
            kinds[name] = kind
        else:
            match = SAMPLE.match(line)
            if not match:
                faults.append(f"not a sample: {line}")
                continue
            name = base_name(match[1], kinds)
            faults += [f"{name} has no type"] if name not in kinds else []
            faults += [f"{name} has no help"] if name not in helps else []
            faults += [f"{line} is there twice"] if (match[1], match[2]) in seen else []
            faults += [f"{name} is not in one piece"] if name != last and any(
                base_name(other, kinds) == name for other, _ in seen) else []
            if kinds.get(name) == "counter" and not name.endswith("_total"):
                faults.append(f"the counter {name} does not end in _total")
            seen.add((match[1], match[2]))
            last = name
    if not text.endswith("\n"):
        faults.append("the last line has no end")
    return faults + histogram_faults(text, kinds)


def histogram_faults(text, kinds):
    """Buckets grow, and the last one equals the count."""
    faults = []
    values = suite.parse_metrics(text)
    for name in (name for name, kind in kinds.items() if kind == "histogram"):
        series = {}
        for key, value in values.items():
            if key.startswith(name + "_bucket{"):
                labels = re.sub(r',?le="[^"]*"', "", key[len(name) + 7:])
                series.setdefault(labels, []).append(value)
        for labels, buckets in series.items():
            count = values.get(name + "_count" + ("" if labels == "{}" else labels))
            if buckets != sorted(buckets) or buckets[-1] != count:
                faults.append(f"{name}{labels}: buckets {buckets}, count {count}")
    return faults


class AllInOne(suite.Case):
    """`tallybox run`."""

    roles = ("run",)
    settings = {"rollup.interval_ms": 1000}

    def test_a_vote_goes_the_whole_way_in_one_process(self):
        self.stack.sql("INSERT INTO remark (id) VALUES (1)")
        for voter in range(1, 21):
            self.one.vote((voter, 1, 1))
        suite.wait_for("the remark", lambda: self.stack.number(
            "SELECT votes FROM remark WHERE id = 1") == 20)
        self.stack.wait_drained()
        self.stack.tallybox("verify")

    def test_the_admin_pages_answer(self):
        self.assertEqual(self.one.admin("/healthz").status, 200)
        self.one.wait_ready()
        self.assertEqual(self.one.admin("/").status, 200)
        self.assertEqual(self.one.admin("/nothing").status, 404)
        answer = self.one.admin("/metrics")
        self.assertTrue(answer.headers["content-type"].startswith("text/plain; version=0.0.4"))

    def test_the_metrics_are_well_formed_and_carry_the_promised_names(self):
        self.one.vote((1, 2, 1))
        text = self.one.admin("/metrics").body.decode()
        self.assertEqual(metrics_faults(text), [])
        for name in ("tallybox_outbox_oldest_age_seconds", "tallybox_relay_published_total",
                     "tallybox_consumer_applied_total", "tallybox_commit_seconds"):
            self.assertIn(f"# TYPE {name} ", text)

    def test_every_metric_of_a_role_is_in_the_list_of_all(self):
        listed = set(re.findall(r"# TYPE (\S+)", self.stack.tallybox("metrics").stdout))
        served = set(re.findall(r"# TYPE (\S+)", self.one.admin("/metrics").body.decode()))
        self.assertEqual(served - listed, set())

    def test_status_shows_the_stages_to_a_person(self):
        self.one.vote((1, 3, 1))
        self.stack.wait_drained()
        text = self.stack.tallybox("status").stdout
        for word in ("outbox", self.stack.topic, "schema"):
            self.assertIn(word, text)

    def instances(self, name):
        """Role -> instance of the process whose admin server has that address."""
        page = json.loads(self.stack.tallybox("status", "--json").stdout)
        return {one["role"]: one for one in page["instances"]["list"]
                if (one["admin"] or "").endswith(f":{name.admin_port}")}

    def test_status_shows_all_roles_and_since_when_one_is_dead(self):
        every = {"serve", "relay", "retry", "consume", "rollup", "housekeep"}
        suite.wait_for("all roles", lambda: every <= set(self.instances(self.one)), every=0.5)
        self.stack.wait_drained()
        suite.wait_for("no problem", lambda: self.stack.tallybox(
            "status", "--check", expect=None).stdout == "ok\n", every=0.5)
        short = {"relay.lease_ms": 2000, "relay.send_timeout_ms": 1000}
        role = self.start("rollup", sets=short)
        suite.wait_for("the roll-up", lambda: "rollup" in self.instances(role), every=0.2)
        role.kill()
        suite.wait_for("its death", lambda: self.instances(role)["rollup"]["dead"], every=0.2)
        self.assertRegex(self.stack.tallybox("status").stdout,
                         r"rollup .* ago +dead since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\n")

    def test_a_check_of_the_status_fails_while_work_waits(self):
        stale = {"admin.stale_ms": 100, "relay.lanes": "outbox,extra"}
        self.stack.sql("CREATE TABLE extra LIKE outbox")
        self.stack.sql("INSERT INTO extra (id, aggregatetype, aggregateid, type, created_at) "
                       "VALUES ('x', 'vote', '1', 'x', UTC_TIMESTAMP() - INTERVAL 1 MINUTE)")
        done = self.stack.tallybox("status", "--check", expect=suite.FAILED, sets=stale)
        self.assertRegex(done.stdout, r"\APROBLEMS: .*lane extra: its oldest row waits for 1 min, and no "
                                      r"relay holds the lane.*\n\Z")
        # The page is for a person, and ends with 0.
        done = self.stack.tallybox("status", sets=stale, expect=suite.DONE)
        self.assertTrue(done.stdout.startswith("PROBLEMS: "))
        self.stack.sql("DROP TABLE extra")
        self.stack.tallybox("status", "--check", "--json", expect=suite.USAGE)

    def watch(self, out, sets=None):
        """`status --watch` as a process that writes there; ended with the test."""
        sets = {**self.stack.accounts.sets(("status",), {}), **(sets or {})}
        words = [suite.BINARY, "status", "--watch", "--config", str(self.stack.ini)]
        for key, value in sets.items():
            words += ["--set", f"{key}={value}"]
        process = subprocess.Popen(  # pylint: disable=consider-using-with # a cleanup ends it
            words, stdin=subprocess.DEVNULL, stdout=out)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def test_status_is_watched_until_it_is_stopped(self):
        process = self.watch(subprocess.PIPE)
        with process.stdout as out:
            pages = [self.next_page(out) for _ in range(2)]
        self.assertNotEqual(pages[0][1], pages[1][1])
        for summary, _ in pages:
            self.assertRegex(summary, rb"\A(ok$|PROBLEMS: )")

    @staticmethod
    def next_page(out):
        """Its first line, and the line with its time."""
        before = line = b""
        while not line.startswith(b"tallybox "):
            before, line = line, out.readline()
            if not line:
                raise AssertionError("the watch has ended")
        return before, line

    def test_the_first_line_on_a_terminal_is_as_in_a_pipe(self):
        terminal, end = os.openpty()
        self.addCleanup(os.close, terminal)
        self.watch(end, {"relay.lanes": "outbox,missing"})
        os.close(end)
        text = b""
        while text.count(CLEAR_SCREEN) < 3:
            ready, _, _ = select.select([terminal], [], [], 60)
            self.assertTrue(ready, text)
            text += os.read(terminal, 65536)
        for page in text.split(CLEAR_SCREEN)[1:3]:
            self.assertRegex(page, rb"\APROBLEMS: [^\r\n]*missing: [^\r\n]*\r\ntallybox ")


class Heartbeats(suite.Case):
    """What `tallybox status` says of processes that have ended without a word."""

    def setUp(self):
        self.stack.sql("DELETE FROM instance")

    def problems(self):
        return self.stack.tallybox("status", "--check", expect=None).stdout

    def test_the_settings_of_the_process_tell_when_it_is_dead(self):
        for name, instance in (("rollup", "rollup"), ("relay", "relay"), ("retry", "retry")):
            role = self.start(name, sets={"relay.lease_ms": 600000, "retry.lease_ms": 600000})
            suite.wait_for("its heartbeat", lambda role=instance: self.stack.number(
                "SELECT lease_ms FROM instance WHERE role = %s", [role]) == 600000)
            role.kill()
            self.stack.sql("UPDATE instance SET seen_at = seen_at - INTERVAL 5 MINUTE")
            self.assertNotIn(f"role {instance}:", self.problems())
            self.assertNotIn("dead since", self.stack.tallybox("status").stdout)
            self.stack.sql("UPDATE instance SET seen_at = seen_at - INTERVAL 6 MINUTE")
            self.assertIn(f"role {instance}: no live instance", self.problems())
            self.stack.sql("DELETE FROM instance")

    def test_a_role_that_failed_is_dead_at_once_and_one_that_was_stopped_is_gone(self):
        sets = {"housekeep.interval_ms": 1000, "relay.lease_ms": 600000}
        role = self.start("housekeep", sets=sets)
        suite.wait_for("its heartbeat", lambda: self.stack.number(
            "SELECT lease_ms FROM instance WHERE role = 'housekeep'") == 600000)
        role.end()
        self.assertEqual(self.stack.sql("SELECT name FROM instance"), [])
        self.stack.sql("RENAME TABLE housekeep_state TO housekeep_away")
        self.addCleanup(self.stack.sql, "RENAME TABLE housekeep_away TO housekeep_state")
        account = self.stack.accounts.sets(["housekeep"], {})
        for _ in range(2):
            role = suite.Role(self.stack, "housekeep", {**account, **sets}, ()).start()
            self.addCleanup(role.kill)
            self.assertEqual(role.wait_end(), suite.FAILED, role.log_text())
            self.assertIn("event=role_failed role=housekeep", role.log_text())
            self.assertRegex(self.problems(), r"role housekeep: no live instance; \S+ died \d+ m?s ago")
            self.assertRegex(self.stack.tallybox("status", expect=None).stdout,
                             r"housekeep .*dead since 20\S+ \S+ UTC")
        self.assertEqual(len(self.stack.sql("SELECT name FROM instance")), 1)

    def test_the_last_instance_of_a_role_is_shown_until_housekeeping_removes_it(self):
        row = ("('{}', '{}', '2020-01-01', UTC_TIMESTAMP(3) - INTERVAL {})").format
        rows = [row("old", "serve", "2 DAY"), row("older", "serve", "3 DAY"),
                row("wide", "retry:http*2", "3 DAY")]
        rows += [row(f"many-{number}", "relay", f"{number} MINUTE") for number in range(1, 151)]
        self.stack.sql("INSERT INTO instance (name, role, started_at, seen_at) VALUES "
                       + ", ".join(rows))
        self.assertRegex(self.problems(), "role relay: no live instance; many-1 died 1 min ago; "
                                          "role serve: no live instance; old died 2 days ago")
        page = json.loads(self.stack.tallybox("status", "--json").stdout)
        shown = [one["name"] for one in page["instances"]["list"]]
        self.assertEqual(shown, [*(f"many-{number}" for number in range(1, 100)), "old"])
        self.stack.sql("UPDATE instance SET seen_at = seen_at - INTERVAL 6 DAY")
        self.stack.tallybox("housekeep", "--once")
        self.assertNotIn("role serve", self.problems())
        self.assertIn("role relay: no live instance; many-1 died 6 days ago", self.problems())


class HoldingProxy:
    """Forwards the first connection, which asks for the version of the schema, and lets all others
    wait until it is opened."""

    def __init__(self, to):
        self.to = to
        self.opened = threading.Event()
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        first = True
        while True:
            try:
                client, _ = self.sockets[0].accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(client, first), daemon=True).start()
            first = False

    def forward(self, client, first):
        self.sockets.append(client)
        if not first:
            self.opened.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self.to))
            self.sockets.append(server)
            threading.Thread(target=self.copy, args=(server, client), daemon=True).start()
            self.copy(client, server)
        except OSError:
            pass

    @staticmethod
    def copy(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.opened.set()
        for sock in self.sockets:
            sock.close()


class Readiness(suite.Case):
    """A role says what it waits for, and recovers by itself."""

    seconds = 100

    def tearDown(self):
        suite.database().restart()
        suite.kafka().restart()

    def wait_not_ready(self, role, *words):
        def look():
            answer = role.admin("/readyz")
            text = answer.body.decode().lower()
            return answer.status == 503 and any(word in text for word in words)
        try:
            suite.wait_for(f"{role.name} to say that {words[0]} is away", look)
        except AssertionError as reason:
            raise AssertionError(f"{reason}\n{role.why_not_ready()}") from None
        self.assertEqual(role.admin("/healthz").status, 200)

    def test_run_waits_for_the_database_and_recovers(self):
        role = self.start("run", sets={"admin.stale_ms": 2000})
        suite.database().stop()
        self.wait_not_ready(role, "mysql", "database", "sink")
        suite.database().restart()
        role.wait_ready()

    def test_relay_and_consumer_wait_for_kafka_and_recover(self):
        sets = {"admin.stale_ms": 2000}
        relay, consume = self.start("relay", sets=sets), self.start("consume", sets=sets)
        suite.kafka().stop()
        self.stack.append([{"id": "x", "aggregatetype": "vote", "aggregateid": "1", "type": "x"}])
        self.wait_not_ready(relay, "kafka", "broker")
        self.wait_not_ready(consume, "kafka", "broker")
        suite.kafka().restart()
        relay.wait_ready(120)
        consume.wait_ready(120)
        self.stack.wait_drained()

    def test_a_serve_that_starts_is_not_ready_before_it_has_tried_each_database(self):
        proxy = HoldingProxy(suite.database().port)
        self.addCleanup(proxy.close)
        serve = self.start("serve", ready=False,
                           sets={"sink.host": "127.0.0.1", "sink.port": proxy.port})
        self.wait_not_ready(serve, "database for remarks: not reached yet")
        proxy.opened.set()
        serve.wait_ready()
        text = serve.admin("/readyz").body.decode()
        for name in ("database for remarks", "database for tasks"):
            self.assertIn(f"{name}: ok", text)

    def test_roles_start_before_their_servers(self):
        suite.database().stop()
        suite.kafka().stop()
        role = self.start("run", ready=False)
        self.assertEqual(role.admin("/readyz").status, 503)
        suite.database().restart()
        suite.kafka().restart()
        role.wait_ready(120)
        self.assertEqual(role.vote((1, 1, 1))["votes"], 1)


class SchemaVersions(unittest.TestCase):
    """A daemon needs its own version of the schema."""

    def setUp(self):
        self.stack = suite.Stack(type(self).__name__, migrate=False)
        self.addCleanup(self.stack.close)

    def wait_reason(self, role, pattern):
        def look():
            answer = role.admin("/readyz")
            return answer.status == 503 and re.search(pattern, answer.body.decode())
        suite.wait_for(f"a reason like {pattern}", look)

    def test_an_empty_database_is_said_and_waited_for(self):
        # No account can get rights on tables that do not exist: only root can wait for them.
        role = self.stack.role("serve", ready=False, sets={"mysql.user": "root"})
        self.wait_reason(role, r"(?i)schema")
        self.stack.tallybox("migrate", "up")
        role.wait_ready()

    def test_migrate_on_start(self):
        role = self.stack.role("serve", arguments=["--migrate"])
        self.assertEqual(role.vote((1, 1, 1))["votes"], 1)

    def test_a_newer_schema_is_said(self):
        self.stack.tallybox("migrate", "up")
        rows = self.stack.sql("SELECT * FROM schema_history")
        self.assertTrue(rows)
        self.stack.sql("UPDATE schema_history SET version = version + 100 "
                       "ORDER BY version DESC LIMIT 1")
        role = self.stack.role("relay", ready=False)
        self.wait_reason(role, r"(?i)schema.*\d")


class Stopping(suite.Case):
    """SIGTERM ends a role within its bound, with 0, whatever its servers do."""

    settings = {"admin.stop_timeout_ms": 16000}
    # Who waits for a part of it takes longer than an idle role on a busy machine.
    patient = {"admin.stop_timeout_ms": 120000}

    def stop_soon(self, *roles, seconds=30):
        """All at the same time. A role that needs longer than it may says so with its exit code."""
        began = time.monotonic()
        for role in roles:
            role.process.send_signal(signal.SIGTERM)
        for role in roles:
            with self.subTest(role.name):
                self.assertEqual(role.wait_end(), 0, suite.tail(role.log))
        self.assertLess(time.monotonic() - began, seconds)

    def test_every_role_stops_at_once_when_idle(self):
        for name in ("serve", "relay", "consume", "rollup", "housekeep", "run"):
            self.stop_soon(self.start(name, sets=self.patient), seconds=15)

    def test_a_role_that_still_waits_for_its_database_stops_too(self):
        role = self.start("run", ready=False, sets={"mysql.port": 1, **self.patient})
        suite.wait_for("its log", lambda: "event=work_paused what=start" in role.log_text())
        self.stop_soon(role, seconds=15)

    def test_roles_stop_while_kafka_is_away(self):
        relay, consume = self.start("relay"), self.start("consume")
        static = self.start("consume", sets={"consumer.static_member": "host"})
        suite.kafka().stop()
        self.addCleanup(suite.kafka().restart)
        self.stack.append([{"id": "x", "aggregatetype": "vote", "aggregateid": "1", "type": "x"}])
        time.sleep(0.5)
        self.stop_soon(relay, consume, static)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 1)

    def test_roles_stop_while_the_database_is_away(self):
        roles = [self.start(name) for name in ("serve", "relay", "consume", "rollup",
                                                "housekeep")]
        suite.database().stop()
        self.addCleanup(suite.database().restart)
        time.sleep(0.5)
        self.stop_soon(*roles)


class RoleOfOneFile(suite.Role):
    """A role that finds all of its settings in the file that the roles of a machine share."""

    def __init__(self, stack, name, ini):
        super().__init__(stack, name, {}, [])
        self.ini = ini

    def command(self):
        return [self.program, self.name, "--config", str(self.ini)]

    def find_port(self):
        """Asks the log where the admin server listens."""
        found = re.search(r"event=admin_listening url=http://127\.0\.0\.1:(\d+)/", self.log_text())
        self.admin_port = int(found[1]) if found else None
        return found


class Settings(suite.Case):
    """A wrong setting names its place and starts nothing."""

    def refused(self, *words, sets=None, env=None, ini=None):
        """stderr of a start that must end with 2 and say all these words."""
        if ini is not None:
            path = self.stack.folder / "wrong.ini"
            path.write_text(ini)
            done = self.stack.tallybox("relay", "--config", path, expect=suite.USAGE)
        else:
            done = self.stack.tallybox("relay", expect=suite.USAGE, sets=sets, env=env)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def test_an_unknown_key_names_its_place_and_the_nearest(self):
        self.refused("wrong.ini:2", "lease_ms", ini="[relay]\nleese_ms = 1\n")
        self.refused("--set", "lease_ms", sets={"relay.leese_ms": 1})
        self.refused("TALLYBOX_RELAY_LEESE_MS", "lease_ms", env={"TALLYBOX_RELAY_LEESE_MS": "1"})

    def test_an_unknown_section_names_the_nearest(self):
        self.refused("wrong.ini:1", "relay", ini="[relais]\nlease_ms = 5000\n")

    def test_bad_values_name_what_was_expected(self):
        for key, value, words in (
                ("relay.lease_ms", "soon", ["relay.lease_ms", "soon"]),
                ("relay.lease_ms", "1", ["relay.lease_ms", "2000", "3600000"]),
                ("relay.lease_ms", "99999999999999999999", ["relay.lease_ms"]),
                ("log.level", "loud", ["log.level", "debug"]),
                ("api.listen", "nowhere", ["api.listen", "nowhere"]),
                ("api.listen", "127.0.0.1:99999", ["api.listen"]),
                ("mysql.tls", "maybe", ["mysql.tls", "verify"]),
                ("kafka.no.such.property", "1", ["no.such.property"]),
                ("kafka.session.timeout.ms", "x", ["session.timeout.ms"]),
                ("relay.lanes", "out-box", ["relay.lanes", "out-box"])):
            with self.subTest(key=key, value=value):
                # What is wrong with librdkafka's own properties, it says itself.
                places = [] if key.startswith("kafka.") else ["--set"]
                self.refused(*places, *words, sets={key: value})

    def test_the_last_place_wins(self):
        text = self.stack.tallybox("config", sets={"relay.lease_ms": 4001},
                                   env={"TALLYBOX_RELAY_LEASE_MS": "5001",
                                        "TALLYBOX_RELAY_POLL_MS": "17"}).stdout
        self.assertRegex(text, r"lease_ms\s*=\s*4001\b.*--set")
        self.assertRegex(text, r"poll_ms\s*=\s*17\b.*TALLYBOX_RELAY_POLL_MS")
        self.assertRegex(text, r"send_timeout_ms\s*=\s*2000\b.*tallybox\.ini:\d+")

    def test_one_file_serves_all_roles_of_a_machine(self):
        port = suite.free_port()
        accounts = {role: self.stack.accounts.sets([role], {})
                    for role in ("relay", "rollup", "status")}
        ini = self.stack.folder / "all.ini"
        ini.write_text(f"{self.stack.ini.read_text()}[admin]\nlisten = 127.0.0.1:{port}+\n" + "".join(
            f"[role.{role}]\n" + "".join(f"{key} = {value}\n" for key, value in sets.items())
            for role, sets in accounts.items()))
        roles = [RoleOfOneFile(self.stack, name, ini) for name in ("relay", "rollup")]
        for role in roles:
            self.stack.roles.append(role.start())
            self.addCleanup(role.end)
            suite.wait_for("its admin server", role.find_port)
            role.wait_ready()
        ports = [role.admin_port for role in roles]
        self.assertTrue(port <= ports[0] < ports[1] < port + 100, (port, ports))

        def addresses():
            done = self.stack.command(["status", "--json", "--config", ini], {})
            return {one["role"]: one["admin"]
                    for one in json.loads(done.stdout)["instances"]["list"] if one["admin"]}
        wanted = {role.name: f"http://127.0.0.1:{role.admin_port}" for role in roles}
        suite.wait_for("both addresses", lambda: wanted.items() <= addresses().items(), every=0.2)
        text = self.stack.command(["config", "--config", ini, "--role", "relay"], {}).stdout
        self.assertRegex(text, rf"user = {accounts['relay']['mysql.user']} .*all\.ini:\d+")

    def test_the_printed_defaults_are_a_file_that_can_be_used(self):
        path = self.stack.folder / "defaults.ini"
        path.write_text(self.stack.tallybox("config", "--defaults").stdout)
        self.stack.tallybox("config", "--config", path)

    def test_secrets_are_never_shown(self):
        path = self.stack.folder / "password"
        path.write_text(SECRET + "\n")
        for sets, env in (({}, {"TALLYBOX_MYSQL_PASSWORD": SECRET}),
                          ({"mysql.password_file": path}, {}),
                          ({}, {"TALLYBOX_KAFKA_SASL_PASSWORD": SECRET,
                                "TALLYBOX_KAFKA_SSL_KEY_PASSWORD": SECRET})):
            done = self.stack.tallybox("config", sets=sets, env=env)
            self.assertNotIn(SECRET, done.stdout + done.stderr)
        role = self.start("serve", ready=False, sets={
            "mysql.password_file": path, "mysql.port": 1, "log.level": "debug"})
        suite.wait_for("its log", lambda: "event=work_paused what=start" in role.log_text())
        self.assertNotIn(SECRET, role.log_text())
        self.assertNotIn(SECRET, role.admin("/readyz").body.decode())
        words = subprocess.run(["ps", "-o", "args=", "-p", str(role.pid)], check=True,
                               capture_output=True, text=True).stdout
        self.assertNotIn(SECRET, words)

    def test_a_wrong_password_is_said_clearly(self):
        done = self.stack.tallybox("serve", env={"TALLYBOX_MYSQL_PASSWORD": SECRET},
                                   sets={"mysql.user": "root", "admin.listen": "off",
                                         "mysql.auth_wait_ms": 0},
                                   expect=suite.FAILED)
        self.assertRegex(done.stderr, "(?i)access denied")
        self.assertIn("root", done.stderr)
        self.assertNotIn(SECRET, done.stderr)

    def test_a_setting_that_shows_late_to_be_wrong_ends_with_2(self):
        for role, key, value in (
                ("retry", "retry.shards", "0-99"),
                ("retry", "retry.handlers", "fax"),
                ("retry", "retry.handlers", "steps"),
                ("retry", "retry.http_ca", "/nonexistent"),
                ("relay", "kafka.producer.acks", "1"),
                ("consume", "kafka.consumer.group.id", "x"),
                ("relay", "admin.listen", "192.0.2.1:80"),
                ("serve", "api.listen", "192.0.2.1:80")):
            with self.subTest(key=key, value=value):
                done = self.stack.tallybox(role, expect=suite.USAGE, sets={
                    "admin.listen": "off", "api.listen": "127.0.0.1:0", key: value})
                self.assertIn(key, done.stderr)
                self.assertIn("rc=reject", done.stderr)

    def test_a_port_in_use_is_said_clearly(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            taken = f"127.0.0.1:{holder.getsockname()[1]}"
            for name, key in (("relay", "admin.listen"), ("serve", "api.listen")):
                done = self.stack.tallybox(name, sets={
                    "admin.listen": "off", "api.listen": "127.0.0.1:0", key: taken},
                    expect=suite.FAILED)
                self.assertIn(taken, done.stderr)
                self.assertRegex(done.stderr, "in use|another process listens")

    def test_help_and_wrong_words(self):
        for words in (["--help"], ["help"], ["help", "--help"], ["help", "relay"],
                      ["relay", "--help"], ["vote", "--help"]):
            done = subprocess.run([suite.BINARY, *words], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 0, words)
            self.assertIn("tallybox", done.stdout)
        for words in (["relais"], ["relay", "--nothing"], ["relay", "extra"], []):
            done = subprocess.run([suite.BINARY, *words], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, suite.USAGE, words)
            self.assertIn("tallybox", done.stderr)


if __name__ == "__main__":
    unittest.main()
