-- Keys have scopes, an end, an allow-list, the time of their last use, and two secrets while one takes the other's place.
-- `secret_hash` stays what it was: the only secret, or the older of two. The newer one has the number `secrets_made`, which
-- only grows, so that no number is given twice.
ALTER TABLE api_keys ADD COLUMN secret_number INTEGER NOT NULL DEFAULT 1
CHECK (secret_number BETWEEN 1 AND 4294967295);
-- NULL for when the key was made.
ALTER TABLE api_keys ADD COLUMN secret_made_at INTEGER;
ALTER TABLE api_keys ADD COLUMN secrets_made INTEGER NOT NULL DEFAULT 1
CHECK (secrets_made BETWEEN secret_number AND 4294967295);
ALTER TABLE api_keys ADD COLUMN second_secret_hash TEXT
CHECK (second_secret_hash IS NULL OR secret_number < secrets_made);
ALTER TABLE api_keys ADD COLUMN second_secret_made_at INTEGER
CHECK ((second_secret_made_at IS NULL) = (second_secret_hash IS NULL));
-- Names with blanks between them; NULL for everything, which is what a key of before is good for.
ALTER TABLE api_keys ADD COLUMN scopes TEXT CHECK (scopes <> '');
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
-- Ranges in CIDR form with commas between them; empty for everywhere.
ALTER TABLE api_keys ADD COLUMN allowed_ips TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
