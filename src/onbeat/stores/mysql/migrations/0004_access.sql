-- The store's own secret, by what it is for.
CREATE TABLE IF NOT EXISTS secrets (
  name  VARCHAR(50)    NOT NULL PRIMARY KEY,
  value VARBINARY(255) NOT NULL
) ENGINE = InnoDB :exact;

-- Keys of the API. `digest` is the SHA-256 of a key, which is not kept itself.
CREATE TABLE IF NOT EXISTS api_keys (
  name    VARCHAR(200) NOT NULL PRIMARY KEY,
  digest  VARCHAR(64)  NOT NULL,
  record  MEDIUMTEXT   NOT NULL,
  used_at BIGINT
) ENGINE = InnoDB :exact;

-- Who changed what. Ids rise with time.
CREATE TABLE IF NOT EXISTS audit (
  id     VARCHAR(36)  NOT NULL PRIMARY KEY,
  at     BIGINT       NOT NULL,
  actor  VARCHAR(200) NOT NULL,
  action VARCHAR(100) NOT NULL,
  object VARCHAR(700) NOT NULL,
  record MEDIUMTEXT   NOT NULL,
  -- Listings of one actor, of one action and of one object.
  KEY audit_of_actor (actor, id),
  KEY audit_of_action (action, id),
  KEY audit_of_object (object, id),
  -- Pruning by age.
  KEY audit_by_age (at)
) ENGINE = InnoDB :exact;
