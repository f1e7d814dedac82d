#!/bin/sh
# npm of Enplace's base. In a task, the environment's node_modules is linked in a folder above the working directory, so
# that `import` finds it. npm would take that folder for the project, and it cannot be written to. So where the working
# directory has no project yet, npm is told that the project is here.

work='/task'
npm='/usr/local/lib/node_modules/npm/bin/npm-cli.js'

# Native modules compile against the headers that came with this node.
if [ -e /usr/include/node/node_version.h ]; then
    export npm_package_config_node_gyp_nodedir="${npm_package_config_node_gyp_nodedir:-/usr}"
fi

here=$(pwd -P)
case $here/ in
"$work"/*) ;;
*) exec "$npm" "$@" ;;
esac

for arg in "$@"; do
    case $arg in
    --) break ;;
    --global | --global=* | --location | --location=* | --prefix | --prefix=* | -C | -C* | -g* | -[!-]*g*) exec "$npm" "$@" ;;
    esac
done

dir=$here
while :; do
    if [ -e "$dir/package.json" ] || [ -e "$dir/node_modules" ]; then exec "$npm" "$@"; fi
    if [ "$dir" = "$work" ]; then break; fi
    dir=${dir%/*}
done
exec "$npm" --prefix "$here" "$@"
