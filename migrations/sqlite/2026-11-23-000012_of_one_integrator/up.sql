-- Three indexes that began with the integrator begin with what they find, so that none of them is taken for a key that a
-- statement names whole.

CREATE INDEX refunds_of_charge ON refunds (charge_id, integrator_id, id);
DROP INDEX refunds_by_charge;
CREATE INDEX payee_keys_of_person ON payee_keys (person_id, integrator_id);
DROP INDEX payee_keys_by_person;
CREATE INDEX locked_parts_of_person ON locked_parts (person_id, integrator_id);
DROP INDEX locked_parts_by_person;
