# SPDX-License-Identifier: MIT
"""Voters that write through the balancer, and what is read back for the judge of tests/chaos, who
compares their ledgers with every record of the topic and every row of the tables."""

import http.client
import json
import threading
import time
import uuid

import pymysql

import api_client
import cluster
import judge
import ledger
import wire
import writers
from waiting import NotThere, wait_for

TOPIC = "vote-events"
VOTERS = 8
CONTENTS = 400   # so many that each partition gets some in every tenth of a second
HOT = 0          # of them: a content that one request in ten is about
RATE = 300       # votes a second
ARRAY_MEAN = 7.6
DRAIN_S = 300
READ_S = 300
LANES = ("outbox", "outbox_1", "outbox_2", "outbox_3")


class Contents(writers.Contents):
    """Of one run, all of which stay: those from `first` on. Whatever else is in the cluster has other
    ones, and is not judged."""

    def __init__(self, first):
        super().__init__()
        self.range = range(first, first + CONTENTS)

    def choose(self, rng):
        return self.range[HOT if rng.random() < 0.1 else rng.randrange(CONTENTS)]


class BalancerClient(api_client.ApiClient):
    """A client of the balancer, whose own 502, 503 and 504 say nothing about the request."""

    def __init__(self, port, token):
        super().__init__([port])
        self.token = token

    def ask(self, port, method, path, body=None, seconds=10):
        connection = self.connections.pop(port, None) or http.client.HTTPConnection(
            "127.0.0.1", port, timeout=seconds)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            if connection.sock:
                connection.sock.settimeout(seconds)
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            result = api_client.Answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        self.connections[port] = connection
        return None if result.status in (502, 504) else result


class Voter(writers.HttpVoter):
    """A client with many voters, whose requests may reach any serve."""

    def __init__(self, *args, port, token, contents):
        writers.Writer.__init__(self, *args)
        self.client = BalancerClient(port, token)
        self.contents = contents


def first_free(controls):
    """The lowest number above those of all contents."""
    return 1 + controls.number("SELECT GREATEST((SELECT COALESCE(MAX(content_id), 0) FROM vote_count), "
                              "(SELECT COALESCE(MAX(id), 0) FROM remark))")


class Load:
    """Begins with start(), ends with finish()."""

    def __init__(self, controls, folder, seed, rate=RATE):
        self.controls = controls
        self.ledgers = folder / "ledger"
        self.ledgers.mkdir(parents=True)
        self.stop = threading.Event()
        self.seed, self.pause_s = seed, VOTERS * ARRAY_MEAN / rate
        self.contents = Contents(first_free(controls))
        self.grown = {}  # as judge.Tables.grown
        self.limit = writers.QueueLimit()
        self.voters = [self.make_voter(f"http-{number}") for number in range(VOTERS)]

    def make_voter(self, name):
        """One that is not started; its ledger is among those of the run."""
        return Voter(name, self.seed, self.ledgers, self.stop, self.pause_s,
                     port=int(cluster.variable("TALLYBOX_API_PORT")),
                     token=cluster.secret("api_token"),
                     contents=self.contents)

    def make_remarks(self):
        """The application's rows, onto which totals are rolled up."""
        rows = ", ".join(f"({number}, 1, 'remark {number}', '')"
                         for number in self.contents.range)
        self.controls.sql("INSERT IGNORE INTO remark (id, item_id, header, content) VALUES " + rows)

    def start(self):
        self.make_remarks()
        for voter in self.voters:
            voter.limit = self.limit
            voter.start()

    def pause(self, paused):
        """Whether the voters of the run wait."""
        self.limit.paused = paused

    @property
    def votes(self):
        return sum(voter.votes for voter in self.voters)

    @property
    def unknown(self):
        return sum(voter.unknown for voter in self.voters)

    def wait_votes(self, count, seconds=120):
        """Until so many more votes were acknowledged."""
        due = self.votes + count
        wait_for(f"{count} more acknowledged votes", lambda: self.votes >= due, seconds, 0.05)

    def errors(self):
        return [f"{voter.name}: {voter.error!r}" for voter in self.voters if voter.error]

    def finish(self):
        """Ends the voters; what they met that must not be."""
        self.stop.set()
        for voter in self.voters:
            voter.join(60)
        return self.errors() + [f"{voter.name} hangs" for voter in self.voters if voter.is_alive()]


def count_outbox_rows(controls):
    """Rows of all lanes."""
    return controls.number("SELECT " + " + ".join(f"(SELECT COUNT(*) FROM {lane})"
                                                 for lane in LANES))


def wait_drained(controls, say):
    """Until every vote is in the log."""
    def look():
        try:
            left = {lane: controls.number(f"SELECT COUNT(*) FROM {lane}") for lane in LANES}
            left["tasks"] = controls.number("SELECT COUNT(*) FROM retry_task")
            left["votes not in the log"] = (
                controls.number("SELECT COALESCE(SUM(version), 0) FROM vote_state")
                - controls.number("SELECT COUNT(*) FROM vote_document")
                - controls.number("SELECT COUNT(*) FROM dead_record"))
        except (pymysql.MySQLError, OSError) as reason:
            raise NotThere(f"the database does not answer: {reason}") from reason
        left = {what: count for what, count in left.items() if count}
        if left:
            raise NotThere(f"under way: {left}")
        return True

    began = time.monotonic()
    wait_for("all votes in the log", look, DRAIN_S, 0.5)
    say(f"drained in {time.monotonic() - began:.1f} s")


def read_tables(controls, contents):
    """What the judge compares, of these contents."""
    ours = f"BETWEEN {contents[0]} AND {contents[-1]}"
    rows = [judge.Row(content, seq, voter, voting, votes, str(uuid.UUID(bytes=event)))
            for content, seq, voter, voting, votes, event in controls.sql(
                "SELECT content_id, content_seq, voter_id, voting, votes, event_id "
                f"FROM vote_document WHERE content_id {ours}")]
    return judge.Tables(
        rows=rows,
        states={(voter, content): (voting, version) for voter, content, voting, version in
                controls.sql("SELECT voter_id, content_id, voting, version FROM vote_state "
                            f"WHERE content_id {ours}")},
        counts=dict(controls.sql(f"SELECT content_id, votes FROM vote_count WHERE content_id {ours}")),
        tallies={content: (votes, seq) for content, votes, seq in controls.sql(
            f"SELECT content_id, votes, seq FROM vote_tally WHERE content_id {ours}")},
        remarks={content: (votes, seq) for content, votes, seq in
                 controls.sql(f"SELECT id, votes, votes_seq FROM remark WHERE id {ours}")},
        transactions=set(), counters={},
        left={lane: [row[0] for row in controls.sql(f"SELECT id FROM {lane} ORDER BY seq")]
              for lane in LANES},
        dead=controls.sql("SELECT topic, partition_id, record_offset, reason FROM dead_record"),
        tasks=controls.sql("SELECT id, ordering_key, state FROM retry_task"), ended={})


def read_records(controls, contents, grown):
    """Every record of these contents in the topic, a partition at a time; those that were written
    before partitions were added come first."""
    ends, new = grown.get(TOPIC), []
    for partition in sorted(controls.topic(TOPIC)):
        for record in wire.read_topic(controls.bootstrap, TOPIC, READ_S, partition):
            if int(record.key) not in contents:
                continue
            vote = json.loads(record.value)
            made = judge.Record(TOPIC, partition, record.offset, record.key.decode(),
                                record.headers["id"], vote["voterId"], vote["voting"],
                                vote["votes"], None)
            if ends is not None and record.offset >= ends.get(partition, 0):
                new.append(made)
            else:
                yield made
    yield from new


def give_verdict(controls, load, say):
    """The judge's word on a cluster that is at rest."""
    contents = load.contents.range
    say("rolling up, and verify")
    controls.one("rollup").execute("tallybox", "rollup", "--once", seconds=180)
    checks = json.loads(controls.tool("verify", "--json", expect=None))["checks"]
    say("reading everything back")
    verdict = judge.judge(ledger.read(load.ledgers),
                          read_records(controls, contents, load.grown),
                          read_tables(controls, contents)._replace(grown=load.grown))
    for check in checks:
        if check["violations"]:
            verdict.add("totals", f"verify: {check['name']}: {check['violations']} violations of "
                        f"'{check['holds']}': {check['offenders'][:3]}")
    return verdict
