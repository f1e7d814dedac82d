#!/bin/sh
# Figures and a page, grouped by a column: run.sh author. Run it in a task; what it makes stays in the working directory.
set -eu
project=${PROJECT_ROOT:-$(dirname "$0")}
python3 "$project/figures.py" "${1:-author}"
tsc --version
tsc --project "$project/tsconfig.json" --outDir build
node build/page.mjs
jq -r '"jq: most views: \(.rows[0][.by]), \(.rows[0].views)"' figures.json | tee top.txt
