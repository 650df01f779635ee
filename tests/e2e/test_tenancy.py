"""No credential but its own opens a project: random reads and writes over every listener.

Method: the same operations twice on one real sidecar, first each with a credential that may not,
then each with one that may. What they got is judged by whose it is, not by the status alone.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tenancy_operations import operations
from tenancy_world import PROJECTS, TRACES_EACH, trace_id, world

AT_ONCE = 16
SEED = 20261130


async def stock(made, count):
    """What the operations that change something use up."""
    each = count // 25 + 10
    made.spare = {project: made.spare_keys(project, each) for project in PROJECTS}
    made.voted = {project: [] for project in PROJECTS}
    turn = asyncio.Semaphore(AT_ONCE)

    async def asked(project, pool, key):
        async with turn:
            pool.append(await made.refund(project, key))

    for project in PROJECTS:
        await asyncio.gather(
            *(asked(project, made.voted[project], f"vote-{number}") for number in range(each)),
            *(asked(project, made.approvals[project], f"poll-{number}") for number in range(3)),
        )
    made.call_ids = {}
    for project in PROJECTS:
        listed = await made.http(
            "control.listen", "GET", "/v1/calls?limit=1000&tool=add_note",
            made.good["reader", project],
        )  # fmt: skip
        made.call_ids[project] = [call["call_id"] for call in listed.body["calls"]]


async def perform(made, asked, choose):
    """Do all operations, many at once; (operation, got, answer, credential's owner) of each."""
    done, waiting = [], iter(enumerate(asked))

    async def work():
        for number, each in waiting:
            key, named = choose(each, random.Random(SEED + number))
            got, answer = await each.act(made, each.project, key, named)
            done.append((each, got, answer, key))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return done


async def step_names(made, project):
    names = Counter()
    for number in range(TRACES_EACH):
        found = await made.http(
            "control.listen", "GET", f"/v1/traces/{trace_id(project, number + 1)}",
            made.good["reader", project],
        )  # fmt: skip
        names.update(step["name"] for step in found.body["steps"])
    return names


async def scenario(folder, count):
    began = time.monotonic()
    async with world(folder) as made:
        await stock(made, count)
        asked = operations(made, count, random.Random(SEED))
        noted_before = list(made.noted)
        owners = {key: who for who, key in made.good.items()}
        ready = time.monotonic()

        wrong = await perform(made, asked, lambda each, rng: each.wrong(made, rng))
        for each, got, answer, key in wrong:
            assert not got, (each.name, each.project, owners.get(key), answer)
            mine = each.own and owners.get(key, ("", each.project))[1] != each.project
            assert answer.refused or (mine and answer.good), (each.name, owners.get(key), answer)
        # What bad credentials wanted done at the shop was not done; others' replays were their own.
        assert not [order for order in made.noted[len(noted_before) :] if order.startswith("w")]
        between = time.monotonic()

        right = await perform(made, asked, lambda each, rng: each.right(made, rng))
        for each, got, answer, key in right:
            assert got, (each.name, each.project, owners.get(key), answer)
        notes = Counter(order for order in made.noted if order.startswith("w"))
        assert set(notes.values()) <= {1}
        assert len(notes) == sum(each.name == "gateway write" for each in asked)
        ended = time.monotonic()

        sent = Counter(each.project for each, *_ in right if each.name.startswith("otlp"))
        for project in PROJECTS:
            async with asyncio.timeout(90):
                while (names := await step_names(made, project))[f"work-{project}"] < (
                    sent[project] + TRACES_EACH
                ):
                    await asyncio.sleep(0.2)
            assert set(names) == {f"work-{project}"}, names
        print(
            f"{count} operations: with wrong credentials {sum(got for _, got, *_ in wrong)} got "
            f"what is the project's in {between - ready:.1f} s, with right ones "
            f"{sum(got for _, got, *_ in right)} in {ended - between:.1f} s; set-up "
            f"{ready - began:.1f} s; {dict(sorted(Counter(each.name for each in asked).items()))}"
        )


@pytest.mark.row("CVE-2026-78573")
@pytest.mark.requirement("REC-05")
@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.full)])
def test_nothing_of_a_project_is_read_or_changed_without_a_credential_of_it(tmp_path, count):
    asyncio.run(scenario(tmp_path, count))
