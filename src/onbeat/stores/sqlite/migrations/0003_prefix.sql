-- Every name of ours begins with `onbeat_`, so that the tables can stand in the file of an
-- application. Tables of version 0.1, whose names had no prefix, are renamed before this by
-- `migrate.take_over`.

-- The version of the schema. `user_version` and `application_id` belong to the application.
CREATE TABLE onbeat_schema (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  version INTEGER NOT NULL
) STRICT;
