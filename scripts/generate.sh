#!/bin/bash
# Makes again what is generated and committed: the database's queries, and the API's document.
set -euo pipefail

for config in $(git ls-files '*/sqlc.yaml'); do
    go tool -modfile="$PWD/tools/go.mod" sqlc generate -f "$config"
done
go test -count=1 ./internal/server -run OpenAPI -update
