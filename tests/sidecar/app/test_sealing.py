"""The seal key that a first start makes: whole or not there."""

import resource
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.app.loading import load_config
from sidecar.app.sealing import master_key, seal_key_path
from sidecar.errors import SidecarError
from sidecar.store.envelope import KEY_BYTES


@contextmanager
def full_disk():
    """No byte can be written to any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_key_that_could_not_be_written_leaves_none_and_the_next_start_makes_one(tmp_path):
    loaded = load_config(None, f"sqlite:///{tmp_path}/data")
    with full_disk(), pytest.raises(SidecarError, match="the seal key cannot be written"):
        master_key(loaded, make=True)
    assert list(tmp_path.iterdir()) == []
    made = master_key(loaded, make=True)
    assert len(made) == KEY_BYTES
    assert master_key(loaded, make=True) == made
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("store", [".", "./", "..", "a/..", "data", "/"])
def test_without_a_name_of_its_own_the_key_lies_beside_the_data_folder(
    tmp_path, monkeypatch, store
):
    here = tmp_path / "one" / "two"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    loaded = load_config(None, f"sqlite:///{store}")
    if store == "/":
        with pytest.raises(SidecarError, match="lies inside the data folder"):
            seal_key_path(loaded)
    else:
        folder, path = Path(store).resolve(), seal_key_path(loaded).resolve()
        assert path == folder.parent / f"{folder.name}.seal-key"


def test_no_key_beside_a_data_folder_is_taken_up_by_git():
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    made = ["demo-data.seal-key", "demo-data.evidence-key"]
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *made], cwd=root, capture_output=True, text=True
    )
    assert done.stdout.split() == made, done.stderr
