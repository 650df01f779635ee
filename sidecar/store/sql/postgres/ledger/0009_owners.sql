-- Who answers for an agent, and which fields of an action an approval is for.
ALTER TABLE api_key ADD COLUMN owner text NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN requester_owner text NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN fields text NOT NULL DEFAULT '';
