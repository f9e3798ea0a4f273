#!/bin/bash
# daemon.sh stop|kill|start NAME...: take parts of the running cluster away and bring them back,
# for example: daemon.sh kill kube-apiserver; daemon.sh start kube-apiserver
set -euo pipefail
. "$(dirname "$0")/settings.sh"
. "$LAB/daemons.sh"
[ $# -ge 2 ] || die "usage: daemon.sh stop|kill|start NAME..."
action=$1
shift
case $action in
  stop) stop_daemons "$@" ;;
  kill) for name in "$@"; do kill_daemon "$name"; done ;;
  start) for name in "$@"; do start_daemon "$name"; done ;;
  *) die "usage: daemon.sh stop|kill|start NAME..." ;;
esac
