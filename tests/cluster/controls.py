# SPDX-License-Identifier: MIT
"""What a run does to the cluster that is up, beyond what cluster.py reads from it: numbers and
settings of services, crashes, networks, and the servers' own protocols."""

import http.client
import json
import os
import pathlib
import re
import signal
import threading

import pymysql

import cluster
import suite
from waiting import NotThere, wait_for

ADMIN_PORT = 9464
DATABASE = "tallybox"


class Controls:
    """Of any thread: it keeps no connection."""

    def __init__(self, folder):
        self.override = pathlib.Path(folder) / "override.json"
        self.environments = {}  # service: variables that the run gives it
        self.images = {}        # service: image that the run gives it
        self.disks = {}         # service: volume:folder that the run gives it
        self.primary = "mysql"  # the service whose database accepts writes

    # -- services

    def compose(self, *words, seconds=600):
        """With what the run has changed in compose.yaml."""
        services = {name: {"environment": given} for name, given in self.environments.items()}
        for name, image in self.images.items():
            services.setdefault(name, {})["image"] = image
        content = {"services": services}
        for name, disk in self.disks.items():
            services.setdefault(name, {})["volumes"] = [disk]
            volume = disk.split(":")[0]
            content.setdefault("volumes", {})[volume] = {"external": True}
        if services:
            self.write_override(content)
            words = ("--file", self.override, *words)
        return cluster.cluster("compose", *words, seconds=seconds)

    def write_override(self, content):
        """Whole at any time: several threads may call compose."""
        new = self.override.with_suffix(f".{threading.get_ident()}")
        new.write_text(json.dumps(content))
        new.replace(self.override)

    def scale(self, service, count):
        self.compose("up", "-d", "--no-deps", "--no-recreate", "--scale", f"{service}={count}",
                     service)

    def replace(self, service, count, environment=None):
        """The containers of a service again, with these variables beside its own; None takes one
        away."""
        self.environments.pop(service, None)
        if environment:
            self.environments[service] = environment
        self.compose("up", "-d", "--no-deps", "--scale", f"{service}={count}", service)

    @staticmethod
    def tool(*words, seconds=300, expect=0):
        """A command of ours in a container of its own, as an operator runs it."""
        return cluster.cluster("compose", "run", "--rm", "-T", "tools", *words, seconds=seconds,
                               expect=expect)

    @staticmethod
    def one(service):
        """The first container of a service that runs."""
        found = [each for each in cluster.containers(service) if each.pid]
        if not found:
            raise NotThere(f"no container of {service} runs")
        return found[0]

    @staticmethod
    def wait_healthy(*services, seconds=300):
        """Until every container of these services is healthy, or of all without arguments."""
        def look():
            found = cluster.containers(*services)
            wrong = [f"{each.name}: {each.health}" for each in found
                     if each.health and each.health != "healthy"]
            if wrong or not found:
                raise NotThere(f"not healthy: {', '.join(wrong) or 'nothing runs'}")
            return True
        wait_for(f"healthy {' '.join(services)}", look, seconds, 0.5)

    # -- containers

    @staticmethod
    def crash(container):
        """SIGKILL to its process: the engine starts it again, which it does not after
        `docker kill`."""
        if not container.pid:
            raise NotThere(f"{container.name} does not run")
        os.kill(container.pid, signal.SIGKILL)

    @staticmethod
    def disconnect(container):
        cluster.docker("network", "disconnect", cluster.NETWORK, container.id)

    @staticmethod
    def connect(container, *names):
        """With the name of its service, and others."""
        aliases = [word for name in (container.service, *names) for word in ("--alias", name)]
        cluster.docker("network", "connect", *aliases, cluster.NETWORK, container.id)

    @staticmethod
    def iptables(container, *words, expect=0):
        """Rules in the network namespace of a container."""
        return cluster.run("nsenter", "-t", container.pid, "-n", "iptables", *words, expect=expect)

    def dropped(self, container, chain):
        """How many packets the rules of a chain have dropped."""
        lines = self.iptables(container, "-nvxL", chain).splitlines()[2:]
        return sum(int(line.split()[0]) for line in lines if line.split()[2] == "DROP")

    # -- what the servers say

    @staticmethod
    def page(container, path, seconds=5):
        """Status and text of an admin page."""
        connection = http.client.HTTPConnection(container.address, ADMIN_PORT, timeout=seconds)
        try:
            connection.request("GET", path, headers={
                "Host": "localhost", "Authorization": f"Bearer {cluster.secret('admin_token')}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self, container):
        """{name with labels: value}"""
        status, text = self.page(container, "/metrics")
        if status != 200:
            raise NotThere(f"/metrics of {container.name} answers {status}: {text[:200]}")
        return suite.parse_metrics(text)

    def sql_connection(self, service=None):
        """By root, to the primary or to another service. cluster.sql() starts a client for each
        statement, and gives texts."""
        authority = pathlib.Path(cluster.variable("TALLYBOX_SECRETS")) / "mysql_ca"
        return pymysql.connect(
            host=self.one(service or self.primary).address, user="root",
            password=cluster.secret("mysql_root"), database=DATABASE, autocommit=True,
            connect_timeout=5, read_timeout=60, write_timeout=60,
            ssl={"ca": str(authority), "check_hostname": False})

    def sql(self, statement, arguments=(), service=None):
        """All rows of one statement."""
        connection = self.sql_connection(service)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, arguments)
                return cursor.fetchall()
        finally:
            connection.close()

    def number(self, statement, arguments=(), service=None):
        return int(self.sql(statement, arguments, service)[0][0])

    # -- Kafka

    @staticmethod
    def write_hosts(path):
        """Names of containers for programs of this machine, whose /etc/hosts this file is."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{each.address} {each.service}" for each in cluster.containers()
                  if each.address]
        pathlib.Path(path).write_text("\n".join(lines) + "\n")

    @property
    def bootstrap(self):
        return ",".join(f"kafka-{number}:9092" for number in (1, 2, 3))

    @staticmethod
    def kafka_tool(broker, tool, *words, seconds=120):
        """A tool of Kafka's own, in the container of a broker."""
        return broker.execute("sh", "-c", "exec java -Xmx128m -cp '/opt/kafka/libs/*' \"$@\"", "tool",
                              tool, *words, seconds=seconds)

    def topic(self, name):
        """{partition: (leader, [in-sync replicas])} as any broker tells it."""
        text = cluster.run("kcat", "-b", self.bootstrap, "-L", "-J", "-t", name, "-m", 20,
                           seconds=60)
        for topic in json.loads(text)["topics"]:
            if topic["topic"] == name:
                return {each["partition"]: (each["leader"], [isr["id"] for isr in each["isrs"]])
                        for each in topic["partitions"]}
        raise NotThere(f"there is no topic {name}")

    @staticmethod
    def brokers():
        """{id: container}"""
        return {int(each.service.rsplit("-", 1)[1]): each for each in cluster.containers()
                if each.service.startswith("kafka-")}

    def controller(self):
        """The id of the controller that leads the quorum."""
        broker = next(each for each in self.brokers().values() if each.pid)
        text = self.kafka_tool(broker, "org.apache.kafka.tools.MetadataQuorumCommand",
                               "--bootstrap-server", f"{broker.service}:9092", "describe",
                               "--status")
        return int(re.search(r"^LeaderId:\s+(\d+)$", text, re.MULTILINE).group(1))

    def wait_in_sync(self, topic, count=3, seconds=180):
        """Until every partition has this many replicas in sync and a leader."""
        def look():
            wrong = {number: state for number, state in self.topic(topic).items()
                     if len(state[1]) < count or state[0] < 0}
            if wrong:
                raise NotThere(f"replicas are missing: {wrong}")
            return True
        wait_for(f"{count} replicas in sync", look, seconds, 0.5)
