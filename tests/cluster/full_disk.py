# SPDX-License-Identifier: MIT
"""The disk of a broker is full. For this the broker's data moves onto a small disk in memory, which a
container holds as long as the scenario lasts, and back onto its volume afterwards."""

import cluster
from waiting import NotThere, wait_for

BROKER = "kafka-3"
SMALL_MIB = 160
FULL_S = 180
DATA = "/var/lib/kafka/data"
# So that `./dev cluster down` removes what a killed run leaves.
LABEL = ("--label", f"com.docker.compose.project={cluster.PROJECT}")
SMALL, LARGE = f"{cluster.PROJECT}_small", f"{cluster.PROJECT}_{BROKER}"


class SmallDisk:
    """Of one broker, which is down whenever its data moves."""

    def __init__(self, controls):
        self.controls = controls
        self.holder = None

    def start(self):
        image = self.controls.one(BROKER).facts["Image"]
        self.stop_broker()
        cluster.docker("volume", "create", *LABEL, "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt",
                       f"o=size={SMALL_MIB}m,mode=1777", SMALL)
        self.holder = cluster.docker(
            "run", "--detach", *LABEL, "--user", "0", "--volume", f"{LARGE}:/large", "--volume",
            f"{SMALL}:/small", "--entrypoint", "sleep", image, "infinity").strip()
        self.move("/large", "/small")
        self.controls.disks[BROKER] = f"{SMALL}:{DATA}"
        self.start_broker()

    def end(self):
        """Moves the data back onto the broker's volume."""
        moved = self.controls.disks.pop(BROKER, None)
        self.stop_broker()
        if moved:
            self.execute("rm", "-f", "/small/filler")
            self.move("/small", "/large")
        self.start_broker()
        if self.holder:
            cluster.docker("rm", "--force", self.holder)
        cluster.docker("volume", "rm", "--force", SMALL)
        self.holder = None

    def execute(self, *words, expect=0):
        return cluster.docker("exec", self.holder, *words, expect=expect, streams=True)

    def move(self, old, new):
        """Keeps the holes of sparse files."""
        self.execute("sh", "-c", f"find {new} -mindepth 1 -delete; cp -a --sparse=always {old}/. {new}/")

    def stop_broker(self):
        for container in cluster.containers(BROKER):
            cluster.docker("stop", "-t", 60, container.id)
            cluster.docker("rm", container.id)

    def start_broker(self):
        self.controls.compose("up", "-d", "--no-deps", BROKER)

    def fill(self):
        said = self.execute("dd", "if=/dev/zero", "of=/small/filler", "bs=64k", expect=None)
        if "No space left" not in said:
            raise AssertionError(f"the disk of {BROKER} is not full: {said}")

    def make_room(self):
        self.execute("rm", "/small/filler")


def restarts():
    return sum(container.facts["RestartCount"] for container in cluster.containers(BROKER))


def fill_disk(world):
    """The broker ends, and again whenever the engine starts it; the other two continue. When the disk
    has room again, the broker starts and catches up."""
    disk = SmallDisk(world.controls)
    try:
        disk.start()
        world.wait_brokers()
        world.flows()
        disk.fill()

        def ended():
            if restarts() < 1:
                raise NotThere(f"{BROKER} still runs")
            return True
        wait_for(f"{BROKER} to end on its full disk", ended, FULL_S, 0.5)
        world.flows()
        count = restarts()
        disk.make_room()
        world.wait_brokers()
        world.flows()
    finally:
        disk.end()
    world.wait_brokers()
    return f"{BROKER} ended and was started {count} times, votes flowed meanwhile"
