#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The docker test cluster: that it comes up whole, keeps its bounds, counts votes exactly on both
databases, grows and shrinks, and leaves nothing behind.

    /usr/bin/python3 tests/cluster/test_cluster.py [-v] [CLASS[.TEST]]

The classes run in the order of `load_tests`; Down is the last one, because it ends the cluster."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import cluster
from cluster import OURS, ONCE, ROOT, SERVERS, wait_for

MIB = 1024 * 1024
UID = "10001"

# What the machine looked like before, for Down.
before = {}


def machine():
    """What a Docker engine changes on a machine, as far as the kernel tells."""
    def said(*words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return set(done.stdout.splitlines())
    links = {line.split(": ")[1].split("@")[0] for line in said("ip", "-o", "link")}
    mounts = {line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()}
    return {
        "links": links, "mounts": mounts,
        "filter": said("iptables", "-S"), "nat": said("iptables", "-t", "nat", "-S"),
        "forwarding": {pathlib.Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()},
        "paths": {path for path in ("/etc/docker", "/run/docker", "/run/containerd")
                  if os.path.exists(path)},
        "processes": set(processes()),
    }


def processes():
    """pid and command line of what belongs to an engine, or is a compose of ours."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        # One that has ended and waits for its parent has no words.
        if words and (name in ("dockerd", "containerd", "docker-proxy")
                      or name.startswith("containerd-shim") or "docker/compose.yaml" in words):
            yield f"{folder.name} {words}"


def bound_mib():
    """The bound that docker/README.md documents."""
    text = (ROOT / "docker/README.md").read_text()
    return int(re.search(r"at most \*\*(\d+) MiB\*\* resident", text).group(1))


def setUpModule():
    before.update(machine())
    if not cluster.KEEP:
        unittest.addModuleCleanup(cluster.down)
        print(cluster.up(), end="")


class ComposeFile(unittest.TestCase):
    """docker/compose.yaml, as compose itself reads it."""

    def setUp(self):
        self.text = cluster.cluster("compose", "config")
        self.source = (ROOT / "docker/compose.yaml").read_text()

    def test_compose_accepts_it(self):
        self.assertIn("mysql-replica:", self.text)

    def test_every_official_image_is_pinned(self):
        images = re.findall(r"image: \$\{TALLYBOX_\w+_IMAGE:-([^}]+)\}", self.source)
        self.assertEqual(len(set(images)), 5, images)
        for image in images:
            self.assertRegex(image, r"^[\w/]+:v?\d+\.\d+\.\d+$")

    def test_no_port_is_published_beyond_this_machine(self):
        ports = re.findall(r'ports: \["([^"]+)"\]', self.source)
        self.assertEqual(len(ports), 3, ports)
        for port in ports:
            self.assertRegex(port, r"^127\.0\.0\.1:")


class Up(unittest.TestCase):
    """What `./dev cluster up` has started."""

    def test_every_service_is_healthy(self):
        expected = {**OURS, **SERVERS}

        def unhealthy():
            found = cluster.containers()
            self.assertEqual({one.service for one in found} - ONCE - {"grafana"}, set(expected))
            return [f"{one.service} {one.number}: {one.state['Status']} {one.health}" for one in found
                    if one.service not in ONCE and one.health != "healthy"]
        wait_for("all services to be healthy", lambda: not unhealthy())
        for service, count in expected.items():
            self.assertEqual(len(cluster.containers(service)), count, service)

    def test_every_step_has_ended_well(self):
        for step in ONCE:
            state = cluster.one(step).state
            self.assertEqual((state["Status"], state["ExitCode"]), ("exited", 0), step)

    def test_status_finds_no_problem(self):
        wait_for("status to say ok",
                 lambda: cluster.cluster("status").splitlines()[:1] == ["ok"])

    def test_processes_are_not_root_and_cannot_write(self):
        for one in cluster.containers(*OURS):
            host = one.facts["HostConfig"]
            self.assertTrue(host["ReadonlyRootfs"], one.service)
            self.assertEqual(host["CapDrop"], ["ALL"], one.service)
            self.assertEqual(host["Memory"], 128 * MIB, one.service)
            self.assertIn("no-new-privileges:true", host["SecurityOpt"])
            self.assertEqual(one.execute("id", "-u").strip(), UID)
            self.assertEqual(one.execute("cat", "/proc/1/status").count(f"Uid:\t{UID}\t{UID}"), 1)
            for place in ("/", "/tmp", "/etc/tallybox", "/var/lib/tallybox"):
                text = one.execute("sh", "-c", f"touch {place}/x 2>&1 || true")
                self.assertIn("Read-only file system", text, f"{one.service} {place}")

    def test_each_role_has_its_own_secrets_alone(self):
        for one in cluster.containers(*OURS):
            names = one.execute("ls", "/run/secrets").split()
            self.assertEqual([name for name in names if name.startswith("mysql_")],
                             ["mysql_ca", f"mysql_{one.service}"])

    def test_secrets_are_not_open_to_other_accounts(self):
        folder = pathlib.Path(cluster.variable("TALLYBOX_SECRETS"))
        for file in folder.iterdir():
            mode = file.stat().st_mode & 0o777
            if file.name not in ("mysql_ca", "mysql_cert", "complete"):
                self.assertEqual(mode & 0o007, 0, f"{file.name} has mode {mode:o}")

    @unittest.skipUnless(os.getuid() == 0, "only root can take another account")
    def test_an_account_other_than_root_makes_the_same_secrets(self):
        if not cluster.is_private():
            self.skipTest("the engine of the machine may be closed to other accounts")
        ours = pathlib.Path(cluster.variable("TALLYBOX_SECRETS"))
        engine = pathlib.Path(cluster.values(cluster.WORK / "engine/env")["RUN"], "docker.sock")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            theirs = pathlib.Path(folder, "theirs")
            theirs.mkdir()
            os.chown(theirs, 65534, 65534)
            cluster.run("setpriv", "--reuid", "65534", "--regid", "65534", "--groups",
                        engine.stat().st_gid, ROOT / "docker/secrets.sh", theirs,
                        cluster.variable("TALLYBOX_IMAGE"),
                        env={"HOME": str(theirs), "DOCKER_HOST": f"unix://{engine}"})

            def rights(place):
                return {file.name: (file.stat().st_uid, file.stat().st_gid,
                                    file.stat().st_mode & 0o777) for file in place.iterdir()
                        if file.name not in ("complete", "api_token", ".docker")}
            self.assertEqual(rights(theirs), rights(ours))

    def test_no_secret_is_in_the_environment_or_the_log(self):
        folder = pathlib.Path(cluster.variable("TALLYBOX_SECRETS"))
        secrets = [file.read_text().strip() for file in folder.glob("mysql_*")
                   if file.name not in ("mysql_ca", "mysql_cert", "mysql_key")]
        for one in cluster.containers():
            text = json.dumps(one.facts) + cluster.logs(one)
            for secret in secrets:
                self.assertNotIn(secret, text, one.service)

    def test_nothing_is_published_beyond_this_machine(self):
        found = {}
        for one in cluster.containers():
            for bindings in one.facts["NetworkSettings"]["Ports"].values():
                for binding in bindings or ():
                    found.setdefault(one.service, []).append(binding["HostIp"])
        self.assertEqual({key: set(value) for key, value in found.items() if key != "grafana"},
                         {"balancer": {"127.0.0.1"}, "prometheus": {"127.0.0.1"}})

    def test_the_replica_follows_and_is_read_only(self):
        self.assertEqual(cluster.sql("SELECT @@GLOBAL.super_read_only, @@GLOBAL.gtid_mode",
                                     "mysql-replica"), [["1", "ON"]])

    def test_topics_have_three_replicas_and_a_write_needs_two(self):
        self.assertEqual(cluster.cluster("vote", "--count", "10").split()[:2], ["accepted", "10"])

        def described():
            return cluster.one("kafka-1").execute(
                "java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", "/opt/kafka/libs/*",
                "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", "kafka-1:9092",
                "--describe", "--topic", "vote-events", expect=None)
        text = wait_for("the topic", lambda: (t := described()) and "vote-events" in t and t, every=3)
        self.assertRegex(text, r"PartitionCount: 12\s+ReplicationFactor: 3")
        self.assertIn("min.insync.replicas=2", text)

    def test_four_lanes_are_shared_by_both_relays(self):
        def shares():
            return [int(row[0]) for row in cluster.sql(
                "SELECT COUNT(*) FROM relay_lease WHERE lane LIKE 'outbox%' GROUP BY owner")]
        wait_for("two lanes for each relay", lambda: shares() == [2, 2])

    def test_one_lane_reads_the_binary_log(self):
        cluster.cluster("vote", "--count", "50")

        def position():
            text = cluster.cluster("compose", "run", "--rm", "-T", "tools", "status", "--json")
            lanes = json.loads(text)["outbox"]["lanes"]
            found = {lane["lane"]: lane["position"] for lane in lanes}
            others = [found[name] for name in ("outbox", "outbox_1", "outbox_2")]
            return found["outbox_3"] if others == [None] * 3 else None
        saved = wait_for("the position of the lane", position, every=3)
        self.assertIn(":", saved["gtids"])
        wait_for("its published rows to be deleted",
                 lambda: cluster.number("SELECT COUNT(*) FROM outbox_3") == 0)

    def test_twelve_partitions_are_shared_by_three_consumers(self):
        def shares():
            return sorted(value for _, value in cluster.query("tallybox_consumer_partitions"))
        wait_for("four partitions for each consumer", lambda: shares() == [4, 4, 4])

    def test_prometheus_scrapes_every_process_and_has_the_rules(self):
        def scraped():
            return sorted(labels["role"] for labels, value in cluster.query('up{job="tallybox"} == 1'))
        wanted = sorted(role for role, count in OURS.items() for _ in range(count))
        wait_for("all targets to be up", lambda: scraped() == wanted)
        status, text = cluster.get(cluster.variable("TALLYBOX_PROMETHEUS_PORT"), "/api/v1/rules")
        rules = [rule for group in json.loads(text)["data"]["groups"] for rule in group["rules"]]
        self.assertEqual(status, 200)
        self.assertGreater(len(rules), 20)
        self.assertEqual([rule["name"] for rule in rules if rule["health"] == "err"], [])

    def test_the_configurations_are_valid(self):
        cluster.one("prometheus").execute("promtool", "check", "config",
                                          "/etc/prometheus/prometheus.yml")
        cluster.one("balancer").execute(
            "sh", "-c", "ADMIN_TOKEN=x haproxy -c -f /usr/local/etc/haproxy/haproxy.cfg")


class Image(unittest.TestCase):
    """The image of docker/Dockerfile."""

    def setUp(self):
        self.image = cluster.variable("TALLYBOX_IMAGE")
        self.facts = json.loads(cluster.docker("image", "inspect", self.image))[0]

    def shell(self, command):
        return cluster.docker("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh",
                              self.image, "-c", command)

    def test_it_is_small(self):
        base = json.loads(cluster.docker("image", "inspect", "debian:bookworm-slim"))[0]["Size"]
        above = (self.facts["Size"] - base) / 1e6
        print(f"the image has {self.facts['Size'] / 1e6:.1f} MB, {above:.1f} MB above its base")
        self.assertLess(above, 60)

    def test_it_has_no_compiler(self):
        self.assertEqual(self.shell("command -v gcc cc c++ ld make cmake git curl || true"), "")

    def test_labels_name_the_version_of_the_program(self):
        labels = self.facts["Config"]["Labels"]
        version = cluster.docker("run", "--rm", "--network", "none", self.image, "version").split()
        self.assertIn(labels["org.opencontainers.image.version"], version)
        self.assertEqual(labels["org.opencontainers.image.title"], "tallybox")

    def test_it_says_how_to_run_it(self):
        config = self.facts["Config"]
        self.assertEqual(config["User"], f"{UID}:{UID}")
        self.assertEqual(config["Entrypoint"], ["tallybox"])
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "tallybox", "health"])

    def test_librdkafka_is_the_newer_one_and_linked_statically(self):
        self.assertEqual(self.shell("ls /usr/lib/*/librdkafka* 2>/dev/null || true"), "")
        for one in cluster.containers("relay", "consume"):
            log = cluster.logs(one)
            self.assertIn("event=started", log)
            self.assertNotIn("kafka_library_old", log)


class Votes(unittest.TestCase):
    """Votes through the balancer, into the log, on both databases."""

    def ledger(self, count, contents):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "ledger")
            said = cluster.cluster("vote", "--count", count, "--contents", contents,
                                   "--ledger", file)
            self.assertIn(f"accepted {count} votes on {contents} contents", said)
            return [json.loads(line) for line in file.read_text().splitlines()]

    def totals(self, contents):
        ids = ",".join(map(str, contents))
        return {one["contentId"]: one["votes"] for one in api_votes(ids)}

    def test_votes_reach_the_log_once_with_exact_totals(self):
        contents = range(1, 51)
        totals = self.totals(contents)
        rows = cluster.number("SELECT COUNT(*) FROM vote_document")
        voted = self.ledger(2000, 50)
        for vote in voted:
            totals[vote["content"]] += 1
        self.assertEqual(self.totals(contents), totals)
        wait_for("all votes in the log",
                 lambda: cluster.number("SELECT COUNT(*) FROM vote_document") >= rows + 2000)
        self.assertEqual(cluster.number("SELECT COUNT(*) FROM vote_document"), rows + 2000)
        logged = {row[0] for row in cluster.sql("SELECT LOWER(HEX(event_id)) FROM vote_document")}
        self.assertEqual([vote for vote in voted if vote["eventId"].replace("-", "") not in logged],
                         [])
        tallies = dict(map(int, row) for row in cluster.sql(
            "SELECT content_id, votes FROM vote_tally WHERE content_id <= 50"))
        self.assertEqual(tallies, totals)
        cluster.cluster("compose", "run", "--rm", "-T", "tools", "verify")

    def test_the_replica_has_the_same_rows(self):
        self.ledger(500, 20)
        wait_for("every change of a vote in the log", lambda: cluster.number(
            "SELECT (SELECT SUM(version) FROM vote_state) = (SELECT COUNT(*) FROM vote_document)"))
        done = gtids("mysql")
        wait_for("the replica", lambda: cluster.sql(
            f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{done}', 10)", "mysql-replica") == [["0"]])
        for table, key in (("vote_document", "event_id"), ("vote_state", "event_id"),
                           ("vote_tally", "CONCAT(content_id, ':', votes)"),
                           ("vote_count", "CONCAT(content_id, ':', votes)")):
            statement = f"SELECT COUNT(*), COALESCE(SUM(CRC32({key})), 0) FROM {table}"
            primary = cluster.sql(statement)
            self.assertNotEqual(primary, [["0", "0"]], table)
            self.assertEqual(cluster.sql(statement, "mysql-replica"), primary, table)
        copied = gtids("mysql-replica")
        self.assertEqual(cluster.sql(f"SELECT GTID_SUBTRACT('{copied}', '{gtids('mysql')}')"), [[""]],
                         "the replica has transactions of its own")

    def test_the_balancer_does_without_a_server_that_stops(self):
        one = cluster.one("serve")
        cluster.docker("stop", one.id)
        try:
            self.ledger(500, 20)
        finally:
            cluster.docker("start", one.id)
        wait_for("the server to be back", lambda: cluster.one("serve").health == "healthy")


def gtids(service):
    """The transactions that a server has executed, in one line."""
    return cluster.sql("SELECT @@GLOBAL.gtid_executed", service)[0][0].replace("\\n", "")


def api_votes(ids):
    return cluster.api(f"/v1/votes?contentIds={ids}")


class Memory(unittest.TestCase):
    """After the votes, so that something was done."""

    def test_every_process_stays_below_its_bound(self):
        def found():
            return cluster.query('process_resident_memory_bytes{job="tallybox"}')
        wanted = sum(OURS.values())
        wait_for(f"{wanted} processes", lambda: len(found()) == wanted)
        bound = bound_mib()
        for labels, value in sorted(found(), key=lambda pair: pair[0]["role"]):
            print(f"  {labels['role']:10} {value / MIB:6.1f} MiB")
            self.assertLess(value / MIB, bound, labels)
        self.assertLess(bound, 128)


class Scale(unittest.TestCase):
    """The same command changes the numbers of a cluster that runs."""

    def shares(self):
        return sorted(value for _, value in cluster.query("tallybox_consumer_partitions"))

    def test_consumers_grow_and_shrink(self):
        cluster.up("--scale", "consume=6")
        wait_for("two partitions for each of six", lambda: self.shares() == [2] * 6)
        cluster.up()
        self.assertEqual(len(cluster.containers("consume")), 3)
        # Prometheus forgets the others after five minutes at most; the group does at once.
        wait_for("four partitions for each of three",
                 lambda: [v for v in self.shares() if v] == [4] * 3, seconds=400)

    def test_a_wrong_number_is_refused(self):
        for word in ("consume", "consume=x", "mysql=2", "serve=9"):
            cluster.cluster("up", "--scale", word, expect=2)


class Down(unittest.TestCase):
    """Everything is gone, whatever an `up` had come to."""

    def setUp(self):
        if cluster.KEEP:
            self.skipTest("the cluster was there before")

    def assert_nothing_is_left(self, private):
        self.assertFalse(cluster.WORK.exists())
        # Other programs may have removed something meanwhile.
        for what, found in machine().items():
            self.assertEqual(found - before[what], set(), what)
        if not private:
            for kind in ("ps --all", "network ls", "volume ls"):
                self.assertEqual(cluster.docker(*kind.split(), "--quiet", "--filter",
                                                "label=com.docker.compose.project=tallybox"), "")

    def test_1_nothing_is_left(self):
        private = cluster.is_private()
        cluster.down()
        self.assert_nothing_is_left(private)
        # Once more there is nothing to do.
        cluster.down()

    def test_2_nothing_is_left_of_an_up_that_failed(self):
        said = cluster.cluster("up", expect=1, env={"TALLYBOX_HAPROXY_IMAGE": "localhost:1/none:0.0.0"})
        self.assertEqual(said, "")
        private = cluster.is_private()
        cluster.down()
        self.assert_nothing_is_left(private)

    def test_3_nothing_is_left_of_an_up_and_an_engine_that_were_killed(self):
        up = subprocess.Popen(["./dev", "cluster", "up"], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(up.wait)
        self.addCleanup(up.kill)
        wait_for("a database that answers", lambda: cluster.is_started() and any(
            one.health == "healthy" for one in cluster.containers("mysql")))
        private = cluster.is_private()
        # Compose is a process of its own and goes on.
        up.kill()
        if private:
            os.kill(int(cluster.values(cluster.WORK / "engine/env")["PID"]), signal.SIGKILL)
        cluster.down()
        self.assert_nothing_is_left(private)


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for case in (ComposeFile, Image, Up, Votes, Memory, Scale, Down):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    unittest.main()
