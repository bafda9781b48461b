-- What integrators attach to their charges and withdrawals: a JSON object of texts, without one when they attach nothing.
-- No table is rewritten or read. A list by metadata reads the integrator's own records by the primary key: an index over the
-- values would be one across integrators.

ALTER TABLE charges ADD COLUMN metadata text;
ALTER TABLE withdrawals ADD COLUMN metadata text;
