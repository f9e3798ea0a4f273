# The daemons of the cluster, each by its name; sourced by up.sh, down.sh and daemon.sh.
# A daemon that runs is left alone, so starting all of them mends what has been stopped.

# command_of NAME: sets COMMAND to the command line of that daemon.
command_of() {
  local hk=$BIN/hyperkube pki=$STATE/pki number ip folder
  case $1 in
    etcd) COMMAND=("$hk" etcd --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn
      --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
      --listen-peer-urls http://127.0.0.1:2380) ;;
    kube-apiserver) COMMAND=("$hk" kube-apiserver --etcd-servers http://127.0.0.1:2379
      --bind-address 0.0.0.0 --advertise-address "$GATEWAY" --secure-port 6443
      --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key"
      --client-ca-file "$pki/ca.crt"
      --kubelet-preferred-address-types InternalIP
      --kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key"
      --service-account-issuer https://kubernetes.default.svc
      --service-account-key-file "$pki/sa.key" --service-account-signing-key-file "$pki/sa.key"
      --service-cluster-ip-range 10.96.0.0/16 --authorization-mode "Node,RBAC" --allow-privileged
      --audit-policy-file "$STATE/audit-policy.yaml" --audit-log-path "$STATE/audit.log"
      --audit-log-maxsize 200 --audit-log-maxbackup 2) ;;
    kube-controller-manager) COMMAND=("$hk" kube-controller-manager --kubeconfig "$KUBECONFIG"
      --leader-elect=false --root-ca-file "$pki/ca.crt"
      --service-account-private-key-file "$pki/sa.key" --use-service-account-credentials
      --cluster-cidr 10.244.0.0/24 --node-monitor-grace-period 40s) ;;
    kube-scheduler) COMMAND=("$hk" kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false) ;;
    kube-proxy) COMMAND=("$hk" kube-proxy --kubeconfig "$KUBECONFIG" --hostname-override node1
      --proxy-mode iptables --cluster-cidr 10.244.0.0/24 --conntrack-max-per-core 0
      --oom-score-adj 0 --bind-address "$GATEWAY") ;;
    policies) COMMAND=("$BIN/policies" "$KUBECONFIG" node1 10.96.0.0/16) ;;
    certmanager) COMMAND=("$BIN/certmanager" --kubeconfig "$KUBECONFIG" --leader-elect=false
      --cluster-resource-namespace default --metrics-listen-address 127.0.0.1:9402) ;;
    provisioner) COMMAND=("$BIN/provisioner" "$KUBECONFIG" "$STATE/volumes") ;;
    containerd[0-9]*) COMMAND=(containerd --config "$STATE/node${1#containerd}/containerd.toml") ;;
    kubelet[0-9]*)
      number=${1#kubelet} ip=$(node_ip "${1#kubelet}") folder=$STATE/node${1#kubelet}
      COMMAND=("$hk" kubelet --config "$folder/kubelet.yaml" --kubeconfig "$KUBECONFIG"
        --root-dir "$folder/kubelet" --cert-dir "$folder/kubelet/pki"
        --hostname-override "node$number" --node-ip "$ip"
        --node-labels "topology.kubernetes.io/zone=zone$number") ;;
    *) die "no daemon is called $1" ;;
  esac
}

# The process that was started as NAME still is that daemon. After a crash or a reboot the number
# of a process may be another's, or a thread's, and the daemon would never be started again.
is_running() {
  local pid COMMAND line
  pid=$(cat "$STATE/pids/$1" 2> /dev/null) || return 1
  command_of "$1"
  line=$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline") || return 1
  [ "${line% }" = "${COMMAND[*]}" ]
}

start_daemon() {
  is_running "$1" && return
  local COMMAND
  command_of "$1"
  # In a session of its own: it outlives the terminal and the test run that started it.
  setsid "${COMMAND[@]}" >> "$STATE/logs/$1.log" 2>&1 < /dev/null 9>&- &
  echo $! > "$STATE/pids/$1"
}

# kill -9, and no daemon of that name any more.
kill_daemon() {
  is_running "$1" || die "$1 is not running"
  kill -9 "$(cat "$STATE/pids/$1")"
  rm -f "$STATE/pids/$1"
}

# SIGTERM to all, then wait for each; after ten seconds SIGKILL.
stop_daemons() {
  local name pid pids=()
  for name in "$@"; do
    pid=$(cat "$STATE/pids/$name" 2> /dev/null) || continue
    if is_running "$name"; then kill "$pid" 2> /dev/null && pids+=("$pid"); fi
    rm -f "$STATE/pids/$name"
  done
  for pid in ${pids[@]+"${pids[@]}"}; do
    for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2> /dev/null || true
  done
  return 0
}
