# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Schemathesis and a validator of OpenAPI documents, by pip with its own settings and sources.

SCHEMATHESIS_VERSION=4.32.5
OPENAPI_VALIDATOR_VERSION=0.9.0

schemathesis_make() {
    local out=$1
    step "fetching schemathesis $SCHEMATHESIS_VERSION, about 55 MB (once)"
    quietly /usr/bin/python3 -m pip install -q --no-compile --root-user-action=ignore \
        --target "$out" "schemathesis==$SCHEMATHESIS_VERSION" \
        "openapi-spec-validator==$OPENAPI_VALIDATOR_VERSION" || {
        say "pip cannot fetch schemathesis $SCHEMATHESIS_VERSION: is the network up?"
        return 1
    }
}

# Prints the folder of the packages, for PYTHONPATH.
schemathesis_packages() {
    cache_part "schemathesis-$SCHEMATHESIS_VERSION-1" schemathesis_make
}
