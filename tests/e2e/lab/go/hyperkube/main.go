// hyperkube is etcd and every daemon of Kubernetes in one static binary: one link, one build
// cache. The first argument names the daemon, the others are its own.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs have time zones, small images have none

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var daemons = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand() },
}

func main() {
	os.Args = os.Args[1:]
	if len(os.Args) > 0 && os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	if len(os.Args) > 0 {
		if command, known := daemons[os.Args[0]]; known {
			os.Exit(cli.Run(command()))
		}
	}
	names := slices.Sorted(maps.Keys(daemons))
	fmt.Fprintf(os.Stderr, "usage: hyperkube etcd|%s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
