"""The store in one database of a MySQL or MariaDB server."""
