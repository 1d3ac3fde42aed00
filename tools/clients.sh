#!/bin/sh
# Builds what the programs in examples/clients need, into the directory that is given. Where Go or Node is
# not on this machine, or a registry cannot be reached, it says so, and the test of that program is skipped.
mkdir -p "$1"
target=$(cd "$1" && pwd)
if command -v go >/dev/null 2>&1; then
	(cd examples/clients/go && GOFLAGS="-buildvcs=false -mod=readonly" go build -o "$target/ask-go" .) ||
		echo "The Go example is not built: its test is skipped."
fi
if command -v npm >/dev/null 2>&1; then
	rm -rf "$target/node" && cp -r examples/clients/node "$target/node" &&
		(cd "$target/node" && npm ci --silent --no-audit --no-fund --ignore-scripts) ||
		{ rm -rf "$target/node" && echo "The Node example is not installed: its test is skipped."; }
fi
