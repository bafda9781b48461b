-- What integrators attach to their charges and withdrawals: a JSON object of texts, without one when they attach nothing.
-- No table is rewritten. The indexes have only records with metadata, but read the tables to find that there are none yet.

ALTER TABLE charges ADD COLUMN metadata text;
ALTER TABLE withdrawals ADD COLUMN metadata text;

-- For lists by the value of a key. The cast is the one that the lists ask with.
CREATE INDEX charges_by_metadata ON charges USING gin ((metadata::jsonb) jsonb_path_ops) WHERE metadata IS NOT NULL;
CREATE INDEX withdrawals_by_metadata ON withdrawals USING gin ((metadata::jsonb) jsonb_path_ops)
WHERE metadata IS NOT NULL;
