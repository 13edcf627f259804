#!/usr/bin/env bash
# Installs the tools that bench compares Tidemark with, from Debian: pgcopydb, pgloader, mydumper (with myloader), Java and
# Maven for Debezium, fio, iperf3, sockperf and pgBackRest, and the servers and clients of PostgreSQL 15 and MariaDB. It looks first and installs only what is missing; nothing is
# started. Only root can install.
set -euo pipefail

packages="postgresql-15 postgresql-client-15 mariadb-server mariadb-client pgcopydb pgloader mydumper openjdk-17-jdk-headless maven fio iperf3 sockperf pgbackrest"

say() { printf 'bench-deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v dpkg-query >/dev/null || die "this is not Debian: install by hand: $packages"
missing=
for p in $packages; do
  # ${db:Status-Status} is empty for a package that dpkg never heard of.
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || die "not root, and missing: run as root: apt-get install --no-install-recommends$missing"
say "installing$missing"

# policy-rc.d keeps packages from starting services, createcluster.conf from making a database cluster. Both are left
# as they were found.
policy=/usr/sbin/policy-rc.d conf=/etc/postgresql-common/createcluster.d/tidemark-bench.conf
undo=("$conf")
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  undo+=("$policy")
fi
trap 'rm -f "${undo[@]}"' EXIT
mkdir -p "${conf%/*}"
echo 'create_main_cluster = false' >"$conf"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
apt-get install -q -y --no-install-recommends $missing >&2 || {
  apt-get update -q >&2
  apt-get install -q -y --no-install-recommends $missing >&2
}
