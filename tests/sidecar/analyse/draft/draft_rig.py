"""Services to draft from: a twin plays production, and what it answers is the recording."""

from random import Random

from sidecar.replay.import_tape import parsed
from sidecar.replay.onto_twin import OntoTwin
from sidecar.replay.taped import TapedCall, TapedRun
from sidecar.twins.episode import Call, Setting
from sidecar.twins.group import GroupEpisode, TwinGroup
from sidecar.twins.twin import Twin


def run_of(name, calls, **more):
    """A run of (tool, arguments, answer[, how it ended, status])."""
    told = [
        TapedCall(
            seq=seq,
            tool=one[0],
            arguments=one[1],
            result=one[2],
            ended=one[3] if len(one) > 3 else "ok",
            http_status=one[4] if len(one) > 4 else None,
        )
        for seq, one in enumerate(calls)
    ]
    return TapedRun(
        name=name,
        task=name,
        calls=tuple(told),
        said=(),
        actions=None,
        outputs=(),
        verified="unverified",
        **more,
    )


class Production:
    """A service that a twin plays; every run begins in the same world."""

    def __init__(self, declaration):
        self.group = TwinGroup([Twin(declaration)])
        assert not self.group.twins[declaration.twin].problems

    def recorded(self, name, choose, calls, seed=0, mint=""):
        """A run of so many calls that ``choose(dice, seen)`` chooses; ``mint`` renames new ids."""
        dice, told, seen = Random(f"{seed}|{name}"), [], []
        episode = GroupEpisode(self.group, self.group.open(), Setting(agent="a"))
        for _ in range(calls):
            tool, arguments = choose(dice, seen)
            reply = episode.call(Call(tool=tool, arguments=arguments))
            assert reply.status is not None and reply.status < 500, (tool, arguments, reply)
            ended = "ok" if reply.status < 400 else "refused"
            told.append((tool, arguments, reply.value, ended, reply.status))
            seen.append((tool, arguments, reply.value))
        assert episode.close()
        return run_of(name, told)


def onto(drafted, runs):
    """The answers of a draft to the runs: (equal, gaps, otherwise).

    What comes after an effect that could not be played, or a call of a tool that the draft never
    saw, counts as a gap: the run is void.
    """
    twins = OntoTwin(TwinGroup([drafted.twin()]))
    equal, gaps, otherwise = [], [], []
    for run in runs:
        lost = False
        for one in twins.replay(run).answers:
            lost = lost or not one.known
            recorded = parsed(one.recorded)
            if lost or one.gap or one.after_gap:
                gaps.append(one)
            elif one.value == recorded:
                equal.append(one)
            else:
                otherwise.append(one)
    return equal, gaps, otherwise
