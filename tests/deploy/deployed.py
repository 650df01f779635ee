"""What `deploy/` holds, read as data: containers, their commands, and the files they mount."""

import subprocess
import sys
from pathlib import Path

import yaml
from built_tools import program
from msgspec import Struct

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
CHART = DEPLOY / "helm" / "agenttwin-sidecar"
KUBERNETES = sorted(
    path for path in DEPLOY.glob("kubernetes/*/*.yaml") if path.name != "kustomization.yaml"
)
KUBE_VERSION = "1.31"


def script(name):
    """A command of this interpreter's environment."""
    return str(Path(sys.executable).parent / name)


class Container(Struct, frozen=True, kw_only=True):
    """One container: where it is told of, its image, and its whole command line."""

    where: str
    image: str
    command: tuple[str, ...]
    pod: dict | None = None
    spec: dict


def compose():
    """The Compose file."""
    return yaml.safe_load(COMPOSE.read_text())


def documents(text):
    """The Kubernetes objects of a text."""
    return [each for each in yaml.safe_load_all(text) if each]


def manifests():
    """Every object of deploy/kubernetes, with the file it stands in."""
    return [(path, each) for path in KUBERNETES for each in documents(path.read_text())]


def helm(*arguments, check=True):
    """Run the real Helm; its standard output, or the whole result without ``check``."""
    done = subprocess.run([program("helm"), *arguments], capture_output=True, text=True, timeout=60)
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*arguments):
    """The chart's objects under these values."""
    command = ("template", "release", str(CHART), "--namespace", "agenttwin")
    return documents(helm(*command, "--kube-version", KUBE_VERSION, *arguments))


def pods(objects):
    """The pod templates of workloads."""
    return [each["spec"]["template"] for each in objects if "template" in each.get("spec", {})]


def containers_of(template, where):
    """The containers of a pod template."""
    spec = template["spec"]
    for each in [*spec.get("initContainers", []), *spec["containers"]]:
        command = (*each.get("command", ()), *each.get("args", ()))
        yield Container(
            where=f"{where} {each['name']}",
            image=each["image"],
            command=command,
            pod=template,
            spec=each,
        )


def configurations():
    """Every ``sidecar.yaml`` under deploy/, by the place it stands in."""
    found = {}
    for name in ("sidecar", "embedded", "opa"):
        path = DEPLOY / "compose" / "config" / f"{name}.yaml"
        found[f"compose {name}"] = path.read_text()
    for path, each in manifests():
        if each["kind"] == "ConfigMap":
            found[f"kubernetes {path.parent.name}"] = each["data"]["sidecar.yaml"]
    return found
