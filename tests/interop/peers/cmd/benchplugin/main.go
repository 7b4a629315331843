// benchplugin is the plugin of the benchmarks: Go's stub, subscribed to every lifecycle
// event, with empty answers. When the runtime leaves, it prints how many StartContainer
// requests it was sent, so that nobody can win by asking fewer plugins.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	socket := flag.String("socket", "", "socket of the runtime")
	index := flag.Int("index", 0, "index of the plugin, 0 to 99")
	flag.Parse()
	nrilog.Set(silence{})
	if err := run(*socket, *index); err != nil {
		fmt.Fprintf(os.Stderr, "benchplugin %02d: %v\n", *index, err)
		os.Exit(1)
	}
}

func run(socket string, index int) error {
	p := &plugin{}
	s, err := stub.New(p,
		stub.WithPluginName("bench"),
		stub.WithPluginIdx(fmt.Sprintf("%02d", index)),
		stub.WithSocketPath(socket),
		stub.WithOnClose(func() {}),
	)
	if err != nil {
		return err
	}
	// It ends with an error when the runtime leaves; whether it left too early, the number says.
	err = s.Run(context.Background())
	if p.started.Load() == 0 {
		return err
	}
	_, err = fmt.Printf("{\"started\":%d}\n", p.started.Load())
	return err
}

type plugin struct{ started atomic.Int64 }

func (*plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) UpdatePodSandbox(context.Context, *api.PodSandbox, *api.LinuxResources, *api.LinuxResources) error {
	return nil
}

func (*plugin) PostUpdatePodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}

func (*plugin) PostCreateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (p *plugin) StartContainer(context.Context, *api.PodSandbox, *api.Container) error {
	p.started.Add(1)
	return nil
}

func (*plugin) PostStartContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (*plugin) UpdateContainer(context.Context, *api.PodSandbox, *api.Container, *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (*plugin) PostUpdateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (*plugin) StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (*plugin) RemoveContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

// silence keeps the log out of the measurement; what fails ends the program with an error.
type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
