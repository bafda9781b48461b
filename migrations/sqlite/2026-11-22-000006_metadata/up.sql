-- What integrators attach to their charges and withdrawals: a JSON object of texts, without one when they attach nothing.

ALTER TABLE charges ADD COLUMN metadata TEXT;
ALTER TABLE withdrawals ADD COLUMN metadata TEXT;
