# SPDX-License-Identifier: MIT
"""The judge of readers must find every wrong answer: right ones are judged good, and each way in
which a page or a list can be wrong is named."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import judge  # noqa: E402
import judge_reads  # noqa: E402
import readers  # noqa: E402

ITEM = 1
FRESH_S, STALE_S = 1, 20
LATE = 100  # seconds after the first requests


class Answers:
    """Right answers, told by hand: remarks 1 to 6 of one item, of which 6 is made later, 2 is
    deleted at the end, and 1 and 3 have votes."""

    def __init__(self):
        self.remarks = {remark: ITEM for remark in range(1, 6)}
        self.windows = {7: {1: 2, 2: 0, 3: 5, 4: 0, 5: 0}, 8: {1: 9, 2: 0, 3: 5, 4: 0, 5: 0, 6: 0}}
        self.changed = []
        self.entries = [{"what": "remark", "outcome": "asked", "id": 6, "item": ITEM},
                        {"what": "remark", "outcome": "made", "id": 6, "item": ITEM, "told": 5},
                        {"what": "weights", "weights": [1, 2, 0]}]
        self.vote("ok", 3, 1)
        self.newest = self.paging("newest", [[5, 4], [3, 2], [1]], 1)
        self.votes = self.paging("votes", [[3, 1], [5, 4], [2]], 2, window=7)
        self.one = self.recommended([3, 1, 5, 4, 2], 2, window=7)
        self.doom(2, asked=LATE - 60, told=LATE - 59)
        self.late = self.paging("newest", [[6, 5], [4, 3], [1]], LATE)
        self.two = self.recommended([1, 3, 6, 5, 4], LATE, window=8)

    def vote(self, outcome, content, voting, voter=9):
        self.entries.append({"what": "vote", "outcome": outcome, "voter": voter,
                             "content": content, "voting": voting})

    def doom(self, remark, asked, told=None):
        self.entries.append({"what": "deletion", "outcome": "asked", "id": remark, "asked": asked})
        if told is not None:
            self.entries.append({"what": "deletion", "outcome": "deleted", "id": remark,
                                 "told": told})

    def paging(self, sort, pages, asked, window=None, end="whole"):
        told = [{"asked": asked, "told": asked + 0.1, "stale": False, "live": True,
                 "next": f"{'n1' if sort == 'newest' else 'v1'}.{ITEM}.{ids[-1]}.0.{window}",
                 "remarks": [[remark, ITEM, 5, int(remark == 3)] for remark in ids]}
                for ids in pages]
        if end == "whole":
            told[-1]["next"] = None
        entry = {"what": "paging", "item": ITEM, "sort": sort, "limit": len(pages[0]), "voter": 9,
                 "end": end, "pages": told}
        self.entries.append(entry)
        return entry

    def recommended(self, ids, asked, window, name="a", **more):
        """All have the same score, and a higher id was made later."""
        entry = {"what": "recommended", "item": ITEM, "start": 0, "stop": 100, "voter": 9,
                 "asked": asked, "told": asked + 0.1, "list": f"{name}{window}", "window": window,
                 "count": len(ids), "stale": False, "building": False,
                 "remarks": [[remark, ITEM, 5, int(remark == 3), rank, 3, 1000 + remark]
                             for rank, remark in enumerate(ids, 1)], **more}
        self.entries.append(entry)
        return entry

    def verdict(self):
        verdict = judge.Verdict()
        judge_reads.judge(self.entries, self.remarks, (self.windows, self.changed),
                          (FRESH_S, STALE_S), verdict)
        return verdict


class JudgeReads(unittest.TestCase):
    """Each test makes one answer wrong, or makes one that is not."""

    any_database = True

    def setUp(self):
        self.told = Answers()

    def assert_found(self, *words):
        """One finding, with these words. The answer itself stands behind it."""
        verdict = self.told.verdict()
        self.assertEqual(verdict.counts["reads"], 1, verdict.text())
        self.assertFalse(verdict.good)
        for word in words:
            self.assertIn(word, verdict.stories["reads"][0].split(": {")[0])

    def assert_good(self):
        self.assertEqual(self.told.verdict().text(), "")

    def test_right_answers_are_good(self):
        verdict = self.told.verdict()
        self.assertEqual(verdict.text(), "")
        self.assertTrue(verdict.good)
        self.assertIn("reads=ok", verdict.line())
        self.assertEqual(verdict.facts["lists by votes compared"], 1)
        self.assertEqual(verdict.facts["recommended lists compared"], 2)
        self.assertEqual(verdict.facts["lists by newest, whole"], 2)
        self.assertEqual(verdict.facts["own votes"], 25)

    def test_newest_in_another_order_is_found(self):
        rows = self.told.newest["pages"][0]["remarks"]
        rows.reverse()
        self.assert_found("do not descend")

    def test_newest_in_another_order_across_pages_is_found(self):
        pages = self.told.newest["pages"]
        pages[0]["remarks"], pages[1]["remarks"] = pages[1]["remarks"], pages[0]["remarks"]
        self.assert_found("do not descend")

    def test_a_remark_on_two_pages_is_found(self):
        self.told.votes["pages"][2]["remarks"].insert(0, [4, ITEM, 5, 0])
        self.assert_found("[4] are in it twice")

    def test_a_remark_that_is_skipped_is_found(self):
        del self.told.newest["pages"][2]["remarks"][0]
        self.assert_found("remark 1 is missing")

    def test_a_made_remark_that_is_skipped_is_found(self):
        """Not until each cache must have it."""
        self.told.late["pages"][0]["remarks"] = [[5, ITEM, 5, 0], [4, ITEM, 5, 0]]
        self.told.late["pages"][1]["remarks"] = [[3, ITEM, 5, 1], [1, ITEM, 5, 0]]
        del self.told.late["pages"][2]
        self.assert_found("remark 6 is missing")
        self.told.entries[1]["told"] = LATE - 20
        self.assert_good()

    def test_a_list_that_ends_early_need_not_have_all(self):
        self.told.paging("newest", [[5, 4]], 3, end="short")
        self.told.paging("votes", [[3, 1]], 3, window=7, end="expired")
        self.assert_good()

    def test_a_remark_that_is_being_deleted_may_be_missing(self):
        self.told.doom(5, asked=LATE - 1)
        self.told.paging("newest", [[6, 4], [3, 1]], LATE)
        self.assert_good()

    def test_a_remark_that_was_deleted_long_before_is_found(self):
        self.told.late["pages"][1]["remarks"][1] = [2, ITEM, 5, 0]
        self.told.late["pages"][1]["remarks"][0] = [3, ITEM, 5, 1]
        self.told.late["pages"][0]["remarks"] = [[5, ITEM, 5, 0], [4, ITEM, 5, 0]]
        self.told.entries[1]["told"] = LATE
        self.assert_found("remark 2 was deleted")
        self.told.late["pages"][1]["stale"] = True
        self.told.late["pages"][1]["asked"] = LATE - 15
        self.assert_good()

    def test_a_deleted_remark_in_a_recommended_list_is_found(self):
        self.told.recommended([3, 1, 5, 4, 2], LATE, window=7)
        self.assert_found("remark 2 was deleted")

    def test_a_remark_of_another_item_is_found(self):
        self.told.remarks[4] = 2
        self.told.entries = [self.told.paging("newest", [[4]], 1)]
        self.told.remarks = {4: 2}
        self.assert_found("remark 4 is of item 2")

    def test_a_remark_that_nobody_made_is_found(self):
        self.told.newest["pages"][0]["remarks"].insert(0, [77, ITEM, 0, 0])
        self.told.newest["limit"] = 3
        self.told.newest["pages"][1]["remarks"].append([1, ITEM, 5, 0])
        del self.told.newest["pages"][2]
        self.assert_found("remark 77 was never made")

    def test_a_short_page_in_the_middle_is_found(self):
        pages = self.told.newest["pages"]
        pages[2]["remarks"] = [[2, ITEM, 5, 0], [1, ITEM, 5, 0]]
        del pages[1]["remarks"][1]
        self.assert_found("has 1 remarks")

    def test_votes_in_another_order_are_found(self):
        for page, ids in zip(self.told.votes["pages"], ([1, 3], [5, 4], [2])):
            page["remarks"] = [[remark, ITEM, 5, int(remark == 3)] for remark in ids]
        self.assert_found("as of roll-up 7 do not descend")
        self.told.votes["pages"][0]["next"] = self.told.votes["pages"][1]["next"] = "v1.1.1.0.8"
        self.assert_good()

    def test_a_list_by_votes_of_two_roll_ups_is_found(self):
        self.told.votes["pages"][1]["next"] = "v1.1.4.0.8"
        self.assert_found("of the roll-ups [7, 8]")

    def test_a_list_by_votes_of_an_unseen_roll_up_is_not_compared(self):
        del self.told.windows[7]
        verdict = self.told.verdict()
        self.assertEqual(verdict.text(), "")
        self.assertEqual(verdict.facts["lists by votes of an unseen roll-up"], 1)

    def test_negative_votes_are_found(self):
        self.told.newest["pages"][0]["remarks"][0][2] = -1
        self.assert_found("remark 5 has -1 votes")

    def test_another_vote_than_ones_own_is_found(self):
        for wrong, content in ((0, 3), (1, 4), (None, 4)):
            with self.subTest(wrong=wrong, content=content):
                self.told = Answers()
                page = self.told.newest["pages"][int(content == 3)]
                next(row for row in page["remarks"] if row[0] == content)[3] = wrong
                self.assert_found(f"vote {wrong} on remark {content}")

    def test_a_vote_that_is_taken_back_must_be_shown(self):
        self.told.vote("ok", 3, 0)
        self.told.paging("newest", [[6, 5], [4, 3], [1]], LATE)
        self.assert_found("vote 1 on remark 3")

    def test_a_vote_without_an_answer_may_be_shown_or_not(self):
        self.told.vote("unknown", 3, 0)
        for shown in (0, 1):
            page = self.told.paging("newest", [[6, 5], [4, 3], [1]], LATE)
            page["pages"][1]["remarks"][1][3] = shown
        self.assert_good()

    def test_a_refused_vote_is_not_shown(self):
        self.told.vote("refused", 3, 0)
        page = self.told.paging("newest", [[6, 5], [4, 3], [1]], LATE)
        page["pages"][1]["remarks"][1][3] = 0
        self.assert_found("vote 0 on remark 3 instead of [1]")

    def test_ranks_that_do_not_ascend_are_found(self):
        rows = self.told.one["remarks"]
        rows[1][4], rows[2][4] = rows[2][4], rows[1][4]
        self.assert_found("its ranks")

    def test_ranks_beyond_what_was_asked_for_are_found(self):
        self.told.one["stop"] = 4
        self.assert_found("are not between 1 and 4")

    def test_a_left_out_remark_keeps_the_ranks_of_the_others(self):
        del self.told.one["remarks"][1]
        self.assert_good()

    def test_two_answers_that_differ_under_one_name_are_found(self):
        other = self.told.recommended([3, 1, 5, 4, 2], 3, window=7)
        self.assert_good()
        other["count"] = 6
        self.assert_found("place 0 of list a7")

    def test_a_list_of_two_builds_is_found(self):
        """Its first places are those of the votes of roll-up 8, the rest those of 7."""
        self.told.windows[7] = {1: 2, 2: 1, 3: 5, 4: 3, 5: 0}
        self.told.windows[8] = {1: 9, 2: 8, 3: 5, 4: 0, 5: 7, 6: 0}
        self.told.entries.remove(self.told.one)
        self.told.entries.remove(self.told.two)
        self.told.entries.remove(self.told.votes)
        good = self.told.recommended([1, 2, 5, 3, 4], 2, window=8)
        self.assert_good()
        self.told.entries.remove(good)
        self.told.recommended([1, 2, 3, 4, 5], 2, window=8)
        self.assert_found("none of the weights")

    def test_a_list_in_the_order_of_each_weight_is_good(self):
        self.told.entries.append({"what": "weights", "weights": [0, 0, 1]})
        self.told.recommended([5, 4, 3, 2, 1], 2, window=7, name="by age ")
        self.assert_good()

    def test_places_of_two_lists_under_one_name_are_found(self):
        self.told.entries.append({"what": "weights", "weights": [0, 0, 1]})
        self.told.recommended([5, 4, 3, 2, 1], 2, window=7)["remarks"] = [[5, ITEM, 5, 0, 1, 3, 1005]]
        self.assert_found("place 1 of list a7 has 5 and had 3")

    def test_a_list_that_is_built_has_no_remarks(self):
        entry = self.told.recommended([], 2, window=None, building=True, list=None)
        self.assert_good()
        entry["window"] = 7
        self.assert_found("being built")

    def test_votes_of_a_finished_roll_up_never_change(self):
        record = readers.RolledUp(None)
        record.note([(7, 1, 2), (7, 3, 5)])
        record.note([(7, 1, 2), (8, 1, 9)])
        self.assertEqual((record.windows, record.changed), ({7: {1: 2, 3: 5}, 8: {1: 9}}, []))
        record.note([(7, 1, 9)])
        self.told.changed = record.changed
        self.assert_found("votes of remark 1 as of roll-up 7 were 2, and became 9")


if __name__ == "__main__":
    unittest.main()
