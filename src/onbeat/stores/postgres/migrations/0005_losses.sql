-- Of a job whose worker died while it ran: deaths alone, and how many jobs its worker may hold while it runs
-- again, as JSON text. NULL takes no room in a row.
ALTER TABLE jobs ADD COLUMN suspicion text COLLATE "C";
