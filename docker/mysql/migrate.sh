#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the tables and spreads votes over the lanes of TALLYBOX_API_LANE_COUNT. Run again it finds
# everything done. The account of migrate has the privileges of lanes, whose own account comes later.
set -eu
tallybox migrate up --wait 300
tallybox lanes set "$TALLYBOX_API_LANE_COUNT"
