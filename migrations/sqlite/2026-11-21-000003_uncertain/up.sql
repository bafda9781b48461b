-- Rewrites postings, which may be large: SQLite can't change the CHECK that lists their accounts.
--
-- What an integrator owes, what the provider takes back or settles late, its callbacks, and the journal of
-- administrative acts. The CHECK of an added column may name the others, so no other table is made anew.

-- A wallet never has money and a debt side by side.
ALTER TABLE wallets ADD COLUMN owed_cents INTEGER NOT NULL DEFAULT 0 CONSTRAINT wallets_owed_alone CHECK (
    owed_cents >= 0 AND (owed_cents = 0 OR available_cents = 0)
);

CREATE TABLE postings_with_owed (
    integrator_id TEXT NOT NULL REFERENCES wallets (integrator_id),
    entry INTEGER NOT NULL CHECK (entry > 0),
    debit TEXT NOT NULL CHECK (
        debit = 'available' OR debit = 'held' OR debit = 'clearing' OR debit = 'fees' OR debit = 'owed'
    ),
    credit TEXT NOT NULL CHECK (
        credit = 'available' OR credit = 'held' OR credit = 'clearing' OR credit = 'fees' OR credit = 'owed'
    ),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL,
    resource_kind TEXT NOT NULL CHECK (
        resource_kind = 'charge' OR resource_kind = 'withdrawal' OR resource_kind = 'refund'
    ),
    resource_id TEXT NOT NULL CHECK (length(resource_id) = 36),
    available_after_cents INTEGER NOT NULL CHECK (available_after_cents >= 0),
    held_after_cents INTEGER NOT NULL CHECK (held_after_cents >= 0),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (integrator_id, entry),
    CHECK (debit <> credit)
) STRICT, WITHOUT ROWID;
INSERT INTO postings_with_owed (
    integrator_id, entry, debit, credit, amount_cents, reason, resource_kind, resource_id, available_after_cents,
    held_after_cents, created_at
)
SELECT
    integrator_id, entry, debit, credit, amount_cents, reason, resource_kind, resource_id, available_after_cents,
    held_after_cents, created_at
FROM postings
ORDER BY integrator_id, entry;
DROP TABLE postings;
ALTER TABLE postings_with_owed RENAME TO postings;

-- The part of a payment that the provider sent back though nobody here asked for it counts as gone. The narrower rule
-- of the same name stays beside this one, which holds it too.
ALTER TABLE charges ADD COLUMN taken_back_cents INTEGER NOT NULL DEFAULT 0
CHECK (taken_back_cents >= 0)
CONSTRAINT charges_refunds_within_payment CHECK (
    refund_reserved_cents + refunded_cents + taken_back_cents <= amount_paid_cents
);

ALTER TABLE withdrawals ADD COLUMN settled_late INTEGER NOT NULL DEFAULT 0 CHECK (settled_late IN (0, 1));

-- What the provider called back, as it came. A callback that waits has a time when it is looked at; one that ended has
-- none. No integrator is in front: whose it is isn't known before it is looked at, and a forged one is nobody's.
CREATE TABLE callbacks (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    reference TEXT CHECK (length(reference) = 36),
    body TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 36),
    received_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (
        state = 'waiting' OR state = 'learnt' OR state = 'unmatched' OR state = 'unreadable' OR state = 'given_up'
    ),
    due_at INTEGER,
    attempts INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND 4294967295),
    CONSTRAINT callbacks_due_while_waiting CHECK ((state = 'waiting') = (due_at IS NOT NULL))
) STRICT;
-- Of those that say the same, one waits.
CREATE UNIQUE INDEX callbacks_waiting_key ON callbacks (digest) WHERE due_at IS NOT NULL;
CREATE INDEX callbacks_due ON callbacks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX callbacks_ended ON callbacks (received_at) WHERE due_at IS NULL;

-- Who did what to what, in a chain of hashes over all of it: one row follows from the one before. No integrator is in
-- front: the chain is one, of the whole deployment.
CREATE TABLE audit_log (
    number INTEGER NOT NULL PRIMARY KEY CHECK (number > 0),
    created_at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    previous TEXT NOT NULL CHECK (length(previous) = 64),
    hash TEXT NOT NULL CHECK (length(hash) = 64)
) STRICT;
CREATE INDEX audit_log_by_subject ON audit_log (subject, number);

-- Whoever can write the file can take these away, and the chain of hashes still tells. The last one is there because
-- INSERT OR REPLACE removes a row without any trigger of DELETE.
CREATE TRIGGER audit_log_is_not_changed BEFORE UPDATE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
CREATE TRIGGER audit_log_is_not_shortened BEFORE DELETE ON audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
CREATE TRIGGER audit_log_is_not_replaced BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever added to');
END;
