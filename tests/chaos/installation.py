# SPDX-License-Identifier: MIT
"""One installation for chaos: real servers, and every role as several processes, each with ways of
its own through the proxy. Kafka tells each relay and consumer the port of its own way, so nothing
goes past the proxy."""

import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys

import api_client
import clients
import effects
import suite
import plan
import readers
import task_operator
import wire
import writers

PROXY = pathlib.Path(__file__).resolve().parent / "proxy.py"
PARTITIONS = 6
LANES = ("outbox", "outbox_1", "outbox_2", "orders")
STOP_MS = 6000
MONTHS_AHEAD, MONTHS_AHEAD_MAX = 24, 110
HTTP_VOTERS, SQL_VOTERS, STEPPERS, SUBMITTERS, CALLERS, TASK_CLIENTS = 8, 2, 6, 3, 2, 2
READERS, AUTHORS = 3, 1
PAGE_STALE_MS = 20000
ARRAY_MEAN = 7.6  # votes in a request of an HttpVoter

SETTINGS = {
    "mysql.query_timeout_ms": 6000,
    "mysql.connect_timeout_ms": 2000,
    "kafka.consumer.session.timeout.ms": plan.SESSION_MS,
    "kafka.consumer.heartbeat.interval.ms": 700,
    "api.lane_count": len(writers.VOTE_LANES),
    "api.request_timeout_ms": 8000,
    "api.tasks": "on",
    "api.try_max": 4,
    "api.page_stale_ms": PAGE_STALE_MS,
    "relay.lanes": ",".join(LANES),
    "relay.topic_partitions": PARTITIONS,
    "relay.lease_ms": plan.LEASE_MS,
    "relay.send_timeout_ms": 2000,
    "relay.gap_wait_ms": 2000,
    "relay.row_bytes_max": writers.ROW_BYTES_MAX,
    "kafka.producer.batch.size": writers.TOPIC_BYTES_MAX // 2,
    "relay.full_scan_ms": 3000,
    "retry.poll_ms": 50,
    "retry.rescue_ms": 500,
    "retry.lease_ms": plan.LEASE_MS,
    "rollup.interval_ms": 2000,
    "housekeep.interval_ms": 2000,
    "housekeep.months_ahead": MONTHS_AHEAD,
    "admin.stop_timeout_ms": STOP_MS,
}


# An hour writes gigabytes of binlog, which no test reads.
SERVER_ARGUMENTS = {
    "mariadb": ["--max-binlog-size=64M", "--binlog-expire-logs-seconds=300"],
    "mysql": ["--max-binlog-size=64M", "--binlog-expire-logs-seconds=300"],
    "kafka": [],
}

# Of chaos alone, between those of scripts/server and those that clients get: what is dead
# for a while must find its port again.
PORTS = range(30000, 32700)
_ports = itertools.cycle(PORTS)
for _ in range(os.getpid() * 101 % len(PORTS)):
    next(_ports)


def free_port():
    """A port that nothing listens on, not given out twice."""
    while True:
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Server(suite.Server):
    """A server on a port that is known before it starts."""

    def __init__(self, kind, folder, port, arguments):
        super().__init__(kind, folder)
        self.words = ["--port", str(port), "--", *arguments]

    def start(self):
        done = subprocess.run([suite.SERVER, "start", self.kind, str(self.folder), *self.words],
                              capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"server start {self.kind}: {done.stdout}{done.stderr}")
        self._read_env()

    @property
    def pid(self):
        """None while it does not run."""
        return int(self.env["PID"]) if self.env.get("PID") else None


class Proxy:
    """The process that all connections go through."""

    def __init__(self, links):
        self.ports = {name: ports[0] for name, ports in links.items()}
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-B", str(PROXY),
             json.dumps(links)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "listening\n":
            raise RuntimeError("the proxy did not start")

    def order(self, link, what, seconds=0):
        self.process.stdin.write(json.dumps({"link": link, "do": what, "seconds": seconds}) + "\n")
        self.process.stdin.flush()

    def heal(self):
        self.order("*", "heal")

    def alive(self):
        return self.process.poll() is None

    def close(self):
        self.process.kill()
        self.process.wait(20)
        self.process.stdin.close()
        self.process.stdout.close()


class Installation:
    """Servers, proxy, database and roles; close() ends all of them."""

    def __init__(self, seed, say):
        self.say = say
        self.proxy = self.effects = self.clients = self.operator = self.ranker = None
        self.limit = writers.QueueLimit()
        self.contents = writers.Contents()
        self.roles = {}
        self.folder = suite.run().folder
        self.ledgers = self.folder / "ledger"
        self.ledgers.mkdir()
        self.serve_ports = {name: free_port() for name in plan.SERVES}
        self.start_servers()
        self.effects = effects.Url(self.ledgers, seed)
        self.clients = clients.Clients(self.ledgers, seed)
        self.program = effects.write_program(self.folder, self.ledgers)
        tokens = self.folder / "tokens"
        tokens.write_text(api_client.TOKEN_LINE)
        tokens.chmod(0o600)
        self.stack = suite.Stack("chaos", {
            **SETTINGS, **plan.settings(seed), "retry.exec_programs": self.program,
            "api.token_file": tokens,
            "retry.http_hosts": ",".join([f"127.0.0.1:{self.effects.server_port}",
                                          *self.clients.hosts])})
        self.stack.add_privileges("first_try", "tallybox_serve")
        for statement in writers.TABLES:
            self.stack.sql(statement)
        for statement in clients.rows(seed):
            self.stack.sql(*statement)
        self.stack.sql("UPDATE outbox_lanes SET lane_count = %s", [len(writers.VOTE_LANES)])
        self.task_topic = f"tasks-{self.stack.name}"
        self.step_topic = f"event.{self.stack.name}.step"
        wire.create_topic(suite.kafka().bootstrap, self.task_topic, PARTITIONS)
        wire.create_topic(suite.kafka().bootstrap, self.step_topic, PARTITIONS,
                          {"max.message.bytes": writers.TOPIC_BYTES_MAX})
        self.operator = task_operator.TaskOperator(self.stack, self.ledgers, seed,
                                                   writers.STEP_LANES)
        self.ranker = readers.Ranker(self.stack, self.ledgers, seed)
        self.rolled_up = readers.RolledUp(self.stack)

    @property
    def page_ages(self):
        """How old pages may be: with the database, and without it, in seconds."""
        return self.stack.settings["api.page_cache_ms"] / 1000, PAGE_STALE_MS / 1000

    def start_servers(self):
        kind = suite.DATABASE
        ports = {"mysql": free_port(), "kafka": free_port()}
        listeners, links = [], {}
        for name in plan.LINKS:
            way, user = name.split(":")
            to = ports.get(way) or self.serve_ports[user]
            links[name] = [free_port(), to]
            if way == "kafka":
                links[name][1] = free_port()
                listeners.append(f"listener.{user.upper().replace('-', '')}="
                                 f"{links[name][1]}:{links[name][0]}")
        self.say(f"starting {kind} and kafka in {self.folder}")
        servers = suite.run().servers
        servers[kind] = Server(kind, self.folder / kind, ports["mysql"],
                               suite.SERVER_ARGUMENTS[kind] + SERVER_ARGUMENTS[kind])
        servers["kafka"] = Server("kafka", self.folder / "kafka", ports["kafka"],
                                  suite.SERVER_ARGUMENTS["kafka"] + listeners)
        for server in servers.values():
            server.start()
        self.proxy = Proxy(links)

    def server(self, target):
        """A server by the plan's name for it."""
        return suite.database() if target == "database" else suite.kafka()

    def start_roles(self):
        for name in plan.ROLES:
            self.roles[name] = self.make_role(name).start()
        for role in self.roles.values():
            role.wait_ready(120)
        # A lane that reads the log begins at its end, and only while its table has no rows.
        if self.stack.settings["lane.outbox.source"] == "binlog":
            suite.wait_for("the position of the lane", lambda: self.stack.number(
                "SELECT COUNT(*) FROM relay_position") > 0, 120)

    def next_settings(self):
        """Partitions for one month more have to be made."""
        months = min(self.stack.settings["housekeep.months_ahead"] + 1, MONTHS_AHEAD_MAX)
        self.stack.write_ini(housekeep__months_ahead=months)

    def make_role(self, name):
        kind = name.split("-")[0]
        sets = {"mysql.port": self.proxy.ports[f"mysql:{name}"]}
        if f"kafka:{name}" in self.proxy.ports:
            sets["kafka.bootstrap.servers"] = f"127.0.0.1:{self.proxy.ports[f'kafka:{name}']}"
        role = suite.Role(self.stack, kind, sets, ())
        role.admin_port = free_port()
        role.log = self.folder / f"{name}.log"
        role.api_port = self.serve_ports.get(name)
        return role

    def make_writers(self, seed, stop, rate):
        """All writers, not yet started; together about rate votes a second."""
        ports = [self.proxy.ports[f"http:{name}"] for name in plan.SERVES]
        sql = {"database": self.stack.name, "port": self.proxy.ports["mysql:writers"]}
        api = {"ports": ports, "contents": self.contents}
        made = [writers.HttpVoter(f"http-{n}", seed, self.ledgers, stop,
                                  HTTP_VOTERS * ARRAY_MEAN / rate, **api)
                for n in range(HTTP_VOTERS)]
        made += [writers.SqlVoter(f"voter-{n}", seed, self.ledgers, stop, 0.1,
                                  contents=self.contents, **sql) for n in range(SQL_VOTERS)]
        made += [readers.Author(f"author-{n}", seed, self.ledgers, stop, 0.7, **api)
                 for n in range(AUTHORS)]
        made += [readers.Reader(f"reader-{n}", seed, self.ledgers, stop, 0.15, **api)
                 for n in range(READERS)]
        made += [writers.Stepper(f"stepper-{n}", seed, self.ledgers, stop, 0.1, **sql)
                 for n in range(STEPPERS)]
        made += [writers.Submitter(f"submitter-{n}", seed, self.ledgers, stop, 0.3,
                                   topic=self.task_topic, **sql) for n in range(SUBMITTERS)]
        made += [writers.Caller(f"caller-{n}", seed, self.ledgers, stop, 1.0,
                                url=f"http://127.0.0.1:{self.effects.server_port}/effect",
                                program=self.program, **sql) for n in range(CALLERS)]
        made += [writers.TaskClient(f"tasks-{n}", seed, self.ledgers, stop, 0.2, ports=ports,
                                    url=f"http://127.0.0.1:{self.effects.server_port}/effect")
                 for n in range(TASK_CLIENTS)]
        self.clients.begin(ports)
        for writer in made:
            if isinstance(writer, (writers.Stepper, writers.Submitter, writers.Caller,
                                   writers.TaskClient)):
                writer.limit = self.limit
        return made

    def disk_mib(self):
        """What everything of this run takes on the disk."""
        done = subprocess.run(["du", "-sm", str(self.folder)], capture_output=True, text=True,
                              check=False)  # files come and go: it may say so and end with 1
        return int(done.stdout.split()[0])

    def close(self):
        for role in self.roles.values():
            role.kill()
        for part in (self.proxy, self.effects, self.clients, self.operator, self.ranker):
            if part:
                part.close()
        suite.run().close()
