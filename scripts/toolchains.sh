#!/bin/sh
# Toolchains from end to end, on this machine: plugins of an organisation, a team and a person, the sets that they come to,
# commands on durable computers, an item that fails and is mended, and a computer that starts from a bundle. `make toolchains`
# runs it when the host is set up and the programs are built; stage.sh says what can be set.
set -eu
name=toolchains
# shellcheck source=scripts/stage.sh
. "$(dirname "$0")/stage.sh"
plugins=$here/examples/toolchains

# on CONVERSATION COMMAND… runs a command on the conversation's computer.
on() {
    conversation=$1
    shift
    show enplace computer exec "$conversation" -- "$@"
}

say "Two people, a team and its rooms"
show enplace team put data --person ada --person bob
show enplace room put standup --team data --internal
show enplace room put planning --team data --internal
show enplace conversation put ada --person ada
show enplace conversation put bob --person bob
show enplace conversation put standup --room standup
show enplace conversation put planning --room planning

say "Plugins are checked where they are written, without a server"
for plugin in company data-team ada; do
    show enplace plugin check --strict "$plugins/$plugin"
done

say "The organisation's plugin, the team's, and Ada's, who puts her own greeting in the place of the company's"
show enplace plugin add organisation company "$plugins/company"
show enplace plugin add team:data data-team "$plugins/data-team"
show enplace item off person:ada greeting
show enplace plugin add person:ada ada "$plugins/ada"
show enplace item list --scope person:ada

say "What each of them gets, and why"
show enplace set explain ada
show enplace set explain bob

say "The first command of a room installs its set; one item cannot be installed, and whoever ran the command is told"
on standup node --version
say "It is told once"
on standup prettier --version
on standup jq --version
on standup printenv NPM_CONFIG_UPDATE_NOTIFIER

say "Mended, synced, and installed at once"
cp -R "$plugins/data-team" "$data/data-team"
sed 's/cowsayy-of-nobody/cowsay/' "$plugins/data-team/environments/report/mise.toml" >"$data/data-team/environments/report/mise.toml"
show enplace plugin sync data-team "$data/data-team"
on standup cowsay mended
on ada whose
on bob whose

say "Behind that, the set was built into a bundle in a clean sandbox"
hash=$(enplace --json set show standup | sed -n 's/^ *"hash": *"\([0-9a-f]*\)".*/\1/p' | head -n 1)
show enplace set log "$hash" --follow

say "A second computer starts from it: nothing is installed, and everything is there"
on planning sh -c 'node --version; prettier --version; jq --version; cowsay from a bundle; whose'
show enplace computer show room:planning
show enplace computer list

say "Done: exit 0. The server and its data go now; the base stays in $dir. docs/toolchains.md goes on from here"
