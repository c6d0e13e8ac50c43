# SPDX-License-Identifier: MIT
"""The plan of a run's faults: what happens when, to whom, for how long. Pure: the same seed and
length give the same plan on every machine; the effect on the processes also depends on their timing."""

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
REST_S = 0.5          # between two faults of one target

# at: seconds from the start; seconds: how long it lasts (a process stays dead so long).
Fault = collections.namedtuple("Fault", "at kind target seconds")

ROLE_KINDS = {"kill": 30, "restart": 8, "stop": 16}
LINK_KINDS = {"cut": 14, "lose": 10, "stall": 9, "slow": 6}
SERVER_KINDS = {"kill": 7, "stop": 3}


def survivors(seed):
    """One of each kind of role that is frozen and cut off like all others, but killed only when
    all are: what its memory does in a long life can be judged."""
    rng = random.Random(f"survivors {seed}")
    return {rng.choice(group) for group in (RELAYS, CONSUMERS, SERVES, ROLLUPS, HOUSEKEEPS,
                                               RETRIES)}


def settings(seed):
    """What operators set one way or the other, so that seeds meet different installations."""
    rng = random.Random(f"settings {seed}")
    chosen = {
        "kafka.consumer.partition.assignment.strategy":
            rng.choice(("range", "roundrobin", "cooperative-sticky")),
        "consumer.appliers": rng.choice((1, 1, 3)),
        "consumer.batch_rows_max": rng.choice((20, 200, 5000)),
        "api.committers": rng.choice((1, 2, 4)),
        "api.batch_votes_max": rng.choice((10, 1000)),
        "relay.read_rows_max": rng.choice((50, 5000)),
        "relay.delete_rows_max": rng.choice((100, 40000)),
        "retry.claim": rng.choice(("skip_locked", "skip_locked", "compare_and_set")),
        "retry.threads": rng.choice((1, 4, 8)),
        "retry.batch_rows_max": rng.choice((2, 100)),
        "api.page_cache_ms": rng.choice((0, 1000, 4000)),
        "api.totals_max_age_ms": rng.choice((0, 0, 1000)),
        "lane.outbox.source": rng.choice(("table", "binlog")),
        "lane.outbox.keep_ms": rng.choice((0, 1000)),
    }
    exact = rng.choice(("no", "yes")) if chosen["lane.outbox.source"] == "binlog" else "no"
    return {**chosen, "lane.outbox.exactly_once": exact}


def _choose(rng, weights):
    return rng.choices(list(weights), list(weights.values()))[0]


def _length(rng, kind):
    if kind in ("kill", "restart"):
        return rng.choice((0.2, 0.5, 1.0, rng.uniform(1, 7)))
    if kind == "cut":
        return rng.choice((0, 0, rng.uniform(0.2, 4)))
    if kind == "slow":
        return rng.uniform(2, 8)
    return rng.uniform(*(SHORT_S if rng.random() < 0.6 else LONG_S))


def _server_faults(rng, seconds):
    for server in SERVERS:
        at = rng.uniform(*SERVER_FIRST_S)
        kind = "kill"
        while at < seconds - 1:
            length = rng.uniform(0.2, 3) if kind == "kill" else rng.uniform(1, 8)
            yield Fault(at, kind, server, length)
            at += length + rng.uniform(*SERVER_GAP_S)
            kind = _choose(rng, SERVER_KINDS)


def _reloads(rng, seconds):
    """New settings and a SIGHUP for every process."""
    at = rng.uniform(*RELOAD_GAP_S)
    while at < seconds - 1:
        yield Fault(at, "reload", SETTINGS, 0)
        at += rng.uniform(*RELOAD_GAP_S)


def _blackout(rng, seconds):
    """Every relay, consumer and retry dies at once, in the first third of a long enough run."""
    if seconds < 45:
        return
    at = rng.uniform(FIRST_AT_S + 10, seconds / 3)
    for role in RELAYS + CONSUMERS + RETRIES:
        yield Fault(at, "kill", role, rng.uniform(0.5, 4))


def _role_or_link(rng, at, busy, spared):
    """A fault for a target that has none meanwhile, or None when there is no such target."""
    kind = _choose(rng, {**ROLE_KINDS, **LINK_KINDS})
    length = _length(rng, kind)
    names = LINKS if kind in LINK_KINDS else ROLES
    targets = [name for name in names
               if (kind not in ("kill", "restart") or name not in spared)
               and all(until <= at or at + length + REST_S <= since
                       for since, until in busy[name])]
    return Fault(at, kind, rng.choice(targets), length) if targets else None


def make(seed, seconds):
    """The faults of a run in order of time."""
    rng = random.Random(f"plan {seed} {seconds}")
    faults = [*_server_faults(rng, seconds), *_blackout(rng, seconds),
                *_reloads(rng, seconds)]
    busy = collections.defaultdict(list)  # target: [(from, until)]
    for fault in faults:
        busy[fault.target].append((fault.at, fault.at + fault.seconds + REST_S))
    spared = survivors(seed)
    at = FIRST_AT_S
    while at < seconds - 1:
        fault = _role_or_link(rng, at, busy, spared)
        if fault:
            faults.append(fault)
            busy[fault.target].append((at, at + fault.seconds + REST_S))
        at += max(0.1, rng.expovariate(1 / MEAN_GAP_S))
    return sorted(faults)


def text(seed, faults):
    """For the run's folder and for --plan: the settings, then a line per fault."""
    lines = [f"# {key} = {value}" for key, value in settings(seed).items()]
    lines += [f"{t.at:8.2f} {t.kind:8} {t.target:18} {t.seconds:.2f}" for t in faults]
    return "\n".join(lines) + "\n"
