-- For whom an agent acts; what a vote demands of its voter's sign-in, and how that was.
ALTER TABLE api_key ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';
ALTER TABLE approval ADD COLUMN step_up TEXT NOT NULL DEFAULT '';
ALTER TABLE vote ADD COLUMN authn TEXT NOT NULL DEFAULT '';
