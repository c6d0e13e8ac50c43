# SPDX-License-Identifier: MIT
"""The docker test cluster as a fixture: started by `./dev cluster up`, asked through Docker, the
database's client and Prometheus, ended by `./dev cluster down`.

TALLYBOX_CLUSTER_KEEP=1 uses a cluster that runs already, and leaves it."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tests/e2e"))

import waiting  # noqa: E402

WORK = ROOT / "build/cluster"
PROJECT = "tallybox"
NETWORK = f"{PROJECT}_inside"
KEEP = os.environ.get("TALLYBOX_CLUSTER_KEEP") == "1"

# Services of ours that run all the time, with their usual numbers.
OURS = {"serve": 2, "relay": 2, "consume": 3, "retry": 2, "rollup": 1, "housekeep": 1}
SERVERS = {"kafka-1": 1, "kafka-2": 1, "kafka-3": 1, "mysql": 1, "mysql-replica": 1, "balancer": 1,
           "prometheus": 1}
ONCE = {"grants", "migrate-account", "migrate", "accounts"}


def wait_for(what, probe, seconds=180, every=0.5):
    """A cluster takes longer than one process."""
    return waiting.wait_for(what, probe, seconds, every)


def run(*words, expect=0, seconds=900, env=None, streams=False, stdin=""):
    """A command to its end; stdout as text, with streams also stderr."""
    done = subprocess.run([str(word) for word in words], input=stdin, text=True,
                          capture_output=True, timeout=seconds, check=False, cwd=ROOT,
                          env={**os.environ, **(env or {})})
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}\n"
                             f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout + (done.stderr if streams else "")


def cluster(*words, **options):
    """./dev cluster WORD..."""
    return run("./dev", "cluster", *words, **options)


def values(path):
    """KEY=VALUE lines of a file, or none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def docker(*words, **options):
    """The engine of the cluster: the private one, or the machine's."""
    folder = values(WORK / "engine/env").get("RUN")
    env = {"DOCKER_HOST": f"unix://{folder}/docker.sock"} if folder else {}
    return run("docker", *words, env=env, **options)


def is_private():
    """Whether `./dev cluster` has started an engine of its own."""
    return bool(values(WORK / "engine/env"))


def is_started():
    """Whether an `up` has come as far as to start containers."""
    return (WORK / "up.log").exists()


def variable(name):
    return values(WORK / "variables")[name]


def secret(name):
    """The first word of a secret: a password, or the token of its line."""
    return (pathlib.Path(variable("TALLYBOX_SECRETS")) / name).read_text().split()[0]


class Container:
    """One container, as it was when it was asked for."""

    def __init__(self, facts):
        labels = facts["Config"]["Labels"]
        self.id = facts["Id"]
        self.facts = facts
        self.service = labels["com.docker.compose.service"]
        self.number = int(labels["com.docker.compose.container-number"])
        self.state = facts["State"]
        self.health = self.state.get("Health", {}).get("Status")

    @property
    def name(self):
        return f"{self.service}-{self.number}"

    @property
    def pid(self):
        """On this machine; 0 when it does not run."""
        return self.state["Pid"]

    @property
    def address(self):
        """In the network of brokers, databases and roles; empty when it has none."""
        networks = self.facts["NetworkSettings"]["Networks"]
        return networks.get(NETWORK, {}).get("IPAddress", "")

    def execute(self, *words, **options):
        """A command in it; text for its stdin is in options."""
        return docker("exec", *(["-i"] if options.get("stdin") else []), self.id, *words, **options)


def containers(*services):
    """All containers of these services, or of all, without runs of tools."""
    ids = docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}",
                 "--filter", "label=com.docker.compose.oneoff=False").split()
    found = [Container(facts) for facts in json.loads(docker("inspect", *ids))] if ids else []
    return sorted((one for one in found if not services or one.service in services),
                  key=lambda one: (one.service, one.number))


def logs(container):
    """Both streams of what a container has logged."""
    return docker("logs", container.id, streams=True)


def one(service):
    return containers(service)[0]


def sql(statement, service="mysql"):
    """The rows of a statement as lists of texts, by root and through the server's own container."""
    text = one(service).execute(
        "bash", "-c", 'MYSQL_PWD=$(cat /run/secrets/mysql_root) exec mysql -h 127.0.0.1 -u root '
        '--batch --skip-column-names tallybox -e "$0"', statement)
    return [line.split("\t") for line in text.splitlines()]


def number(statement, service="mysql"):
    return int(sql(statement, service)[0][0])


def get(port, path, headers=None):
    """Status and text of a page on 127.0.0.1."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def api(path):
    """The parsed answer of a GET through the balancer."""
    status, text = get(variable("TALLYBOX_API_PORT"), path,
                       {"Authorization": f"Bearer {secret('api_token')}"})
    if status != 200:
        raise AssertionError(f"GET {path}: {status} {text[:500]}")
    return json.loads(text)


def query(expression):
    """[(labels, value)] of an instant query to Prometheus."""
    status, text = get(variable("TALLYBOX_PROMETHEUS_PORT"),
                       "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    if status != 200:
        raise AssertionError(f"{expression}: {status} {text[:500]}")
    return [(one_of["metric"], float(one_of["value"][1]))
            for one_of in json.loads(text)["data"]["result"]]


def up(*words):
    return cluster("up", *words, seconds=1800)


def down():
    return cluster("down", seconds=600)
