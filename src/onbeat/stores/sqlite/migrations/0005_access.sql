-- The store's own secret, in hexadecimal, by what it is for.
CREATE TABLE onbeat_secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of the API. `digest` is the SHA-256 of a key, which is not kept itself.
CREATE TABLE onbeat_keys (
  name    TEXT PRIMARY KEY,
  digest  TEXT NOT NULL,
  record  TEXT NOT NULL,
  used_at INTEGER
) STRICT, WITHOUT ROWID;

-- Who changed what. Ids rise with time.
CREATE TABLE onbeat_audit (
  id     TEXT PRIMARY KEY,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  action TEXT    NOT NULL,
  object TEXT    NOT NULL,
  record TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Listings of one actor, of one action and of one object.
CREATE INDEX onbeat_audit_of_actor ON onbeat_audit (actor, id);
CREATE INDEX onbeat_audit_of_action ON onbeat_audit (action, id);
CREATE INDEX onbeat_audit_of_object ON onbeat_audit (object, id);
-- Pruning by age.
CREATE INDEX onbeat_audit_by_age ON onbeat_audit (at);
