#!/bin/sh
# Install nginx where that can be done: one test talks through it, and is skipped without.
set -u

if ! command -v nginx >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing nginx for a test ..."
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light; } >/dev/null 2>&1
fi
exit 0
