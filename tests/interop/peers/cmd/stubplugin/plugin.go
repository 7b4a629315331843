package main

import (
	"encoding/json"
	"flag"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// plugin is what all versions share; how the stub calls it is in the files with build tags.
type plugin struct {
	stub    stub.Stub
	writing sync.Mutex
	closing sync.Once
	gone    chan struct{}

	// Names of events.
	callBack, refuse, die string
	declared              policy
}

// policy is what a plugin may declare about its failures.
type policy struct{ failRequest, keepConnected bool }

func (p *plugin) flags(flags *flag.FlagSet) {
	flags.StringVar(&p.callBack, "call-back", "", "`event` in which to ask for an update of its container")
	flags.StringVar(&p.refuse, "refuse", "", "`event` to answer with an error")
	flags.StringVar(&p.die, "die", "", "`event` in which to end without a word")
	flags.BoolVar(&p.declared.failRequest, "fail-request", false, "declare that requests fail with this plugin")
	flags.BoolVar(&p.declared.keepConnected, "keep-connected", false, "declare that this plugin is to be kept")
}

// entry is one line of what the plugin writes down.
type entry map[string]any

func (p *plugin) write(e entry) {
	p.writing.Lock()
	defer p.writing.Unlock()
	// If nobody reads it any more, there is nobody to tell.
	_ = json.NewEncoder(os.Stdout).Encode(e)
}

func (p *plugin) configured(runtime, version string) {
	e := entry{"heard": "Configure", "runtime": runtime, "version": version}
	if s, ok := p.stub.(interface{ RequestTimeout() time.Duration }); ok {
		e["request_timeout_ms"] = s.RequestTimeout().Milliseconds()
	}
	if s, ok := p.stub.(interface{ RegistrationTimeout() time.Duration }); ok {
		e["registration_timeout_ms"] = s.RegistrationTimeout().Milliseconds()
	}
	if s, ok := p.stub.(interface{ RuntimeNRIVersion() string }); ok {
		e["nri"] = s.RuntimeNRIVersion()
	}
	p.write(e)
}

func (p *plugin) synchronized(pods []*api.PodSandbox, containers []*api.Container) {
	env := 0
	for _, container := range containers {
		for _, variable := range container.GetEnv() {
			env += len(variable)
		}
	}
	p.write(entry{"heard": "Synchronize", "pods": len(pods), "containers": len(containers), "env_bytes": env})
}

// heard writes an event down, and does what the flags say about it. There may be no container.
func (p *plugin) heard(event string, pod *api.PodSandbox, container *api.Container) error {
	e := entry{"heard": event, "pod": pod.GetId()}
	if container != nil {
		e["container"] = container.GetId()
	}
	p.write(e)
	switch event {
	case p.die:
		os.Exit(0)
	case p.refuse:
		// In the words of a server that does not know a method, almost.
		return status.Errorf(codes.InvalidArgument, "%s is refused: what it needs does not exist", event)
	case p.callBack:
		return p.update([]string{container.GetId()})
	}
	return nil
}

func (p *plugin) shutDown() {
	p.write(entry{"heard": "Shutdown"})
}

func (p *plugin) closed() {
	p.closing.Do(func() {
		p.write(entry{"heard": "Closed"})
		close(p.gone)
	})
}

// update asks the runtime for more processor time for some containers.
func (p *plugin) update(ids []string) error {
	var updates []*api.ContainerUpdate
	for _, id := range ids {
		update := &api.ContainerUpdate{}
		update.SetContainerId(id)
		update.SetLinuxCPUShares(123)
		updates = append(updates, update)
	}
	rejected, err := p.stub.UpdateContainers(updates)
	if err != nil {
		return err
	}
	failed := []string{}
	for _, update := range rejected {
		failed = append(failed, update.GetContainerId())
	}
	p.write(entry{"updated": ids, "failed": failed})
	return nil
}
