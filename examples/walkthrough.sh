#!/bin/sh
# A2A 1.0 by hand: card, send, get, answer, stream, list, cancel, with nothing but curl and sed.
#
# Run it against a server with the concierge example at work ("switchboard dev" is one):
#   CLIENT_TOKEN=... sh examples/walkthrough.sh
# The token is that of an endpoint with the verb "send"; SWITCHBOARD_URL is the server's address.
set -eu

SWITCHBOARD_URL=${SWITCHBOARD_URL:-http://127.0.0.1:4100}
: "${CLIENT_TOKEN:?set CLIENT_TOKEN to the token of an endpoint that may send}"
AGENT=$SWITCHBOARD_URL/a2a/concierge/

say() { printf '\n# %s\n' "$1"; }

# call METHOD PARAMS: one JSON-RPC call. The version header matters: without it A2A means 0.3.
call() {
  curl -sS -N --fail-with-body "$AGENT" \
    -H "Authorization: Bearer $CLIENT_TOKEN" \
    -H 'Content-Type: application/json' \
    -H 'A2A-Version: 1.0' \
    -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}"
  echo
}

# message NUMBER TEXT [TASK]: a message of ours; with a task id it belongs to that task. Each has an
# id of its own: sent twice, it would count once.
run=$(date +%s)-$$
message() {
  printf '{"messageId":"walkthrough-%s-%s","role":"ROLE_USER","parts":[{"text":"%s"}]%s}' \
    "$run" "$1" "$2" "${3:+,\"taskId\":\"$3\"}"
}

# task_id RESPONSE: the id of the task in it.
task_id() { printf '%s' "$1" | sed -n 's/.*"task":{"id":"\([^"]*\)".*/\1/p'; }

say 'The card says what this agent can do and where it is. It needs no token.'
curl -sS --fail-with-body "${AGENT}.well-known/agent-card.json"
echo

say 'Send a task. The call waits until the agent asks or ends; here it asks for the day.'
sent=$(call SendMessage "{\"message\":$(message 1 'A table, please')}")
echo "$sent"
task=$(task_id "$sent")
[ -n "$task" ] || { echo 'no task in the answer' >&2; exit 1; }

say "Look at the task. It is INPUT_REQUIRED; the question is in status.message."
call GetTask "{\"id\":\"$task\"}"

say 'Answer: a message that carries the id of the task. The agent asks once more.'
call SendMessage "{\"message\":$(message 2 'tomorrow' "$task")}"

say 'Answer again, and this time watch: the artifacts come in chunks, then the task is COMPLETED.'
call SendStreamingMessage "{\"message\":$(message 3 'for 2' "$task")}"

say 'List the two newest of our tasks.'
call ListTasks '{"pageSize":2}'

say 'Send another task without waiting, and cancel it.'
sent=$(call SendMessage \
  "{\"message\":$(message 4 'Another table'),\"configuration\":{\"returnImmediately\":true}}")
echo "$sent"
call CancelTask "{\"id\":\"$(task_id "$sent")\"}"

say 'Done.'
