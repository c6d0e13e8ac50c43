# SPDX-License-Identifier: MIT
"""The containers of the cluster that `./dev cluster up` started, by the docker client. The command
line of compose comes from the environment, as scripts/cluster.sh sets it."""

import collections
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time

import pymysql

import suite
from waiting import NotThere, wait_for

NETWORK = "inside"
ADMIN_PORT = 9464
DATABASE = "tallybox"

Container = collections.namedtuple("Container", "id service number pid running health address")


class Failed(RuntimeError):
    """A command of docker or compose that ended with an error."""


def call(words, seconds=120, check=True, stdin=None):
    """The output of a command, with both streams in the error."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False,
                          input=stdin)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(words[:8])} ... ended with {done.returncode}: "
                     f"{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


class Cluster:
    """Of any thread: it keeps no connection."""

    def __init__(self, folder):
        self.compose_words = shlex.split(os.environ["CLUSTER_COMPOSE"])
        self.project = os.environ["CLUSTER_PROJECT"]
        self.secrets = pathlib.Path(os.environ["TALLYBOX_SECRETS"])
        self.balancer_port = int(os.environ["TALLYBOX_API_PORT"])
        self.prometheus_port = int(os.environ["TALLYBOX_PROMETHEUS_PORT"])
        self.changes = {}           # service: environment that a run gives it
        self.changes_of_image = {}  # service: image that a run gives it
        self.override = pathlib.Path(folder) / "override.json"
        self.primary = "mysql"

    def secret(self, name):
        return (self.secrets / name).read_text().split()[0]

    # -- compose

    def compose(self, *words, seconds=600):
        command = list(self.compose_words)
        services = {name: {"environment": changed} for name, changed in self.changes.items()}
        for name, image in self.changes_of_image.items():
            services.setdefault(name, {})["image"] = image
        if services:
            self.write_override({"services": services})
            command += ["-f", str(self.override)]
        return call(command + list(words), seconds)

    def write_override(self, content):
        """Whole at any time: several threads may call compose."""
        new = self.override.with_suffix(f".{threading.get_ident()}")
        new.write_text(json.dumps(content))
        new.replace(self.override)

    def scale(self, service, count):
        self.compose("up", "-d", "--no-deps", "--no-recreate", "--scale", f"{service}={count}",
                     service)

    def replace(self, service, count, **environment):
        """The containers of a service again, with settings of their own."""
        self.changes[service] = {**self.changes.get(service, {}), **environment}
        self.compose("up", "-d", "--no-deps", "--scale", f"{service}={count}", service)

    def tool(self, *words, seconds=300, check=True):
        """A command of ours in a container of its own, as an operator runs it."""
        return call([*self.compose_words, "run", "--rm", "-T", "tools", *words], seconds, check)

    # -- containers

    def containers(self, service=None):
        """Those of one service or of all, running or not, in their order."""
        words = ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={self.project}",
                 "--filter", "label=com.docker.compose.oneoff=False"]
        if service:
            words += ["--filter", f"label=com.docker.compose.service={service}"]
        ids = call(words).split()
        if not ids:
            return []
        try:
            facts = json.loads(call(["docker", "inspect", *ids]))
        except Failed:  # one of them went meanwhile
            return self.containers(service)
        return sorted((self.describe(fact) for fact in facts),
                      key=lambda container: (container.service, container.number))

    def describe(self, fact):
        labels, state = fact["Config"]["Labels"], fact["State"]
        networks = fact["NetworkSettings"]["Networks"]
        address = networks.get(f"{self.project}_{NETWORK}", {}).get("IPAddress", "")
        return Container(fact["Id"][:12], labels["com.docker.compose.service"],
                         int(labels["com.docker.compose.container-number"]), state["Pid"],
                         state["Running"], state.get("Health", {}).get("Status", ""), address)

    def one(self, service):
        found = [each for each in self.containers(service) if each.running]
        if not found:
            raise NotThere(f"no container of {service} runs")
        return found[0]

    def wait_healthy(self, *services, seconds=300):
        """Until every container of these services is healthy, or of all without arguments."""
        def look():
            found = [each for each in self.containers()
                     if not services or each.service in services]
            wrong = [f"{each.service}-{each.number}: {each.health or each.running}"
                     for each in found if each.health and each.health != "healthy"]
            if wrong or not found:
                raise NotThere(f"not healthy: {', '.join(wrong) or 'nothing runs'}")
            return True
        wait_for(f"healthy {' '.join(services)}", look, seconds, 0.5)

    @staticmethod
    def kill(container, signal_number=signal.SIGKILL):
        """As a crash: the engine starts it again, which it does not after `docker kill`."""
        os.kill(container.pid, signal_number)

    @staticmethod
    def stop(container, seconds=60):
        call(["docker", "stop", "-t", str(seconds), container.id], seconds + 60)

    @staticmethod
    def start(container):
        call(["docker", "start", container.id])

    @staticmethod
    def run_in(container, *words, seconds=120, check=True, stdin=None):
        return call(["docker", "exec", *(["-i"] if stdin else []), container.id, *words], seconds,
                    check, stdin)

    def disconnect(self, container):
        call(["docker", "network", "disconnect", f"{self.project}_{NETWORK}", container.id])

    def connect(self, container):
        call(["docker", "network", "connect", "--alias", container.service,
              f"{self.project}_{NETWORK}", container.id])

    @staticmethod
    def in_network_of(container, *words, check=True):
        """A program of this machine in the network namespace of a container."""
        return call(["nsenter", "-t", str(container.pid), "-n", *words], check=check)

    # -- what the servers say

    def page(self, container, path, seconds=5):
        """Status and text of an admin page."""
        connection = http.client.HTTPConnection(container.address, ADMIN_PORT, timeout=seconds)
        try:
            connection.request("GET", path, headers={
                "Host": "localhost", "Authorization": f"Bearer {self.secret('admin_token')}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self, container):
        """{name with labels: value}"""
        status, text = self.page(container, "/metrics")
        if status != 200:
            raise NotThere(f"/metrics of {container.service} answers {status}: {text[:200]}")
        return suite.parse_metrics(text)

    def sql_connection(self, service=None, **more):
        return pymysql.connect(
            host=self.one(service or self.primary).address, user="root",
            password=self.secret("mysql_root"), database=DATABASE, autocommit=True,
            connect_timeout=5, read_timeout=60, write_timeout=60,
            ssl={"ca": str(self.secrets / "mysql_ca"), "check_hostname": False}, **more)

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

    def write_hosts(self, path):
        """Names of containers for programs of this machine, whose /etc/hosts this file is."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{each.address} {each.service}" for each in self.containers()
                  if each.address and each.running]
        pathlib.Path(path).write_text("\n".join(lines) + "\n")

    @property
    def bootstrap(self):
        return ",".join(f"kafka-{number}:9092" for number in (1, 2, 3))

    def kafka_tool(self, broker, tool, *words, seconds=120, stdin=None):
        """A tool of Kafka's own, in the container of a broker."""
        return self.run_in(broker, "sh", "-c",
                           "exec java -Xmx128m -cp '/opt/kafka/libs/*' \"$@\"", "tool", tool, *words,
                           seconds=seconds, stdin=stdin)

    def topic(self, name):
        """{partition: (leader, [in-sync replicas])} as any broker tells it."""
        text = call(["kcat", "-b", self.bootstrap, "-L", "-J", "-t", name, "-m", "20"], 60)
        for topic in json.loads(text)["topics"]:
            if topic["topic"] == name:
                return {each["partition"]: (each["leader"], [isr["id"] for isr in each["isrs"]])
                        for each in topic["partitions"]}
        raise NotThere(f"there is no topic {name}")

    def brokers(self):
        """{id: container}"""
        return {int(each.service.rsplit("-", 1)[1]): each for each in self.containers()
                if each.service.startswith("kafka-")}

    def controller(self):
        """The id of the controller that leads the quorum."""
        broker = next(each for each in self.brokers().values() if each.running)
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


def timed(function, *arguments):
    """How many seconds a call took, and its result."""
    began = time.monotonic()
    result = function(*arguments)
    return time.monotonic() - began, result
