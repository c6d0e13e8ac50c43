# SPDX-License-Identifier: MIT
"""A version with one more migration replaces every container, one by one, under load, as
docs/upgrade.md tells the operator to do it. The image of that version is in CLUSTER_NEXT_IMAGE."""

import concurrent.futures
import os
import time

import cluster
from waiting import NotThere, wait_for

ROLES = ("relay", "retry", "consume", "rollup", "housekeep", "serve")
MIGRATES = 10
STEP_S = 180


def next_image():
    image = os.environ.get("CLUSTER_NEXT_IMAGE")
    if not image:
        raise AssertionError("CLUSTER_NEXT_IMAGE names no image")
    return image


def migrate_at_once(controls, image):
    """Ten operators migrate at the same time; each of them succeeds, and one has done it."""
    before = controls.number("SELECT MAX(version) FROM schema_history")
    controls.images["migrate"] = image
    words = ["run", "--rm", "-T", "--no-deps", "migrate"]
    with concurrent.futures.ThreadPoolExecutor(MIGRATES) as pool:
        for done in [pool.submit(controls.compose, *words) for _ in range(MIGRATES)]:
            done.result()
    after = controls.number("SELECT MAX(version) FROM schema_history")
    if after != before + 1:
        raise AssertionError(f"the schema went from version {before} to {after}")
    return before, after


def replace_one(controls, container, image):
    """Ends a container and has compose make its successor, of the new version."""
    count = len(cluster.containers(container.service))
    controls.images[container.service] = image
    cluster.docker("stop", "-t", 60, container.id)
    cluster.docker("rm", container.id)
    controls.compose("up", "-d", "--no-deps", "--no-recreate", "--scale",
                    f"{container.service}={count}", container.service)
    controls.wait_healthy(container.service, seconds=STEP_S)


def wait_all(controls, image):
    """Until every container of ours runs the new version."""
    due = cluster.docker("image", "inspect", "--format", "{{.Id}}", image).strip()

    def look():
        old = [each.name for each in cluster.containers(*ROLES) if each.facts["Image"] != due]
        if old:
            raise NotThere(f"of the old version: {old}")
        return True
    wait_for("the new version everywhere", look, STEP_S, 1)


def replace_all(world):
    controls, image = world.controls, next_image()
    begin = time.monotonic()
    before, after = migrate_at_once(controls, image)
    world.flows()  # roles of the old version on the new schema
    replaced = 0
    for role in ROLES:
        for container in cluster.containers(role):
            replace_one(controls, container, image)
            world.flows(100)
            replaced += 1
    wait_all(controls, image)
    return (f"schema {before} to {after} by {MIGRATES} at once, {replaced} containers replaced in "
            f"{time.monotonic() - begin:.0f} s")
