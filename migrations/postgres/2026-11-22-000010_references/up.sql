-- What finds a withdrawal or refund by our reference at the provider, where that is a part of its id: of an id of version 8,
-- all but when it was made. No row has one yet, but each index reads a table while nobody can write to it: make them by hand
-- before, with CONCURRENTLY (docs/OPERATIONS.md, backup and restore).

CREATE INDEX IF NOT EXISTS withdrawals_by_reference ON withdrawals (substr(id::text, 15))
WHERE substr(id::text, 15, 1) = '8';
CREATE INDEX IF NOT EXISTS refunds_by_reference ON refunds (substr(id::text, 15)) WHERE substr(id::text, 15, 1) = '8';
