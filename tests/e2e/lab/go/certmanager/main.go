// certmanager is the controller of cert-manager, as its own image has it. Its webhook, which only
// checks what people write, is not there.
package main

import (
	"fmt"
	"os"

	"github.com/cert-manager/cert-manager/cmd/controller/app"
	"github.com/cert-manager/cert-manager/cmd/util"
)

func main() {
	stop, exit := util.SetupExitHandler(util.GracefulShutdown)
	defer exit()
	if err := app.NewCommandStartCertManagerController(stop).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		util.SetExitCode(err)
	}
}
