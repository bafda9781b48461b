-- Persons, a key each, and what is put under it: a record has '#' in the place of a document then, and nothing of the person. A
-- worker puts it there, behind those who write. Erasing a person removes the row with the key.

CREATE TABLE people (
    integrator_id uuid NOT NULL,
    id uuid NOT NULL,
    subject text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL CONSTRAINT people_key_check CHECK (length(key) = 64),
    CONSTRAINT people_pkey PRIMARY KEY (integrator_id, id),
    CONSTRAINT people_subject_key UNIQUE (integrator_id, subject)
);

-- What stands for the PIX key of a payee in a locked withdrawal, so that limits by payee go on finding it.
CREATE TABLE payee_keys (
    integrator_id uuid NOT NULL,
    payee_key text COLLATE "C" NOT NULL,
    pseudonym uuid NOT NULL,
    person_id uuid NOT NULL,
    CONSTRAINT payee_keys_pkey PRIMARY KEY (integrator_id, payee_key, person_id),
    CONSTRAINT payee_keys_person_id_fkey FOREIGN KEY (integrator_id, person_id) REFERENCES people (integrator_id, id)
    ON DELETE CASCADE
);
CREATE INDEX payee_keys_by_person ON payee_keys (integrator_id, person_id);

-- No foreign key to the person: what is left of an erased one is not to be read by anybody.
CREATE TABLE locked_parts (
    integrator_id uuid NOT NULL,
    resource_id uuid NOT NULL,
    part text COLLATE "C" NOT NULL CONSTRAINT locked_parts_part_check CHECK (
        part IN ('payer', 'paid_by', 'receipt', 'payee')
    ),
    number bigint NOT NULL CONSTRAINT locked_parts_number_check CHECK (number >= 0),
    person_id uuid NOT NULL,
    sealed text COLLATE "C" NOT NULL,
    CONSTRAINT locked_parts_pkey PRIMARY KEY (integrator_id, resource_id, part, number)
) WITH (fillfactor = 90);
CREATE INDEX locked_parts_by_person ON locked_parts (integrator_id, person_id);

-- Callbacks about the records of a person end with the person. The table has those of some days, and is locked meanwhile.
CREATE INDEX callbacks_by_reference ON callbacks (reference) WHERE due_at IS NULL AND reference IS NOT NULL;
