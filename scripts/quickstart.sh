#!/bin/sh
# The main job from end to end, on this machine: a project and its packages are built once, and two tasks start with them
# in place. `make quickstart` runs it when the host is set up and the programs are built; stage.sh says what can be set.
set -eu
name=quickstart
# shellcheck source=scripts/stage.sh
. "$(dirname "$0")/stage.sh"

say "An environment: the project in examples/content-studio, and three packages"
show enplace env create "Content Studio"
show enplace env import content-studio "$here/examples/content-studio"
show enplace env packages content-studio --pip pandas --npm typescript --apt jq

say "Built once, into a version that never changes"
show enplace env build content-studio

say "Two tasks at once, each with all of it in place, read only"
mkdir "$data/author" "$data/month"
run() {
    enplace task run --env content-studio --out "$data/$1" -- sh /env/content-studio/run.sh "$1" >"$data/$1.log" 2>&1
}
run author &
first=$!
run month &
second=$!
wait "$first" || fail "the first task failed: $(cat "$data/author.log")"
wait "$second" || fail "the second task failed: $(cat "$data/month.log")"
for task in author month; do
    printf '\n--- the task by %s printed\n' "$task"
    cat "$data/$task.log"
    printf -- '--- and left\n'
    (cd "$data/$task" && find . -type f | sort)
    cat "$data/$task/figures.md"
done
show enplace task list

say "The version, and what it is made of"
show enplace env show content-studio
show enplace env versions content-studio 1

say "Done: exit 0. The server and its data go now; the base stays in $dir. To keep a server, take the tour in README.md"
