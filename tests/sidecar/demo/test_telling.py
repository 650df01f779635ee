"""What the demo says is plain, complete, and never markup."""

from sidecar.demo.check import Act, Check
from sidecar.demo.telling import Telling, printer

ACT = Act(
    name="a",
    story=("the agent said [bold]hello[/bold]",),
    checks=(
        Check(name="one", held=True, detail="1 of 1"),
        Check(name="two", held=False),
        Check(name="three", held=None, detail="--policy"),
    ),
)


def test_an_act_is_told_with_every_check_and_its_result(capsys):
    telling = Telling(printer(terminal=False))
    telling.begin("First")
    telling.act(ACT)
    telling.begin("Second")
    assert capsys.readouterr().out.splitlines() == [
        "1. First",
        "   the agent said [bold]hello[/bold]",
        "   [held] one: 1 of 1",
        "   [FAILED] two",
        "   [waived] three: --policy",
        "",
        "2. Second",
    ]


def test_on_a_terminal_the_words_are_the_same(capsys):
    Telling(printer(terminal=True)).act(ACT)
    said = capsys.readouterr().out
    assert "the agent said [bold]hello[/bold]" in said
    assert "[FAILED] two" in said


def test_an_act_holds_unless_a_check_failed():
    assert not ACT.held
    assert Act(name="b", story=(), checks=(ACT.checks[0], ACT.checks[2])).held
