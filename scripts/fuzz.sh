#!/bin/bash
# Runs each fuzz test of the module for a while: FUZZTIME, 30s when it is not set. Go fuzzes one test at a time.
set -euo pipefail

for package in $(go list ./...); do
    for name in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
        echo "$package $name"
        go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" "$package"
    done
done
