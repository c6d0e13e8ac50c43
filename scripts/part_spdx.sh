# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The validator of SPDX documents, by pip with its own settings and sources.

SPDX_TOOLS_VERSION=0.8.5

spdx_make() {
    local out=$1
    step "fetching spdx-tools $SPDX_TOOLS_VERSION (once)"
    quietly /usr/bin/python3 -m pip install -q --no-compile --root-user-action=ignore \
        --target "$out" "spdx-tools==$SPDX_TOOLS_VERSION" || {
        say "pip cannot fetch spdx-tools $SPDX_TOOLS_VERSION: is the network up?"
        return 1
    }
}

# Prints the folder of the packages, for PYTHONPATH.
spdx_packages() { cache_part "spdx-tools-$SPDX_TOOLS_VERSION-1" spdx_make; }
