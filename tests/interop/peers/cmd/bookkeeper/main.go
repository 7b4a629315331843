// Command bookkeeper is a plugin on Go's stub that keeps books: which pods and containers there are, and where each is in
// its life. It writes down what does not fit to what it knows. For each line on its standard input it writes its books,
// as a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	socket := flag.String("socket", "", "socket of the runtime")
	index := flag.String("index", "10", "index of the plugin, two digits")
	flag.Parse()
	p := &plugin{books: newBooks(), index: *index}
	s, err := stub.New(p, stub.WithPluginName("bookkeeper"), stub.WithPluginIdx(*index), stub.WithSocketPath(*socket))
	if err != nil {
		log.Fatal(err)
	}
	go p.obey()
	if err := s.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type plugin struct {
	books *books
	index string
}

// obey writes the books whenever it is asked for them, and ends when nobody asks any more.
func (p *plugin) obey() {
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := p.books.write(out); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(0)
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.books.open(pods, containers)
	return nil, nil
}

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.books.podIs("RunPodSandbox", pod, running, absent)
	return nil
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.books.podIs("StopPodSandbox", pod, stopped, running)
	return nil
}

// RemovePodSandbox is also told of pods that had stopped before we came.
func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.books.podIs("RemovePodSandbox", pod, absent, stopped, absent)
	return nil
}

func (p *plugin) CreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.books.containerIs("CreateContainer", container, created, absent)
	return nil, nil, nil
}

func (p *plugin) PostCreateContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.books.containerIs("PostCreateContainer", container, created, created)
	return nil
}

func (p *plugin) StartContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.books.startsContainer("StartContainer", container)
	if container.GetAnnotations()[refuseAnnotation] == p.index {
		return errors.New("it is not to start")
	}
	return nil
}

func (p *plugin) PostStartContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.books.containerIs("PostStartContainer", container, running, running)
	return nil
}

func (p *plugin) StopContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	p.books.stopsContainer("StopContainer", container)
	return nil, nil
}

func (p *plugin) UpdateContainer(_ context.Context, _ *api.PodSandbox, _ *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.books.updates("UpdateContainer")
	return nil, nil
}

func (p *plugin) PostUpdateContainer(_ context.Context, _ *api.PodSandbox, _ *api.Container) error {
	p.books.updates("PostUpdateContainer")
	return nil
}

// RemoveContainer is also told of containers that had stopped before we came.
func (p *plugin) RemoveContainer(_ context.Context, _ *api.PodSandbox, container *api.Container) error {
	p.books.containerIs("RemoveContainer", container, absent, stopped, absent)
	return nil
}
