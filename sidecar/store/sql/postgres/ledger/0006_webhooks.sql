-- What webhooks are told of, found without reading the rest of the chain.
CREATE INDEX audit_approvals ON audit (seq)
    WHERE kind IN ('approval_requested', 'approval_vote', 'approval_resolved');
