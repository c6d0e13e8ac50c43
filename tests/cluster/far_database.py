# SPDX-License-Identifier: MIT
"""A proxy of tests/chaos between consumers and the database, at the address that this machine has in
the network of the cluster."""

import json
import pathlib
import subprocess
import sys

import pymysql

import cluster
from ports import free_port

PROXY = pathlib.Path(__file__).resolve().parents[1] / "chaos" / "proxy.py"
DELAY_S = 0.01  # for each of the two directions
LONG_S = 86400


class FarDatabase:
    """The proxy, and the consumers whose connections to the database route() sends through it."""

    def __init__(self, controls):
        self.controls = controls
        self.process = self.port = self.gateway = None

    def start(self):
        network = json.loads(cluster.docker("network", "inspect", cluster.NETWORK))[0]
        self.port = free_port()
        self.gateway = network["IPAM"]["Config"][0]["Gateway"]
        links = {"database": [f"{self.gateway}:{self.port}", f"{self.address}:3306"]}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-B", str(PROXY), json.dumps(links)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "listening\n":
            raise RuntimeError("the proxy did not start")

    def order(self, what, seconds=LONG_S):
        """What the proxy does: see there."""
        order = {"link": "database", "do": what, "seconds": seconds, "delay": DELAY_S}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    @property
    def address(self):
        return self.controls.one(self.controls.primary).address

    def route(self, *consumers):
        """From now on their connections to the database go through the proxy."""
        for container in consumers:
            self.change_rule(container, "-I")
        self.renew_connections()

    def route_back(self, *consumers):
        """From now on their connections go to the database again."""
        for container in consumers:
            self.change_rule(container, "-D")
        self.renew_connections()

    def change_rule(self, container, how):
        self.controls.iptables(
            container, "-t", "nat", how, "OUTPUT", "-p", "tcp", "-d", self.address,
            "--dport", "3306", "-j", "DNAT", "--to-destination", f"{self.gateway}:{self.port}")

    def renew_connections(self):
        """Ends all connections of consumers, which then connect by the present rules."""
        for number, in self.controls.sql("SELECT id FROM information_schema.processlist "
                                        "WHERE user = 'tallybox_consume'"):
            try:
                self.controls.sql(f"KILL {number}")
            except pymysql.MySQLError:
                continue  # it has ended

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait(20)
            self.process.stdin.close()
            self.process.stdout.close()
