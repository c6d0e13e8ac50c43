# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# kubectl, which makes objects of docker/kubernetes, from Debian sid's package, and a validator that
# has the schemas of Kubernetes, by pip with its own settings and sources.

KUBERNETES_VALIDATE_VERSION=1.37.0

kubernetes_kubectl() {
    local out=$1 work=$1/.work
    mkdir "$work"
    debian_sid "$work/apt" deb || return 1
    (cd "$work" && quietly debian_apt "$work/apt" download kubectl) || {
        say "cannot fetch Debian's package kubectl: is the network up?"
        return 1
    }
    dpkg -x "$work"/kubectl_*.deb "$work/root" && mv "$work/root/usr/bin/kubectl" "$out" || {
        say "Debian's package kubectl is not laid out as expected"
        return 1
    }
    rm -rf "$work"
}

# The looser one of the two schemas of each version is not used.
kubernetes_validator() {
    quietly /usr/bin/python3 -m pip install -q --no-compile --root-user-action=ignore \
        --target "$1/packages" "kubernetes-validate==$KUBERNETES_VALIDATE_VERSION" || {
        say "pip cannot fetch kubernetes-validate $KUBERNETES_VALIDATE_VERSION: is the network up?"
        return 1
    }
    rm -rf "$1"/packages/kubernetes_validate/kubernetes-json-schema/*-local
}

kubernetes_make() {
    step "fetching kubectl and the schemas of Kubernetes, about 40 MB (once)"
    kubernetes_kubectl "$1" && kubernetes_validator "$1"
}

# Prints the folder of both.
kubernetes_tools() {
    cache_part "kubernetes-$KUBERNETES_VALIDATE_VERSION-1" kubernetes_make
}
