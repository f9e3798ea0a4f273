// policies enforces NetworkPolicies: the part of kube-router that does so, and nothing else of it.
//
// kube-router looks after the pods of the node that it runs on. All nodes of the lab share one
// network namespace, so one of it serves all: each pod is told to it as one of the node given.
// Changes are looked at as they come, and all rules are made anew every ten seconds.
//
// Usage: policies KUBECONFIG NODE SERVICE-RANGE
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const interval = 10 * time.Second

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, node, services string) error {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	api := kubernetes.NewForConfigOrDie(access)
	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true
	config.HostnameOverride = node
	config.ClusterIPCIDRs = []string{services}
	config.IPTablesSyncPeriod = interval

	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(api, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	iptables, ipsets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	address, err := addressOf(api, node)
	if err != nil {
		return err
	}
	if err := pods.SetTransform(onNode(address)); err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(
		api, config, pods, policies, namespaces, &sync.Mutex{}, iptables, ipsets)
	if err != nil {
		return err
	}
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("%v are not known", kind)
		}
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	heartbeats := make(chan *healthcheck.ControllerHeartbeat, 1)
	go func() {
		for range heartbeats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(heartbeats, stop, &running)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
	close(stop)
	running.Wait()
	controller.Cleanup()
	return nil
}

// addressOf is the address by which the node is known.
func addressOf(api kubernetes.Interface, name string) (string, error) {
	node, err := api.CoreV1().Nodes().Get(context.Background(), name, meta.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, address := range node.Status.Addresses {
		if address.Type == core.NodeInternalIP {
			return address.Address, nil
		}
	}
	return "", fmt.Errorf("node %s has no address", name)
}

// onNode makes every pod with an address one of the node that has this one.
func onNode(address string) cache.TransformFunc {
	return func(object interface{}) (interface{}, error) {
		if pod, ok := object.(*core.Pod); ok && pod.Status.HostIP != "" {
			pod.Status.HostIP = address
		}
		return object, nil
	}
}
