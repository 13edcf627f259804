#!/usr/bin/env bash
# Unpacks applications into the folder $1, from Debian's packages and PyPI, without installing any:
# what they need are their SQL files, their programs and their own tools. It looks first and does
# only what is missing. Of what cannot be fetched it says one line each, "NAME: why", on standard
# output, and ends with 0.
set -uo pipefail
export LC_ALL=C
cd "$1" || exit 1

# fetch NAME PACKAGE... unpacks packages into the folder NAME.
fetch() {
  local name=$1 package
  shift
  [ ! -d "$name" ] || return 0
  rm -rf "$name.new" && mkdir -p "$name.new/deb" || exit 1
  for package; do
    if ! (cd "$name.new/deb" && apt-get download "$package") >>install.log 2>&1; then
      echo "$name: package $package cannot be fetched"
      rm -rf "$name.new"
      return 1
    fi
  done
  for package in "$name".new/deb/*.deb; do
    dpkg -x "$package" "$name.new" || exit 1
  done
  rm -r "$name.new/deb"
  mv "$name.new" "$name"
}

# python NAME PACKAGE... makes a virtual environment with packages of PyPI in the folder NAME, which
# cannot be moved.
python() {
  local name=$1
  shift
  [ ! -e "$name/complete" ] || return 0
  rm -rf "$name"
  if ! { python3 -m venv "$name" && "$name/bin/pip" install --quiet "$@"; } >>install.log 2>&1; then
    echo "$name: packages $* cannot be fetched"
    rm -rf "$name"
    return 1
  fi
  touch "$name/complete"
}

fetch roundcube roundcube-core roundcube-mysql roundcube-pgsql
fetch zabbix zabbix-server-mysql zabbix-server-pgsql
fetch bacula bacula-common bacula-director bacula-common-mysql bacula-common-pgsql bacula-director-mysql bacula-director-pgsql
fetch icinga icinga2-ido-mysql icinga2-ido-pgsql
fetch pdns pdns-backend-mysql pdns-backend-pgsql
fetch tt-rss tt-rss
fetch kea kea-admin
fetch freeradius freeradius-config
fetch cacti cacti
python keystone keystone PyMySQL psycopg2-binary
python airflow apache-airflow==2.10.5 PyMySQL psycopg2-binary
python neutron neutron PyMySQL
python wagtail wagtail PyMySQL psycopg2-binary
exit 0
