// declarer is a plugin that declares what should become of requests that it does not answer: they
// should fail, and it should stay connected. It subscribes to the beginning and the end of pods.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	socket := flag.String("socket", "", "socket of the runtime")
	index := flag.Int("index", 0, "index of the plugin, 0 to 99")
	flag.Parse()
	nrilog.Set(silence{})
	s, err := stub.New(plugin{},
		stub.WithPluginName("declarer"),
		stub.WithPluginIdx(fmt.Sprintf("%02d", *index)),
		stub.WithSocketPath(*socket),
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}),
		stub.WithOnClose(func() {}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "declarer:", err)
		os.Exit(1)
	}
	// It ends with an error when the runtime leaves.
	_ = s.Run(context.Background())
}

type plugin struct{}

func (plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (plugin) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

// silence keeps the log out of a test's output; what fails ends the program with an error.
type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
