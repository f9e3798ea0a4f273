#!/bin/bash
# kill_container.sh NODE CONTAINER-ID: kill -9 of a container's first process, which nobody within
# the container could do.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
pid=$(ctr --address "$(socket_of "${1#node}")" --namespace k8s.io tasks ls |
  awk -v id="$2" '$1 == id {print $2}')
[ -n "$pid" ] || die "no container $2 on $1"
kill -9 "$pid"
