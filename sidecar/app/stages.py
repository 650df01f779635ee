"""What the pipeline's stages are handed of the configuration."""

import hashlib

from processors.value import duration_ns
from sidecar.app.known import classes, known_tools
from sidecar.config import Config, Loaded
from sidecar.pipeline.batch import ProjectRules, Rules
from sidecar.pipeline.keepers import Keepers, KeyOf
from sidecar.pipeline.leaving import Leaving


def pipeline_rules(loaded: Loaded, key_of: KeyOf | None = None) -> Rules:
    """What the stages need of the configuration; ``key_of`` where digests are made of content.

    Raises SidecarError where a file of reviewed definitions cannot be read.
    """
    config = loaded.config
    default = next(iter(config.projects)).__class__(name="default")
    return Rules(
        tools=classes(known_tools(loaded).tools),
        projects={
            project.name: ProjectRules(
                capture=project.content.capture,
                terms=project.content.terms,
                content_ns=duration_ns(project.retention.content),
                traces_ns=duration_ns(project.retention.traces),
                datasets_ns=duration_ns(project.retention.datasets),
            )
            for project in config.projects
        },
        otherwise=ProjectRules(
            content_ns=duration_ns(default.retention.content),
            traces_ns=duration_ns(default.retention.traces),
            datasets_ns=duration_ns(default.retention.datasets),
        ),
        limits=config.receive.limits,
        detect=config.detect,
        keepers=Keepers(key_of),
    )


def leaving(config: Config, rules: Rules, sidecar_id: str, master: bytes) -> Leaving | None:
    """What is to leave for exporters; None where there are none."""
    if not config.export:
        return None
    secret = hashlib.blake2b(b"export", key=master).digest()
    return Leaving(rules, sidecar_id=sidecar_id, secret=secret)
