"""Small releases, and a policy that lives on them."""

import asyncio

from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.live.driver import LivePolicy
from sidecar.gateway.policy.release import Release
from sidecar.gateway.policy.worker import PolicyWorker

RULES = """package agenttwin.v1

decide := {"effect": "EFFECT", "reasons": [{"code": "said_so"}]} if input.resource.id

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource.id
"""
RULES_ALLOW, RULES_ASK, RULES_DENY = (
    RULES.replace("EFFECT", effect) for effect in ("allow", "require_approval", "deny")
)


def release(text, **fields):
    """A release of one module."""
    return Release(
        bundle=make_bundle([Module("decide.rego", text)], []),
        files={"decide.rego": text.encode()},
        **fields,
    )


def worker(each):
    return PolicyWorker(each.bundle, deadline_ns=2_000_000_000)


def living(scenario, first, **options):
    """What a scenario gives with a started policy, of a release or of a text."""

    async def main():
        begin = first if isinstance(first, Release) else release(first)
        policy = LivePolicy(begin, worker, **options)
        await policy.start()
        try:
            return await scenario(policy)
        finally:
            await policy.stop()

    return asyncio.run(main())
