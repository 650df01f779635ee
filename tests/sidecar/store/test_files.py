"""The folder of a backup: whole under its name, or not there."""

import pytest

from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.store.files import backup_folder


def test_a_backup_has_its_name_once_it_is_whole_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "deep" / "backup"
    with backup_folder(target) as making:
        assert making.stat().st_mode & 0o777 == 0o700
        (making / "a").write_text("a")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["backup"]
    with pytest.raises(SidecarError, match="there is something already"), backup_folder(target):
        pass
    with pytest.raises(ZeroDivisionError), backup_folder(tmp_path / "other"):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def test_two_backups_into_one_name_do_not_take_away_what_the_other_writes(tmp_path):
    target = tmp_path / "backup"
    with pytest.raises(StoreUnavailable), backup_folder(target) as first:
        inner = backup_folder(target)
        with inner as second:
            (second / "a").write_text("second")
            (first / "a").write_text("first")
    assert (target / "a").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def test_a_name_no_folder_can_have_is_a_problem_told(tmp_path):
    target = backup_folder(tmp_path / ("q" * 300))
    with pytest.raises(StoreUnavailable, match="cannot be written"), target:
        pass
