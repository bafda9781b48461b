-- Seals: each integrator's postings in a chain of hashes, a row a stretch; and what is wrong with a book that isn't sealed any
-- further. Nobody writes to them with a posting: a worker does, behind.

CREATE TABLE seals (
    integrator_id uuid NOT NULL,
    number bigint NOT NULL CONSTRAINT seals_number_check CHECK (number > 0),
    through_entry bigint NOT NULL CONSTRAINT seals_through_entry_check CHECK (through_entry > 0),
    available_cents bigint NOT NULL CONSTRAINT seals_available_cents_check CHECK (available_cents >= 0),
    held_cents bigint NOT NULL CONSTRAINT seals_held_cents_check CHECK (held_cents >= 0),
    owed_cents bigint NOT NULL CONSTRAINT seals_owed_cents_check CHECK (owed_cents >= 0),
    fees_cents bigint NOT NULL,
    clearing_cents bigint NOT NULL,
    entries_hash text COLLATE "C" NOT NULL CONSTRAINT seals_entries_hash_check CHECK (length(entries_hash) = 64),
    sealed_at bigint NOT NULL,
    CONSTRAINT seals_pkey PRIMARY KEY (integrator_id, number),
    CONSTRAINT seals_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id),
    CONSTRAINT seals_balanced CHECK (
        available_cents::numeric + held_cents + fees_cents + clearing_cents - owed_cents = 0
    )
);

-- Whoever owns the table can take this away, and make the whole chain anew: a hash that is kept elsewhere still tells.
CREATE FUNCTION seals_are_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'seals are only ever added to' USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER seals_are_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON seals
FOR EACH STATEMENT EXECUTE FUNCTION seals_are_only_added_to();

-- One row an integrator whose book contradicts itself, for as long as it does.
CREATE TABLE seal_differences (
    integrator_id uuid NOT NULL,
    number bigint NOT NULL CONSTRAINT seal_differences_number_check CHECK (number > 0),
    from_entry bigint NOT NULL CONSTRAINT seal_differences_from_entry_check CHECK (from_entry > 0),
    through_entry bigint NOT NULL,
    code text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    found_at bigint NOT NULL,
    CONSTRAINT seal_differences_pkey PRIMARY KEY (integrator_id),
    CONSTRAINT seal_differences_integrator_id_fkey FOREIGN KEY (integrator_id) REFERENCES integrators (id)
);
