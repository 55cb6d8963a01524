"""docker-compose.yml and the images: read by a parser of the specification, and true to the files
of this project.
"""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from service.terminal.arguments import Parser

ROOT = Path(__file__).resolve().parents[3]
IMAGES = sorted((ROOT / "deploy" / "images").glob("*.Dockerfile"))
OURS = ("migrate", "api", "reconcile", "worker", "tracer", "worker-gpu")
WATCHING = ("prometheus", "grafana")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def interpolated(text: str) -> str:
    """Return the file as compose reads it with only the variables set that it demands."""
    return _VARIABLE.sub(lambda found: found[3] if found[2] == "-" else "secret", text)


@pytest.fixture(scope="module", name="services")
def parse() -> dict[str, Any]:
    """Return the services as the specification's parser understands them."""
    # The parser knows no merge keys (`<<`), which YAML's own reader resolves.
    document = yaml.safe_load(interpolated((ROOT / "docker-compose.yml").read_text()))
    return dict(PyCompose.from_json(json.dumps(document)).to_dict()["services"])


def test_every_part_is_there(services: dict[str, Any]) -> None:
    """Servers, our processes, and a GPU worker that a machine without GPUs does not start."""
    assert set(services) == {"postgres", "valkey", *OURS, *WATCHING}
    assert {
        name: service["profiles"] for name, service in services.items() if service.get("profiles")
    } == {
        "worker-gpu": ["gpu"],
        **{name: ["observability"] for name in WATCHING},
    }
    (device,) = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_nothing_waits_for_what_says_nothing(services: dict[str, Any]) -> None:
    """Who is waited for until it is healthy has a health check, and who is waited for until it is
    done ends.
    """
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert services[other]["healthcheck"]["test"], (name, other)
            else:
                assert (how["condition"], services[other]["restart"]) == (
                    "service_completed_successfully",
                    "no",
                )


@pytest.mark.parametrize("name", [*OURS, *WATCHING, "valkey"])
def test_a_container_may_do_little(services: dict[str, Any], name: str) -> None:
    """Nothing can be written but /tmp, no capability is kept, no privilege gained."""
    service = services[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("name", OURS)
def test_commands_are_commands_of_ours(services: dict[str, Any], name: str) -> None:
    """The command line takes what each container is started with."""
    command, *arguments = services[name]["command"]
    module = import_module(f"service.cli.commands.{command.replace('-', '_')}")
    parser = Parser(prog=command)
    module.add_arguments(parser)

    assert parser.parse_args([str(argument) for argument in arguments]) is not None


def test_the_api_is_for_this_machine_unless_told_otherwise(services: dict[str, Any]) -> None:
    """Whoever does not say more opens no port to the network."""
    assert [str(port) for port in services["api"]["ports"]] == ["127.0.0.1:8000:8000"]
    assert [str(port) for port in services["grafana"]["ports"]] == ["127.0.0.1:3000:3000"]
    assert not any(
        service.get("ports") for name, service in services.items() if name not in {"api", "grafana"}
    )


def test_who_watches_is_given_what_is_here() -> None:
    """What is mounted exists and cannot be written, and whatever provisioning and scraping read is
    provided.
    """
    document = yaml.safe_load(interpolated((ROOT / "docker-compose.yml").read_text()))
    mounted = [
        volume.split(":") for name in WATCHING for volume in document["services"][name]["volumes"]
    ]
    files = "".join(
        path.read_text() for path in (ROOT / "deploy" / "grafana" / "provisioning").rglob("*.yml")
    )
    files += (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
    given = {
        f"/run/secrets/{name}"
        for service in WATCHING
        for name in document["services"][service]["secrets"]
    }
    said = document["services"]["grafana"]["environment"]

    assert all(how == ["ro"] for source, _, *how in mounted if source.startswith("./"))
    assert all((ROOT / source).is_dir() for source, *_ in mounted if source.startswith("./"))
    assert (
        set(re.findall(r"/run/secrets/[\w-]+", files)) | {said["GF_SECURITY_ADMIN_PASSWORD__FILE"]}
        == given
    )
    assert set(re.findall(r"\$\{(\w+)\}", files)) <= set(said)
    assert {Path(secret["file"]).name for secret in document["secrets"].values()} == {
        Path(path).name for path in given
    }


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.stem)
def test_images_copy_what_is_there_and_run_as_nobody(image: Path) -> None:
    """Every source exists and is sent to the builder, and the last user is not root."""
    text = image.read_text()
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    sources = {
        source.removeprefix("./")
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    }

    assert sources <= allowed
    assert all((ROOT / source).exists() for source in sources)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["10001:10001"]


def test_every_image_of_others_can_be_held_by_a_digest() -> None:
    """A tag is another image tomorrow; what is built on has a variable in either file."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    foreign = {name: services[name]["image"] for name in services.keys() - set(OURS)}
    built = {services[name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS}

    assert all(
        re.fullmatch(rf"\$\{{{name.upper()}_IMAGE:-[a-z/]+:[\w.-]+\}}", image)
        for name, image in foreign.items()
    ), foreign
    for image in IMAGES:
        text = image.read_text()
        assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
        (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)
        assert built == {f"${{PYTHON_IMAGE:-{default}}}"}


def test_the_images_install_what_was_measured() -> None:
    """Torch comes into the worker's image alone, in the version that the project pins."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (torch,) = [
        requirement for requirement in extras["worker"] if requirement.startswith("torch==")
    ]

    by_name = {image.stem: image.read_text() for image in IMAGES}
    assert torch in by_name["worker"]
    assert "torch==" not in by_name["api"]
    installed = {
        name: set(re.findall(r'"\.\[([a-z,]+)\]"', text)[0].split(","))
        for name, text in by_name.items()
    }
    assert installed == {
        "api": {"server", "mcp", "oidc", "telemetry"},
        "worker": {"worker", "telemetry"},
    }
    assert set().union(*installed.values()) <= set(extras)
