# SPDX-License-Identifier: MIT
"""Judges what readers were answered. Pure, as judge.py.

A list of remarks is in its order, has no remark twice, and lacks none that was there when it was
begun; one that was deleted before is not in it. The order by votes and the order of a recommended
list are compared with the votes as of the roll-up that the answer names. All answers that name the
same recommended list have the same remark at the same place. A voter's own vote is the one that was
acknowledged last, or one whose answer was lost."""

import collections

DAY_MS = 86400000
# A page is as old as the caches allow, and as the read took: its process may be frozen, and its
# statement wait, but no longer than this.
SLACK_S = 30
NEVER = float("-inf")


class Reads:
    """Feed it with add() in each ledger's order; judge() adds what it found to a verdict."""

    def __init__(self, remarks, windows, fresh_s, stale_s):
        """remarks: {id: item} of those that were there before the first reader; windows: {roll-up:
        {remark: votes}}; fresh_s, stale_s: how old a page may be."""
        self.items = dict(remarks)
        self.since = dict.fromkeys(remarks, NEVER)  # id: when it was known to be made
        self.windows = windows
        self.fresh_s, self.stale_s = fresh_s, stale_s
        self.doomed, self.gone = {}, {}             # id: when its deletion was asked, was answered
        self.weights = {(1, 0, 0)}
        self.pagings, self.lists = [], []
        self.votes = {}                             # (voter, content): the votings it may have
        self.own = []                               # findings
        self.facts = collections.Counter()

    def add(self, entry):
        what = entry["what"]
        if what == "vote":
            self.add_vote(entry)
        elif what == "remark":
            self.items[entry["id"]] = entry["item"]
            if entry["outcome"] == "made":
                self.since[entry["id"]] = entry["told"]
        elif what == "deletion":
            if entry["outcome"] == "asked":
                self.doomed[entry["id"]] = entry["asked"]
            else:
                self.gone[entry["id"]] = entry["told"]
        elif what == "weights":
            self.weights.add(tuple(entry["weights"]))
        elif what == "paging":
            self.pagings.append(entry)
            for page in entry["pages"]:
                self.check_own(entry["voter"], page["remarks"])
        elif what == "recommended":
            self.lists.append(entry)
            self.check_own(entry["voter"], entry["remarks"])

    def add_vote(self, entry):
        """A vote without an answer may still happen, at any time."""
        pair = entry["voter"], entry["content"]
        may, late = self.votes.get(pair, ({0}, set()))
        if entry["outcome"] == "unknown":
            late = late | {entry["voting"]}
        elif entry["outcome"] == "ok":
            may = {entry["voting"]}
        self.votes[pair] = may | late, late

    def check_own(self, voter, remarks):
        for remark, _, votes, voting, *_ in remarks:
            if votes < 0:
                self.own.append(f"remark {remark} has {votes} votes")
            if voter is None:
                continue
            may, _ = self.votes.get((voter, remark), ({0}, set()))
            self.facts["own votes"] += voting is not None
            # The rows of a deleted remark's votes are removed.
            if voting not in may and not (remark in self.doomed and voting == 0):
                self.own.append(f"voter {voter} was shown the vote {voting} on remark {remark} "
                                f"instead of {sorted(may)}")

    def judge(self, verdict):
        for story in self.own:
            verdict.add("reads", story)
        for paging in self.pagings:
            for story in self.judge_paging(paging):
                verdict.add("reads", f"{paging['sort']} list of item {paging['item']}: {story}: "
                            f"{paging}")
        places = {}
        for entry in self.lists:
            for story in self.judge_list(entry, places):
                verdict.add("reads", f"recommended list of item {entry['item']}: {story}: {entry}")
        verdict.facts.update(self.facts)

    def judge_item(self, item, remarks):
        for remark, of, *_ in remarks:
            if remark not in self.items:
                yield f"remark {remark} was never made"
            elif of != item or self.items[remark] != item:
                yield f"remark {remark} is of item {self.items[remark]}"

    def judge_gone(self, page):
        """Remarks whose deletion was answered before the page can have been read."""
        before = page["asked"] - SLACK_S - (self.stale_s if page["stale"] else self.fresh_s)
        for remark, *_ in page["remarks"]:
            if self.gone.get(remark, page["asked"]) < before:
                yield f"remark {remark} was deleted {page['asked'] - self.gone[remark]:.1f} s before"

    def judge_paging(self, paging):
        pages = paging["pages"]
        self.facts[f"lists by {paging['sort']}, {paging['end']}"] += 1
        self.facts["pages"] += len(pages)
        ids = [remark for page in pages for remark, *_ in page["remarks"]]
        for page in pages:
            yield from self.judge_item(paging["item"], page["remarks"])
            yield from self.judge_gone(page)
            if page["next"] and len(page["remarks"]) != paging["limit"]:
                yield f"a page that is not the last one has {len(page['remarks'])} remarks"
        if len(set(ids)) != len(ids):
            twice = [remark for remark, count in collections.Counter(ids).items() if count > 1]
            yield f"remarks {twice} are in it twice"
        if paging["sort"] == "newest":
            if ids != sorted(ids, reverse=True):
                yield "its ids do not descend"
        else:
            yield from self.judge_votes_order(ids, pages)
        if paging["end"] == "whole":
            yield from self.judge_missing(paging, set(ids))

    def judge_votes_order(self, ids, pages):
        """The cursor names the roll-up."""
        windows = {int(page["next"].split(".")[4]) for page in pages if page["next"]}
        if len(windows) > 1:
            yield f"it is of the roll-ups {sorted(windows)}"
        elif not windows or min(windows) not in self.windows:
            self.facts["lists by votes of an unseen roll-up"] += 1
        else:
            self.facts["lists by votes compared"] += 1
            votes = self.windows[min(windows)]
            keys = [(votes.get(remark, 0), remark) for remark in ids if self.is_known(remark, votes)]
            if keys != sorted(keys, reverse=True):
                yield f"its votes as of roll-up {min(windows)} do not descend: {keys}"

    def is_known(self, remark, votes):
        """One that was made after the roll-up has no votes; one that was removed has unknown ones."""
        return remark in votes or remark not in self.doomed

    def judge_missing(self, paging, ids):
        """All that were there when it was begun, unless they may have been deleted since."""
        first, last = paging["pages"][0], paging["pages"][-1]
        stale = any(page["stale"] for page in paging["pages"])
        begun = first["asked"] - SLACK_S - (self.stale_s if stale else self.fresh_s)
        for remark, item in self.items.items():
            if (item == paging["item"] and remark not in ids
                    and self.since.get(remark, last["told"]) < begun
                    and self.doomed.get(remark, last["told"]) >= last["told"]):
                yield f"remark {remark} is missing"

    def judge_list(self, entry, places):
        """places: what earlier answers said of each list."""
        rows = entry["remarks"]
        self.facts["recommended lists" + (", being built" if entry["building"] else "")] += 1
        if entry["building"]:
            if rows or entry["list"] is not None or entry["window"] is not None:
                yield "it is being built, and has remarks"
            return
        yield from self.judge_item(entry["item"], rows)
        yield from self.judge_gone(entry)
        ranks = [rank for _, _, _, _, rank, *_ in rows]
        end = min(entry["stop"], entry["count"])
        if ranks != sorted(set(ranks)) or any(not entry["start"] < rank <= end for rank in ranks):
            yield f"its ranks {ranks} are not between {entry['start'] + 1} and {end}"
        known = places.setdefault((entry["item"], entry["list"]), {0: entry["count"]})
        for rank, remark in [(0, entry["count"])] + [(row[4], row[0]) for row in rows]:
            if known.setdefault(rank, remark) != remark:
                yield (f"place {rank} of list {entry['list']} has {remark} and had {known[rank]} "
                       "before")
        yield from self.judge_rank_order(entry)

    def judge_rank_order(self, entry):
        """By one of the weights that were set, for all of it."""
        votes = self.windows.get(entry["window"])
        if votes is None:
            self.facts["recommended lists of an unseen roll-up"] += 1
            return
        rows = [(votes.get(row[0], 0), row[5], row[6], row[0]) for row in entry["remarks"]
                if self.is_known(row[0], votes)]
        self.facts["recommended lists compared"] += 1
        for by_votes, by_score, by_age in self.weights:
            keys = [((count * by_votes + score * by_score) * DAY_MS + created * by_age, remark)
                    for count, score, created, remark in rows]
            if keys == sorted(keys, reverse=True):
                return
        yield (f"its remarks are in the order of none of the weights {sorted(self.weights)} at the "
               f"votes as of roll-up {entry['window']}: (votes, score, created, id) {rows}")


def judge(entries, remarks, rolled_up, ages, verdict):
    """entries: of all ledgers, each in its order. rolled_up: (windows, what changed in them).
    ages: (fresh_s, stale_s)."""
    windows, changed = rolled_up
    reads = Reads(remarks, windows, *ages)
    for entry in entries:
        reads.add(entry)
    for window, remark, votes, other in changed:
        verdict.add("reads", f"the votes of remark {remark} as of roll-up {window} were {votes}, "
                    f"and became {other}")
    reads.judge(verdict)
