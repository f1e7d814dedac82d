#!/bin/sh
set -eu
apt-get update -q
apt-get install -y -q --no-install-recommends jq
