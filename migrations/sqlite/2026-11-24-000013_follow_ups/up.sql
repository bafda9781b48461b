-- PostgreSQL has a table of its own for when charges are asked about next, since there a change of an indexed column writes
-- anew to every index of the table. SQLite writes to the indexes of what has changed: `follow_up_at` stays where it is.

SELECT 1;
