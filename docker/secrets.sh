#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# secrets.sh DIR [IMAGE]: makes the secrets of compose.yaml in DIR, those that are missing: passwords,
# tokens, and the certificate of the database. Each file can be read by the one account that needs it
# in its container. An account other than root cannot give files away: then a container of IMAGE
# (default: tallybox:local) does it.
set -Eeuo pipefail

ROLES=(migrate serve relay retry retry_admin consume rollup housekeep status verify dead lanes rank)
DIR=${1:?usage: docker/secrets.sh DIR [IMAGE]}
IMAGE=${2:-${TALLYBOX_IMAGE:-tallybox:local}}

# secret_make NAME: a random one, in a file of its own. MySQL takes 32 characters for a replica.
secret_make() {
    [[ -s $DIR/$1 ]] || openssl rand -hex 16 >"$DIR/$1.new"
    [[ ! -f $DIR/$1.new ]] || mv "$DIR/$1.new" "$DIR/$1"
}

# certificate_sign FOLDER: the files ca, cert and key in it. The authority signs this one alone.
certificate_sign() {
    local -a key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    cd "$1"
    openssl req -x509 "${key[@]}" -days 3650 -subj '/CN=tallybox cluster' -keyout ca.key -out ca
    openssl req "${key[@]}" -subj '/CN=mysql' -keyout key -out request
    echo 'subjectAltName = DNS:mysql, DNS:mysql-replica' >names
    openssl x509 -req -in request -CA ca -CAkey ca.key -set_serial "0x$(openssl rand -hex 8)" \
        -days 3650 -extfile names -out cert
}

certificate_make() {
    local work file
    [[ ! -s $DIR/mysql_ca ]] || return 0
    work=$(mktemp -d)
    (certificate_sign "$work") >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        rm -rf "$work"
        exit 1
    }
    for file in key cert ca; do
        cp "$work/$file" "$DIR/mysql_$file"
    done
    rm -rf "$work"
}

# Files of tokens name the scopes of each token.
tokens_make() {
    secret_make admin_token
    secret_make api_token
    echo "$(<"$DIR/admin_token") operate" >"$DIR/admin_tokens"
    echo "$(<"$DIR/api_token") votes read" >"$DIR/api_tokens"
}

# FOLDER: account and mode of each file. 10001 is tallybox, 999 mysql, 99 haproxy, 65534 prometheus,
# 472 grafana. Two services read mysql_root and admin_token: one by the account, one by the group.
owners_set() {
    local role
    cat <<'END'
cd "$1"
give() { chown "$1" "$3" && chmod "$2" "$3"; }
END
    for role in "${ROLES[@]}"; do
        echo "give 10001:10001 0400 mysql_$role"
    done
    cat <<'END'
give 999:10001 0440 mysql_root
give 999:999 0400 mysql_replication
give 999:999 0400 mysql_key
give 0:0 0444 mysql_cert
give 0:0 0444 mysql_ca
give 10001:10001 0400 admin_tokens
give 99:65534 0440 admin_token
give 10001:10001 0400 api_tokens
give 472:0 0400 grafana_password
END
}

# Files that were given away before cannot be changed by an account other than root.
[[ ! -f $DIR/complete ]] || exit 0
umask 077
mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)
secret_make mysql_root
secret_make mysql_replication
secret_make grafana_password
for role in "${ROLES[@]}"; do
    secret_make "mysql_$role"
done
tokens_make
certificate_make
if [[ $(id -u) == 0 ]]; then
    owners_set | sh -seu -- "$DIR"
else
    owners_set | docker run --rm --interactive --user 0 --network none --volume "$DIR:/secrets" \
        --entrypoint /bin/sh "$IMAGE" -seu -- /secrets
fi
touch "$DIR/complete"
