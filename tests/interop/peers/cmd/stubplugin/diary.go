package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// entry is one line of what the plugin writes down.
type entry map[string]any

func (p *plugin) write(e entry) {
	p.lock.Lock()
	defer p.lock.Unlock()
	// If nobody reads it any more, there is nobody to tell.
	_ = json.NewEncoder(os.Stdout).Encode(e)
}

func (p *plugin) configured(config, runtime, version string) {
	e := entry{"heard": "Configure", "runtime": runtime, "version": version}
	if config != "" {
		e["config"] = config
	}
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
	p.callBackWhileJoining("Configure")
}

func (p *plugin) synchronized(pods []*api.PodSandbox, containers []*api.Container) {
	env := 0
	for _, container := range containers {
		for _, variable := range container.GetEnv() {
			env += len(variable)
		}
	}
	p.write(entry{"heard": "Synchronize", "pods": len(pods), "containers": len(containers), "env_bytes": env})
	p.callBackWhileJoining("Synchronize")
}

// callBackWhileJoining asks for an update from within a handler that has no container of its own.
func (p *plugin) callBackWhileJoining(handler string) {
	if p.callBack == handler {
		p.update([]string{"c0"})
	}
}

// heard writes an event down, and does what the flags say about it. There may be no container.
func (p *plugin) heard(event string, pod *api.PodSandbox, container *api.Container) error {
	e := entry{"heard": event, "pod": pod.GetId()}
	if container != nil {
		e["container"] = container.GetId()
	}
	if container != nil && p.shows {
		e["annotations"] = container.GetAnnotations()
		e["args"] = container.GetArgs()
		e["env"] = container.GetEnv()
		e["mounts"] = destinations(container.GetMounts())
		e["cpu_shares"] = container.GetLinux().GetResources().GetCpu().GetShares().GetValue()
	}
	p.write(e)
	return p.behave(event, container)
}

// behave does what the flags say about an event.
func (p *plugin) behave(event string, container *api.Container) error {
	switch event {
	case p.hang:
		select {}
	case p.die:
		os.Exit(0)
	case p.refuse:
		// In the words of a server that does not know a method, almost.
		return status.Errorf(codes.InvalidArgument, "%s is refused: what it needs does not exist", event)
	case p.callBack:
		p.update([]string{container.GetId()})
	}
	return nil
}

// limited writes down the limits that a container is to have.
func (p *plugin) limited(limits *api.LinuxResources) {
	if p.shows {
		p.write(entry{"limits": entry{"cpu_shares": limits.GetCpu().GetShares().GetValue()}})
	}
}

func destinations(mounts []*api.Mount) []string {
	list := []string{}
	for _, mount := range mounts {
		list = append(list, mount.GetDestination())
	}
	return list
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

// created is heard, with an answer.
func (p *plugin) created(pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	updates, err := p.answered("CreateContainer", pod, container)
	if err != nil {
		return nil, nil, err
	}
	adjustment, err := p.adjust.adjustment()
	return adjustment, updates, err
}

// answered is heard, with updates as the answer.
func (p *plugin) answered(event string, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	if err := p.heard(event, pod, container); err != nil {
		return nil, err
	}
	return p.updateIn.updates(event)
}
