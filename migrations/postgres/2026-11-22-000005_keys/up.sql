-- Keys have scopes, an end, an allow-list, the time of their last use, and two secrets while one takes the other's place.
-- `secret_hash` stays what it was: the only secret, or the older of two. The newer one has the number `secrets_made`, which
-- only grows, so that no number is given twice.
ALTER TABLE api_keys
ADD COLUMN secret_number bigint NOT NULL DEFAULT 1 CONSTRAINT api_keys_secret_number_check CHECK (
    secret_number BETWEEN 1 AND 4294967295
),
-- NULL for when the key was made.
ADD COLUMN secret_made_at bigint,
ADD COLUMN secrets_made bigint NOT NULL DEFAULT 1,
ADD COLUMN second_secret_hash text,
ADD COLUMN second_secret_made_at bigint,
-- Names with blanks between them; NULL for everything, which is what a key of before is good for.
ADD COLUMN scopes text CONSTRAINT api_keys_scopes_check CHECK (scopes <> ''),
ADD COLUMN expires_at bigint,
-- Ranges in CIDR form with commas between them; empty for everywhere.
ADD COLUMN allowed_ips text NOT NULL DEFAULT '',
ADD COLUMN last_used_at bigint,
ADD CONSTRAINT api_keys_numbers_grow CHECK (secrets_made BETWEEN secret_number AND 4294967295),
ADD CONSTRAINT api_keys_second_secret_is_newer CHECK (second_secret_hash IS NULL OR secret_number < secrets_made),
ADD CONSTRAINT api_keys_second_secret_is_whole CHECK (
    (second_secret_made_at IS NULL) = (second_secret_hash IS NULL)
);
-- The time of the last use is written about once a minute.
ALTER TABLE api_keys SET (fillfactor = 70);
