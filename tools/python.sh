#!/bin/sh
# Print the Python that .venv is made of: the system's where it will do, as a distribution builds it with
# profile-guided optimisation; else whichever is first. What pyenv builds by default takes a third longer.
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "$python"
        exit
    fi
done
echo python3
