-- What budgets hold and have spent: accounts, what each call holds of them, and every movement.
-- Amounts are exact decimal text. account.held and .spent are the sums of the postings.
CREATE TABLE budget_account (
    account_id INTEGER PRIMARY KEY,
    project    TEXT NOT NULL,
    budget     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    unit       TEXT NOT NULL,
    window_ns  INTEGER NOT NULL,
    held       TEXT NOT NULL DEFAULT '0',
    spent      TEXT NOT NULL DEFAULT '0',
    mark_ns    INTEGER NOT NULL,
    UNIQUE (project, budget, subject, unit, window_ns)
);

CREATE TABLE budget_hold (
    call_id    TEXT NOT NULL,
    account_id INTEGER NOT NULL REFERENCES budget_account (account_id),
    amount     TEXT NOT NULL,
    actual     TEXT,
    state      TEXT NOT NULL CHECK (state IN ('held', 'settled', 'released')),
    at_ns      INTEGER NOT NULL,
    past       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (call_id, account_id)
) WITHOUT ROWID;
CREATE INDEX budget_hold_settled ON budget_hold (account_id, at_ns) WHERE state = 'settled' AND past = 0;

CREATE TABLE budget_posting (
    posting_id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES budget_account (account_id),
    call_id    TEXT NOT NULL,
    at_ns      INTEGER NOT NULL,
    source     TEXT NOT NULL CHECK (source IN ('free', 'held', 'spent')),
    target     TEXT NOT NULL CHECK (target IN ('free', 'held', 'spent', 'past')),
    amount     TEXT NOT NULL
);
CREATE INDEX budget_posting_of ON budget_posting (account_id, posting_id);
