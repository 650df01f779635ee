-- What budgets hold and have spent: accounts, what each call holds of them, and every movement.
-- account.held and .spent are the sums of the postings.
CREATE TABLE budget_account (
    account_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project    text NOT NULL,
    budget     text NOT NULL,
    subject    text NOT NULL,
    unit       text NOT NULL,
    window_ns  bigint NOT NULL,
    held       numeric NOT NULL DEFAULT 0,
    spent      numeric NOT NULL DEFAULT 0,
    mark_ns    bigint NOT NULL,
    UNIQUE (project, budget, subject, unit, window_ns)
) WITH (fillfactor = 50);

CREATE TABLE budget_hold (
    call_id    text NOT NULL,
    account_id bigint NOT NULL REFERENCES budget_account (account_id),
    amount     numeric NOT NULL,
    actual     numeric,
    state      text NOT NULL CHECK (state IN ('held', 'settled', 'released')),
    at_ns      bigint NOT NULL,
    past       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (call_id, account_id)
);
CREATE INDEX budget_hold_settled ON budget_hold (account_id, at_ns) WHERE state = 'settled' AND NOT past;

CREATE TABLE budget_posting (
    posting_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES budget_account (account_id),
    call_id    text NOT NULL,
    at_ns      bigint NOT NULL,
    source     text NOT NULL CHECK (source IN ('free', 'held', 'spent')),
    target     text NOT NULL CHECK (target IN ('free', 'held', 'spent', 'past')),
    amount     numeric NOT NULL
);
CREATE INDEX budget_posting_of ON budget_posting (account_id, posting_id);
