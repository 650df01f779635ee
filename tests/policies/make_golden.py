"""Write golden_decisions.jsonl.gz: what a real OPA decides on generated documents.

    python tests/policies/make_golden.py

It needs the pinned OPA (``make opa``). The bundle is the shipped one. The documents are made by a
generator with a fixed seed, half of them for the bundle's own settings and half for ``tuned.yaml``,
where every setting is in use; with them are the bundle's revisions, so that a bundle which has
changed since is noticed.
"""

import gzip
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

from built_tools import program  # noqa: E402

from processors.model.call import Action  # noqa: E402
from processors.model.principal import Principal  # noqa: E402
from sidecar.gateway.policy.document import Situation, ToolFacts, document, list_document  # noqa: E402
from sidecar.gateway.policy.files import load_bundle  # noqa: E402

GOLDEN = HERE / "golden_decisions.jsonl.gz"
POLICIES = HERE.parents[1] / "policies"
SEED, DOCUMENTS = 20_261_130, 400
OPA_VERSION = "1.22.4"

TOOLS = (
    *("issue_refund", "wire", "odd", "drop_table", "close_account"),
    *("export_all", *("pay_invoice", "get_order", "send_mail") * 4),
)
CLASSES = (*("read",) * 4, *("write",) * 4, *("irreversible",) * 7, "odd")
AMOUNTS = (
    *(None, "0", "0.01", "12.50", "99.99", "99.99999", "100", "100.00", "100.0000000001", "007"),
    *("899.9999", "900", "4999.99", "5000", "14999", "15000", "99999.99995", "100000", "1e2", "-1"),
    *("99999999999999.99", "123456789012345678901234567890", "zz", "", ".5", "5.", "1,5", "٣"),
)
CURRENCIES = (*("EUR",) * 6, "USD", "JPY", "XAU", "eur", None)
VALUES = (
    *(None, True, False, 0, 1, -1, 90000, 90001, 2**53 - 1, 1.5, 0.1, 1e20, "", "5", "EUR", "USD"),
    *(
        "shop",
        "Shop",
        "bank",
        "Straße",
        "ﬁne",
        "my PASSWORD",
        "İ",
        "\u0000",
        "90000.50",
        "90000.51",
    ),
    *([], ["shop"], {"a": 1}),
)
# What is in order is as frequent as all that is odd.
GOOD = {
    "tenant_id": ("shop",) * 40,
    "currency": ("EUR", "USD") * 20,
    "amount": (5, "5", "90000.50", 90000) * 10,
    "note": ("for you", "thanks") * 20,
    "order_id": ("1", 2) * 20,
}
PRIOR = ("get_order", "get_policy", "fetch_page", "issue_refund")
LABELS = ("untrusted", "internal", "unregistered", "other")
MONDAY_NS = 1_799_020_800_000_000_000  # 2027-01-04T00:00:00Z
DAY_NS = 86_400_000_000_000


def main():
    """Generate, ask OPA, write; print what was decided."""
    dice = random.Random(SEED)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in (("shipped", None), ("tuned", HERE / "tuned.yaml")):
            bundle = copied(Path(folder) / name, settings)
            asked = [one for _ in range(DOCUMENTS) for one in documents(dice)]
            revision = load_bundle(bundle).revision
            for (entry, made), answer in zip(asked, ask(bundle, asked), strict=True):
                rows.append(
                    {"bundle": name, "revision": revision, "entry": entry, "input": made, **answer}
                )
    with open(GOLDEN, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
        for row in rows:
            out.write(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    words = Counter(row["result"]["effect"] if "result" in row else "none" for row in rows)
    print(f"{len(rows)} decisions: {dict(words)}")


def copied(folder, settings):
    """The bundle as shipped, or with other settings."""
    ignore = shutil.ignore_patterns("*_test.rego", "examples", "schema")
    shutil.copytree(POLICIES, folder, ignore=ignore)
    if settings is not None:
        shutil.copy(settings, folder / "data.yaml")
    return folder


def documents(dice):
    """A document for ``decide`` and, one time in four, one for ``list``."""
    who = Principal(
        id="key:1",
        kind="agent",
        project=dice.choice(("shop", "ops")),
        name="bot",
        on_behalf_of=dice.choice(("", "ann")),
    )
    situation = Situation(
        time_ns=MONDAY_NS + dice.randrange(14 * DAY_NS),
        request_id="r",
        session_id=dice.choice((*("4bf92f3577b34da6a3ce929d0e0e4736",) * 4, None)),
        prior_tools=tuple(dice.sample(PRIOR, dice.randrange(3))),
        key_present=dice.random() < 0.9,
        provenance=tuple(sorted(dice.sample(LABELS, dice.choice((0, 0, 0, 0, 1, 2))))),
        trust=dice.choice((None, None, None, "full", "full", "restricted", "odd")),
        labels=dice.choice(({}, {"team": "payments"})),
        client_ip=dice.choice(("127.0.0.1", "2001:db8::1", None)),
        place=dice.choice((("https", "shop.example", 443), None)),
        claimed=dice.choice(({}, {"readOnlyHint": True})),
        policy_revision="sha256:0",
    )
    tool, class_ = dice.choice(TOOLS), dice.choice(CLASSES)
    names = dice.sample(sorted(GOOD), dice.randrange(len(GOOD)))
    action = Action(
        tenant=who.project,
        agent=who.id,
        tool=tool,
        upstream="shop",
        class_=class_,
        method="POST",
        path=f"/{tool}",
        arguments={name: dice.choice((*GOOD[name], *VALUES)) for name in names},
        cost_amount=dice.choice(AMOUNTS),
        cost_currency=dice.choice(CURRENCIES),
    )
    yield "decide", damaged(dice, document(action, who, situation))
    if dice.random() < 0.25:
        facts = ToolFacts(name=tool, upstream="shop", class_=class_, tool_digest="sha256:0")
        yield "list", damaged(dice, list_document(facts, who, situation))


def damaged(dice, made):
    """One document in ten lacks a part: whatever reads it must still be as strict."""
    if dice.random() < 0.1:
        made = dict(made)
        del made[dice.choice(sorted(made))]
    return made


def ask(bundle, asked):
    """OPA's answer to each: ``result``, or ``error``; neither where it is undefined."""
    for entry, made in asked:
        done = subprocess.run(
            [
                *(program("opa"), "eval", "--data", str(bundle), "--strict-builtin-errors"),
                *("--stdin-input", "--format", "json", f"data.agenttwin.v1.{entry}"),
            ],
            input=json.dumps(made, ensure_ascii=False),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            yield {"error": json.loads(done.stdout)["errors"][0]["message"]}
            continue
        found = json.loads(done.stdout).get("result")
        yield {"result": found[0]["expressions"][0]["value"]} if found else {}


if __name__ == "__main__":
    main()
