# SPDX-License-Identifier: MIT
"""Kafka as the tests see it: records through kcat, and the few administrative requests that kcat
does not know, spoken directly (starting Java's tools would take seconds each)."""

import collections
import itertools
import socket
import struct
import subprocess

from waiting import NotThere

Record = collections.namedtuple("Record", "partition offset timestamp key value headers")

# Lengths first, so that keys and values may hold any byte. The end mark is for headers, of which
# kcat does not tell the length.
FORMAT = "%p %o %T %K %S\\n%k%s%h\\x1e\\n"
END_MARK = b"\x1e\n"


def _take(data, at, length):
    """A field of a given length; -1 stands for NULL."""
    if length < 0:
        return None, at
    return data[at:at + length], at + length


def _headers(text):
    """kcat's name=value,name=value; a piece without '=' belongs to the value before it."""
    headers = []
    for piece in text.split(",") if text else []:
        name, mark, value = piece.partition("=")
        if mark:
            headers.append([name, value])
        else:
            headers[-1][1] += "," + piece
    return dict(headers)


def parse_records(data):
    """What kcat prints in FORMAT."""
    records, at = [], 0
    while at < len(data):
        line_end = data.index(b"\n", at)
        partition, offset, timestamp, key_len, value_len = map(int, data[at:line_end].split())
        key, at = _take(data, line_end + 1, key_len)
        value, at = _take(data, at, value_len)
        end = data.index(END_MARK, at)
        headers = _headers(data[at:end].decode())
        records.append(Record(partition, offset, timestamp, key, value, headers))
        at = end + len(END_MARK)
    return records


def read_topic(bootstrap, topic, seconds=120, partition=None):
    """All records of a topic or of one partition, per partition in order of offset."""
    words = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q",
             "-f", FORMAT, "-X", "fetch.wait.max.ms=20", "-X", "check.crcs=true",
             "-X", "fetch.message.max.bytes=4000000"]
    if partition is not None:
        words += ["-p", str(partition)]
    done = subprocess.run(words, capture_output=True, timeout=seconds, check=False)
    if done.returncode != 0:
        text = done.stderr.decode()[-500:]
        kind = NotThere if "Unknown topic or partition" in text else AssertionError
        raise kind(f"kcat cannot read {topic}: {text}")
    return sorted(parse_records(done.stdout), key=lambda record: record[:2])


def produce(bootstrap, topic, value, key=None, headers=None, partition=None):
    """One record through kcat; a value of None is a tombstone. kcat skips empty lines, so an empty
    value needs a key."""
    words = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-X", "linger.ms=0", "-D", "\x1e"]
    data = value or b""
    if key is not None:
        words += ["-K", "\x1f"]
        data = key.encode() + b"\x1f" + data
    if value is None:
        words += ["-Z"]
    if partition is not None:
        words += ["-p", str(partition)]
    for name, text in (headers or {}).items():
        words += ["-H", f"{name}={text}"]
    done = subprocess.run(words, input=data + b"\x1e", capture_output=True, timeout=120,
                          check=False)
    if done.returncode != 0 or b"failed" in done.stderr:
        raise AssertionError(f"kcat cannot write to {topic}: {done.stderr.decode()[-500:]}")


def produce_many(bootstrap, topic, pairs):
    """Many (key, value) texts without headers through one kcat, in order."""
    data = "".join(f"{key}\x1f{value}\x1e" for key, value in pairs).encode()
    done = subprocess.run(["kcat", "-b", bootstrap, "-P", "-t", topic, "-D", "\x1e", "-K", "\x1f",
                           "-X", "topic.partitioner=murmur2_random"],
                          input=data, capture_output=True, timeout=120, check=False)
    if done.returncode != 0 or b"failed" in done.stderr:
        raise AssertionError(f"kcat cannot write to {topic}: {done.stderr.decode()[-500:]}")


def end_offset(bootstrap, topic, partition):
    """The offset behind the newest record, whatever it is."""
    done = subprocess.run(["kcat", "-b", bootstrap, "-Q", "-t", f"{topic}:{partition}:-1"],
                          capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"kcat cannot ask for offsets of {topic}: {done.stderr.decode()}")
    return int(done.stdout.split()[-1])


def partitions(bootstrap, topic):
    """How many partitions a topic has; 0 when there is none of the name."""
    done = subprocess.run(["kcat", "-b", bootstrap, "-L", "-t", topic, "-m", "60"],
                          capture_output=True, text=True, timeout=120, check=True)
    mark = f'topic "{topic}" with '
    line = next((line for line in done.stdout.splitlines() if mark in line), None)
    return int(line.split(mark)[1].split()[0]) if line and "Unknown topic" not in line else 0


_correlations = itertools.count(1)


def _string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the peer hung up")
        data += piece
    return data


def request(bootstrap, api, version, body, seconds=60):
    """One request of Kafka's protocol, header version 1; the answer's body."""
    host, port = bootstrap.rsplit(":", 1)
    correlation = next(_correlations)
    message = struct.pack(">hhi", api, version, correlation) + _string("tests") + body
    with socket.create_connection((host, int(port)), seconds) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        length = struct.unpack(">i", read_exactly(connection, 4))[0]
        answer = read_exactly(connection, length)
    if struct.unpack(">i", answer[:4])[0] != correlation:
        raise ConnectionError("the broker answered something else")
    return answer[4:]


def _check(what, answer, at):
    """The error code behind the name that starts at `at`."""
    length = struct.unpack_from(">h", answer, at)[0]
    code = struct.unpack_from(">h", answer, at + 2 + length)[0]
    if code != 0:
        raise AssertionError(f"{what}: Kafka's error {code}")


def create_topic(bootstrap, topic, count, configs=None):
    """CreateTopics, version 2, replication 1."""
    entries = [_string(name) + _string(str(value)) for name, value in (configs or {}).items()]
    entry = _string(topic) + struct.pack(">ih", count, 1) + _array([]) + _array(entries)
    answer = request(bootstrap, 19, 2, _array([entry]) + struct.pack(">ib", 30000, 0))
    _check(f"cannot create topic {topic}", answer, 8)


def grow_topic(bootstrap, topic, count):
    """CreatePartitions, version 0: from now on the topic has so many."""
    entry = _string(topic) + struct.pack(">ii", count, -1)
    answer = request(bootstrap, 37, 0, _array([entry]) + struct.pack(">ib", 30000, 0))
    _check(f"cannot add partitions to topic {topic}", answer, 8)


def delete_topic(bootstrap, topic):
    """DeleteTopics, version 1."""
    answer = request(bootstrap, 20, 1, _array([_string(topic)]) + struct.pack(">i", 30000))
    _check(f"cannot delete topic {topic}", answer, 8)


def delete_records(bootstrap, topic, partition, before):
    """DeleteRecords, version 0: everything below an offset."""
    entry = _string(topic) + _array([struct.pack(">iq", partition, before)])
    answer = request(bootstrap, 21, 0, _array([entry]) + struct.pack(">i", 30000))
    code = struct.unpack(">h", answer[-2:])[0]
    if code != 0:
        raise AssertionError(f"cannot delete records of {topic}: Kafka's error {code}")


def delete_group(bootstrap, group):
    """DeleteGroups, version 0: forgets the group's committed offsets."""
    answer = request(bootstrap, 42, 0, _array([_string(group)]))
    _check(f"cannot delete group {group}", answer, 8)


def alter_group(bootstrap, group, configs):
    """IncrementalAlterConfigs, version 0: settings of a group of KIP-848."""
    group_type, operation_set = 32, 0
    entries = [_string(name) + struct.pack(">b", operation_set) + _string(str(value))
               for name, value in configs.items()]
    entry = struct.pack(">b", group_type) + _string(group) + _array(entries)
    answer = request(bootstrap, 44, 0, _array([entry]) + struct.pack(">b", 0))
    code = struct.unpack_from(">h", answer, 8)[0]
    if code != 0:
        raise AssertionError(f"cannot alter group {group}: Kafka's error {code}")


def join_group(bootstrap, group, topic, client_id, strategy):
    """A member of the group that reads and drops the records of the topic; the process, which the
    caller kills. It dies with the thread that called this."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "kcat", "-b", bootstrap, "-G", group, "-q",
         "-X", f"client.id={client_id}", "-X", f"partition.assignment.strategy={strategy}",
         "-X", "session.timeout.ms=3000", "-X", "heartbeat.interval.ms=500", topic],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def group_members(bootstrap, group):
    """DescribeGroups, version 0: the state of a group, and its members' ids."""
    answer = request(bootstrap, 15, 0, _array([_string(group)]))
    at = 4 + 2
    texts = []
    for _ in range(4):
        length = struct.unpack_from(">h", answer, at)[0]
        texts.append(answer[at + 2:at + 2 + length].decode())
        at += 2 + length
    count = struct.unpack_from(">i", answer, at)[0]
    at += 4
    members = []
    for _ in range(count):
        length = struct.unpack_from(">h", answer, at)[0]
        members.append(answer[at + 2:at + 2 + length].decode())
        for size, code in (("h", 2), ("h", 2), ("h", 2), ("i", 4), ("i", 4)):
            at += code + struct.unpack_from(f">{size}", answer, at)[0]
    return texts[1], members
