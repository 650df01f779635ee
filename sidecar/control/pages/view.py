"""The approval pages as HTML: a sign-in, a list, a request with its two buttons.

**Rules**
1. Whatever did not come from this file is escaped, and stands in text or in a quoted attribute.
2. No script, nothing loaded from anywhere; the one style is in the page and named by its digest in
   the policy that goes with every page.
3. What an approver sees is the request's summary as it is stored, whole, and nothing an agent wrote
   beside it.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote, urlencode

from msgspec import Struct

from processors.model.call import Approval
from processors.model.principal import Authn, StepUp
from sidecar.plain import plain, plain_lines
from sidecar.store.step_up import words

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}
body{color:#1a1a1a;background:#fff}
pre{background:#f4f4f2;border:1px solid #ccc;padding:1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
dt{font-weight:600}dd{margin:0 0 .5rem;overflow-wrap:anywhere}
fieldset{border:1px solid #ccc;margin:0 0 1rem}input[type=checkbox]{width:auto}
input,textarea{font:inherit;width:100%;box-sizing:border-box;padding:.4rem;margin:.2rem 0 1rem}
button{font:inherit;padding:.5rem 1.5rem;margin-right:1rem}
.told{border-left:4px solid #b30000;padding-left:1rem}
@media (prefers-color-scheme:dark){body{color:#eee;background:#161616}
pre{background:#222;border-color:#444}a{color:#9cf}}
"""
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none';"
    f" form-action 'self'; style-src 'sha256-{_STYLE_DIGEST}'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""What goes with every page."""
ROOT = "/approvals"
BATCH = f"{ROOT}/batch"


class Signed(Struct, frozen=True, kw_only=True):
    """Who is signed in: ``name`` for people; ``form_token`` goes into every form."""

    name: str
    form_token: str


def sign_in(to: str, told: str = "", providers: Sequence[str] = ()) -> str:
    """The form that takes a key or a token, and the providers to sign in at; ``to`` is the page
    that was asked for."""
    links = "".join(
        f'<p><a href="{ROOT}/oidc/{escape(name)}?to={escape(quote(to, safe=""))}">'
        f"Sign in with {_shown(name)}</a></p>"
        for name in providers
    )
    return _page(
        "Sign in to approve",
        f"{_told(told)}{links}<p>Sign in with your own approver key, or with a token of your"
        " identity provider. An agent's credential opens nothing here.</p>"
        f'<form method="post" action="{ROOT}/sign-in" autocomplete="off">'
        f'<input type="hidden" name="to" value="{escape(to)}">'
        '<label>Key or token<input type="password" name="key" required autofocus'
        ' autocomplete="off"></label><button>Sign in</button></form>',
    )


def listing(found: Iterable[Approval], signed: Signed, reviews: int = 0) -> str:
    """What waits; ``reviews``: how many glasses were broken and not reviewed."""
    due = f"Glass was broken and not reviewed: {reviews} (sidecar approvals glasses --open)."
    rows = "".join(
        f'<li><a href="{page_of(each)}">{_shown(each.summary.partition(chr(10))[0])}</a>, asked by'
        f" {_shown(each.requester_name or each.requester)},"
        f" until {instant(each.expires_at_ns)}</li>"
        for each in found
    )
    several = f'<p><a href="{BATCH}">Decide several at once</a></p>'
    body = f"<ul>{rows}</ul>{several}" if rows else "<p>Nothing waits for approval.</p>"
    return _page("Waiting for approval", _told(due if reviews else "") + body + _sign_out(signed))


def request(
    approval: Approval,
    signed: Signed,
    *,
    why_not: str | None,
    told: str = "",
    lacks: StepUp | None = None,
    providers: Sequence[str] = (),
) -> str:
    """One request; ``why_not`` says why this person cannot decide it, None where they can;
    ``lacks`` what their sign-in lacks to approve it."""
    facts = (
        ("Status", approval.status),
        *([("Approved by break-glass", approval.glass_id)] if approval.glass_id else []),
        ("Asked by", approval.requester_name or approval.requester),
        ("Asked at", instant(approval.requested_at_ns)),
        ("To be decided by", instant(approval.decide_by_ns)),
        (_use_by(approval), instant(approval.execute_by_ns)),
        ("Approvals needed", str(approval.approvers_min)),
        *(("Approvers' sign-in", words(each)) for each in approval.step_up),
        ("Action", approval.action_hash),
        ("What is shown", approval.shown_digest),
        *(
            (
                "Vote",
                f"{each.decision} by {each.voter} ({signed_in(each.authn)})"
                f" at {instant(each.voted_at_ns)}: {each.reason}",
            )
            for each in approval.votes
        ),
    )
    lines = "".join(f"<dt>{name}</dt><dd>{_shown(value)}</dd>" for name, value in facts)
    return _page(
        "Approve this call?" if approval.status == "pending" else f"This call: {approval.status}",
        f"{_told(told)}<pre>{escape(plain_lines(approval.summary))}</pre><dl>{lines}</dl>"
        f"{_stepping(approval, lacks, providers)}"
        f"{_form(approval, signed, why_not)}{_sign_out(signed)}",
    )


def batch(found: Sequence[Approval], signed: Signed, project: str, told: str = "") -> str:
    """Requests to approve together: each whole, each to be ticked on its own, none ticked before;
    what is ticked says which request, which action and which summary."""
    rows = "".join(
        f"<fieldset><pre>{escape(plain_lines(each.summary))}</pre>"
        f'<label><input type="checkbox" name="pick" value="{escape(pick_of(each))}">'
        f" Approve this one, asked by {_shown(each.requester_name or each.requester)},"
        f" until {instant(each.expires_at_ns)}</label></fieldset>"
        for each in found
    )
    form = (
        f'<form method="post" action="{BATCH}">'
        f'<input type="hidden" name="form_token" value="{escape(signed.form_token)}">'
        f'<input type="hidden" name="project" value="{escape(project)}">{rows}'
        '<label>Why (kept in the audit chain with each)<textarea name="reason" required'
        ' maxlength="1000" rows="3"></textarea></label>'
        "<button>Approve what is ticked</button></form>"
    )
    body = form if found else "<p>Nothing waits that you can approve.</p>"
    return _page("Approve several calls?", f"{_told(told)}{body}{_sign_out(signed)}")


def outcomes(found: Sequence[tuple[str, str]], signed: Signed) -> str:
    """What became of each vote of a batch: a request's id, and in words."""
    rows = "".join(f"<li>{_shown(name)}: {_shown(word)}</li>" for name, word in found)
    back = f'<p><a href="{ROOT}">What waits</a></p>'
    return _page("What became of each", f"<ul>{rows}</ul>{back}{_sign_out(signed)}")


def pick_of(approval: Approval) -> str:
    """What a tick says: which request, for which action, and what was shown."""
    return f"{approval.approval_id} {approval.action_hash} {approval.shown_digest}"


def problem(title: str, detail: str) -> str:
    """What went wrong."""
    return _page(title, f"<p>{_shown(detail)}</p>")


def page_of(approval: Approval) -> str:
    """A request's page; its project is named, since a person may have a part in several."""
    return escape(page_path(approval))


def page_path(approval: Approval) -> str:
    """The same, not escaped."""
    return f"{ROOT}/{quote(approval.approval_id)}?project={quote(approval.project)}"


def instant(at_ns: int) -> str:
    """A moment for people."""
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _form(approval: Approval, signed: Signed, why_not: str | None) -> str:
    if approval.status not in ("pending", "approved"):
        return ""
    if why_not is not None:
        return f'<p class="told">You cannot decide this: {_shown(why_not)}.</p>'
    return (
        f'<form method="post" action="{ROOT}/{escape(approval.approval_id)}/vote">'
        f'<input type="hidden" name="form_token" value="{escape(signed.form_token)}">'
        f'<input type="hidden" name="project" value="{escape(approval.project)}">'
        f'<input type="hidden" name="shown_digest" value="{escape(approval.shown_digest)}">'
        '<label>Why (kept in the audit chain)<textarea name="reason" required maxlength="1000"'
        ' rows="3"></textarea></label>'
        f"{_buttons(approval)}</form>"
    )


def _buttons(approval: Approval) -> str:
    if approval.status == "approved":
        return '<button name="decision" value="deny">Take the approval back</button>'
    return (
        '<button name="decision" value="approve">Approve this one call</button>'
        '<button name="decision" value="deny">Deny</button>'
    )


def signed_in(authn: Authn) -> str:
    """How somebody had signed in, for people."""
    acr = [f"acr {authn.acr}"] if authn.acr else []
    amr = [f"amr {' '.join(authn.amr)}"] if authn.amr else []
    return ", ".join([authn.method, *acr, *amr])


def _stepping(approval: Approval, lacks: StepUp | None, providers: Sequence[str]) -> str:
    """What to do for a vote that counts, and where."""
    if approval.status != "pending" or lacks is None:
        return ""
    asked = {"to": page_path(approval), "acr": " ".join(lacks.acr)}
    if lacks.max_age_s is not None:
        asked["max_age"] = str(lacks.max_age_s)
    query = urlencode({name: value for name, value in asked.items() if value})
    links = "".join(
        f'<p><a href="{ROOT}/oidc/{escape(name)}?{escape(query)}">'
        f"Sign in again with {_shown(name)}</a></p>"
        for name in providers
    )
    return f'<p class="told">To approve this, {_shown(words(lacks))}.</p>{links}'


def _use_by(approval: Approval) -> str:
    return "To be used by" if approval.status == "approved" else "To be used by, at the latest"


def _sign_out(signed: Signed) -> str:
    return (
        f'<form method="post" action="{ROOT}/sign-out"><p>Signed in as {_shown(signed.name)}.'
        f' <input type="hidden" name="form_token" value="{escape(signed.form_token)}">'
        "<button>Sign out</button>"
        '<button name="everywhere" value="yes">Sign out everywhere</button></p></form>'
    )


def _told(text: str) -> str:
    return f'<p class="told" role="alert">{_shown(text)}</p>' if text else ""


def _shown(text: str) -> str:
    return escape(plain(text))


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_shown(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{_shown(title)}</h1>{body}</main></body></html>"
    )
