# Looks at what is installed below $1. Prints lines of a word and what it is about: "broken" commands; libraries that one can
# "have"; and for each native module its "file", its "machine" and the libraries that it "need"s. The first file is a program of
# this system, to compare machines with.
root=$1

broken() { printf 'broken %s\n' "$(printf '%s: %s' "${1#"$root"/}" "$2" | tr '\n\r' '??')"; }

command_of() {
    IFS= read -r line < "$1" 2>/dev/null || return
    case $line in '#!'*) ;; *) return ;; esac
    set -f
    # shellcheck disable=SC2086 # the words of the first line, as the kernel and env see them
    set -- "$1" ${line#??}
    set +f
    if [ ! -x "${2:-}" ]; then
        broken "$1" "its interpreter ${2:-} is not there"
    elif [ "${2##*/}" = env ] && [ "${3:--S}" != -S ] && ! command -v "$3" > /dev/null; then
        broken "$1" "its interpreter $3 is not there"
    fi
}

for f in "$root"/.venv/bin/* "$root"/node_modules/.bin/*; do
    if [ -f "$f" ] && [ -x "$f" ]; then
        command_of "$f"
    elif [ -L "$f" ] && [ ! -e "$f" ]; then
        broken "$f" "it links to $(readlink "$f"), which is not there"
    fi
done 2> /dev/null

cd "$root" && command -v readelf > /dev/null || exit 0
ldconfig -p 2> /dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) .*/have \1/p'
modules() {
    find .venv .python node_modules "$@" \( -name '*.so' -o -name '*.so.*' -o -name '*.node' \) -print0 2> /dev/null | head -zn 20000
}
modules -not -type d | tr '\n\0' '?\n' | sed 's|.*/|have |'
modules -type f | xargs -0 -r readelf -hdW /bin/sh 2> /dev/null |
    sed -n 's/^File: /file /p; s/^ *Machine: */machine /p; s/.*(NEEDED).*\[\(.*\)\]$/need \1/p'
exit 0
