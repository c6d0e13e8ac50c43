# SPDX-License-Identifier: MIT
"""What happens to the cluster while votes flow. Each scenario changes something, waits until the
cluster works as promised again, and returns one line of what it measured; what must not be is an
exception. The ledgers are compared once, after all of them."""

import random
import time

import pymysql

import cluster
import contention
import failover
import far_database
import full_disk
import load
import more_partitions
import pauses
import throughput
import upgrade
from waiting import NotThere, wait_for

LEASE_S = 15          # relay.lease_ms
SETTLE_S = 120        # for work to be shared again after a change
CUT_S = 12
VOTES_BETWEEN = 300   # acknowledged votes that prove that the pipeline works
LANES = 4
BINLOG_LANE = "outbox_3"
PARTITIONS = 12
TOPIC = load.TOPIC
PROTOCOLS = {
    "cooperative": {"TALLYBOX_KAFKA_CONSUMER_PARTITION_ASSIGNMENT_STRATEGY": "cooperative-sticky"},
    "eager": {"TALLYBOX_KAFKA_CONSUMER_PARTITION_ASSIGNMENT_STRATEGY": "range"},
    # The broker sets the session of such a group; librdkafka refuses a time-out beside it.
    "KIP-848": {"TALLYBOX_KAFKA_CONSUMER_GROUP_PROTOCOL": "consumer",
                "TALLYBOX_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": None},
}


class Scenarios:
    """Of one run; all methods are called by its thread."""

    def __init__(self, controls, votes, watcher, folder, seed, say):
        self.controls = controls
        self.hosts = folder / "hosts"
        self.load = votes
        self.watcher = watcher
        self.rng = random.Random(f"{seed} scenarios")
        self.say = say
        self.partitions = PARTITIONS

    # -- what must come back

    def flows(self, count=VOTES_BETWEEN):
        """Votes are acknowledged, and the log grows as they come."""
        self.load.wait_votes(count)
        rows = "SELECT COUNT(*) FROM vote_document"
        due = self.controls.number(rows) + count
        wait_for(f"{count} more votes in the log", lambda: self.controls.number(rows) >= due,
                 SETTLE_S, 0.2)

    def shares_of_lanes(self):
        """How many lanes each live relay holds, the largest first."""
        rows = self.controls.sql("SELECT COUNT(*) FROM relay_lease WHERE owner <> '' AND lease_until "
                                "> UTC_TIMESTAMP(3) AND lane LIKE 'outbox%%' GROUP BY owner")
        return sorted((count for count, in rows), reverse=True)

    def shares_of_partitions(self):
        """How many partitions each consumer reports in its metrics."""
        counts = []
        for container in cluster.containers("consume"):
            try:
                counts.append(int(self.controls.metrics(container)["tallybox_consumer_partitions"]))
            except (OSError, KeyError) as reason:
                raise NotThere(f"{container.name}: {reason!r}") from reason
        return sorted(counts, reverse=True)

    @staticmethod
    def fair(total, count):
        """The shares of `count` that divide `total` fairly."""
        return [total // count + (number < total % count) for number in range(min(count, total))] \
            + [0] * max(0, count - total)

    def wait_shared(self, what, look, due):
        began = time.monotonic()

        def probe():
            found = look()
            if found != due:
                raise NotThere(f"{what} are shared as {found}")
            return True
        wait_for(f"{what} shared as {due}", probe, SETTLE_S, 0.2)
        return time.monotonic() - began

    # -- consumers

    def scale_consumers(self, counts=(1, 3, 6, 12, 3), name="cooperative"):
        """Partitions are shared fairly after each change; how long they stood still is measured."""
        lines = []
        for count in counts:
            begin = time.monotonic()
            self.controls.scale("consume", count)
            self.wait_shared("partitions", self.shares_of_partitions,
                             self.fair(self.partitions, count))
            end = time.monotonic()
            self.flows()
            found = self.watcher.pauses(begin, end)
            lines.append(f"to {count} in {end - begin:.1f} s: {pauses.text_of(found)}")
        return f"{name}: " + "; ".join(lines)

    def scale_consumers_short(self):
        return self.scale_consumers((1, 6, 3))

    def scale_by_protocol(self):
        """The same with each way in which Kafka assigns partitions. Members of two ways must not
        meet in one group, so all of them end first."""
        lines = []
        try:
            for name, settings in PROTOCOLS.items():
                self.controls.scale("consume", 0)
                self.controls.replace("consume", 1, settings)
                self.wait_shared("partitions", self.shares_of_partitions, [self.partitions])
                lines.append(self.scale_consumers(name=name))
                self.say(f"  {lines[-1]}")
        finally:
            self.controls.scale("consume", 0)
            self.controls.replace("consume", 3)
        self.wait_shared("partitions", self.shares_of_partitions, self.fair(self.partitions, 3))
        return "\n    ".join(lines)

    def crash_consumer(self):
        """Killed, and started again by the engine. Its partitions wait until its session ends; those
        of the others do not."""
        victim = cluster.containers("consume")[0]
        begin = time.monotonic()
        self.controls.crash(victim)
        self.flows()
        self.controls.wait_healthy("consume")
        self.wait_shared("partitions", self.shares_of_partitions, self.fair(self.partitions, 3))
        end = time.monotonic()
        return (f"shared again after {end - begin:.1f} s: "
                f"{pauses.text_of(self.watcher.pauses(begin, end))}")

    # -- relays and serve

    def scale_relays(self, counts=(1, 2, 4, 1, 2)):
        """Each relay gets its share of the lanes within a lease."""
        lines = []
        for count in counts:
            self.controls.scale("relay", count)
            took = self.wait_shared("lanes", self.shares_of_lanes, self.fair(LANES, count))
            if took > LEASE_S:
                raise AssertionError(f"the lanes were shared by {count} relays after {took:.0f} s, "
                                     f"a lease lasts {LEASE_S} s")
            self.flows()
            lines.append(f"to {count} in {took:.1f} s")
        return "; ".join(lines)

    def holder_of(self, lane):
        """The container of the relay that holds a lane."""
        held = f'tallybox_relay_lease_held{{lane="{lane}"}}'
        for container in cluster.containers("relay"):
            try:
                if self.controls.metrics(container).get(held) == 1:
                    return container
            except OSError as reason:
                raise NotThere(f"{container.name}: {reason!r}") from reason
        raise NotThere(f"no relay holds {lane}")

    def crash_relay(self):
        """The one that holds the lane of the binary log."""
        self.controls.crash(wait_for("the holder of the binlog lane",
                                     lambda: self.holder_of(BINLOG_LANE), SETTLE_S, 0.2))
        begin = time.monotonic()
        self.flows()
        self.controls.wait_healthy("relay")
        self.wait_shared("lanes", self.shares_of_lanes, self.fair(LANES, 2))
        return f"shared again after {time.monotonic() - begin:.1f} s"

    def crash_serve(self):
        """The balancer uses the other one."""
        victim = cluster.containers("serve")[0]
        unknown = self.load.unknown
        self.controls.crash(victim)
        self.flows()
        self.controls.wait_healthy("serve")
        return f"{self.load.unknown - unknown} votes without an answer"

    def contend(self):
        return contention.vote_on_one_content(self)

    # -- brokers

    def wait_brokers(self):
        self.controls.wait_healthy("kafka-1", "kafka-2", "kafka-3")
        self.controls.wait_in_sync(TOPIC)

    def kill_leader(self):
        """The broker that leads most partitions of the topic."""
        leaders = [leader for leader, _ in self.controls.topic(TOPIC).values()]
        leader = max(set(leaders), key=leaders.count)
        begin = time.monotonic()
        self.controls.crash(self.controls.brokers()[leader])
        self.flows()
        moved = time.monotonic() - begin
        self.wait_brokers()
        return (f"kafka-{leader} led {leaders.count(leader)} of {len(leaders)} partitions, "
                f"{VOTES_BETWEEN} votes were in the log after {moved:.1f} s: "
                f"{pauses.text_of(self.watcher.pauses(begin, begin + moved))}")

    def kill_controller(self):
        controller = self.controls.controller()
        begin = time.monotonic()
        self.controls.crash(self.controls.brokers()[controller])
        self.flows()
        moved = time.monotonic() - begin
        self.wait_brokers()
        return (f"kafka-{controller}, {VOTES_BETWEEN} votes were in the log after {moved:.1f} s, "
                f"now kafka-{self.controls.controller()}")

    def stop_two_brokers(self):
        """Writes stop, because two replicas are asked for; the outbox takes votes meanwhile, and
        readiness names Kafka."""
        names = self.rng.sample((1, 2, 3), 2)
        brokers = self.controls.brokers()
        try:
            for name in names:
                cluster.docker("stop", "-t", 60, brokers[name].id)
            held = self.wait_stopped()
        finally:
            for name in names:
                cluster.docker("start", brokers[name].id)
        self.wait_brokers()
        self.flows()
        self.controls.wait_healthy("relay", "consume")
        return f"kafka-{names[0]} and kafka-{names[1]} down, {held} rows waited"

    def wait_stopped(self):
        """Voters continue and relays publish nothing. Returns how many rows wait."""
        self.load.wait_votes(VOTES_BETWEEN)
        wait_for("rows that wait in the outbox",
                 lambda: load.count_outbox_rows(self.controls) > VOTES_BETWEEN, SETTLE_S, 0.2)

        def unready():
            for relay in cluster.containers("relay"):
                try:
                    status, text = self.controls.page(relay, "/readyz")
                except OSError as reason:
                    raise NotThere(f"{relay.name}: {reason!r}") from reason
                if status != 503 or "kafka" not in text:
                    raise NotThere(f"{relay.name} answers {status}: {text[:300]}")
            return True
        wait_for("relays that are not ready and name kafka", unready, SETTLE_S, 0.5)
        return load.count_outbox_rows(self.controls)

    # -- networks

    def cut_network(self, service):
        """A container without its network."""
        victim = cluster.containers(service)[0]
        self.controls.disconnect(victim)
        begin = time.monotonic()
        try:
            self.flows()
            time.sleep(max(0, CUT_S - (time.monotonic() - begin)))
        finally:
            self.controls.connect(victim)
        self.controls.wait_healthy(service)
        self.flows()
        return f"{victim.name} was cut off for {time.monotonic() - begin:.1f} s"

    def cut_relay(self):
        return self.cut_network("relay")

    def cut_consumer(self):
        return self.cut_network("consume")

    def cut_pair(self, service, others):
        """One way only: packets of a container to these addresses are dropped, all else passes."""
        victim = cluster.containers(service)[0]
        rules = [["OUTPUT", "-d", self.controls.one(other).address, "-j", "DROP"]
                 for other in others]
        try:
            for rule in rules:
                self.controls.iptables(victim, "-I", *rule)
            time.sleep(CUT_S)
            dropped = self.controls.dropped(victim, "OUTPUT")
        finally:
            for rule in rules:
                self.controls.iptables(victim, "-D", *rule, expect=None)
        if not dropped:
            raise AssertionError(f"{victim.name} sent nothing to {', '.join(others)}")
        self.controls.wait_healthy(service)
        self.flows()
        return f"{victim.name} lost {', '.join(others)} for {CUT_S} s"

    def cut_relay_from_kafka(self):
        return self.cut_pair("relay", ("kafka-1", "kafka-2", "kafka-3"))

    def cut_consumer_from_mysql(self):
        return self.cut_pair("consume", (self.controls.primary,))

    def lose_packets(self, share=0.05, seconds=20):
        """A share of what relays and consumers receive is lost, and TCP repeats it."""
        victims = cluster.containers("relay") + cluster.containers("consume")
        rule = ["INPUT", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j",
                "DROP"]
        votes, begin = self.load.votes, time.monotonic()
        try:
            for victim in victims:
                self.controls.iptables(victim, "-I", *rule)
            time.sleep(seconds)
            self.flows()
            dropped = [self.controls.dropped(victim, "INPUT") for victim in victims]
        finally:
            for victim in victims:
                self.controls.iptables(victim, "-D", *rule, expect=None)
        rate = (self.load.votes - votes) / (time.monotonic() - begin)
        self.controls.wait_healthy("relay", "consume")
        if not all(dropped):
            raise AssertionError(f"of some containers no packet was dropped: {dropped}")
        return (f"{share:.0%} of all packets, {sum(dropped)}, lost, {rate:.0f} votes a second "
                "meanwhile")

    def delay_database(self, seconds=20):
        """A proxy between the consumers and the database delays every piece, and resets all
        connections every few seconds."""
        far = far_database.FarDatabase(self.controls)
        victims = cluster.containers("consume")
        begin, cuts = time.monotonic(), 0
        try:
            far.start()
            far.order("slow")
            far.route(*victims)
            self.flows()
            while time.monotonic() < begin + seconds:
                far.order("cut", 1)
                cuts += 1
                time.sleep(2)
                far.order("slow")
                self.flows(100)
        finally:
            far.route_back(*victims)
            far.close()
        self.controls.wait_healthy("consume")
        self.flows()
        return (f"{2000 * far_database.DELAY_S:.0f} ms for each answer, {cuts} times all connections "
                "reset")

    def limit_rate(self, rate="64kbit", seconds=20):
        """A relay with little bandwidth: rows of its lanes wait in the outbox, and are published when
        the bandwidth is back."""
        victim = cluster.containers("relay")[0]
        space = ("nsenter", "-t", victim.pid, "-n")
        # A container that was disconnected before has an interface with another name.
        device = next(line.split()[1] for line in cluster.run(*space, "ip", "-o", "-4",
                                                              "address").splitlines()
                      if f" {victim.address}/" in line)
        words = (*space, "tc", "qdisc")
        cluster.run(*words, "add", "dev", device, "root", "tbf", "rate", rate, "burst", "16kbit",
                    "latency", "400ms")
        most, until = 0, time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                most = max(most, load.count_outbox_rows(self.controls))
                time.sleep(0.2)
        finally:
            cluster.run(*words, "del", "dev", device, "root", expect=None)
        if most < VOTES_BETWEEN:
            raise AssertionError(f"at most {most} rows waited: the rate was not low enough")
        self.flows()
        self.controls.wait_healthy("relay")
        wait_for("the outbox to be short again",
                 lambda: load.count_outbox_rows(self.controls) < VOTES_BETWEEN, SETTLE_S, 0.2)
        return f"{victim.name} had {rate}/s for {seconds} s, {most} rows waited at most"

    # -- the topic

    def reassign(self):
        """Every partition gets another preferred leader while it is written."""
        broker = next(iter(self.controls.brokers().values()))
        plan = [f'{{"topic":"{TOPIC}","partition":{partition},"replicas":{replicas}}}'
                for partition in range(self.partitions)
                for replicas in [self.rng.sample((1, 2, 3), 3)]]
        text = f'{{"version":1,"partitions":[{",".join(plan)}]}}'
        broker.execute("sh", "-c", "cat >/tmp/plan.json", stdin=text)
        words = ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server",
                 f"{broker.service}:9092", "--reassignment-json-file", "/tmp/plan.json")
        self.controls.kafka_tool(broker, *words, "--execute")

        def done():
            text = self.controls.kafka_tool(broker, *words, "--verify")
            if "is still in progress" in text or "failed" in text:
                raise NotThere(text[-300:])
            return True
        wait_for("the reassignment", done, SETTLE_S, 1)
        self.controls.kafka_tool(broker, "org.apache.kafka.tools.LeaderElectionCommand",
                                "--bootstrap-server", f"{broker.service}:9092",
                                "--election-type", "preferred", "--all-topic-partitions")
        self.flows()
        self.controls.wait_in_sync(TOPIC)
        return f"{self.partitions} partitions have other preferred leaders"

    def add_partitions(self):
        return more_partitions.add_partitions(self)

    def fill_disk(self):
        return full_disk.fill_disk(self)

    # -- the database

    def restart_database(self):
        """Killed, recovered and started again by the engine."""
        victim = self.controls.one(self.controls.primary)
        begin = time.monotonic()
        self.controls.crash(victim)

        def back():
            try:
                return self.controls.number("SELECT 1")
            except (pymysql.MySQLError, OSError) as reason:
                raise NotThere(repr(reason)) from reason
        wait_for("the database", back, SETTLE_S, 0.2)
        self.flows()
        self.controls.wait_healthy()
        return f"votes flowed again after {time.monotonic() - begin:.1f} s"

    def fail_over(self):
        return failover.fail_over_semi_synchronously(self)

    # -- how fast

    def measure_consumers(self):
        return throughput.measure(self)

    # -- versions

    def upgrade(self):
        return upgrade.replace_all(self)


# (name, method, also in the short form)
ORDER = (
    ("consumers come and go", "scale_consumers_short", True),
    ("consumers come and go, by protocol", "scale_by_protocol", False),
    ("a consumer crashes", "crash_consumer", True),
    ("relays come and go", "scale_relays", True),
    ("a relay crashes", "crash_relay", False),
    ("a serve crashes", "crash_serve", True),
    ("two serve and one content", "contend", True),
    ("the leader of partitions is killed", "kill_leader", True),
    ("the controller is killed", "kill_controller", True),
    ("two of three brokers are down", "stop_two_brokers", True),
    ("a relay loses its network", "cut_relay", False),
    ("a consumer loses its network", "cut_consumer", False),
    ("a relay loses the brokers alone", "cut_relay_from_kafka", True),
    ("a consumer loses the database alone", "cut_consumer_from_mysql", True),
    ("packets are lost", "lose_packets", False),
    ("the database is far away and its connections break", "delay_database", False),
    ("a relay has little bandwidth", "limit_rate", False),
    ("partitions are reassigned", "reassign", False),
    ("the disk of a broker is full", "fill_disk", False),
    ("partitions are added", "add_partitions", False),
    ("the database is killed", "restart_database", True),
    ("a backlog and more and more consumers", "measure_consumers", False),
    ("a new version replaces each container", "upgrade", False),
    ("the replica takes over", "fail_over", False),  # the last one: nothing replicates after it
)

# After these the cluster is as it was.
REPEATABLE = {method for _, method, _ in ORDER} - {
    "scale_by_protocol", "measure_consumers", "upgrade", "fail_over", "fill_disk", "add_partitions"}
