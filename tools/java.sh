#!/bin/sh
# Make sure that Spark finds Java 17 or newer: use the one that is there, else try to install it.
set -u

java_version() {
    command=${JAVA_HOME:+$JAVA_HOME/bin/}java
    "$command" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

version=$(java_version)
if [ "${version:-0}" -lt 17 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Java 17 for Spark ..."
    { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } >/dev/null 2>&1
    version=$(java_version)
fi
if [ "${version:-0}" -lt 17 ]; then
    echo "livestate's Spark side needs Java 17 or newer, and none was found or could be installed: install a JDK and set JAVA_HOME." >&2
    exit 1
fi
