"""Writing what the stores keep of agents' runs as tapes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from processors.model.names import Capture
from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.app.taping import capture_of, stored_runs
from sidecar.cli.tape_import import place_of, write
from sidecar.errors import SidecarError
from sidecar.identity.projects import project_name
from sidecar.replay.query import PREFIX, read_query
from sidecar.tape.files import Packaging


class FromStore:
    """Which store, which of its projects, and what of content is to be on the tapes."""

    def __init__(
        self, config: str | None, store: str | None, project: str | None, capture: str | None
    ) -> None:
        self._loaded = load_config(config, store)
        self._project = (
            self._loaded.config.projects[0].name
            if project is None
            else project_name(project, where="--project")
        )
        self._capture = capture_of(self._loaded, self._project, cast(Capture | None, capture))
        self.left_out: Counter[str] = Counter()
        kept = self._loaded.config.project(self._project).content.capture
        self.bare = ""
        """Why the tapes hold digests alone though nobody asked for it; empty where they do not."""
        if kept == "off" and capture is None:
            self.bare = (
                f"project {self._project} keeps no content (projects[].content.capture is off): "
                "the tapes hold digests at most. Where its configuration says otherwise, give "
                "--config."
            )

    def written(
        self, query: str, to: Path, packaging: Packaging, made: set[Path]
    ) -> Iterator[Path]:
        """Write the tapes of a ``store:QUERY``; their files, one by one. Raises SidecarError."""
        if not query.startswith(PREFIX):
            raise SidecarError(
                "it is no query", where=query, do="Write store:trace=ID or store:since=24h."
            )
        wanted = read_query(query, project=self._project, now_ns=clock.now_ns())
        with stored_runs(self._loaded, wanted, self._capture) as runs:
            for one in runs.found:
                place = place_of(to, one.name, made)
                yield write(one, place, packaging, runs.redactor, content=self._capture != "off")
            self.left_out += runs.left_out
