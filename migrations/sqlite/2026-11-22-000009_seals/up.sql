-- Seals: each integrator's postings in a chain of hashes, a row a stretch; and what is wrong with a book that isn't sealed any
-- further. Nobody writes to them with a posting: a worker does, behind.

CREATE TABLE seals (
    integrator_id TEXT NOT NULL REFERENCES integrators (id),
    number INTEGER NOT NULL CHECK (number > 0),
    through_entry INTEGER NOT NULL CHECK (through_entry > 0),
    available_cents INTEGER NOT NULL CHECK (available_cents >= 0),
    held_cents INTEGER NOT NULL CHECK (held_cents >= 0),
    owed_cents INTEGER NOT NULL CHECK (owed_cents >= 0),
    fees_cents INTEGER NOT NULL,
    clearing_cents INTEGER NOT NULL,
    entries_hash TEXT NOT NULL CHECK (length(entries_hash) = 64),
    sealed_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, number),
    CONSTRAINT seals_balanced CHECK (available_cents + held_cents + fees_cents + clearing_cents - owed_cents = 0)
) STRICT, WITHOUT ROWID;

-- Whoever can write the file can take these away, and make the whole chain anew: a hash that is kept elsewhere still tells.
-- The last one is there because INSERT OR REPLACE removes a row without any trigger of DELETE.
CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
BEGIN
    SELECT RAISE(ABORT, 'seals are only ever added to');
END;
CREATE TRIGGER seals_are_not_removed BEFORE DELETE ON seals
BEGIN
    SELECT RAISE(ABORT, 'seals are only ever added to');
END;
CREATE TRIGGER seals_are_not_replaced BEFORE INSERT ON seals
WHEN EXISTS (SELECT 1 FROM seals WHERE integrator_id = NEW.integrator_id AND number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'seals are only ever added to');
END;

-- One row an integrator whose book contradicts itself, for as long as it does.
CREATE TABLE seal_differences (
    integrator_id TEXT NOT NULL PRIMARY KEY REFERENCES integrators (id),
    number INTEGER NOT NULL CHECK (number > 0),
    from_entry INTEGER NOT NULL CHECK (from_entry > 0),
    through_entry INTEGER NOT NULL,
    code TEXT NOT NULL,
    detail TEXT NOT NULL,
    found_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
