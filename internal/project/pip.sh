#!/bin/sh
# pip of an environment: it answers questions about what is installed, which never changes. uv does the work.
case ${1:-} in
install | uninstall | download | wheel)
    for arg in "$@"; do
        case $arg in
        --target | --target=* | -t | --help | -h) exec uv pip "$@" ;;
        esac
    done
    echo "pip $1: this environment is built once and read only, so packages belong in its declared list: ask for one to be added there and built." >&2
    echo "For this task alone: pip install --target /task/packages NAME, and PYTHONPATH=/task/packages." >&2
    exit 1
    ;;
-V | --version)
    echo "pip of an Enplace environment, by $(uv --version)"
    exit
    ;;
esac
exec uv pip "$@"
