# shellcheck shell=sh
# What every demonstration stands on: a base that is kept, and a server with data of its own that goes at the end. Sourced, with
# name set to the target of make.
#
#   QUICKSTART_DIR   where the base is kept between runs, and the data of this one; default /var/lib/enplace-quickstart
#   QUICKSTART_ARGS  flags for the server, such as --mirror=http://deb.example.org/debian
#   SERVE_ARGS       flags of the demonstration itself

here=$(CDPATH='' cd -- "$(dirname "$0")/.." && pwd)
dir=${QUICKSTART_DIR:-/var/lib/enplace-quickstart}
PATH=$here/bin:$PATH
began=$(date +%s)

bold='' plain=''
if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
say() { printf '\n%s[%3ds] %s%s\n' "$bold" "$(($(date +%s) - began))" "$*" "$plain"; }
fail() {
    printf '%s: %s\n' "$name" "$*" >&2
    exit 1
}
# show prints a command before it runs it.
show() {
    printf '$'
    for word; do
        case $word in
        *[!A-Za-z0-9_./:=@%+,-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

[ "$(id -u)" = 0 ] || fail "the server mounts images and starts sandboxes; run it as root: sudo make $name"
command -v enplace >/dev/null || fail "there is no $here/bin/enplace; run: make build"

# Others must be able to pass through: the users of sandboxes do.
mkdir -p "$dir"
chmod 711 "$dir"
exec 9>"$dir/quickstart.lock"
flock -n 9 || fail "another demonstration runs in $dir"
data=$dir/data
rm -rf "$data" # of a run that was killed
mkdir -m 711 "$data"

server=
clean() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if [ "$status" -ne 0 ] && [ -f "$data/server.log" ]; then
        printf '\n%s failed; the end of the log of the server:\n' "$name" >&2
        tail -n 40 "$data/server.log" >&2
    fi
    rm -rf "$data"
    exit "$status"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "Does this host have what it takes?"
show enplace doctor --data "$data"

say "The base system that every sandbox starts from: made once, kept in $dir"
# The flags that say what the base is made from are the server's, too.
# shellcheck disable=SC2086 # several flags
show enplace base build --data "$dir" ${QUICKSTART_ARGS:-}
mkdir -p "$data/images"
cp -al "$dir/images/sha256" "$data/images/sha256"
mkdir -m 711 "$data/base"
cp "$dir/base/base.json" "$data/base/"

say "A server, with its data in $data"
# shellcheck disable=SC2086
enplace serve --data "$data" --listen 127.0.0.1:0 ${SERVE_ARGS:-} ${QUICKSTART_ARGS:-} >"$data/server.log" 2>&1 9>&- &
server=$!
export ENPLACE_DATA="$data"
show enplace status --wait 1m
