#!/bin/bash
# Puts on this machine what building, testing and running Enplace needs: Debian 12 or 13. It installs only what is missing,
# and asks no network when nothing is.
set -euo pipefail

# A program that is needed, and Debian's package of it.
needs=(
    runc:runc
    mmdebstrap:mmdebstrap
    mkfs.ext4:e2fsprogs
    update-ca-certificates:ca-certificates
    git:git
    make:make
    busybox:busybox-static
    bwrap:bubblewrap
    curl:curl
    ssh:openssh-client
    xz:xz-utils
    pgrep:procps
)
# Files that are needed, likewise.
files=(
    /usr/share/keyrings/debian-archive-trixie-stable.*:debian-archive-keyring
)

PATH=$PATH:/usr/sbin:/sbin
missing=()
for need in "${needs[@]}"; do
    command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
for need in "${files[@]}"; do
    compgen -G "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done

if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "setup: missing: ${missing[*]}" >&2
        echo "setup: run this as root, or install them: apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
    if ! command -v apt-get >/dev/null; then
        echo "setup: this is not Debian; install what gives the same programs as: ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    # Another source of this machine may be broken; what counts is that the packages can be had.
    apt-get update -q || echo "setup: some package lists could not be read; going on with the others" >&2
    apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "${missing[@]}"
fi

if ! command -v go >/dev/null; then
    echo "setup: Go is missing; the version is in go.mod, and https://go.dev/dl has it" >&2
    exit 1
fi
echo "setup: everything is there"
