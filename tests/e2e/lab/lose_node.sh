#!/bin/bash
# lose_node.sh NODE: as if its machine were switched off and never came back. Its kubelet and all of
# its containers are killed, and Kubernetes is told that there is no such node. What was on its disk
# is kept: `up.sh` makes it a node again.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$LAB/daemons.sh"
number=${1#node}
kill_daemon "kubelet$number"
tasks=(ctr --address "$(socket_of "$number")" --namespace k8s.io tasks)
# One that ends by itself meanwhile is an error to ctr.
"${tasks[@]}" ls --quiet | xargs -r -P8 -I% "${tasks[@]}" rm --force % > /dev/null 2>&1 || true
[ -z "$("${tasks[@]}" ls --quiet)" ] || die "containers of node$number go on running"
kubectl delete node "node$number" > /dev/null
