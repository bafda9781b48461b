-- Three indexes that began with the integrator begin with what they find. A plan is made when a connection first runs a
-- statement, often on a table that nobody has counted yet: there, an index whose first column is the integrator looks as good
-- as the key that the statement names whole, and a refund whose name was looked for read all refunds of its integrator. Each
-- is made while nobody can write to its table: on a large one make it by hand before, with CONCURRENTLY.

CREATE INDEX IF NOT EXISTS refunds_of_charge ON refunds (charge_id, integrator_id, id);
DROP INDEX refunds_by_charge;
CREATE INDEX IF NOT EXISTS payee_keys_of_person ON payee_keys (person_id, integrator_id);
DROP INDEX payee_keys_by_person;
CREATE INDEX IF NOT EXISTS locked_parts_of_person ON locked_parts (person_id, integrator_id);
DROP INDEX locked_parts_by_person;
