-- Of a job whose worker died while it ran: deaths alone, and how many jobs its worker may hold while it runs
-- again, as JSON text.
ALTER TABLE jobs ADD COLUMN suspicion VARCHAR(100);
