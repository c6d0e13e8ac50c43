# SPDX-License-Identifier: MIT
"""The judge: compares what the writers were told with what the topics and the tables hold. Pure,
so that tests can damage the data in every way and check that the judge finds the damage.

A vote's whole way is compared: ledger, topic (first occurrence of each event id), log, totals.
"lost" and "twice" count events, "reordered" counts places where a key's order is broken, "reads"
counts wrong answers to readers (judge_reads.py), and "totals" counts all other contradictions."""

import collections
import itertools

KEPT = 50  # findings of one kind that are described; all are counted

# A record of a topic, with what is needed of it: votes and voting only of votes, n only of steps; a
# tombstone has none of them. lane: of the relay that sent it, None: of no lane.
Record = collections.namedtuple("Record", "topic partition offset key event voter voting votes n "
                                "lane", defaults=(None,))
# A row of vote_document.
Row = collections.namedtuple("Row", "content seq voter voting votes event")

# states {(voter, content): (voting, version)}, counts {content: votes},
# tallies {content: (votes, seq)}, remarks {content: (votes, seq)},
# transactions: ids that committed, counters {key: n}, left {lane: [event ids]},
# dead [(topic, partition, offset, reason)], tasks [(id, ordering key, state)] that are left,
# ended {event: (outcome, attempts, rows of retry_attempt)}, closed: contents whose tallies have
# ended, lasts: contents with rows in vote_last, grown {topic: {partition: its end}} when partitions
# were added to the topic, for which the records before come first, exact: lanes that publish each
# event once
Tables = collections.namedtuple(
    "Tables", "rows states counts tallies remarks transactions counters left dead tasks ended "
    "closed lasts grown exact",
    defaults=((), {}, frozenset(), frozenset(), {}, frozenset()))


class Verdict:
    """What was found."""

    KINDS = ("lost", "twice", "reordered", "totals", "reads")

    def __init__(self):
        self.counts = dict.fromkeys(self.KINDS, 0)
        self.stories = {kind: [] for kind in self.KINDS}
        self.lost_ids = set()
        self.facts = collections.Counter()

    def add(self, kind, story):
        self.counts[kind] += 1
        if len(self.stories[kind]) < KEPT:
            self.stories[kind].append(story)

    def lose(self, event, story):
        """An event is lost once, however many places miss it."""
        if event not in self.lost_ids:
            self.lost_ids.add(event)
            self.add("lost", f"{event}: {story}")

    @property
    def good(self):
        return not any(self.counts.values())

    def line(self):
        counts = self.counts
        return (f"lost={counts['lost']} twice={counts['twice']} reordered={counts['reordered']} "
                f"totals={'wrong' if counts['totals'] else 'ok'} "
                f"reads={'wrong' if counts['reads'] else 'ok'}")

    def text(self):
        lines = []
        for kind, stories in self.stories.items():
            lines += [f"{kind}: {story}" for story in stories]
            if self.counts[kind] > len(stories):
                lines.append(f"{kind}: and {self.counts[kind] - len(stories)} more")
        return "\n".join(lines)


class Account:
    """The ledger, sorted by what it says, once the unknown transactions are resolved."""

    def __init__(self, entries, transactions):
        self.transactions = transactions
        self.pairs = collections.defaultdict(list)  # (voter, content): its votes in their order
        self.asked = collections.Counter()          # (voter, content, voting): unanswered
        self.votes = {}                             # event: (voter, content, voting, votes)
        self.steps = {}                             # event: (key, n)
        self.calls = {}                             # event: (handler, key, n)
        self.asked_calls = {}                       # the same, maybe without an answer
        self.poison = set()                         # events of tasks that cannot be done
        self.refused = set()                        # of steps that are not published unchanged
        self.decisions = {}                         # event: what the operator did with it
        self.effects = {}                           # event: (handler, key, n), the first one
        self.wrong_effects = []                     # that say something else than the first
        self.undone = set()                         # events whose transaction did not commit
        self.doomed = {}                            # remark: when its deletion was asked first
        self.gone = {}                              # remark: when its deletion was answered
        self.accepted = {}                          # content: when the last vote was asked
        self.closed = {}                            # content: when a vote was refused first
        self.facts = collections.Counter()
        self.violations = []
        for entry in entries:
            add = {"vote": self.add_vote, "transaction": self.add_transaction,
                   "effect": self.add_effect, "call": self.add_call, "decision": self.add_decision,
                   "deletion": self.add_deletion}.get(entry["what"])
            if add:  # judge_reads.py has the others
                add(entry)

    def add_vote(self, entry):
        pair = entry["voter"], entry["content"]
        self.facts[f"votes {entry['outcome']}"] += 1
        if entry["outcome"] == "unknown":
            self.asked[(*pair, entry["voting"])] += 1
        elif entry["outcome"] == "deleted":
            told = self.closed.get(entry["content"], entry["told"])
            self.closed[entry["content"]] = min(told, entry["told"])
        elif entry["outcome"] == "ok":
            asked = entry.get("asked", 0)
            self.accepted[entry["content"]] = max(self.accepted.get(entry["content"], 0), asked)
            self.pairs[pair].append((entry["voting"], entry["changed"], entry["event"]))
            if entry["changed"]:
                self.votes[entry["event"]] = (*pair, entry["voting"], entry["votes"])

    def add_deletion(self, entry):
        if entry["outcome"] == "asked":
            self.doomed.setdefault(entry["id"], entry["asked"])
        else:
            self.gone[entry["id"]] = entry["told"]

    def add_call(self, entry):
        if entry["outcome"] == "tried":
            self.facts["tasks tried first"] += 1
            self.facts["tasks tried first, done"] += entry["done"]
            return
        calls = self.calls if entry["outcome"] == "accepted" else self.asked_calls
        calls[entry["event"]] = entry["handler"], entry["key"], entry["n"]

    def add_effect(self, entry):
        """An effect may happen again; it is the first that an order is judged by."""
        effect = entry["handler"], entry["key"], entry["n"]
        self.facts[f"effects of {entry['handler']}"] += 1
        first = self.effects.setdefault(entry["event"], effect)
        if first is not effect:
            self.facts[f"effects of {entry['handler']}, repeated"] += 1
            if first != effect:
                self.wrong_effects.append((entry["event"], effect))

    def add_decision(self, entry):
        self.facts[f"refused rows, to {entry['action']}"] += 1
        self.decisions[entry["event"]] = entry["action"]

    def add_transaction(self, entry):
        outcome, name = entry["outcome"], entry["id"]
        happened = name in self.transactions
        self.facts[f"transactions {outcome}"] += 1
        if outcome == "unknown":
            self.facts["transactions unknown, committed"] += happened
        elif happened != (outcome == "committed"):
            self.violations.append(f"transaction {name} was answered '{outcome}', but the database "
                                   f"{'holds' if happened else 'does not hold'} it")
        if not (happened or outcome == "committed"):
            self.undone.update(event for *_, event in entry["votes"] + entry["steps"])
            self.undone.update(entry.get("poison", ()))
            self.undone.update(event for *_, event in entry.get("calls", ()))
            return
        self.poison.update(entry.get("poison", ()))
        self.refused.update(entry.get("refused", ()))
        for handler, key, n, event in entry.get("calls", ()):
            self.calls[event] = handler, key, n
        if outcome == "committed":
            self.facts["votes ok"] += len(entry["votes"])
            self.facts["steps"] += len(entry["steps"])
        for voter, content, voting, votes, event in entry["votes"]:
            self.pairs[voter, content].append((voting, True, event))
            self.votes[event] = voter, content, voting, votes
        for key, n, event in entry["steps"]:
            self.steps[event] = key, n


def _place(record):
    return f"{record.topic}[{record.partition}]@{record.offset}"


class Topics:
    """What Kafka holds: the first occurrence of each event, by key in order of offset."""

    def __init__(self, records, dead_places, tables, verdict):
        self.dead = set()                            # events of dead records
        self.first = {}                              # event: record
        self.by_key = collections.defaultdict(list)  # (topic, key): first occurrences
        self.tombstones = {}                         # (topic, key): how many were before the first
        partitions = {}
        for record in records:
            verdict.facts["records"] += 1
            if (record.topic, record.partition, record.offset) in dead_places:
                self.dead.add(record.event)
            key = record.topic, record.key
            since = (*key, self._is_new(record, tables.grown))
            if partitions.setdefault(since, record.partition) != record.partition:
                verdict.add("reordered", f"key {record.key} of {record.topic} is in partitions "
                            f"{partitions[since]} and {record.partition}")
            if record.voting is None and record.n is None:
                self.tombstones.setdefault(key, len(self.by_key[key]))
                continue
            verdict.facts["records of exactly-once lanes"] += record.lane in tables.exact
            if record.event in self.first:
                verdict.facts["duplicates in Kafka"] += 1
                if record.lane in tables.exact:
                    verdict.add("twice", f"{record.event} of lane {record.lane} was committed at "
                                f"{_place(self.first[record.event])} and {_place(record)}")
                continue
            self.first[record.event] = record
            self.by_key[key].append(record)

    @staticmethod
    def _is_new(record, grown):
        """Whether partitions had been added before it was written."""
        ends = grown.get(record.topic)
        return ends is not None and record.offset >= ends.get(record.partition, 0)


def _is_skipped(event, account, tables):
    """Whether the operator gave up a refused row, and the history has it."""
    return (event in account.refused and account.decisions.get(event) == "skip"
            and tables.ended.get(event, ("",))[0] == "cancelled")


def _judge_refused(account, topics, tables, verdict):
    """A refused row is corrected and published (its order is judged with that of its key), or it is
    in the history and not in its topic."""
    for event in account.refused:
        action = account.decisions.get(event)
        if event in topics.first and (event in tables.ended or action != "correct"):
            verdict.add("totals", f"{event} was refused and is in its topic, though nobody "
                        f"corrected it: decision {action}, history {tables.ended.get(event)}")
    for event, action in account.decisions.items():
        if event not in account.refused:
            verdict.add("totals", f"the operator had to {action} {event}, which "
                        + ("was rolled back" if event in account.undone else
                           "could be published"))
    verdict.facts["refused rows"] = len(account.refused)


def _judge_effects(account, verdict):
    """Every task of http, exec and clients that committed had its effect, none other had one, and the first
    effects of a key are in the order of its tasks."""
    for event, (handler, key, n) in account.calls.items():
        if event not in account.effects:
            verdict.lose(event, f"task {n} of key {key} was committed and {handler} saw no effect")
    for event, effect in account.wrong_effects:
        verdict.add("totals", f"the effect {effect} of {event} is not its first one, "
                    f"{account.effects[event]}")
    last = {}
    for event, effect in account.effects.items():
        handler, key, n = effect
        if effect not in (account.calls.get(event), account.asked_calls.get(event)):
            verdict.add("totals", f"{handler} saw effect {n} of key {key} by {event}, which "
                        + ("was rolled back" if event in account.undone else
                           "can never be done" if event in account.poison else
                           f"is the task {account.calls.get(event)}"))
            continue
        if n <= last.get((handler, key), 0):
            verdict.add("reordered", f"{handler} saw effect {n} of key {key} after effect "
                        f"{last[handler, key]}")
        last[handler, key] = n
    verdict.facts["tasks of http, exec and clients"] = len(account.calls)


def _judge_deletions(account, topics, tables, removed, verdict):
    """A deleted remark is removed with its votes, its tombstone is the last of its key, and no vote
    counted that was asked for after the answer."""
    tombstones = {int(key): (topic, key) for topic, key in topics.tombstones}
    for remark, told in account.gone.items():
        if remark not in removed:
            verdict.add("totals", f"remark {remark} was deleted, and its row is left")
        if account.accepted.get(remark, told) > told:
            verdict.add("totals", f"a vote on remark {remark} was accepted that was asked for "
                        f"{account.accepted[remark] - told:.3f} s after the deletion was answered")
    for remark in removed:
        if remark not in tombstones:
            verdict.lose(f"tombstone of {remark}", "the remark was deleted, and the topic has none")
        left = {"vote_state": any(content == remark for _, content in tables.states),
                "vote_count": remark in tables.counts, "vote_last": remark in tables.lasts}
        for table in (name for name, there in left.items() if there):
            verdict.add("totals", f"remark {remark} was removed, and {table} has rows of it")
        if remark not in tables.closed:
            verdict.add("totals", f"remark {remark} was removed, and its tally has not ended")
    for remark, key in tombstones.items():
        after = topics.by_key[key][topics.tombstones[key]:]
        if after:
            verdict.add("reordered", f"remark {remark}: {len(after)} votes come after its "
                        f"tombstone, first {_place(after[0])}")
    for content in (set(tombstones) | set(account.closed) | set(tables.closed)) - set(account.doomed):
        verdict.add("totals", f"content {content} is closed, and no client deleted it")
    for content, told in account.closed.items():
        if told < account.doomed.get(content, told):
            verdict.add("totals", f"a vote on content {content} was refused before its deletion")
    verdict.facts["removed remarks"] = len(removed)


def _judge_steps(account, topics, tables, verdict):
    """Events of another application: every committed one is there, none other, in order."""
    for event, (key, n) in account.steps.items():
        if event not in topics.first and not _is_skipped(event, account, tables):
            left = [lane for lane, ids in tables.left.items() if event in ids]
            verdict.lose(event, f"step {n} of key {key} was committed and is not in its topic"
                         + (f", but still in {left[0]}" if left else ""))
    for (topic, key), records in topics.by_key.items():
        steps = [record for record in records if record.n is not None]
        for record in steps:
            if record.event not in account.steps:
                verdict.add("totals", f"{_place(record)} holds event {record.event}, which was "
                            + ("rolled back" if record.event in account.undone else
                               "written by nobody"))
            elif (record.key, record.n) != account.steps[record.event]:
                verdict.add("totals", f"{_place(record)} holds step {record.n} of key "
                            f"{record.key} in place of step {account.steps[record.event]}")
        for earlier, later in zip(steps, steps[1:]):
            if later.n <= earlier.n:
                verdict.add("reordered", f"{topic} key {key}: step {later.n} ({_place(later)}) "
                            f"comes after step {earlier.n} ({_place(earlier)})")
    numbers = collections.defaultdict(set)
    for *_, key, n in itertools.chain(account.steps.values(), account.calls.values()):
        numbers[key].add(n)
    for key, count in tables.counters.items():
        if numbers[key] != set(range(1, count + 1)):
            verdict.add("totals", f"key {key}: its counter says {count}, the ledger has "
                        f"{len(numbers[key])} steps up to {max(numbers[key], default=0)}")


def _judge_tasks(account, tables, verdict):
    """The retry queue is empty; what could not be done is in the history with its attempts, and
    nothing else is, but for tasks of clients that were done within the hour of keep_done."""
    for number, key, state in tables.tasks:
        verdict.add("totals", f"task {number} of key {key} is left, in state {state}")
    for event in account.poison:
        if event not in tables.ended:
            verdict.lose(event, "a task that cannot be done was committed and is not in the "
                         "history")
    for event, (outcome, attempts, rows) in tables.ended.items():
        if outcome == "done" and event not in account.poison and event not in account.undone:
            continue
        if event not in account.poison and not _is_skipped(event, account, tables):
            verdict.add("totals", f"task {event} is in the history as {outcome}, "
                        + ("and was rolled back" if event in account.undone else
                           "and could be done"))
        elif outcome == "done":
            verdict.add("totals", f"task {event}, which can never be done, is in the history as done")
        elif attempts == 0 or attempts != rows:
            verdict.add("totals", f"task {event} is in the history with {attempts} attempts, and "
                        f"{rows} are kept")
    verdict.facts["tasks that could not be done"] = len(account.poison)
    verdict.facts["tasks of kafka"] = sum(key.startswith(("task-", "free-"))
                                      for key, _ in account.steps.values())


def _judge_log(account, topics, rows_of_content, verdict):
    """The log against the topic and the answers: who is missing, who is there twice."""
    logged = {}
    for rows in rows_of_content.values():
        for row in rows:
            if row.event in logged:
                verdict.add("twice", f"event {row.event} has two rows in vote_document: content "
                            f"{row.content} content_seq {logged[row.event].seq} and {row.seq}")
            else:
                logged[row.event] = row
    dead = topics.dead
    for event, (voter, content, voting, votes) in account.votes.items():
        what = f"vote {voting} of voter {voter} on content {content} was acknowledged"
        if event not in topics.first:
            verdict.lose(event, f"{what} and is not in the topic")
        if event in logged:
            row = logged[event]
            if (row.voter, row.content, row.voting, row.votes) != (voter, content, voting, votes):
                verdict.add("totals", f"{what} with {votes} votes; its row says {row}")
        elif event not in dead:
            verdict.lose(event, f"{what} and is not in vote_document")
    for event, record in topics.first.items():
        if record.n is None and event not in logged and event not in dead:
            verdict.lose(event, f"{_place(record)} is not in vote_document")
    for event, row in logged.items():
        if event not in topics.first:
            verdict.add("totals", f"{row} is in vote_document and not in the topic")
        if event in account.undone:
            verdict.add("totals", f"{row} was rolled back by its writer")
    return logged


def _judge_order(account, topics, rows_of_content, verdict):
    """Per content: the order of commits (each vote's payload carries the total at its commit) is
    that of the topic's first occurrences, and that is the log's."""
    gappy = {str(account.votes[event][1]) for event in verdict.lost_ids if event in account.votes}
    for (topic, key), records in topics.by_key.items():
        if not records or records[0].n is not None:
            continue
        total = 0
        for n, record in enumerate(records):
            if record.votes != total + (1 if record.voting == 1 else -1) and key not in gappy:
                verdict.add("reordered", f"{topic} content {key}: {_place(record)} does not "
                            f"follow what is before it: {records[max(0, n - 3):n + 3]}")
            total = record.votes
        rows = dict.fromkeys(row.event for row in rows_of_content.get(int(key), ()))
        common = {record.event for record in records}
        first = [record.event for record in records if record.event in rows]
        logged = [event for event in rows if event in common]
        if first != logged:
            at = next(n for n, pair in enumerate(zip(first, logged)) if pair[0] != pair[1])
            verdict.add("reordered", f"content {key}: vote_document has {logged[at]} where the "
                        f"topic has {first[at]}, place {at} of {len(first)}")


def _next_changes(told, where, end):
    """For each answer the place of the next later change that the log has."""
    untils = []
    for _, changed, event in reversed(told):
        untils.append(end)
        if changed and event in where:
            end = where[event]
    return reversed(untils)


def _judge_pair(pair, told, rows, account, logged, verdict):
    """One voter's votes on one content: rows are the log's of this pair in their order. Nothing
    is known of those that no answer named, except how many were asked."""
    name = f"voter {pair[0]} content {pair[1]}"
    where = {row.event: n for n, row in enumerate(rows)}
    asked = collections.Counter()
    answered = {event for _, changed, event in told if changed}
    for row in rows:
        if row.event not in answered:
            asked[row.voting] += 1
    for voting, count in asked.items():
        unanswered = account.asked[(*pair, voting)]
        if count > unanswered:
            verdict.add("twice" if unanswered else "totals", f"{name}: the log has {count} rows of "
                        f"voting {voting} that no answer named, {unanswered} were asked without "
                        f"an answer: {rows}")
    last = -1
    untils = _next_changes(told, where, len(rows))
    for (voting, changed, event), until in zip(told, untils):
        at = where.get(event)
        if changed and at is not None:
            if at < last:
                verdict.add("reordered", f"{name}: {event} was answered after the one that the "
                            f"log has behind it")
            last = max(last, at)
        elif not changed:
            if event is not None and event not in logged:
                verdict.lose(event, f"{name}: an answer named it as the last change")
            held = {row.voting for row in rows[max(last, 0):until]} | ({0} if last < 0 else set())
            if voting not in held:
                verdict.add("lost", f"{name}: voting {voting} was answered as being so already, "
                            f"but never was: {rows}")


def _judge_states(account, rows_of_content, tables, removed, logged, verdict):
    """Per voter and content: the log alternates, ends where the state is, and fits the answers. Of
    a removed remark there is no state."""
    pairs = collections.defaultdict(list)
    for content, rows in rows_of_content.items():
        seen = set()
        for row in rows:
            if row.event not in seen:
                pairs[row.voter, content].append(row)
            seen.add(row.event)
    for pair in set(pairs) | set(tables.states) | set(account.pairs):
        rows, told = pairs.get(pair, []), account.pairs.get(pair, [])
        voting, version = tables.states.get(pair, (0, 0))
        if [row.voting for row in rows] != [(n + 1) % 2 for n in range(len(rows))]:
            verdict.add("totals", f"voter {pair[0]} content {pair[1]}: the log does not alternate "
                        f"between 1 and 0: {rows}")
        if pair[1] not in removed and (
                (rows[-1].voting if rows else 0) != voting or len(rows) != version):
            verdict.add("totals", f"voter {pair[0]} content {pair[1]}: vote_state says voting "
                        f"{voting} version {version}, the log has {len(rows)} rows: {rows[-3:]}")
        _judge_pair(pair, told, rows, account, logged, verdict)


def _judge_totals(rows_of_content, tables, removed, verdict):
    """Per content: content_seq without holes, votes row by row, and the four totals; of a removed
    remark, the two that are left."""
    contents = set(rows_of_content) | set(tables.counts) | set(tables.tallies)
    for content in contents:
        rows = rows_of_content.get(content, [])
        total = 0
        for n, row in enumerate(rows, 1):
            total += 1 if row.voting == 1 else -1
            if (row.seq, row.votes) != (n, total):
                verdict.add("totals", f"content {content}: content_seq {n} with {total} votes is "
                            f"due, the log has {row}")
                break
        last = (rows[-1].votes, rows[-1].seq) if rows else (0, 0)
        found = {"vote_count": (tables.counts.get(content, 0), last[1]),
                 "vote_tally": tables.tallies.get(content, (0, 0)),
                 "remark": tables.remarks.get(content, last)}
        if content in removed:
            del found["vote_count"], found["remark"]
        for table, value in found.items():
            if value != last:
                verdict.add("totals", f"content {content}: {table} says {value[0]} votes (seq "
                            f"{value[1]}), the newest row of the log {last[0]} (seq {last[1]})")
    states = collections.Counter()
    for (_, content), (voting, _) in tables.states.items():
        states[content] += voting
    for content in contents - removed:
        if states[content] != tables.counts.get(content, 0):
            verdict.add("totals", f"content {content}: {states[content]} voters vote for it, "
                        f"vote_count says {tables.counts.get(content, 0)}")


def judge(entries, records, tables):
    """The verdict on one finished run; entries and records are read once, in order."""
    verdict = Verdict()
    account = Account(entries, tables.transactions)
    verdict.facts.update(account.facts)
    for violation in account.violations:
        verdict.add("totals", violation)
    topics = Topics(records, {place[:3] for place in tables.dead}, tables, verdict)
    for *place, reason in tables.dead:
        verdict.add("totals", f"dead_record holds {place}, which was a good vote: {reason}")
    for lane, ids in tables.left.items():
        if ids:
            verdict.add("totals", f"{len(ids)} rows are left in {lane}: {ids[:5]}")
    rows_of_content = collections.defaultdict(list)
    for row in tables.rows:
        rows_of_content[row.content].append(row)
    for rows in rows_of_content.values():
        rows.sort(key=lambda row: row.seq)
    removed = set(account.doomed) - set(tables.remarks)
    _judge_deletions(account, topics, tables, removed, verdict)
    _judge_steps(account, topics, tables, verdict)
    _judge_refused(account, topics, tables, verdict)
    _judge_tasks(account, tables, verdict)
    _judge_effects(account, verdict)
    logged = _judge_log(account, topics, rows_of_content, verdict)
    _judge_order(account, topics, rows_of_content, verdict)
    _judge_states(account, rows_of_content, tables, removed, logged, verdict)
    _judge_totals(rows_of_content, tables, removed, verdict)
    verdict.facts["votes in the log"] = len(logged)
    return verdict
