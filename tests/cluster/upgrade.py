# SPDX-License-Identifier: MIT
"""A version with one more migration replaces every container, one by one, under load, as
docs/upgrade.md tells the operator to do it. The image of that version is in CLUSTER_NEXT_IMAGE."""

import concurrent.futures
import os
import time

from containers import Failed, call
from waiting import NotThere, wait_for

ROLES = ("relay", "retry", "consume", "rollup", "housekeep", "serve")
MIGRATES = 10
STEP_S = 180


def next_image():
    image = os.environ.get("CLUSTER_NEXT_IMAGE")
    if not image:
        raise Failed("CLUSTER_NEXT_IMAGE names no image")
    return image


def migrate_at_once(cluster, image):
    """Ten operators migrate at the same time; each of them succeeds, and one has done it."""
    before = cluster.number("SELECT MAX(version) FROM schema_history")
    cluster.changes_of_image["migrate"] = image
    words = ["run", "--rm", "-T", "--no-deps", "migrate"]
    with concurrent.futures.ThreadPoolExecutor(MIGRATES) as pool:
        for done in [pool.submit(cluster.compose, *words) for _ in range(MIGRATES)]:
            done.result()
    after = cluster.number("SELECT MAX(version) FROM schema_history")
    if after != before + 1:
        raise AssertionError(f"the schema went from version {before} to {after}")
    return before, after


def replace_one(cluster, container, image):
    """Ends a container and has compose make its successor, of the new version."""
    count = len(cluster.containers(container.service))
    cluster.changes_of_image[container.service] = image
    cluster.stop(container)
    call(["docker", "rm", container.id])
    cluster.compose("up", "-d", "--no-deps", "--no-recreate", "--scale",
                    f"{container.service}={count}", container.service)
    cluster.wait_healthy(container.service, seconds=STEP_S)


def wait_all(cluster, image):
    """Until every container of ours runs the new version."""
    due = call(["docker", "image", "inspect", "--format", "{{.Id}}", image]).strip()

    def look():
        old = [f"{each.service}-{each.number}" for role in ROLES
               for each in cluster.containers(role)
               if call(["docker", "inspect", "--format", "{{.Image}}", each.id]).strip() != due]
        if old:
            raise NotThere(f"of the old version: {old}")
        return True
    wait_for("the new version everywhere", look, STEP_S, 1)


def replace_all(world):
    cluster, image = world.cluster, next_image()
    begin = time.monotonic()
    before, after = migrate_at_once(cluster, image)
    world.flows()  # roles of the old version on the new schema
    replaced = 0
    for role in ROLES:
        for container in cluster.containers(role):
            replace_one(cluster, container, image)
            world.flows(100)
            replaced += 1
    wait_all(cluster, image)
    return (f"schema {before} to {after} by {MIGRATES} at once, {replaced} containers replaced in "
            f"{time.monotonic() - begin:.0f} s")
