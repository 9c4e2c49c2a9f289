-- The store's own secret, by what it is for.
CREATE TABLE secrets (
  name  text  COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);

-- Keys of the API. `digest` is the SHA-256 of a key, which is not kept itself.
CREATE TABLE api_keys (
  name    text   COLLATE "C" PRIMARY KEY,
  digest  text   COLLATE "C" NOT NULL,
  record  text   COLLATE "C" NOT NULL,
  used_at bigint
);

-- Who changed what. Ids rise with time.
CREATE TABLE audit (
  id     uuid   PRIMARY KEY,
  at     bigint NOT NULL,
  actor  text   COLLATE "C" NOT NULL,
  action text   COLLATE "C" NOT NULL,
  object text   COLLATE "C" NOT NULL,
  record text   COLLATE "C" NOT NULL
);

-- Listings of one actor, of one action and of one object.
CREATE INDEX audit_of_actor ON audit (actor, id);
CREATE INDEX audit_of_action ON audit (action, id);
CREATE INDEX audit_of_object ON audit (object, id);
-- Pruning by age.
CREATE INDEX audit_by_age ON audit (at);
