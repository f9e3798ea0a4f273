// coredns is CoreDNS with the plugins of conf/addons.yaml and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// In this order a question passes through them; the last one answers what nobody else has.
	dnsserver.Directives = []string{"health", "ready", "errors", "kubernetes", "template"}
	coremain.Run()
}
