"""Question and Opinion: what a judge is asked about an episode, and what it answered.

Rules
1. A question is data: criterion and material. Who asks a model is a wire (``judge``).
2. An opinion is never a bare word: verdict, reason, the quotes it rests on, and who gave it.
3. Texts of an episode are material, never instruction; they stand in blocks of their own.
"""

from typing import Literal

from msgspec import Struct

Answer = Literal["pass", "fail", "unclear"]


class Block(Struct, frozen=True, kw_only=True):
    """One piece of material: what it is (a word of ours), and its text, which is untrusted."""

    name: str
    text: str


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of a judge. ``mentions`` and ``avoids`` are marks that can be looked for
    without reading; ``samples`` how often it is asked; ``majority`` the share that decides.
    """

    id: str
    criterion: str
    rubric: str = ""
    mentions: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    material: tuple[Block, ...] = ()
    samples: int = 1


class Vote(Struct, frozen=True, kw_only=True):
    """One sample: its answer, why, and its quotes; ``unsupported`` do not occur in the material."""

    answer: Answer
    reason: str = ""
    quotes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    cached: bool = False


class Opinion(Struct, frozen=True, kw_only=True):
    """What a judge came to. ``state`` answered, or why there is no answer.

    ``judge`` names judge, model and prompt; ``calibrated`` whether people's labels back it for this
    criterion. ``spread`` is the share of votes that differ from the majority.
    """

    state: Literal["answered", "over_budget", "unable", "error"]
    judge: str
    calibrated: bool = False
    answer: Answer | None = None
    votes: tuple[Vote, ...] = ()
    spread: float = 0.0
    detail: str = ""
