"""The command `livestate`.

Its exit codes are the same for the same mistakes in all verbs:

| code | |
|---|---|
| 0 | it is done; what runs until Ctrl-C was ended so |
| 1 | it was understood, and refused or failed; or `verify` and the like have found something wrong |
| 2 | the command line is wrong: an argument or option is missing, cannot be read or contradicts another one |
| 130 | Ctrl-C ended it before it was done |

Only click is imported up front: everything else is imported by the verb that needs it, so that `--help` is
quick.
"""

from __future__ import annotations

import errno
import io
import os
import sys

try:
    import click

    from engine.processes.hidden_modules import hide_pandas
    from flight_server.cli.call_threads import exit_during_calls
    from flight_server.cli.extras import Verbs
    from flight_server.cli.verbs import changelog, credentials, demo, hosts, pipeline, serve, sql, stores
except KeyboardInterrupt:
    # Nothing has begun yet, and nobody catches it here.
    sys.stderr.write("Interrupted.\n")
    sys.exit(128 + 2)

_FULL = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=Verbs, context_settings=_CONTEXT)
@click.version_option(package_name="livestate", message="livestate %(version)s")
def main() -> None:
    """SQL over the live state of Spark streaming jobs.

    A job keeps keyed tables ("stores") up to date in a changelog; a host follows the changelog and answers
    SQL over Arrow Flight.

    \b
    Examples:
      livestate demo --duration 30
      livestate serve --changelog file:///var/lib/livestate --data /var/lib/livestate-host
      livestate sql "SELECT song_id, count FROM plays ORDER BY count DESC LIMIT 5"
    """


_VERBS = (
    serve.serve,
    sql.sql,
    sql.bench,
    hosts.stores,
    hosts.hosts,
    hosts.top,
    hosts.doctor,
    hosts.scrub,
    hosts.drain,
    stores.load,
    stores.migrate,
    stores.switch,
    stores.skip,
    stores.drop,
    changelog.verify,
    changelog.collect,
    changelog.backup,
    changelog.restore,
    credentials.token,
    credentials.user,
    demo.demo,
    *pipeline.PIPELINE_VERBS,
)
for _verb in _VERBS:
    main.add_command(_verb)


def run() -> None:
    """Be the command, in a process of its own."""
    hide_pandas()
    # What gRPC notes of a connection that a peer closes is no concern of who reads this command's output.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no UTF-8 gets escapes for what it cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            main(prog_name="livestate")
        except SystemExit as end:
            exit_during_calls(end)
            raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        # What is still buffered would fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"Error: There is no room for what is to be printed ({error.strerror}).")


if __name__ == "__main__":
    run()
