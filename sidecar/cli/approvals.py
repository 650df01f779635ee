"""``sidecar approvals``: what agents wait for, and a person's answer.

Rules
1. Lists and shows read the store, running or not; a decision goes to the running sidecar, with the
   approver's own key.
2. What is approved is what was shown: the summary's digest travels with the vote.
"""

from typing import Any, get_args

import click
from msgspec.structs import replace

from processors.model.call import Approval, ApprovalStatus
from sidecar import clock
from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli.asking import control, in_path
from sidecar.cli.moments import instant
from sidecar.cli.options import common, deciding, emit, show_lines, talk
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway.approval import Ground, current
from sidecar.plain import plain, plained
from sidecar.store.glass import told
from sidecar.store.step_up import words


@click.group()
def command() -> None:
    """List, show, approve and deny approval requests.

    \b
    Example:
      $ sidecar approvals approve 0192… --reason "order checked with the customer"
      0192… approved
    """


@command.command("list")
@click.option("--status", type=click.Choice(get_args(ApprovalStatus)), help="Only these.")
@click.option("--project", default=None, help="Only this project's.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@common(outputs=("text", "json", "jsonl"))
def list_(
    status: str | None,
    project: str | None,
    limit: int,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """List requests, newest first.

    \b
    Example:
      $ sidecar approvals list --status pending
      0192…  pending   2026-11-30T09:29:02Z  tool: issue_refund (irreversible) on payments
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        ground = Ground(policy_revision=ledger.active_policy(), tool_digests={})
        listed = ledger.list_approvals(project, limit)
    found = [current(each, clock.now_ns(), ground) for each in listed]
    shown = [each for each in found if status in (None, each.status)]
    emit(shown, output, lambda: "\n".join(map(_line, shown)) or "no approvals")


@command.command()
@click.argument("approval_id")
@common()
def show(approval_id: str, config: str | None, store: str | None, output: str) -> None:
    """Show one request: what is asked, by whom, until when, and the votes.

    \b
    Example:
      $ sidecar approvals show 0192…
      approval 0192…  pending
        tool: issue_refund (irreversible) on payments
        request: POST /orders/o-42/refunds
        …
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        found = ledger.find_approval(approval_id)
        ground = Ground(policy_revision=ledger.active_policy(), tool_digests={})
    if found is None:
        raise SidecarError(
            f"there is no approval {approval_id}", do="List them with: sidecar approvals list"
        )
    shown = current(found, clock.now_ns(), ground)
    if output == "text":
        show_lines(_lines(shown))
    else:
        emit(shown, output, str)


@command.command()
@click.argument("approval_id")
@deciding(whose="Your approver key")
def approve(
    approval_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Approve a request, once, for the one action and key it is about.

    \b
    Example:
      $ sidecar approvals approve 0192… --reason "order checked with the customer"
      0192… approved
    """
    _decide(
        "approve",
        approval_id,
        reason,
        loaded,
        output,
    )


@command.command("approve-batch")
@click.argument("pairs", nargs=-1, required=True, metavar="ID=ACTION_HASH...")
@deciding(whose="Your approver key")
def approve_batch(
    pairs: tuple[str, ...],
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Approve several requests, each by a vote of its own, with one reason.

    Each is named by its id and the hash of its action, as sidecar approvals list --output json
    tells them. What did not count is said, and exits 1.

    \b
    Example:
      $ sidecar approvals approve-batch 0192…=sha256:5f… 0193…=sha256:a0… --reason "orders checked"
      0192… approved
      0193… not counted: the request is no longer pending (approval_denied)
    """
    votes = [_item(loaded, pair) for pair in pairs]
    answer = control(loaded, "/v1/approval-batches", {"reason": reason, "approvals": votes})
    emit(answer, output, lambda: "\n".join(map(_outcome, answer["outcomes"])))
    if not all(each["counted"] for each in answer["outcomes"]):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _item(loaded: Loaded, pair: str) -> dict[str, str]:
    """One vote of a batch, of what is shown now."""
    named, separator, action_hash = pair.partition("=")
    if not separator:
        raise SidecarError(
            f"{plain(pair)[:80]!r} is not ID=ACTION_HASH",
            do="Both stand in: sidecar approvals list --output json. Nothing was approved.",
        )
    shown = control(loaded, f"/v1/approvals/{in_path(named, 'an approval')}")
    if shown["action_hash"] != action_hash:
        raise SidecarError(
            f"{named} is not for the action {plain(action_hash)[:80]!r}",
            do="Look at it again: sidecar approvals show ID. Nothing was approved.",
        )
    talk(shown["summary"])
    digest = shown["shown_digest"]
    return {"approval_id": named, "action_hash": action_hash, "shown_digest": digest}


def _outcome(vote: dict[str, Any]) -> str:
    word = vote["status"] if vote["counted"] else f"not counted: {vote['detail']} ({vote['code']})"
    return plain(f"{vote['approval_id']} {word}")


@command.command()
@click.argument("approval_id")
@deciding(whose="Your approver key")
def deny(
    approval_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Deny a request; one denial ends it. One that is approved and not used is taken back.

    \b
    Example:
      $ sidecar approvals deny 0192… --reason "the order was never paid"
      0192… denied
    """
    _decide(
        "deny",
        approval_id,
        reason,
        loaded,
        output,
    )


@command.command()
@click.option("--open", "only_open", is_flag=True, help="Only those whose review is open.")
@click.option("--project", default=None, help="Only this project's.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@common()
def glasses(
    only_open: bool,
    project: str | None,
    limit: int,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """List glasses that were opened or broken, those whose review is open first.

    \b
    Example:
      $ sidecar approvals glasses --open
      0195…  broken    2026-11-30T09:14:02Z  approval 0192…  by key:77aa…, key:4f0c…
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        found = ledger.list_glasses(project, limit)
    now_ns = clock.now_ns()
    listed = [told(each, now_ns) for each in found]
    shown = [each for each in listed if each["state"] == "broken" or not only_open]
    emit(shown, output, lambda: "\n".join(map(_glass_line, shown)) or "no glasses")


@command.command("break-glass")
@click.argument("approval_id")
@deciding(whose="Your key; you are one of approvals.break_glass.people")
def break_glass(
    approval_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Say, as one of two, that a request is approved though its approvers cannot be had.

    The first of the two opens a glass, the second breaks it, which approves the request for a short
    while and leaves a review open until somebody else closes it.

    \b
    Example:
      $ sidecar approvals break-glass 0192… --reason "both approvers are on the plane"
      0195… open: another person is to do the same before it lapses
    """
    path = f"/v1/approvals/{in_path(approval_id, 'an approval')}"
    shown = control(loaded, path)
    talk(shown["summary"])
    listed = control(loaded, "/v1/break-glasses?state=open&limit=1000")["glasses"]
    opened = [each for each in listed if each["approval_id"] == approval_id]
    if opened:
        talk(f"opened by {opened[0]['votes'][0]['voter']}: {opened[0]['votes'][0]['reason']}")
        word = {"reason": reason, "digest": opened[0]["digest"]}
        answer = control(loaded, f"/v1/break-glasses/{opened[0]['glass_id']}/break", word)
    else:
        word = {"reason": reason, "shown_digest": shown["shown_digest"]}
        answer = control(loaded, f"{path}/break-glass", word)
    emit(answer, output, lambda: plain(f"{answer['glass_id']} {_NEXT[answer['state']]}"))


@command.command("review-glass")
@click.argument("glass_id")
@deciding(whose="Your key; you did not break it")
def review_glass(
    glass_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Close the review of a broken glass, saying what came of it.

    \b
    Example:
      $ sidecar approvals review-glass 0195… --reason "the refund was due"
      0195… reviewed
    """
    path = f"/v1/break-glasses/{in_path(glass_id, 'a glass')}/review"
    answer = control(loaded, path, {"reason": reason})
    emit(answer, output, lambda: plain(f"{answer['glass_id']} {answer['state']}"))


_NEXT = {
    "open": "open: another person is to do the same before it lapses",
    "broken": "broken: the request is approved, and a review is open",
}


def _glass_line(glass: dict[str, Any]) -> str:
    who = ", ".join(each.voter for each in glass["votes"])
    return plain(
        f"{glass['glass_id']}  {glass['state']:8}  {instant(glass['opened_at_ns'])}"
        f"  approval {glass['approval_id']}  by {who}"
    )


def _decide(decision: str, approval_id: str, reason: str, loaded: Loaded, output: str) -> None:
    path = f"/v1/approvals/{in_path(approval_id, 'an approval')}"
    shown = control(loaded, path)
    talk(shown["summary"])
    vote = {"reason": reason, "shown_digest": shown["shown_digest"]}
    decided = control(loaded, f"{path}/{decision}", vote)
    emit(decided, output, lambda: _verdict(decided))


def _verdict(decided: dict[str, Any]) -> str:
    votes = sum(vote["decision"] == "approve" for vote in decided["votes"])
    waiting = decided["status"] == "pending"
    suffix = f" ({votes} of {decided['approvers_min']} approvers)" if waiting else ""
    return plain(f"{decided['approval_id']} {decided['status']}{suffix}")


def _line(approval: Approval) -> str:
    approval = plained(replace(approval, summary=approval.summary.partition("\n")[0]))
    first = approval.summary
    return (
        f"{approval.approval_id}  {approval.status:8}  {instant(approval.expires_at_ns)}  {first}"
    )


def _latest(approval: Approval) -> str:
    return ", at the latest" if approval.status == "pending" else ""


def _lines(approval: Approval) -> list[tuple[str, str]]:
    summary = approval.summary.split("\n")
    approval = plained(approval)
    votes = [
        f"vote: {vote.decision} by {vote.voter} ({vote.authn.method})"
        f" at {instant(vote.voted_at_ns)}: {vote.reason}"
        for vote in approval.votes
    ]
    styles = {"approved": "green", "denied": "red", "expired": "yellow"}
    return [
        (
            f"approval {approval.approval_id}  {approval.status}",
            styles.get(approval.status, "bold"),
        ),
        *((f"  {line}", "") for line in summary),
        (f"  asked by {approval.requester} at {instant(approval.requested_at_ns)}", ""),
        (f"  to be decided by {instant(approval.decide_by_ns)}", ""),
        (f"  to be used by {instant(approval.execute_by_ns)}{_latest(approval)}", ""),
        (f"  approvers needed: {approval.approvers_min}", ""),
        *((f"  each approver is to {words(each)}", "") for each in approval.step_up),
        (f"  action {approval.action_hash}", ""),
        (f"  shown {approval.shown_digest}", ""),
        *((f"  {vote}", "") for vote in votes),
        *([(f"  used by call {approval.consumed_by}", "")] if approval.consumed_by else []),
    ]
