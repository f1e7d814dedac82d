#!/bin/sh
set -eu
install -m 755 whose /usr/local/bin/whose
