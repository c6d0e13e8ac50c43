# SPDX-License-Identifier: MIT
"""Partitions are added to the topic, as OPERATIONS (Adding partitions) tells: no key is written to its
new partition before all of its old one is applied, so its order is kept."""

import time

import failover
import load
from waiting import wait_for

MORE = 3


def add_partitions(world):
    controls = world.controls
    due = world.partitions + MORE
    begin = time.monotonic()
    try:
        controls.scale("relay", 0)
        # The publishers of diverted events.
        controls.scale("retry", 0)
        world.load.wait_votes(100)  # which wait in the outbox
        failover.wait_applied(controls)
        world.load.grown = {load.TOPIC: failover.topic_ends(controls)}
        broker = next(iter(controls.brokers().values()))
        controls.kafka_tool(broker, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server",
                            f"{broker.service}:9092", "--alter", "--topic", load.TOPIC,
                            "--partitions", due)
        world.partitions = due
    finally:
        controls.scale("relay", 2)
        controls.scale("retry", 2)
    before = sum(world.load.grown[load.TOPIC].values())

    def published():
        return sum(failover.topic_ends(controls).values()) > before
    wait_for("the first new record", published, 120, 0.2)
    paused = time.monotonic() - begin
    world.wait_shared("partitions", world.shares_of_partitions, world.fair(due, 3))
    world.flows()
    # The new partitions must get votes, too.
    world.watcher.pauses(begin, time.monotonic())
    grown = [number for number, end in failover.topic_ends(controls).items()
             if number >= due - MORE and end > 0]
    if len(grown) != MORE:
        raise AssertionError(f"of the new partitions only {grown} have votes")
    return f"{due - MORE} partitions became {due}, nothing was published for {paused:.1f} s"
