//go:build !before_v0_4_0

package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

func (p *plugin) Configure(_ context.Context, config, runtime, version string) (api.EventMask, error) {
	p.configured(config, runtime, version)
	return 0, nil
}

func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.synchronized(pods, containers)
	return nil, nil
}

func (p *plugin) Shutdown(context.Context) {
	p.shutDown()
}

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.heard("RunPodSandbox", pod, nil)
}

// UpdatePodSandbox is unknown to stubs before v0.10.0: they do not look for it.
func (p *plugin) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, _, _ *api.LinuxResources) error {
	return p.heard("UpdatePodSandbox", pod, nil)
}

// PostUpdatePodSandbox is unknown to stubs before v0.10.0: they do not look for it.
func (p *plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.heard("PostUpdatePodSandbox", pod, nil)
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.heard("StopPodSandbox", pod, nil)
}

func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.heard("RemovePodSandbox", pod, nil)
}

func (p *plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return p.created(pod, container)
}

func (p *plugin) PostCreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostCreateContainer", pod, container)
}

func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.heard("StartContainer", pod, container)
}

func (p *plugin) PostStartContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostStartContainer", pod, container)
}

func (p *plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, limits *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	p.limited(limits)
	return p.answered("UpdateContainer", pod, container)
}

func (p *plugin) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostUpdateContainer", pod, container)
}

func (p *plugin) StopContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	return p.answered("StopContainer", pod, container)
}

func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) error {
	return p.heard("RemoveContainer", pod, container)
}
