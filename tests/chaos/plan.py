# SPDX-License-Identifier: MIT
"""The plan of a run's troubles: what happens when, to whom, for how long. Pure: the same seed and
length give the same plan on every machine; what processes make of it is their own timing."""

import collections
import random

RELAYS = tuple(f"relay-{n}" for n in (1, 2, 3))
CONSUMERS = tuple(f"consume-{n}" for n in (1, 2, 3))
SERVES = tuple(f"serve-{n}" for n in (1, 2))
ROLLUPS = tuple(f"rollup-{n}" for n in (1, 2))
HOUSEKEEPS = tuple(f"housekeep-{n}" for n in (1, 2))
RETRIES = tuple(f"retry-{n}" for n in (1, 2, 3))
ROLES = RELAYS + CONSUMERS + SERVES + ROLLUPS + HOUSEKEEPS + RETRIES
SERVERS = ("database", "kafka")
SETTINGS = "settings"  # the one target of a reload

# Each role has ways of its own to the servers, so that one is cut off while others are not.
LINKS = (tuple(f"mysql:{role}" for role in ROLES) + ("mysql:writers",)
         + tuple(f"kafka:{role}" for role in RELAYS + CONSUMERS + RETRIES)
         + tuple(f"http:{role}" for role in SERVES))

# Frozen or cut off for less than a lease or session, and for longer than both.
LEASE_MS = 4000
SESSION_MS = 4000
SHORT_S = (0.3, 2.0)
LONG_S = (6.0, 9.0)

FIRST_AT_S = 3.0      # some votes first
SERVER_GAP_S = (22, 45)
SERVER_FIRST_S = (7, 22)
RELOAD_GAP_S = (6, 14)
MEAN_GAP_S = 1.1
REST_S = 0.5          # between two troubles of one target

# at: seconds from the start; seconds: how long it lasts (a process stays dead so long).
Trouble = collections.namedtuple("Trouble", "at kind target seconds")

ROLE_KINDS = {"kill": 30, "restart": 8, "stop": 16}
LINK_KINDS = {"cut": 14, "lose": 10, "stall": 9, "slow": 6}
SERVER_KINDS = {"kill": 7, "stop": 3}


def survivors(seed):
    """One of each kind of role that is frozen and cut off like all others, but killed only when
    all are: what its memory does in a long life can be judged."""
    dice = random.Random(f"survivors {seed}")
    return {dice.choice(group) for group in (RELAYS, CONSUMERS, SERVES, ROLLUPS, HOUSEKEEPS,
                                               RETRIES)}


def settings(seed):
    """What operators set one way or the other, so that seeds meet different installations."""
    dice = random.Random(f"settings {seed}")
    return {
        "kafka.consumer.partition.assignment.strategy":
            dice.choice(("range", "roundrobin", "cooperative-sticky")),
        "consumer.appliers": dice.choice((1, 1, 3)),
        "consumer.batch_rows_max": dice.choice((20, 200, 5000)),
        "api.committers": dice.choice((1, 2, 4)),
        "api.batch_votes_max": dice.choice((10, 1000)),
        "relay.read_rows_max": dice.choice((50, 5000)),
        "relay.delete_rows_max": dice.choice((100, 40000)),
        "retry.claim": dice.choice(("skip_locked", "skip_locked", "compare_and_set")),
        "retry.threads": dice.choice((1, 4, 8)),
        "retry.batch_rows_max": dice.choice((2, 100)),
    }


def _choose(dice, weights):
    return dice.choices(list(weights), list(weights.values()))[0]


def _length(dice, kind):
    if kind in ("kill", "restart"):
        return dice.choice((0.2, 0.5, 1.0, dice.uniform(1, 7)))
    if kind == "cut":
        return dice.choice((0, 0, dice.uniform(0.2, 4)))
    if kind == "slow":
        return dice.uniform(2, 8)
    return dice.uniform(*(SHORT_S if dice.random() < 0.6 else LONG_S))


def _server_troubles(dice, seconds):
    for server in SERVERS:
        at = dice.uniform(*SERVER_FIRST_S)
        kind = "kill"
        while at < seconds - 1:
            length = dice.uniform(0.2, 3) if kind == "kill" else dice.uniform(1, 8)
            yield Trouble(at, kind, server, length)
            at += length + dice.uniform(*SERVER_GAP_S)
            kind = _choose(dice, SERVER_KINDS)


def _reloads(dice, seconds):
    """New settings and a SIGHUP for everybody."""
    at = dice.uniform(*RELOAD_GAP_S)
    while at < seconds - 1:
        yield Trouble(at, "reload", SETTINGS, 0)
        at += dice.uniform(*RELOAD_GAP_S)


def _blackout(dice, seconds):
    """Every relay, consumer and retry dies at once, in the first third of a long enough run."""
    if seconds < 45:
        return
    at = dice.uniform(FIRST_AT_S + 10, seconds / 3)
    for role in RELAYS + CONSUMERS + RETRIES:
        yield Trouble(at, "kill", role, dice.uniform(0.5, 4))


def _role_or_link(dice, at, busy, spared):
    """A trouble for a target that has none meanwhile, or None when there is no such target."""
    kind = _choose(dice, {**ROLE_KINDS, **LINK_KINDS})
    length = _length(dice, kind)
    names = LINKS if kind in LINK_KINDS else ROLES
    targets = [name for name in names
               if (kind not in ("kill", "restart") or name not in spared)
               and all(until <= at or at + length + REST_S <= since
                       for since, until in busy[name])]
    return Trouble(at, kind, dice.choice(targets), length) if targets else None


def make(seed, seconds):
    """The troubles of a run in order of time."""
    dice = random.Random(f"plan {seed} {seconds}")
    troubles = [*_server_troubles(dice, seconds), *_blackout(dice, seconds),
                *_reloads(dice, seconds)]
    busy = collections.defaultdict(list)  # target: [(from, until)]
    for trouble in troubles:
        busy[trouble.target].append((trouble.at, trouble.at + trouble.seconds + REST_S))
    spared = survivors(seed)
    at = FIRST_AT_S
    while at < seconds - 1:
        trouble = _role_or_link(dice, at, busy, spared)
        if trouble:
            troubles.append(trouble)
            busy[trouble.target].append((at, at + trouble.seconds + REST_S))
        at += max(0.1, dice.expovariate(1 / MEAN_GAP_S))
    return sorted(troubles)


def text(seed, troubles):
    """For the run's folder and for --plan: the settings, then a line per trouble."""
    lines = [f"# {key} = {value}" for key, value in settings(seed).items()]
    lines += [f"{t.at:8.2f} {t.kind:8} {t.target:18} {t.seconds:.2f}" for t in troubles]
    return "\n".join(lines) + "\n"
