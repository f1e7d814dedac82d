#!/bin/bash
# Makes again what is generated and committed: the database queries, and the golden files that tests keep.
set -euo pipefail

for config in $(git ls-files 'internal/store/**/sqlc.yaml'); do
    go tool -modfile="$PWD/tools/go.mod" sqlc generate -f "$config"
done
if git grep -q 'flag.Bool("update"' -- internal/server; then
    go test -count=1 ./internal/server -run OpenAPI -update
fi
