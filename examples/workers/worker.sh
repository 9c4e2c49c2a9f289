#!/bin/sh
# A worker in shell, with curl and jq: worker.sh [SERVICE_URL] [API_KEY]
#
# It claims one job after the other from a service and reports its outcome. Every task is a function
# below, named task_NAME, that gets the job's params as JSON and writes the result as JSON; when it
# fails, the attempt fails.
url=${1:-http://127.0.0.1:8080}
key=${2:-}

task_export() {
    printf '%s' "$1" | jq '{file: "\(.objectID).\(.format // "csv")"}'
}

call() {
    curl --silent --show-error --max-time 60 "$url/rpc" \
        --header 'Content-Type: application/json' ${key:+--header "Authorization: Bearer $key"} \
        --data "$(jq --null-input --arg method "$1" --argjson params "$2" \
            '{jsonrpc: "2.0", method: $method, params: $params, id: 1}')" | jq --compact-output '.result // empty'
}

trap 'exit 0' TERM INT
while :; do
    claim='{"worker": "shell", "tasks": ["export"], "lease": 60, "wait": 2}'
    answer=$(call job.claim "$claim") || { sleep 1; continue; }
    job=$(printf '%s' "$answer" | jq --compact-output '.jobs[0] // empty')
    [ -n "$job" ] || { [ -n "$answer" ] || sleep 1; continue; }
    params=$(printf '%s' "$job" | jq --compact-output '.params | del(.attempt)')
    if result=$("task_$(printf '%s' "$job" | jq --raw-output .method)" "$params"); then
        outcome=$(jq --null-input --argjson result "$result" '{result: $result}')
    else
        outcome='{"error": {"code": 1, "message": "the task failed"}}'
    fi
    report=$(printf '%s' "$job" | jq --compact-output --argjson outcome "$outcome" \
        '{id, token, attempt: .params.attempt} + $outcome')
    call job.settle "$report" >/dev/null
done
