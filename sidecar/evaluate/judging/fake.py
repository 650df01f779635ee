"""The fake judge: deterministic, without a network, and honest about not reading.

Rules
1. It looks for marks alone: all of ``mentions`` and none of ``avoids`` in the answer is a pass.
2. A question without marks it cannot tell: unclear, never a pass.
"""

from sidecar.evaluate.opinion import Question, Vote


def judge(question: Question) -> Vote:
    """The vote on a question."""
    if not (question.mentions or question.avoids):
        return Vote(
            answer="unclear", reason="the fake judge reads nothing: give mentions or avoids"
        )
    text = "\n".join(one.text for one in question.material if one.name == "answer").casefold()
    lacking = [one for one in question.mentions if one.casefold() not in text]
    there = [one for one in question.avoids if one.casefold() in text]
    if there:
        return Vote(answer="fail", reason=f"the answer has {there[0]!r}", quotes=(there[0],))
    if lacking:
        return Vote(answer="fail", reason=f"the answer lacks {lacking[0]!r}")
    return Vote(answer="pass", reason="all marks are as wished", quotes=question.mentions)
