-- For whom an agent acts; what a vote demands of its voter's sign-in, and how that was.
ALTER TABLE api_key ADD COLUMN on_behalf_of text NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN on_behalf_of text NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN step_up text NOT NULL DEFAULT '';
ALTER TABLE vote ADD COLUMN authn text NOT NULL DEFAULT '';
