#!/bin/sh
# Start deploy/compose.yaml, see every service become ready, send a job through it, and stop it.
#   sh deploy/try-compose.sh           tries it, and leaves it running
#   sh deploy/try-compose.sh --stop    tries it, and removes it with its data
# Secrets are made once, into deploy/.env, which only its owner can read.
set -eu
cd "$(dirname "$0")"

secret() {
  od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

if [ ! -e .env ]; then
  (
    umask 077
    printf 'POSTGRES_PASSWORD=%s\nRABBITMQ_PASSWORD=%s\nONBEAT_API__KEYS=%s\n' \
      "$(secret)" "$(secret)" "$(secret)" > .env
  )
fi
if [ "${1:-}" = --secrets ]; then
  exit 0
fi

compose() {
  docker compose --file compose.yaml "$@"
}

compose up --build --detach --wait
# A call to the service's own address: that it is answered shows all roles at work.
compose exec -T api sh -c '
  export ONBEAT_SERVER=http://127.0.0.1:8080 ONBEAT_API_KEY="$ONBEAT_API__KEYS"
  onbeat doctor
  onbeat schedule list
'
if [ "${1:-}" = --stop ]; then
  compose down --volumes
fi
