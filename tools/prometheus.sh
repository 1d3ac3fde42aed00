#!/bin/sh
# See that Prometheus is there, which runs the expressions of the dashboard and the alerts; without it that test is
# skipped.
set -u

if ! command -v prometheus >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Prometheus ..."
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; } >/dev/null 2>&1
    # The test starts one of its own.
    systemctl disable --now prometheus >/dev/null 2>&1
fi
command -v prometheus >/dev/null 2>&1 || echo "There is no Prometheus: the test that needs it is skipped."
