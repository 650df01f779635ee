"""Numbers that are typed are within their range, and ``nan`` is in none."""

import click
import pytest
from click.testing import CliRunner

from sidecar.cli.root import root


@pytest.mark.parametrize(
    "words",
    [
        ["scenario", "fuzz", "s.yaml", "--agent", "py:a:b", "--rare", "20", "--rare-max"],
        ["twin", "draft", "t.tape", "-o", "to", "--hold-out"],
        ["bisect", "--confidence"],
        ["tape", "replay", "t.tape", "--timeout"],
    ],
)
@pytest.mark.parametrize("number", ["nan", "-nan", "NaN"])
def test_nan_is_refused_wherever_a_number_is_asked_for(tmp_path, monkeypatch, words, number):
    monkeypatch.chdir(tmp_path)
    for name in ("s.yaml", "t.tape"):
        (tmp_path / name).write_text("")
    ended = CliRunner().invoke(root, [*words, number], standalone_mode=False)
    assert isinstance(ended.exception, click.BadParameter)
    assert "is no number" in str(ended.exception) and words[-1] in ended.exception.format_message()
