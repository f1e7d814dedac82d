#!/bin/bash
set -euo pipefail

apt-get update
apt-get install -y --no-install-recommends pandoc
install -D -m 644 house.css /usr/local/share/reports/house.css
