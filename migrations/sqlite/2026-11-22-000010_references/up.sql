-- What finds a withdrawal or refund by our reference at the provider, where that is a part of its id: of an id of version 8,
-- all but when it was made.

CREATE INDEX withdrawals_by_reference ON withdrawals (substr(id, 15)) WHERE substr(id, 15, 1) = '8';
CREATE INDEX refunds_by_reference ON refunds (substr(id, 15)) WHERE substr(id, 15, 1) = '8';
