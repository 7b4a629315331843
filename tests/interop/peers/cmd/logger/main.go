// Command logger is a plugin on Go's stub that writes all it hears to its log, pods and containers as YAML. It is what ours of this
// name is measured beside.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/sirupsen/logrus"
	"go.yaml.in/yaml/v3"
)

func main() {
	socket := flag.String("socket", "", "socket of the runtime")
	index := flag.String("idx", "", "index of the plugin, two digits")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	s, err := stub.New(plugin{}, stub.WithPluginName("logger"), stub.WithPluginIdx(*index), stub.WithSocketPath(*socket))
	if err != nil {
		logrus.Fatal(err)
	}
	if err := s.Run(ctx); err != nil && ctx.Err() == nil {
		logrus.Error(err)
		os.Exit(1)
	}
}

type plugin struct{}

// dump writes an event and what it is about, line by line. There may be nothing.
func dump(event string, objects ...any) {
	for _, object := range objects {
		text, err := words(object)
		if err != nil {
			logrus.Errorf("%s: %v", event, err)
			return
		}
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			logrus.Infof("%s: %s", event, line)
		}
	}
}

// words is an object as YAML, with the names that it has in JSON.
func words(object any) (string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return "", err
	}
	text, err = yaml.Marshal(tree)
	return string(text), err
}

func (plugin) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	logrus.Infof("configured by %s %s: %q", runtime, version, config)
	return 0, nil
}

func (plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	dump("Synchronize", pods, containers)
	return nil, nil
}

func (plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	dump("RunPodSandbox", pod)
	return nil
}

func (plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, overhead, resources *api.LinuxResources) error {
	dump("UpdatePodSandbox", pod, overhead, resources)
	return nil
}

func (plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	dump("PostUpdatePodSandbox", pod)
	return nil
}

func (plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	dump("StopPodSandbox", pod)
	return nil
}

func (plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	dump("RemovePodSandbox", pod)
	return nil
}

func (plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	dump("CreateContainer", pod, container)
	return nil, nil, nil
}

func (plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	dump("PostCreateContainer", pod, container)
	return nil
}

func (plugin) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	dump("StartContainer", pod, container)
	return nil
}

func (plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	dump("PostStartContainer", pod, container)
	return nil
}

func (plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, resources *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	dump("UpdateContainer", pod, container, resources)
	return nil, nil
}

func (plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	dump("PostUpdateContainer", pod, container)
	return nil
}

func (plugin) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	dump("StopContainer", pod, container)
	return nil, nil
}

func (plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	dump("RemoveContainer", pod, container)
	return nil
}
