// benchplugin is the plugin of the benchmarks: Go's stub, subscribed to every lifecycle
// event. Its answers are empty and come at once, unless it is told otherwise. When the
// runtime leaves, it prints how many StartContainer and CreateContainer requests it was
// sent, so that nobody can win by asking fewer plugins.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	socket := flag.String("socket", "", "socket of the runtime")
	p := &plugin{}
	flag.IntVar(&p.index, "index", 0, "index of the plugin, 0 to 99")
	flag.StringVar(&p.events, "events", "", "events to subscribe to, with commas between them (all)")
	flag.DurationVar(&p.sleep, "sleep", 0, "how long CreateContainer takes")
	flag.BoolVar(&p.adjusts, "adjust", false, "adjust containers as plugins typically do, see adjust.go")
	stop := flag.Int64("stop-after", 0, "stop the process when so many bytes were read, see stopping.go")
	flag.Parse()
	nrilog.Set(silence{})
	if err := run(*socket, p, *stop); err != nil {
		fmt.Fprintf(os.Stderr, "benchplugin %02d: %v\n", p.index, err)
		os.Exit(1)
	}
}

func run(socket string, p *plugin, stop int64) error {
	options := []stub.Option{
		stub.WithPluginName("bench"),
		stub.WithPluginIdx(fmt.Sprintf("%02d", p.index)),
		stub.WithSocketPath(socket),
		stub.WithOnClose(func() {}),
	}
	if stop > 0 {
		options = append(options, stub.WithDialer(stopsAfter(stop)))
	}
	s, err := stub.New(p, options...)
	if err != nil {
		return err
	}
	// It ends with an error when the runtime leaves; whether it left too early, the number says.
	err = s.Run(context.Background())
	if p.asked.Load() == 0 {
		return err
	}
	_, err = fmt.Printf("{\"asked\":%d}\n", p.asked.Load())
	return err
}

type plugin struct {
	index   int
	events  string
	sleep   time.Duration
	adjusts bool
	asked   atomic.Int64
}

func (p *plugin) Configure(context.Context, string, string, string) (api.EventMask, error) {
	if p.events == "" {
		return 0, nil // all that there are methods for
	}
	return api.ParseEventMask(p.events)
}

func (*plugin) RunPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) UpdatePodSandbox(context.Context, *api.PodSandbox, *api.LinuxResources, *api.LinuxResources) error {
	return nil
}

func (*plugin) PostUpdatePodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (*plugin) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (p *plugin) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.asked.Add(1)
	if p.sleep > 0 {
		time.Sleep(p.sleep)
	}
	if !p.adjusts {
		return nil, nil, nil
	}
	return adjustment(p.index), nil, nil
}

func (*plugin) PostCreateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (p *plugin) StartContainer(context.Context, *api.PodSandbox, *api.Container) error {
	p.asked.Add(1)
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
