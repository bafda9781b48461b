-- Persons, a key each, and what is put under it: a record has '#' in the place of a document then, and nothing of the person. A
-- worker puts it there, behind those who write. Erasing a person removes the row with the key.

CREATE TABLE people (
    integrator_id TEXT NOT NULL,
    id TEXT NOT NULL,
    subject TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) = 64),
    PRIMARY KEY (integrator_id, id),
    UNIQUE (integrator_id, subject)
) STRICT, WITHOUT ROWID;

-- What stands for the PIX key of a payee in a locked withdrawal, so that limits by payee go on finding it.
CREATE TABLE payee_keys (
    integrator_id TEXT NOT NULL,
    payee_key TEXT NOT NULL,
    pseudonym TEXT NOT NULL,
    person_id TEXT NOT NULL,
    PRIMARY KEY (integrator_id, payee_key, person_id),
    FOREIGN KEY (integrator_id, person_id) REFERENCES people (integrator_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX payee_keys_by_person ON payee_keys (integrator_id, person_id);

-- No foreign key to the person: what is left of an erased one is not to be read by anybody.
CREATE TABLE locked_parts (
    integrator_id TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    part TEXT NOT NULL CHECK (part = 'payer' OR part = 'paid_by' OR part = 'receipt' OR part = 'payee'),
    number INTEGER NOT NULL CHECK (number >= 0),
    person_id TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (integrator_id, resource_id, part, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX locked_parts_by_person ON locked_parts (integrator_id, person_id);

-- Callbacks about the records of a person end with the person.
CREATE INDEX callbacks_by_reference ON callbacks (reference) WHERE due_at IS NULL AND reference IS NOT NULL;
